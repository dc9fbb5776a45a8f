"""What lies in a run folder, read for a report: whatever is there, however old, and no failure for what is not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.runs.folder import read_table
from flashdqn.show.report_series import Series, read_series


@dataclass(frozen=True)
class RunFiles:
    """A run as its files have it."""

    path: Path
    settings: dict[str, Any]  # flat: learn.lr and so on
    hardware: dict[str, Any]
    summary: dict[str, Any]
    series: Series
    evaluations: list[dict[str, str]]

    @property
    def name(self) -> str:
        """The folder's own."""
        return self.path.resolve().name

    @property
    def games(self) -> dict[str, Any]:
        """The last judgement: of the best checkpoint, on fresh games."""
        games = self.summary.get("evaluation")
        return games if isinstance(games, dict) else {}

    def evaluated(self) -> tuple[list[float], list[float], list[float]]:
        """Transitions, mean scores, and half of their 95% intervals."""
        rows = [row for row in self.evaluations if math.isfinite(float_or_nan(row.get("mean_score")))]
        errors = [float_or_nan(row.get("score_error")) for row in rows]
        return (
            [float_or_nan(row.get("step")) for row in rows],
            [float_or_nan(row.get("mean_score")) for row in rows],
            [1.96 * error if math.isfinite(error) else 0.0 for error in errors],
        )


def read_run(path: Path) -> RunFiles:
    """All of it."""
    config = _read_json(path / "config.json")
    return RunFiles(
        path,
        flatten_keys(_mapping_or_empty(config.get("config"))),
        flatten_keys(_mapping_or_empty(config.get("hardware"))),
        _read_json(path / "summary.json"),
        read_series(path),
        read_table(path / "evaluations.csv"),
    )


def flatten_keys(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        inside = isinstance(value, Mapping) and value
        found |= flatten_keys(value, f"{prefix}{key}.") if inside else {f"{prefix}{key}": value}
    return found


def float_or_nan(value: Any) -> float:
    """NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
