"""TensorBoard, Weights & Biases and MLflow get the same figures; none of them can stop a training."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_loggers import FakeMlflow, FakeWandb

from conftest import tiny_config
from flashdqn import ConfigError, Run
from flashdqn.runs.records import read_record
from flashdqn.runs.tables import read_table
from flashdqn.training import sinks
from flashdqn.training.progress import Silent
from flashdqn.training.session import resume_run, start_run
from flashdqn.training.sinks.background import Background, Guarded

REAL = {name: importlib.util.find_spec(name) is not None for name in ("wandb", "mlflow")}


class Noting(Silent):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def train(out: Path, **settings: Any) -> tuple[Run, list[str]]:
    progress = Noting()
    return start_run(tiny_config(**{"out": str(out), "steps": 2000} | settings), progress), progress.notes


def go_on(run: Run, steps: int) -> tuple[Run, list[str]]:
    progress = Noting()
    return resume_run(replace(run.config, steps=steps), run.path, progress), progress.notes


def expected(run: Run) -> dict[tuple[str, int], float]:
    """What the tables in the run folder hold, by name and step."""
    values = {}
    for table, group in (("metrics.csv", "train"), ("evaluations.csv", "eval")):
        for row in read_table(run.path / table):
            step = int(row.pop("step"))
            values |= {(f"{group}/{name}", step): float(text) for name, text in row.items()}
    return values


def assert_same(ours: Mapping[tuple[str, int], float], theirs: Mapping[tuple[str, int], float]) -> None:
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert theirs[key] == pytest.approx(value, rel=1e-6, nan_ok=True), key


@contextmanager
def imported_anew(module: str) -> Iterator[None]:
    """Our module must see the stand-in, and nobody after it."""
    sys.modules.pop(module, None)
    yield
    sys.modules.pop(module, None)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWandb]:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with imported_anew("flashdqn.training.sinks.weights_and_biases"):
        yield fake


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMlflow]:
    fake = FakeMlflow()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    with imported_anew("flashdqn.training.sinks.ml_flow"):
        yield fake


def test_wandb_hears_everything_and_goes_on_after_a_resume(wandb: FakeWandb, tmp_path: Path) -> None:
    run, notes = train(tmp_path, log__wandb=True, log__wandb_mode="offline", log__wandb_project="mine")
    (logged,) = wandb.runs.values()
    assert (logged.project, logged.name, logged.offline) == ("mine", run.path.name, True)
    assert logged.config["env.size"] == 6
    assert logged.config["network.hidden"] == [16]
    assert logged.axes == {"step": None, "*": "step"}
    assert logged.exit_code == 0
    assert logged.summary["summary/weights"] == run.summary["weights"]
    assert logged.summary["summary/evaluation.mean_score"] == run.score
    assert any("wandb sync" in note for note in notes)
    longer, _ = go_on(run, 4000)
    assert list(wandb.runs) == [logged.id]
    assert logged.sessions == 2
    assert logged.summary["summary/steps"] == longer.summary["steps"]
    theirs = {
        (name, row["step"]): value for row in logged.rows for name, value in row.items() if name != "step"
    }
    assert_same(expected(longer), theirs)


def test_mlflow_hears_everything_and_goes_on_after_a_resume(mlflow: FakeMlflow, tmp_path: Path) -> None:
    run, notes = train(tmp_path, log__mlflow=True, log__mlflow_uri=str(tmp_path / "tracked"))
    assert (tmp_path / "tracked").is_dir()
    (name, logged), *others = mlflow.runs.items()
    assert not others
    assert (logged.name, logged.status) == (run.path.name, "FINISHED")
    assert logged.params["env.size"] == "6"
    assert logged.tags["summary/weights"] == run.summary["weights"]
    assert any(f"mlflow.db, run {name}" in note for note in notes)
    longer, _ = go_on(run, 4000)
    assert list(mlflow.runs) == [name]
    theirs = {(m.key, m.step): m.value for m in logged.metrics if not m.key.startswith("summary/")}
    assert_same(expected(longer), theirs)
    last = {m.key: m.value for m in logged.metrics if m.key.startswith("summary/")}
    assert last["summary/evaluation.mean_score"] == longer.score
    assert read_record(run.path / "loggers.json") == {"mlflow": name}


@pytest.mark.filterwarnings("ignore")  # its own
@pytest.mark.skipif(not REAL["wandb"], reason="wandb is not installed")
def test_the_real_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run, notes = train(tmp_path, log__wandb=True)
    go_on(run, 3000)
    assert not [note for note in notes if "failed" in note]
    (name,) = {json.loads((run.path / "loggers.json").read_text())["wandb"]}
    folders = sorted((run.path / "wandb").glob(f"offline-run-*-{name}"))
    assert len(folders) == 2  # two sessions of one run, which `wandb sync` joins
    for folder in folders:
        assert b"train/steps_per_second" in (folder / f"run-{name}.wandb").read_bytes()


@pytest.mark.filterwarnings("ignore")  # its own
@pytest.mark.skipif(not REAL["mlflow"], reason="mlflow is not installed")
def test_the_real_mlflow(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    run, notes = train(tmp_path, log__mlflow=True, log__mlflow_uri=str(tmp_path / "tracked"))
    assert not [note for note in notes if "failed" in note]
    longer, _ = go_on(run, 3000)
    client = MlflowClient(f"sqlite:///{tmp_path / 'tracked' / 'mlflow.db'}")
    name = json.loads((run.path / "loggers.json").read_text())["mlflow"]
    found = client.get_run(name)
    assert found.info.status == "FINISHED"
    assert found.data.params["env.size"] == "6"
    ours = expected(longer)
    history = {key: client.get_metric_history(name, key) for key in {key for key, _ in ours}}
    assert_same(ours, {(key, point.step): point.value for key, points in history.items() for point in points})


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_missing_package_is_one_sentence(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sinks, "installed", lambda module: False)
    with pytest.raises(ConfigError, match=rf"--log\.{package} needs .*pip install 'flashdqn\[{package}\]'"):
        train(tmp_path / "out", **{f"log__{package}": True})
    assert not (tmp_path / "out").exists()
    assert sinks.installed is not None


@pytest.mark.parametrize("when", ["init", "log", "finish"])
def test_a_logger_that_fails_stops_nothing(
    when: str, wandb: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the network is down\nfor good")

    target: Any = wandb if when == "init" else importlib.import_module("fake_loggers").FakeRun
    monkeypatch.setattr(target, when, fail)
    run, notes = train(tmp_path, log__wandb=True)
    assert run.finished
    told = [note for note in notes if "failed" in note]
    assert told == [
        "Weights & Biases failed, and the run goes on without it: ConnectionError: the network is down"
    ]
    plain, _ = train(tmp_path)
    assert plain.summary["weights"] == run.summary["weights"]


class Recorder:
    """A sink that remembers, and fails or waits when it is told to."""

    def __init__(self, fails_at: int = -1, wait: threading.Event | None = None) -> None:
        self.calls: list[Any] = []
        self.fails_at, self.wait = fails_at, wait

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        if self.wait is not None:
            self.wait.wait(30)
        if step == self.fails_at:
            raise OSError("no space left on device")
        self.calls.append((dict(values), step))

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self, summary: Mapping[str, Any] | None) -> None:
        self.calls.append(summary)


def test_a_guarded_sink_says_it_once() -> None:
    notes: list[str] = []
    sink, guarded = Recorder(fails_at=2), None
    guarded = Guarded("Paper", lambda: sink, notes.append)
    for step in range(5):
        guarded.scalars({"a": 1.0}, step)
        guarded.flush()
    guarded.close({})
    assert [call for call in sink.calls if call != "flush"] == [({"a": 1.0}, 0), ({"a": 1.0}, 1)]
    assert notes == ["Paper failed, and the run goes on without it: OSError: no space left on device"]


def test_a_slow_sink_keeps_nobody_waiting_and_loses_nothing() -> None:
    notes: list[str] = []
    gate = threading.Event()
    sink = Recorder(wait=gate)
    background = Background("Server", lambda: sink, notes.append)
    values = {"a": 0.0}
    for step in range(100):
        values["a"] = float(step)  # the caller's own: it may change
        background.scalars(values, step)
    assert not sink.calls
    gate.set()
    background.close({"steps": 100})
    assert sink.calls == [*(({"a": float(step)}, step) for step in range(100)), {"steps": 100}]
    assert not notes


def test_the_end_waits_only_so_long() -> None:
    notes: list[str] = []
    gate = threading.Event()
    background = Background("Server", lambda: Recorder(wait=gate), notes.append, patience=0.05)
    background.scalars({"a": math.nan}, 1)
    background.close({})
    assert len(notes) == 1
    assert "was not done" in notes[0]
    gate.set()


def test_a_failed_training_tells_its_loggers(wandb: FakeWandb, tmp_path: Path) -> None:
    from flashdqn.training.loop import Loop

    def stop(self: Loop, before: int, after: int) -> None:
        if after > 800:
            raise RuntimeError("stop")
        original(self, before, after)

    original = Loop.occasionally
    Loop.occasionally = stop  # type: ignore[method-assign]
    try:
        with pytest.raises(RuntimeError, match="stop"):
            train(tmp_path, log__wandb=True)
    finally:
        Loop.occasionally = original  # type: ignore[method-assign]
    (logged,) = wandb.runs.values()
    assert logged.exit_code == 1
    assert not logged.summary
