"""Tables of a run: rows come back from a file as they were, and columns are what the run says they are."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flashdqn
from flashdqn import Run
from flashdqn.runs.columns import (
    EVALUATION_HEAD,
    EVALUATIONS,
    GRAPHS,
    METRICS,
    PHASES,
    RESERVED,
    SCORE,
    Column,
    ColumnKind,
    Columns,
    complete_columns,
    infer_columns,
    make_evaluation_columns,
    make_metrics_columns,
    parse_columns,
)
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.rows import EvaluationRow, MetricsRow, parse_row, row_to_cells
from flashdqn.runs.tables import (
    COLUMNS_FILE,
    METRICS_FILE,
    read_columns,
    read_evaluations,
    read_metrics,
    read_table,
    write_columns,
)

RUNS = Path(__file__).parent / "data"
#: The header of metrics.csv in 0.1.0.dev0, with `us_iterate`, for a task with the outcomes score and food.
HEADER = (
    "step,updates,episodes,seconds,steps_per_second,ratio,eps,lr,loss,q,grad_norm,window_episodes,return,length,"
    "score,food,us_act,us_step,us_append,us_sample,us_update,us_collect,us_learn,us_iterate,memory_mb,us_total"
)
EVALUATION_HEADER = "step,episodes,unfinished,mean_score,score_error,mean_return,mean_length,food"

counts = st.integers(0, 2**62)
numbers = st.floats(allow_nan=True, allow_infinity=True)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda name: name not in RESERVED | {SCORE.name}
)


def same(one: Any, other: Any) -> bool:
    """Equal, where NaN is equal to NaN."""
    return repr(dataclasses.asdict(one)) == repr(dataclasses.asdict(other))


@st.composite
def task_columns(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The outcomes of a task, and which of them are causes."""
    own = draw(st.lists(names, max_size=4, unique=True))
    causes = tuple(name for name in own if draw(st.booleans()))
    at = draw(st.integers(0, len(own)))
    return (*own[:at], *(["score"] if draw(st.booleans()) else []), *own[at:]), causes


def draw_row(draw: Any, row: type[Any], outcomes: tuple[str, ...]) -> Any:
    """A row with any numbers."""
    values: dict[str, Any] = {
        field.name: draw(counts if field.type == "int" else numbers) for field in dataclasses.fields(row)
    }
    values["outcomes"] = {name: draw(numbers) for name in outcomes}
    if "phases" in values:
        values["phases"] = {name: draw(numbers) for name in (*PHASES, *GRAPHS)}
    return row(**values)


@settings(max_examples=60, deadline=None)
@given(task_columns(), st.data())
def test_rows_come_back_from_the_file(task: tuple[tuple[str, ...], tuple[str, ...]], data: Any) -> None:
    outcomes, causes = task
    others = tuple(name for name in outcomes if name != "score")
    metrics = [draw_row(data.draw, MetricsRow, outcomes) for _ in range(2)]
    evaluations = [draw_row(data.draw, EvaluationRow, others) for _ in range(2)]
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        columns = (
            make_metrics_columns(outcomes, causes, gpu=True, collectors=True),
            make_evaluation_columns(outcomes, causes),
        )
        write_columns(folder.path, *columns)
        for row in metrics:
            folder.add_metrics(row)
        for row in evaluations:
            folder.add_evaluation(row)
        rows = read_table(folder.path / METRICS_FILE)
        assert read_columns(folder.path / METRICS_FILE, rows) == columns[0]
        for found, written in zip(read_metrics(folder.path), metrics, strict=True):
            assert same(found, written)
        for result, result_written in zip(read_evaluations(folder.path), evaluations, strict=True):
            assert same(result, result_written)
        assert folder.last_evaluation() == evaluations[-1].step


def test_the_header_is_that_of_older_runs(tmp_path: Path) -> None:
    phases = dict.fromkeys((*PHASES, *GRAPHS), 0.0)
    row = MetricsRow(*range(14), {"score": 1.0, "food": 2.0}, phases, 1.0, 2.0)  # type: ignore[call-arg,arg-type]
    RunFolder(tmp_path).add_metrics(row)
    assert (tmp_path / METRICS_FILE).read_text().splitlines()[0] == HEADER
    assert [column.name for column in make_metrics_columns(("score", "food"), ()).all] == HEADER.split(",")
    result = EvaluationRow(1, 2, 3, 4.0, 5.0, 6.0, 7.0, {"food": 8.0})
    assert ",".join(row_to_cells(result)) == EVALUATION_HEADER
    found = make_evaluation_columns(("score", "food"), ())
    assert [column.name for column in found.all] == EVALUATION_HEADER.split(",")


def test_every_field_is_a_column() -> None:
    """A field that is added to a row, and not to the columns, would be of an unknown kind."""
    for row, columns in ((MetricsRow, METRICS), (EvaluationRow, EVALUATIONS)):
        fields = {field.name.rstrip("_") for field in dataclasses.fields(row)} - {"outcomes", "phases"}
        fixed = {column.name for column in columns if column.kind is not ColumnKind.PHASE}
        assert fields == fixed - {SCORE.name}


def test_a_run_says_which_outcomes_are_causes(finished_run: Run) -> None:
    data = json.loads((finished_run.path / COLUMNS_FILE).read_text(encoding="utf-8"))
    for name in ("metrics.csv", "evaluations.csv"):
        rows = read_table(finished_run.path / name)
        assert [one["name"] for one in data[name]] == list(rows[0])
        columns = read_columns(finished_run.path / name, rows)
        causes = [column.name for column in columns.of_kind(ColumnKind.CAUSE)]
        assert causes == ["wall", "self", "entrapment", "timeout", "win"]
        assert columns.of_kind(ColumnKind.OTHER) == []


@settings(deadline=None)
@given(st.lists(names, min_size=1, max_size=5, unique=True), st.booleans())
def test_an_unknown_column_is_never_a_cause(unknown: list[str], recorded: bool) -> None:
    """Whether its values look like shares or not is not asked where the run has recorded its columns."""
    known = make_metrics_columns(("score", "wall"), ("wall",)) if recorded else Columns(())
    found = complete_columns([*unknown, "step", "us_act"], known, METRICS)
    expected = [ColumnKind.CAUSE if recorded and name == "wall" else ColumnKind.OTHER for name in unknown]
    assert [column.kind for column in found.all] == [*expected, ColumnKind.COUNTER, ColumnKind.PHASE]


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_outcomes_of_an_older_run_are_causes_where_they_sum_up_to_one(shares: list[float]) -> None:
    values = {
        "step": [1.0] * len(shares),
        "us_new": shares,
        "a": shares,
        "b": [1 - share for share in shares],
    }
    found = infer_columns(values, METRICS)
    assert [column.kind for column in found.all] == [
        ColumnKind.COUNTER,
        ColumnKind.PHASE,
        ColumnKind.CAUSE,
        ColumnKind.CAUSE,
    ]
    more = infer_columns(values | {"food": [3.0] * len(shares)}, METRICS)
    assert {column.name for column in more.of_kind(ColumnKind.OUTCOME)} == {"a", "b", "food"}
    assert more.of_kind(ColumnKind.CAUSE) == []


def test_nothing_known_of_any_episode_makes_no_cause() -> None:
    found = infer_columns({"step": [1.0], "a": [math.nan], "b": [math.nan]}, METRICS)
    assert [column.name for column in found.of_kind(ColumnKind.OUTCOME)] == ["a", "b"]
    assert infer_columns({}, METRICS) == Columns(())


def test_a_later_versions_kinds_are_read_as_unknown() -> None:
    written = make_metrics_columns(("score", "food"), ("food",))
    assert parse_columns(json.loads(json.dumps(written.to_json()))) == written
    later = [
        {"name": "luck", "kind": "chance"},
        {"name": "step", "kind": []},
        {"name": "food", "kind": "cause"},
    ]
    columns = complete_columns(["luck", "step", "food"], parse_columns(later), METRICS)
    assert [column.kind for column in columns.all] == [
        ColumnKind.OTHER,
        ColumnKind.COUNTER,
        ColumnKind.CAUSE,
    ]
    for spoiled in (None, {}, "x", [1], [["name", "kind"]]):
        with pytest.raises(ValueError, match="list of objects"):
            parse_columns(spoiled)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"metrics.csv": 3}', '{"metrics.csv": [3]}'])
def test_a_spoiled_record_of_columns_is_as_none(run_copy: Path, text: str) -> None:
    rows = read_table(run_copy / METRICS_FILE)
    (run_copy / COLUMNS_FILE).write_text(text)
    spoiled = read_columns(run_copy / METRICS_FILE, rows)
    (run_copy / COLUMNS_FILE).unlink()
    assert spoiled == read_columns(run_copy / METRICS_FILE, rows)
    assert spoiled.of_kind(ColumnKind.CAUSE)[0].name == "wall"


def test_a_row_with_missing_cells_is_read() -> None:
    row = parse_row(MetricsRow, {"step": "1e3", "loss": "", "eps": "x"}, Columns(METRICS))
    assert (row.step, row.updates) == (1000, 0)
    assert math.isnan(row.loss)
    assert math.isnan(row.eps)
    assert math.isnan(row.phases["act"])
    result = parse_row(EvaluationRow, {"step": "7", "mean_score": "1.5"}, Columns(EVALUATION_HEAD))
    assert (result.step, result.mean_score, result.outcomes) == (7, 1.5, {})


def test_older_runs_are_read_as_rows() -> None:
    windows = read_metrics(RUNS / "snake")
    assert [row.step for row in windows] == [508, 1010, 1509, 2005, 2511, 3013]
    assert list(windows[0].outcomes) == ["score", "wall", "self", "entrapment", "timeout", "win"]
    assert windows[0].score == pytest.approx(0.2037037)
    assert read_evaluations(RUNS / "snake")[1].outcomes["timeout"] == 0.5
    assert "delay_ms" in read_evaluations(RUNS / "sfc")[0].outcomes


def test_an_older_run_records_its_columns_when_it_goes_on(
    run_copy: Path,
) -> None:
    (run_copy / COLUMNS_FILE).unlink()
    flashdqn.train(resume=run_copy, steps=6000, progress=False)
    causes = read_columns(run_copy / METRICS_FILE, read_table(run_copy / METRICS_FILE)).of_kind(
        ColumnKind.CAUSE
    )
    assert Column("wall", ColumnKind.CAUSE, "share of the episodes") in causes
