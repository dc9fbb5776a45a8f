"""report.html: a run on one page, with nothing to load from elsewhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.show.page import escape, make_page, pairs, section, table, value_text
from flashdqn.train.run import read_table


def write_report(run: Path) -> Path:
    """Write report.html into a run folder from the files that lie there."""
    summary = _read(run / "summary.json")
    config = _read(run / "config.json")
    parts = [f"<h1>{escape(run.name)}</h1>", section("Summary", pairs(_flat(summary)))]
    if (run / "curve.png").exists():
        data = base64.b64encode((run / "curve.png").read_bytes()).decode()
        picture = f'<img alt="learning curve" src="data:image/png;base64,{data}">'
        parts.append(section("Learning curve", picture))
    evaluations = read_table(run / "evaluations.csv")
    if evaluations:
        rows = ([value_text(_number(value)) for value in row.values()] for row in evaluations)
        parts.append(section("Evaluations", table(list(evaluations[0]), rows)))
    parts.append(section("Hardware and versions", pairs(_flat(config.get("hardware", {})))))
    parts.append(section("Configuration", pairs(_flat(config.get("config", {})))))
    path = run / "report.html"
    path.write_text(make_page(run.name, parts), encoding="utf-8")
    return path


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _number(text: str) -> float | int | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text
