"""The rate of the windows beside that of all time, and where that time went: on the terminal and in the report."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import tiny_config
from flashdqn import Run
from flashdqn.core.files import read_signed_json, write_signed_json
from flashdqn.show.compare import make_comparison_page
from flashdqn.show.report import list_key_figures, make_report_page, make_time_table
from flashdqn.show.report_files import read_run
from flashdqn.show.terminal import TIME_PARTS, describe_wall_clock, list_time_parts, show_summary
from flashdqn.training.clock import PARTS
from flashdqn.training.progress import Plain
from flashdqn.training.session import start_run

SUMMARY: dict[str, Any] = {
    "window_steps_per_second": 95_012.4,
    "wall_steps_per_second": 7504.2,
    "wall_seconds": 40.0,
    "time": {"start_up": 2.0, "training": 33.96, "evaluation": 4.0, "other": 0.04},
    "skipped_evaluations": 0,
}


def test_every_part_has_its_words() -> None:
    assert tuple(TIME_PARTS) == PARTS


def test_a_training_ends_with_both_rates() -> None:
    assert list(describe_wall_clock(SUMMARY, 0.1)) == [
        "Throughput: 95,012 transitions/s in the windows (median), 7,504 transitions/s since the command began",
        "Where the 40.0 s went: start-up 2.0 s, training 34.0 s, evaluation 4.0 s",
    ]
    (*_, one) = describe_wall_clock(SUMMARY | {"skipped_evaluations": 1}, 0.1)
    (*_, many) = describe_wall_clock(SUMMARY | {"skipped_evaluations": 1200}, 0.25)
    assert one.startswith("1 evaluation was skipped: all together may take 10 % of")
    assert many.startswith("1,200 evaluations were skipped: all together may take 25 % of")
    assert list(describe_wall_clock({}, 0.1)) == []  # nothing is known of an old run


def test_the_summary_says_what_a_rate_was_reached_with(finished_run: Run) -> None:
    screen = io.StringIO()
    show_summary(Console(file=screen, soft_wrap=True), finished_run)
    text = screen.getvalue()
    for words in ("batch 32, reuse 2", "transitions/s in the windows", "since the command began", "went: "):
        assert words in text


def test_the_report_says_it_too(finished_run: Run) -> None:
    run = read_run(finished_run.path)
    figures = {name: (value, unit) for name, value, unit in list_key_figures(run)}
    assert figures["reuse"] == ("2", "samples per transition, batch 32")
    assert figures["by wall clock"][1] == "transitions/s since the command began"
    page = make_report_page(run, with_game=False)
    assert "since the command began, before this page was drawn" in page
    assert "by wall clock" in make_comparison_page([run, run])


def test_skipped_evaluations_are_in_the_report(finished_run: Run) -> None:
    run = read_run(finished_run.path)
    assert "skipped" not in make_time_table(run)
    skipped = replace(run, summary=run.summary | SUMMARY | {"skipped_evaluations": 3})
    assert "3 evaluations were skipped" in make_time_table(skipped)


@pytest.mark.parametrize(
    "time",
    [None, [], {}, {"training": "<b>long</b>"}, {"training": 10**400}, {"<b>": -1}, {"training": True}],
)
def test_a_damaged_time_is_left_out(time: Any, run_copy: Path) -> None:
    summary = read_signed_json(run_copy / "summary.json") | {"time": time, "wall_seconds": 1e300}
    write_signed_json(run_copy / "summary.json", summary)
    assert make_time_table(read_run(run_copy)) == ""
    assert "<b>long" not in make_report_page(read_run(run_copy), with_game=False)


def test_unknown_parts_cannot_write_to_the_terminal() -> None:
    ((name, _),) = list_time_parts({"time": {"\x1b[31mred": 5.0}})
    assert "\x1b" not in name


def test_the_first_line_has_the_reuse(tmp_path: Path) -> None:
    screen = io.StringIO()
    start_run(tiny_config(out=str(tmp_path), steps=300), Plain(Console(file=screen, soft_wrap=True)))
    assert "train ratio 0.0625, batch 32, reuse 2\n" in screen.getvalue()
