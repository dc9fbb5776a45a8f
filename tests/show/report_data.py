"""What a report shows of a run, as plain data: to be compared with what was shown before."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from flashdqn.show.report import list_key_figures, make_evaluations_table
from flashdqn.show.report_charts import (
    compute_phase_shares,
    draw_cost_charts,
    draw_learning_charts,
    draw_outcome_charts,
    draw_phase_summary,
)
from flashdqn.show.report_files import read_run
from flashdqn.show.report_series import read_series


def collect_report_data(path: Path) -> dict[str, Any]:
    """The numbers and words of a report, without its game and its settings; None stands for NaN."""
    run = read_run(path)
    names, shares = compute_phase_shares(run.series)
    sections = {
        "learning": draw_learning_charts(run),
        "outcomes": draw_outcome_charts(run),
        "phases": draw_phase_summary(run),
        "costs": draw_cost_charts(run),
        "evaluations": make_evaluations_table(run),
    }
    return {
        "columns": _round_numbers(read_series(path, most=3).values),
        "phase_names": names,
        "phase_shares": _round_numbers(shares),
        "evaluated": _round_numbers([list(part) for part in run.evaluated()]),
        "figures": [list(figure) for figure in list_key_figures(run)],
        "words": {name: _find_words(html) for name, html in sections.items()},
    }


def _find_words(html: str) -> list[str]:
    """The text between the tags, each word once, without what appears under the pointer: tables have it, too."""
    words = [word.strip() for word in re.findall(r">([^<]+)<", html)]
    return list(dict.fromkeys(word for word in words if word and "\n" not in word))


def _round_numbers(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _round_numbers(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_round_numbers(value) for value in data]
    return None if math.isnan(data) else float(f"{data:.9g}")
