"""The last evaluation judges the weights that are kept, also where updates were due when the budget was spent."""

from __future__ import annotations

from pathlib import Path

import pytest

import flashdqn
from flashdqn.runs.best import read_best
from flashdqn.training.ratio import TrainRatio


def test_the_best_checkpoint_is_the_one_that_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CUDA the host learns of the last transitions late. Here its ratio holds one update back until then."""
    steps, whole = 640, TrainRatio.due

    def hold_back(self: TrainRatio, transitions: int, updates: int) -> int:
        due = whole(self, transitions, updates)
        asked_again = calls.count(transitions) > 0
        calls.append(transitions)
        return due if asked_again else max(0, due - 1)

    calls: list[int] = []
    monkeypatch.setattr(TrainRatio, "due", hold_back)
    settings = {"learn.starts": 64, "eval.every": steps, "eval.episodes": 4, "runtime.mode": "eager"}
    run = flashdqn.train("snake", steps=steps, envs=8, out=str(tmp_path), progress=False, **settings)
    best = read_best(run.path / "checkpoints")
    assert best is not None
    evaluations = (run.path / "evaluations.csv").read_text(encoding="utf-8").splitlines()
    assert len(evaluations) == 2, "a heading, and one evaluation at the end"
