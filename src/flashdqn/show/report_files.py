"""The files of a run folder, read for a report. Old folders can be read, too; missing files are allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashdqn.config.settings import flatten_keys
from flashdqn.runs.columns import MEAN_SCORE, SCORE_ERROR, STEP
from flashdqn.runs.health import find_problems
from flashdqn.runs.records import CONFIG_FILE, SUMMARY_FILE, read_record_or_nothing
from flashdqn.runs.tables import EVALUATIONS_FILE, Cells, read_columns, read_table
from flashdqn.show.report_series import Series, make_series, read_series


@dataclass(frozen=True)
class RunFiles:
    """The contents of a run's files."""

    path: Path
    settings: dict[str, Any]  # flat: learn.lr and so on
    hardware: dict[str, Any]
    summary: dict[str, Any]
    series: Series
    evaluations: list[Cells]  # as they are in the file
    evaluation_series: Series  # the same as numbers, by column
    problems: list[str] = field(default_factory=list)  # what was changed or damaged, in sentences

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def games(self) -> dict[str, Any]:
        """The final evaluation: the best checkpoint on fresh games."""
        games = self.summary.get("evaluation")
        return games if isinstance(games, dict) else {}

    def evaluated(self) -> tuple[list[float], list[float], list[float]]:
        """Transitions, mean scores, and half of their 95% intervals."""
        columns = map(self.evaluation_series.get, (STEP, MEAN_SCORE, SCORE_ERROR))
        known = [row for row in zip(*columns, strict=True) if math.isfinite(row[1])]
        halves = [1.96 * error if math.isfinite(error) else 0.0 for _, _, error in known]
        return [step for step, _, _ in known], [score for _, score, _ in known], halves


def read_run(path: Path) -> RunFiles:
    """Read all files of a run."""
    config = read_record_or_nothing(path / CONFIG_FILE)
    evaluations = read_table(path / EVALUATIONS_FILE)
    return RunFiles(
        path,
        flatten_keys(_mapping_or_empty(config.get("config"))),
        flatten_keys(_mapping_or_empty(config.get("hardware"))),
        read_record_or_nothing(path / SUMMARY_FILE),
        read_series(path),
        evaluations,
        make_series(evaluations, read_columns(path / EVALUATIONS_FILE, evaluations)),
        find_problems(path),
    )


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
