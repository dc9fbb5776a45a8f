"""Callbacks of a training: what they see, how they end it, and what their errors leave behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashdqn
from conftest import tiny_config
from flashdqn import CallbackError, CheckpointEvent, ConfigError, EvaluationEvent, ReportEvent, Run
from flashdqn.core.errors import StorageError
from flashdqn.runs import checkpoint

Train = Callable[..., Run]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    fixed = {
        "out": str(tmp_path / "runs"),
        "runtime__mode": "eager",
        "log__game": False,
        "steps": 2000,
        "explore__over": 1000,
    }

    def start(settings: dict[str, Any] | None = None, **callbacks: Any) -> Run:
        return flashdqn.train(tiny_config(**fixed | (settings or {})), progress=False, **callbacks)

    return start


def test_they_see_what_the_tables_have(train: Train) -> None:
    seen: list[Any] = []
    run = train(on_report=seen.append, on_evaluation=seen.append, on_checkpoint=seen.append)
    reports = [event for event in seen if isinstance(event, ReportEvent)]
    evaluations = [event for event in seen if isinstance(event, EvaluationEvent)]
    saved = [event for event in seen if isinstance(event, CheckpointEvent)]
    metrics, table = run.metrics(), run.evaluations()
    assert [event.step for event in reports] == metrics["step"].tolist()
    np.testing.assert_allclose([event.score for event in reports], metrics["score"])
    assert reports[-1].metrics["loss"] == reports[-1].loss
    assert [event.step for event in evaluations] == table["step"].tolist()
    np.testing.assert_allclose([event.score for event in evaluations], table["mean_score"])
    assert [e.score for e in evaluations if e.best][-1] == max(event.score for event in evaluations)
    paths = {event.path.name for event in saved}
    assert paths == {path.name for path in checkpoint.list_checkpoints(run.path / "checkpoints")}
    assert any(event.resumable for event in saved)
    assert {event.run for event in seen} == {run.path}


def test_they_change_no_bit(train: Train) -> None:
    plain = train()
    watched = train(on_report=lambda event: None, on_evaluation=lambda event: 1, stop_at_score=1e9)
    assert plain.summary["weights"] == watched.summary["weights"]
    assert watched.summary["stopped"] == "budget: steps"  # 1 is not True


@pytest.mark.parametrize(
    ("name", "answer"), [("on_report", True), ("on_evaluation", np.True_), ("on_checkpoint", True)]
)
def test_true_ends_the_training(train: Train, name: str, answer: Any) -> None:
    run = train(**{name: lambda event: answer})
    assert run.finished
    assert run.exit_code == 0
    assert run.summary["stopped"] == f"callback: {name}"
    assert run.summary["steps"] < 1600
    assert run.summary["evaluation"]["episodes"] > 0


def test_a_score_ends_it_and_the_run_can_go_on(train: Train) -> None:
    run = train(stop_at_score=-1e9)
    assert run.summary["stopped"].startswith("score: ")
    assert 1500 <= run.summary["steps"] < 1600
    again = run.resume(progress=False)
    assert again.summary["stopped"] == "budget: steps"
    assert again.summary["steps"] >= 2000


def leave(event: object) -> None:
    sys.exit("enough")


def fail(event: object) -> None:
    raise ValueError("no such file")


def load_nothing(event: object) -> None:
    flashdqn.load("nowhere")


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("on_report", fail, r"raised ValueError: no such file \(in .*test_api_callbacks.py, line \d+\)"),
        ("on_evaluation", leave, "raised SystemExit: enough"),
        ("on_checkpoint", load_nothing, "failed: nowhere does not exist"),
    ],
)
def test_an_error_is_one_sentence_and_the_run_is_saved(
    train: Train, tmp_path: Path, name: str, function: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(
        CallbackError, match=f"Your {name} {words}.*is saved; go on with: flashdqn train"
    ) as caught:
        train(**{name: function})
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    (folder,) = (tmp_path / "runs").iterdir()
    run = Run.open(folder)
    assert not run.finished
    assert run.exit_code == 1
    assert run.summary["stopped"].startswith(f"Your {name}")
    again = flashdqn.train(resume=run, progress=False)
    assert again.finished


def test_an_error_leaves_a_run_that_ends_like_any_other(train: Train, tmp_path: Path) -> None:
    whole = train()
    for folder in (tmp_path / "runs").iterdir():
        folder.rename(tmp_path / folder.name)
    with pytest.raises(CallbackError):
        train(on_evaluation=fail)
    (folder,) = (tmp_path / "runs").iterdir()
    assert flashdqn.train(resume=folder, progress=False).summary["weights"] == whole.summary["weights"]


def test_a_signal_inside_one_saves_the_run(train: Train) -> None:
    run = train(on_report=lambda event: os.kill(os.getpid(), signal.SIGTERM))
    assert not run.finished
    assert run.summary["stopped"] == "SIGTERM"
    assert run.exit_code == 75
    assert run.resume(progress=False).finished


@pytest.mark.parametrize(
    ("score", "settings", "message"),
    [
        (5, {"eval__every": 0}, "needs evaluations"),
        ("much", {}, "must be a number"),
        (float("nan"), {}, "must be a number"),
        (True, {}, "must be a number"),
    ],
)
def test_a_score_that_cannot_be_reached_is_refused(
    train: Train, score: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"stop_at_score {message}"):
        train(settings, stop_at_score=score)


@pytest.mark.parametrize("score", [10**400, -(10**400), float("nan"), True, "5"])
def test_a_score_that_is_not_a_number_is_refused(train: Train, score: Any) -> None:
    with pytest.raises(ConfigError, match="stop_at_score must be a number"):
        train(stop_at_score=score)


def test_a_run_folder_that_is_gone_is_one_sentence(train: Train) -> None:
    def remove(event: EvaluationEvent) -> None:
        if event.step >= 2000:
            shutil.rmtree(event.run)

    with pytest.raises(StorageError, match=r"No such file or directory .*summary\.json"):
        train(on_evaluation=remove)
