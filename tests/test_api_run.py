"""A run in Python: its tables, its figure, and what a notebook shows."""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashdqn
from flashdqn import ConfigError, Run
from flashdqn.api.notebook import NotebookDisplay, find_notebook
from flashdqn.core.files import read_signed_json, write_signed_json
from flashdqn.runs.rows import MetricsRow
from flashdqn.runs.tables import read_table
from flashdqn.training.evaluate import Evaluation


def test_every_column_is_an_array(finished_run: Run) -> None:
    for name, arrays in (
        ("metrics.csv", finished_run.metrics()),
        ("evaluations.csv", finished_run.evaluations()),
    ):
        rows = read_table(finished_run.path / name)
        assert list(arrays) == list(rows[0])
        for column, array in arrays.items():
            np.testing.assert_array_equal(array, [float(row[column]) for row in rows])
    metrics = finished_run.metrics()
    assert metrics["step"].dtype == metrics["window_episodes"].dtype == np.int64
    assert metrics["loss"].dtype == metrics["seconds"].dtype == metrics["ratio"].dtype == np.float64


def test_a_frame_where_pandas_is_there(finished_run: Run) -> None:
    pandas = pytest.importorskip("pandas")
    frame = finished_run.metrics(as_frame=True)
    assert isinstance(frame, pandas.DataFrame)
    assert frame["step"].tolist() == finished_run.metrics()["step"].tolist()
    assert len(finished_run.evaluations(as_frame=True)) == len(finished_run.evaluations()["step"])


def test_what_is_missing_is_said(finished_run: Run, run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        finished_run.metrics(as_frame=True)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        finished_run.figure()
    monkeypatch.undo()
    (run_copy / "metrics.csv").unlink()
    empty = Run.open(run_copy)
    assert empty.metrics() == {}
    with pytest.raises(ConfigError, match="no report yet"):
        empty.figure()


def test_the_figure_is_the_curve(finished_run: Run, tmp_path: Path) -> None:
    figure = finished_run.figure()
    assert [axes.get_ylabel() for axes in figure.axes] == ["mean score", "1000 steps/s"]
    figure.savefig(tmp_path / "curve.pdf")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_an_earlier_run_opens_and_goes_on(run_copy: Path, finished_run: Run) -> None:
    run = Run.open(run_copy)
    assert (run.finished, run.score, run.config) == (True, finished_run.score, finished_run.config)
    assert flashdqn.evaluate(run, episodes=5) == flashdqn.evaluate(finished_run, episodes=5)
    assert flashdqn.load(run, "cpu").steps == run.agent("cpu").steps
    more = run.resume(steps=5500, progress=False)
    assert more.summary["steps"] >= 5500
    with pytest.raises(ConfigError, match="only --steps, --episodes and --max-time"):
        run.resume(envs=3, progress=False)
    with pytest.raises(flashdqn.CheckpointError, match="does not exist"):
        Run.open(run_copy / "nowhere")


def test_a_notebook_shows_the_report(finished_run: Run) -> None:
    shown = finished_run._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown
    page = html.unescape(shown)
    assert finished_run.path.name in page
    assert "recorded-game" not in page
    assert shown.count('"') == 8  # nothing inside ends the attribute
    assert repr(finished_run).startswith(f"<Run {finished_run.path}: finished, 5,0")


class Handle:
    def __init__(self, shown: list[dict[str, str]]) -> None:
        self.shown = shown

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data)


def test_progress_is_drawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(data)
        return Handle(shown)

    progress = NotebookDisplay(display)
    progress.note("Warming up & <b>waiting</b>")
    assert "&amp; &lt;b&gt;" in shown[-1]["text/html"]
    progress.prepare()
    progress._start_up._say("Compiling play_vector, 1 of 6")
    assert "play_vector" in shown[-1]["text/html"], "in the block, not below it"
    progress.begin("snake on cpu", 0.25)
    assert not progress._start_up.is_running
    assert "play_vector" not in shown[-1]["text/html"]
    progress.working("evaluation", 1)
    progress._next_work = 0.0
    progress.working("evaluation", 2)
    assert "evaluation: step 2, 0 s" in shown[-1]["text/html"]
    progress.tick(0.25, 100, 3, 2.0)
    numbers: dict[str, Any] = dict.fromkeys(MetricsRow.__dataclass_fields__, 1.0)
    progress.report(
        MetricsRow(**numbers | {"outcomes": {"score": 3.5}, "phases": {}, "step": 400, "episodes": 7})
    )
    progress.evaluation(400, Evaluation(5, 0, 4.25, 0.1, 4.0, 9.0, {}))
    progress.tick(1.0, 400, 7, 4.0)
    progress.end()
    last = shown[-1]["text/html"]
    for words in (
        "snake on cpu",
        'value="1.0000"',
        "400",
        "3.5",
        "score 4.25 ± 0.10 over 5 games at 400 steps",
    ):
        assert words in last
    assert shown[-1]["text/plain"] == "snake on cpu 100%"


def test_there_is_no_notebook_here() -> None:
    assert find_notebook() is None


@pytest.mark.parametrize(
    "forged",
    [
        {"steps": "many"},
        {"steps": None},
        {"steps": 10**400},
        {"evaluation": []},
        {"evaluation": {"mean_score": "<b>"}},
        {"evaluation": {"mean_score": 10**400}},
        {"finished": False, "stopped": "\x1b[2J\n" + 500 * "x"},
    ],
)
def test_a_forged_summary_is_shown_in_one_harmless_line(run_copy: Path, forged: dict[str, Any]) -> None:
    summary = run_copy / "summary.json"
    write_signed_json(summary, read_signed_json(summary) | forged)
    shown = repr(Run.open(run_copy))
    assert shown.startswith("<Run ")
    assert shown.isprintable()
    assert len(shown) < len(str(run_copy)) + 300
