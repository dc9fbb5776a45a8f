"""Throughput by window, with a clock that the test turns."""

from __future__ import annotations

import io
import math
import time
from pathlib import Path

import pytest
from rich.console import Console
from test_modes import make, small

from flashdqn.core.errors import CheckpointError, EnvError, FlashDQNError
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.tables import read_metrics
from flashdqn.training.metrics import EpisodeMeans
from flashdqn.training.progress import Plain, Silent, gpu_text
from flashdqn.training.ratio import build_ratio
from flashdqn.training.reporter import Reporter
from flashdqn.training.warmup import NOTHING_YET


class Clock:
    """It stands still until somebody turns it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def reporter_in(folder: Path) -> Reporter:
    config = small("double")
    _, parts = make(config)
    reporter = Reporter(config, parts, RunFolder(folder), build_ratio(config, parts.rollouts), Silent())
    reporter.begin(step=0, updates=0)
    reporter.open_window()
    return reporter


def train(reporter: Reporter, clock: Clock, transitions: int, seconds: float) -> None:
    """As an iteration does, for the counters and the clock."""
    reporter.parts.phases.next_iteration()
    reporter.parts.counts.transitions += transitions
    clock.now += seconds


def slow_reads(reporter: Reporter, clock: Clock, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that has to wait for the device: what it waits for is the window's own work."""
    read = reporter.parts.metrics.read

    def wait() -> EpisodeMeans:
        clock.now += seconds
        return read()

    monkeypatch.setattr(reporter.parts.metrics, "read", wait)


def test_what_a_report_waits_for_counts_in_its_own_window_and_never_in_the_next(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = reporter_in(tmp_path)
    slow_reads(reporter, clock, 1.0, monkeypatch)
    for _ in range(3):
        train(reporter, clock, 1000, 3.0)
        assert reporter.report(0.0).steps_per_second == 250.0  # 1000 in 3 + 1 seconds


def test_evaluations_and_checkpoints_are_no_training(tmp_path: Path, clock: Clock) -> None:
    reporter = reporter_in(tmp_path)
    train(reporter, clock, 1000, 2.0)
    for aside in ("evaluate", "checkpoint"):
        with reporter.parts.phases(aside, host=True):
            clock.now += 5.0
    assert reporter.report(0.0).steps_per_second == 500.0


def test_a_window_without_an_iteration_has_no_speed(tmp_path: Path, clock: Clock) -> None:
    """On CUDA the last transitions become known when the loop is over."""
    reporter = reporter_in(tmp_path)
    train(reporter, clock, 1000, 2.0)
    reporter.report(0.0)
    reporter.parts.counts.transitions += 64
    row = reporter.report(0.0)
    assert row.step == 1064
    assert math.isnan(row.steps_per_second)
    assert math.isnan(row.us_total)
    console = Console(width=200, record=True)
    progress = Plain(console)
    progress.tick(1.0, 1064, 0, 2.0)
    progress.report(row)
    assert "– steps/s" in console.export_text()


class BusyGpu:
    """What stands in for the watch of a GPU."""

    closed = False

    def read(self) -> float:
        return 87.04

    def close(self) -> None:
        self.closed = True


def test_the_use_of_the_gpu_is_told_where_it_is_known(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = BusyGpu()
    monkeypatch.setattr("flashdqn.training.reporter.watch_gpu", lambda device: gpu)
    reporter = reporter_in(tmp_path)
    train(reporter, clock, 1000, 1.0)
    row = reporter.report(1.0)
    assert row.gpu_percent == 87.0
    reporter.close()
    assert gpu.closed
    assert read_metrics(tmp_path)[0].gpu_percent == 87.0
    shown = Console(record=True, width=300, file=io.StringIO())
    Plain(shown).report(row)
    assert "GPU busy 87%" in shown.export_text()
    # resumed where nobody knows it: the table keeps its columns
    monkeypatch.setattr("flashdqn.training.reporter.watch_gpu", lambda device: None)
    again = reporter_in(tmp_path)
    train(again, clock, 1000, 1.0)
    row = again.report(2.0)
    assert row.gpu_percent is not None
    assert math.isnan(row.gpu_percent)
    assert len(read_metrics(tmp_path)) == 2
    assert "GPU" not in gpu_text(row)


def test_a_table_without_it_stays_without_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = reporter_in(tmp_path)
    train(reporter, clock, 1000, 1.0)
    assert reporter.report(1.0).gpu_percent is None
    monkeypatch.setattr("flashdqn.training.reporter.watch_gpu", lambda device: BusyGpu())
    again = reporter_in(tmp_path)
    train(again, clock, 1000, 1.0)
    assert again.report(2.0).gpu_percent is None
    assert len(read_metrics(tmp_path)) == 2
    assert not list(tmp_path.glob("*damaged*"))


def test_outcomes_that_are_no_numbers_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reporter, notes = reporter_in(tmp_path), []
    monkeypatch.setattr(reporter.progress, "note", notes.append)
    means = EpisodeMeans(3, 1.0, 1.0, {"score": math.nan, "won": 0.5})
    monkeypatch.setattr(reporter.parts.metrics, "read", lambda: means)
    for _ in range(2):
        reporter.report(1.0)
    assert len(notes) == 1
    assert "must be finite, and these are not: score." in notes[0]


@pytest.mark.parametrize(("fresh", "kind"), [(True, EnvError), (False, CheckpointError)])
def test_a_state_that_does_not_load_is_the_environments_fault_before_the_first_step(
    fresh: bool, kind: type[FlashDQNError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_state_dict(state: object) -> None:
        raise KeyError("board")

    _, parts = make(small("double"))
    weights, state = parts.learner.weights(), parts.state_dict()
    monkeypatch.setattr(parts.env, "load_state_dict", load_state_dict)
    with pytest.raises(kind, match="board"):
        parts.load(weights, state, NOTHING_YET, fresh=fresh)
