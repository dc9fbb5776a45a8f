"""What a run says whose score never moved."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flashdqn import Run
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.show.advice import PAGE, find_stuck_score, find_tuned_preset, list_advice, list_cures
from flashdqn.show.terminal import show_summary

DOCS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("windows", "evaluations", "stuck"),
    [
        ([-200.0] * 5, [-200.0] * 3, -200.0),
        ([0.0] * 3, [0.0] * 3, 0.0),
        ([-200.0] * 5, [-200.0, -200.0, -199.5], None),  # an evaluation moved
        ([-200.0, -200.0, -198.0], [-200.0] * 3, None),  # exploration has seen something
        ([-200.0] * 2, [-200.0] * 3, None),  # too early to say
        ([-200.0] * 3, [-200.0] * 2, None),
        ([-200.0] * 3, [math.nan] * 3, None),
        ([1e6, 1e6 + 0.1, 1e6], [1e6] * 3, 1e6),
        ([], [], None),
    ],
)
def test_when_a_score_never_moved(
    windows: list[float], evaluations: list[float], stuck: float | None
) -> None:
    assert find_stuck_score(windows, evaluations) == stuck


def test_what_is_advised() -> None:
    plain = apply_settings(base_config("gym:FrozenLake-v1"), {"explore.over": 1000})
    cures = "\n".join(list_cures(plain))
    assert "--explore.over 4000" in cures
    assert "--replay.n-step 5" in cures
    assert "--env.scale" in cures
    assert "--train-ratio 0.5" in cures
    assert "flashdqn train" not in cures
    done = {"replay.n_step": 3, "explore.schedule": "spread", "env.scale": True, "train_ratio": 0.5}
    other = apply_settings(plain, done)
    assert list_cures(other) == []
    munchausen = apply_settings(plain, {"learn.bootstrap": "munchausen"})
    assert "n-step" not in "\n".join(list_cures(munchausen))


def test_the_tuned_preset_is_named_where_it_was_not_used() -> None:
    tuned = base_config("gym:MountainCar-v0")
    assert find_tuned_preset(tuned) is None
    assert find_tuned_preset(apply_settings(tuned, {"learn.lr": 0.01})) == "mountaincar"
    assert find_tuned_preset(base_config("snake")) is None


def write_scores(run: Path, score: str) -> None:
    """Give every window and every evaluation one score."""
    for name, column in (("metrics.csv", "score"), ("evaluations.csv", "mean_score")):
        header, *rows = (run / name).read_text().splitlines()
        at = header.split(",").index(column)
        cells = [row.split(",") for row in rows]
        lines = [",".join([*row[:at], score, *row[at + 1 :]]) for row in cells]
        (run / name).write_text("\n".join([header, *lines, *lines]) + "\n")


def test_the_summary_says_it_and_else_is_silent(finished_run: Run, run_copy: Path) -> None:
    assert list_advice(finished_run.path, finished_run.config) == []
    write_scores(run_copy, "0.0")
    console = Console(record=True, width=200, file=io.StringIO())
    show_summary(console, replace(finished_run, path=run_copy))
    said = console.export_text()
    assert "The score never moved from 0.00. If that is not the best there is, try:" in said
    assert PAGE in said
    console = Console(record=True, width=200, file=io.StringIO())
    show_summary(console, finished_run)
    assert "never moved" not in console.export_text()


def test_the_page_has_the_place_that_is_named() -> None:
    page, _, place = PAGE.partition("#")
    titles = [line.lstrip("# ") for line in (DOCS / page).read_text().splitlines() if line.startswith("#")]
    assert place in [title.lower().replace(" ", "-") for title in titles]
