"""The user's functions that a training calls: after a report, an evaluation or a checkpoint.

They are called between two steps, when everything that they may look at is on disk. So an error in one of them, or
a signal while it runs, leaves a training that can be saved and resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.core.blame import belongs_to_us, describe_failure
from flashdqn.core.errors import CallbackError, FlashDQNError
from flashdqn.runs.rows import MetricsRow, row_to_cells
from flashdqn.training.evaluate import Evaluation


@dataclass(frozen=True)
class ReportEvent:
    """A window of training is over; `metrics` has every column of metrics.csv."""

    run: Path
    step: int
    episodes: int
    seconds: float  # of training
    score: float  # mean over the window's episodes, while exploring; the return if the task has no score
    loss: float
    eps: float
    steps_per_second: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class EvaluationEvent:
    """An evaluation is over; `result` has all its figures."""

    run: Path
    step: int
    score: float  # mean over the games, without exploration
    score_error: float  # its standard error
    best: bool  # the best evaluation so far
    result: Evaluation


@dataclass(frozen=True)
class CheckpointEvent:
    """A checkpoint was saved."""

    run: Path
    step: int
    path: Path
    resumable: bool  # not only weights: a training can go on from it


OnReport = Callable[[ReportEvent], Any]
OnEvaluation = Callable[[EvaluationEvent], Any]
OnCheckpoint = Callable[[CheckpointEvent], Any]


@dataclass(frozen=True)
class Callbacks:
    """What a training calls; a function that returns True ends it, and so does a score that is good enough."""

    on_report: OnReport | None = None
    on_evaluation: OnEvaluation | None = None
    on_checkpoint: OnCheckpoint | None = None
    stop_at_score: float | None = None


NO_CALLBACKS = Callbacks()


class Listener:
    """Collects what happens within an iteration, and calls the user's functions after it."""

    def __init__(self, callbacks: Callbacks, run: Path) -> None:
        self.callbacks, self.run = callbacks, run
        self.reason = ""  # why the training should end; empty: it should not
        self._waiting: list[tuple[str, Callable[[Any], Any], Any]] = []

    def add_report(self, row: MetricsRow) -> None:
        """Note a report."""
        if self.callbacks.on_report is not None:
            event = ReportEvent(
                self.run,
                row.step,
                row.episodes,
                row.seconds,
                row.return_ if row.score is None else row.score,
                row.loss,
                row.eps,
                row.steps_per_second,
                row_to_cells(row),
            )
            self._waiting.append(("on_report", self.callbacks.on_report, event))

    def add_evaluation(self, step: int, result: Evaluation, best: bool) -> None:
        """Note an evaluation, and whether its score is good enough."""
        wanted, score = self.callbacks.stop_at_score, result.mean_score
        if wanted is not None and math.isfinite(score) and score >= wanted:
            self.reason = self.reason or f"score: {score:g} of {wanted:g}"
        if self.callbacks.on_evaluation is not None:
            event = EvaluationEvent(self.run, step, score, result.score_error, best, result)
            self._waiting.append(("on_evaluation", self.callbacks.on_evaluation, event))

    def add_checkpoint(self, path: Path, resumable: bool) -> None:
        """Note a checkpoint."""
        if self.callbacks.on_checkpoint is not None:
            event = CheckpointEvent(self.run, int(path.name), path, resumable)
            self._waiting.append(("on_checkpoint", self.callbacks.on_checkpoint, event))

    def tell(self) -> None:
        """Call the user's functions for what was noted."""
        while self._waiting:
            name, function, event = self._waiting.pop(0)
            if _ask_to_stop(name, function, event):
                self.reason = self.reason or f"callback: {name}"


def _ask_to_stop(name: str, function: Callable[[Any], Any], event: Any) -> bool:
    """Whether the user's function says True. What it raises becomes one sentence; a signal passes."""
    try:
        answer = function(event)
    except FlashDQNError as error:
        raise CallbackError(f"Your {name} failed: {error}") from error
    except BaseException as error:
        if belongs_to_us(error):
            raise
        raise CallbackError(f"Your {name} raised {describe_failure(error)}") from error
    return isinstance(answer, bool | np.bool_) and bool(answer)
