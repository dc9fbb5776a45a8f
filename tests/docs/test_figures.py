"""Every marked figure is the one in its result file, and README.md has no figure without a mark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from doc_figures import MARK, RESULTS, Figure, WrongFigure, figures, unmarked
from doc_pages import ROOT, pages

README = (ROOT / "README.md").read_text(encoding="utf-8")


MARKED = [(page, figure) for page in pages() for figure in figures(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("page", "figure"), MARKED, ids=[f"{page.stem} {figure.source.split(' {')[0]}" for page, figure in MARKED]
)
def test_a_figure_is_the_one_in_its_result_file(page: Path, figure: Figure) -> None:
    assert figure.shown == figure.expected()


def test_the_readme_has_figures() -> None:
    assert len({figure.source.split()[0] for figure in figures(README)}) >= 4


def test_no_figure_stands_without_its_file() -> None:
    assert not unmarked(README)


def test_files_behind_figures_say_when_and_where() -> None:
    for name in {figure.source.split()[0] for figure in figures(README)}:
        text = (RESULTS / name).read_text(encoding="utf-8")
        for key in ("date", "commit", "device"):
            assert f'"{key}": "' in text, f"{name} has no {key}"


def test_the_readme_is_short() -> None:
    """At most 700 words, tables, commands and all."""
    assert len(re.sub(r"<!--.*?-->", "", README, flags=re.S).split()) <= 700


def test_figures_that_lose_their_marks_are_found() -> None:
    bare = MARK.sub(lambda mark: mark["shown"], README)
    assert len(unmarked(bare)) >= len({figure.source.split()[0] for figure in figures(README)})


DATA = {
    "speed": 1234.56,
    "rows": [
        {"name": "a", "seed": 0, "score": 36.0},
        {"name": "a", "seed": 1, "score": 39.5},
        {"name": "b", "score": 1},
    ],
    "deep": {"axes": [{"value": 256, "rate": 2_500_000}]},
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "made-up.json").write_text(json.dumps(DATA))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("made-up.json speed {:,.0f}", "1,235"),
        ("made-up.json speed *0.001 {:.1f}", "1.2"),
        ("made-up.json mean rows[name=a].score {:.1f}", "37.8"),
        ("made-up.json most rows[name=a].score {:.1f}", "39.5"),
        ("made-up.json rows[name=a;seed=1].score {:.0f}", "40"),
        ("made-up.json median rows[*].score {:.0f}%", "36%"),
        ("made-up.json deep.axes[value=256].rate *1e-6 {:.1f}", "2.5"),
    ],
)
def test_a_mark_is_read(source: str, text: str, results: Path) -> None:
    assert Figure(text, source).expected(results) == text


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("gone.json speed {:.0f}", "no result file"),
        ("made-up.json sped {:.0f}", "no sped"),
        ("made-up.json rows[name=c].score {:.0f}", "nothing is at"),
        ("made-up.json rows[name=a].score {:.0f}", "2 values"),
        ("made-up.json speed", "cannot read"),
    ],
)
def test_a_wrong_mark_is_found(source: str, says: str, results: Path) -> None:
    with pytest.raises(WrongFigure, match=says):
        Figure("1", source).expected(results)


def test_a_changed_digit_is_found() -> None:
    for figure in figures(README):
        digit = next(sign for sign in figure.shown if sign.isdigit())
        changed = README.replace(
            f"{figure.shown}<!-- figure: {figure.source}",
            f"{figure.shown.replace(digit, str((int(digit) + 1) % 10), 1)}<!-- figure: {figure.source}",
        )
        assert changed != README
        assert any(found.shown != found.expected() for found in figures(changed))


@pytest.mark.parametrize(
    "text",
    [
        "It is 5.4 times as fast.",
        "105,000 transitions/s",
        "after 29 s of training",
        "75 % of the boards",
        "a score of 38.9",
        "38.9 ± 0.6",
        "29.6 million",
        "105,296 on two cores",
        "in 15 µs",
        "```\nmake train   # trains in 29 s\n```",
        "5.4<!-- figure: a.json b {:.1f} --> times SB3, 9.8 times Tianshou",
    ],
)
def test_a_figure_without_a_mark_is_found(text: str) -> None:
    assert len(unmarked(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.11 or newer, on two cores",
        "256 boards, batch 64, ratio 1/32, 10x10",
        "`--max-time 60s`",
        "```\nflashdqn train snake --max-time 60s\n```",
        "5.4<!-- figure: a.json b {:.1f} --> times as fast",
        "the last 1000 of 50,000 episodes",
    ],
)
def test_a_condition_needs_no_mark(text: str) -> None:
    assert not unmarked(text)
