"""What came of the games: only what a run names as causes is drawn as causes, all else as plain series."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flashdqn.runs.columns import (
    GRAPHS,
    PHASES,
    RESERVED,
    ColumnKind,
    make_evaluation_columns,
    make_metrics_columns,
)
from flashdqn.runs.rows import EvaluationRow, MetricsRow, row_to_cells
from flashdqn.runs.tables import EVALUATIONS_FILE, METRICS_FILE, append_row, read_cause_names, write_columns
from flashdqn.show.report import make_report_page
from flashdqn.show.report_charts import draw_other_charts, draw_outcome_charts
from flashdqn.show.report_files import RunFiles, read_run
from flashdqn.show.terminal import format_final_evaluation

STACK = "share of the games"
names = st.text("abcdefgh_", min_size=3, max_size=8).filter(lambda name: name not in RESERVED | {"score"})


def make_run(
    path: Path, outcomes: list[dict[str, float]], causes: tuple[str, ...], **more: float
) -> RunFiles:
    """A run with a window and an evaluation for each of `outcomes`; `more` are columns that nobody knows."""
    phases = dict.fromkeys((*PHASES, *GRAPHS), 1.0)
    write_columns(
        path,
        make_metrics_columns(tuple(outcomes[0]), causes),
        make_evaluation_columns(tuple(outcomes[0]), causes),
    )
    for k, one in enumerate(outcomes, start=1):
        row = MetricsRow(
            100 * k, k, k, 0.1 * k, 1e3, 0.1, 0.5, 1e-3, 1.0, 1.0, 1.0, 1, 1.0, 9.0, one, phases, 1.0, 9.0
        )
        append_row(path / METRICS_FILE, row_to_cells(row) | more)
        result = EvaluationRow(100 * k, 4, 0, 1.0, 0.1, 1.0, 9.0, one)
        append_row(path / EVALUATIONS_FILE, row_to_cells(result) | more)
    return read_run(path)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(names, min_size=2, max_size=5, unique=True), st.lists(st.floats(0, 1), min_size=2, max_size=5)
)
def test_outcomes_that_sum_up_to_one_are_no_causes_by_that(own: list[str], shares: list[float]) -> None:
    """The first two are parts of a whole, as causes are; the run says whether they are meant so."""
    rows = [dict.fromkeys(own, 0.0) | {own[0]: share, own[1]: 1 - share} for share in shares]
    with tempfile.TemporaryDirectory() as place:
        plain = draw_outcome_charts(make_run(Path(place), rows, causes=()))
    assert STACK not in plain
    assert all(name in plain for name in own)
    with tempfile.TemporaryDirectory() as place:
        ended = draw_outcome_charts(make_run(Path(place), rows, causes=tuple(own)))
    assert ended.count(STACK) == 2  # while exploring, and in evaluation


@settings(max_examples=25, deadline=None)
@given(names, st.floats(0, 1))
@example("luck", 5e-324)  # too small for an axis
def test_unknown_columns_are_plain_series(unknown: str, share: float) -> None:
    """Two that sum up to one, beside causes that do so, too."""
    more = {f"x{unknown}": share, f"y{unknown}": 1 - share}
    rows = [{"score": 1.0, "wall": 0.25, "win": 0.75}] * 3
    with tempfile.TemporaryDirectory() as place:
        run = make_run(Path(place), rows, ("wall", "win"), **more)
        page = make_report_page(run)
    assert {column.name for column in run.series.columns.of_kind(ColumnKind.OTHER)} == set(more)
    games, others = draw_outcome_charts(run), draw_other_charts(run)
    assert games.count(STACK) == 2
    assert STACK not in others
    assert all(name in others and name not in games for name in more)
    assert "Other columns" in page


def test_figures_are_drawn_beside_causes(tmp_path: Path) -> None:
    rows = [{"score": 3.0, "wall": 0.4, "win": 0.6, "food": 12.5}] * 2
    drawn = draw_outcome_charts(make_run(tmp_path, rows, ("wall", "win")))
    stacks = [figure for figure in drawn.split("<figure") if STACK in figure]
    panels = [figure for figure in drawn.split("<figure") if "12.5" in figure]
    assert len(stacks) == 2
    assert len(panels) == 1
    assert not any("food" in figure for figure in stacks)
    assert not any("wall" in figure for figure in panels)


def test_some_games_may_end_in_none_of_the_ways(tmp_path: Path) -> None:
    drawn = draw_outcome_charts(make_run(tmp_path, [{"wall": 0.4, "win": 0.1}] * 2, ("wall", "win")))
    assert drawn.count(STACK) == 2


def test_a_run_in_which_no_game_ended_in_these_ways_has_a_report(tmp_path: Path) -> None:
    drawn = draw_outcome_charts(make_run(tmp_path, [{"wall": 0.0, "win": 0.0}] * 2, ("wall", "win")))
    assert STACK not in drawn
    assert "wall, win" in drawn


def test_causes_that_are_no_shares_are_plain_series(tmp_path: Path) -> None:
    drawn = draw_outcome_charts(make_run(tmp_path, [{"wall": 4.0, "win": 0.1}] * 2, ("wall", "win")))
    assert STACK not in drawn
    assert "wall, win" in drawn


def test_the_last_sentence_tells_ends_from_other_outcomes(tmp_path: Path) -> None:
    outcomes = {"wall": 0.25, "win": 0.75, "food": 12.0, "hunger": 0.0}
    run = make_run(tmp_path, [outcomes], ("wall", "win"))
    causes = read_cause_names(run.path)
    assert causes == ["wall", "win"]
    games = {"episodes": 4, "unfinished": 0, "mean_score": 1.0, "score_error": 0.1, "mean_length": 9.0}
    said = format_final_evaluation(games | {"outcomes": outcomes}, 100, causes)
    assert said.endswith("; ends: wall 25%, win 75%; outcomes: food 12")
    said = format_final_evaluation(games | {"outcomes": outcomes}, 100, [])
    assert "ends:" not in said
