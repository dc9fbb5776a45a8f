"""The sentences and the series from which the terminal and the page are made."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from report_examples import NAN, example, findings, windows
from rich.console import Console

from flashdqn.doctor.report.contents import GrowingContainer
from flashdqn.doctor.report.page_charts import COLORS, draw_time_charts
from flashdqn.doctor.report.series import (
    build_courses,
    compute_window_shares,
    count_first_windows,
    drop_unfinished_window,
    mean_episode_length,
    merge_windows,
)
from flashdqn.doctor.report.terminal import show_report
from flashdqn.doctor.report.words import (
    BOUNDS,
    PHASES,
    describe_bottleneck,
    format_cost,
    format_gain,
    format_place,
    shorten_path,
    strip_controls,
)
from flashdqn.doctor.watch.kinds import Phase


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (1.0, "not about speed"),
        (1.04, "1.04x faster"),
        (1.8, "1.8x faster"),
        (23.4, "23x faster"),
        (NAN, "gain unknown"),
        (math.inf, "gain unknown"),
    ],
)
def test_gains_in_words(gain: float, words: str) -> None:
    assert format_gain(replace(findings("a.py")[0], speedup=gain)) == words


def test_paths_are_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert shorten_path(str(tmp_path / "a" / "b.py")) == str(Path("a", "b.py"))
    assert shorten_path(str(tmp_path) + "x/b.py") == str(tmp_path) + "x/b.py"
    assert shorten_path(torch.__file__) == str(Path("torch", "__init__.py"))
    assert shorten_path(str(Path.home() / "b.py")).startswith("~")
    assert shorten_path("train.py") == "train.py"
    assert shorten_path("<string>") == "<string>"
    assert shorten_path("") == ""


def test_places() -> None:
    finding = findings("train.py")[0]
    assert format_place(finding) == "train.py:352"
    assert format_place(replace(finding, line=0)) == "the script as a whole"
    assert format_cost(replace(finding, share=0.0)) == ""


def test_bounds_in_words() -> None:
    assert describe_bottleneck(example(bound="launches")) == "Limited by starting many small operations"
    assert describe_bottleneck(example(bound="unknown")) == "What limits it is not known"


@given(st.text())
def test_plain_text_can_be_written_and_is_not_obeyed(text: str) -> None:
    shown = strip_controls(text)
    shown.encode("utf-8")
    assert not [c for c in shown if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"]


@given(st.integers(0, 50), st.integers(1, 60))
def test_windows_taken_together_lose_nothing(count: int, most: int) -> None:
    many = windows(count)
    few = merge_windows(many, most)
    assert len(few) == min(count, most)
    assert sum(w.transitions for w in few) == sum(w.transitions for w in many)
    assert sum(w.seconds for w in few) == sum(w.seconds for w in many)
    assert math.isclose(
        sum(sum(w.phases.values()) for w in few), sum(sum(w.phases.values()) for w in many), abs_tol=1e-9
    )
    if many:
        assert few[-1].memory == many[-1].memory
        assert math.isclose(mean_episode_length(few), mean_episode_length(many))


def test_every_episode_counts_once() -> None:
    first, second = windows(2)
    some = (replace(first, episodes=1, episode_length=10.0), replace(second, episodes=3, episode_length=30.0))
    assert mean_episode_length(some) == 25.0
    assert math.isnan(mean_episode_length(()))


def test_courses_leave_out_what_never_happened() -> None:
    quiet = tuple(replace(window, episodes=0, device_memory=0) for window in windows(3))
    assert [course.name for course in build_courses(quiet)] == ["transitions/s", "updates/s", "memory"]
    assert build_courses(()) == []
    assert [count_first_windows(windows(n)) for n in (0, 1, 9, 60)] == [0, 1, 1, 6]


def test_shares_of_a_window_make_a_whole() -> None:
    window = replace(windows(1)[0], phases={"acting": 1.0, "replay": 3.0, "waiting": NAN})
    assert compute_window_shares(window, ["replay", "acting", "waiting", "forward"]) == [0.75, 0.25, 0.0, 0.0]
    assert compute_window_shares(window, ["forward"]) == [0.0]


def test_how_far_something_grew() -> None:
    rows = GrowingContainer("rows", "main()", "list", ((0.5, 3), (1.0, 4000)))
    assert rows.extent == "3 to 4,000 items"
    assert replace(rows, unit="operations").extent == "3 to 4,000 operations"


def test_every_phase_has_its_words_and_its_color() -> None:
    assert set(PHASES) == set(COLORS) == set(Phase)


def test_the_manual_explains_every_phase_and_bound() -> None:
    manual = Path(__file__).parents[2].joinpath("docs", "doctor.md").read_text(encoding="utf-8")
    assert [name for name in PHASES if f"| {name} |" not in manual] == []
    assert [name for name in BOUNDS if f"| {name} |" not in manual] == []


def test_a_window_that_the_end_cut_off_is_no_drop() -> None:
    whole = windows(20)
    last = replace(whole[-1], start=20.0, seconds=0.3, transitions=2, updates=0)
    assert drop_unfinished_window((*whole, last)) == list(whole)
    assert drop_unfinished_window(whole) == list(whole)
    assert drop_unfinished_window((last,)) == [last]
    assert drop_unfinished_window(()) == []
    cut = example(windows=(*whole, last))
    shown = io.StringIO()
    show_report(cut, Console(file=shown, width=80))
    kept = io.StringIO()
    show_report(example(windows=whole), Console(file=kept, width=80))
    assert shown.getvalue() == kept.getvalue()
    assert draw_time_charts(cut) == draw_time_charts(example(windows=whole))
