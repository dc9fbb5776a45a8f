"""Runs of 0.1.0.dev0, which say nothing of their columns' kinds: a report shows what it showed then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_data import collect_report_data

#: Each run folder holds report-data.json, which was collected by the version that wrote the run.
RUNS = Path(__file__).parents[1] / "runs" / "data"


@pytest.mark.parametrize("task", ["snake", "sfc"])
def test_an_old_run_has_the_same_report(task: str) -> None:
    shown = json.loads((RUNS / task / "report-data.json").read_text(encoding="utf-8"))
    assert collect_report_data(RUNS / task) == shown
