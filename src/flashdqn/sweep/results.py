"""What a sweep has found: its trials as plain objects, the best one, and the front of score over seconds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashdqn.sweep.space import SearchSpace
from flashdqn.sweep.study import (
    ERROR,
    LABEL,
    POINTS,
    REASON,
    RUN,
    SECONDS,
    STEPS,
    decode_values,
    hide_experimental_warnings,
    import_optuna,
)

#: How a trial ended, as the tables say it.
DONE, PRUNED, FAILED, RUNNING = "done", "pruned", "failed", "running"
#: Scores that differ by less than this share may count as the same.
SAME = 0.02
#: Why a trial that was running when the sweep ended has no score; Optuna has no note of it.
LOST = "it was running when the sweep was ended"


@dataclass(frozen=True)
class TrialPoint:
    """An evaluation of a trial: after how many seconds of training, which score."""

    seconds: float
    score: float
    trial: int


@dataclass(frozen=True)
class TrialResult:
    """A trial, however far it is."""

    number: int
    state: str
    values: Mapping[str, Any]
    score: float = math.nan
    score_error: float = math.nan
    seconds: float = math.nan  # of training, to its end
    steps: int = 0
    run: str = ""
    reason: str = ""
    label: str = ""  # "preset" for the one with the preset's own values
    points: tuple[TrialPoint, ...] = field(default=())

    @property
    def best_seconds(self) -> float:
        """Seconds of training until the evaluation that was its best."""
        best = max(self.points, key=lambda point: (point.score, -point.seconds), default=None)
        return self.seconds if best is None else best.seconds


def list_results(study: Any, space: SearchSpace) -> list[TrialResult]:
    """All trials of a study that have begun."""
    states = import_optuna().trial.TrialState
    names = {states.COMPLETE: DONE, states.PRUNED: PRUNED, states.FAIL: FAILED, states.RUNNING: RUNNING}
    return [
        make_result(trial, names[trial.state], space)
        for trial in study.get_trials(deepcopy=False)
        if trial.state in names and trial.params
    ]


def make_result(trial: Any, state: str, space: SearchSpace) -> TrialResult:
    """Optuna's trial as ours."""
    notes = trial.user_attrs
    points = tuple(TrialPoint(float(s), float(v), trial.number) for s, v in notes.get(POINTS, ()))
    score = float(trial.values[0]) if trial.values else points[-1].score if points else math.nan
    seconds = float(notes.get(SECONDS, points[-1].seconds if points else math.nan))
    return TrialResult(
        trial.number,
        state,
        decode_values(space, trial.params),
        score,
        float(notes.get(ERROR, math.nan)),
        seconds,
        int(notes.get(STEPS, 0)),
        str(notes.get(RUN, "")),
        str(notes.get(REASON, LOST if state == FAILED else "")),
        str(notes.get(LABEL, "")),
        points,
    )


def choose_winner(results: Sequence[TrialResult]) -> TrialResult | None:
    """The best trial: of those that are as good as the highest score, the fastest. As good is what lies within one
    standard error of it, and within a fiftieth."""
    done = [one for one in results if one.state == DONE and math.isfinite(one.score)]
    if not done:
        return None
    top = max(done, key=lambda one: one.score)
    error = top.score_error if math.isfinite(top.score_error) else 0.0
    close = [one for one in done if one.score >= top.score - min(error, SAME * abs(top.score))]
    return min(close, key=lambda one: (one.best_seconds, -one.score, one.number))


def find_front(points: Sequence[TrialPoint]) -> list[TrialPoint]:
    """The points that no other one beats in score and in seconds, from the fastest to the best."""
    front: list[TrialPoint] = []
    for point in sorted(points, key=lambda one: (one.seconds, -one.score)):
        if not front or point.score > front[-1].score:
            front.append(point)
    return front


def list_points(results: Sequence[TrialResult]) -> list[TrialPoint]:
    """Every evaluation of every trial that did not fail."""
    return [
        point
        for one in results
        if one.state != FAILED
        for point in one.points
        if math.isfinite(point.score) and math.isfinite(point.seconds)
    ]


def measure_importance(study: Any, space: SearchSpace) -> dict[str, float]:
    """How much each setting decides about the score, as shares of 1 (PED-ANOVA, Watanabe et al. 2023); empty where
    there are too few trials, or none differ."""
    optuna = import_optuna()
    done = [t for t in study.get_trials(deepcopy=False) if t.state == optuna.trial.TrialState.COMPLETE]
    if len(done) < 4 or len({t.values[0] for t in done}) < 2:
        return {}
    with hide_experimental_warnings(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it asks for low ones
        try:
            found = optuna.importance.get_param_importances(
                study,
                evaluator=optuna.importance.PedAnovaImportanceEvaluator(),
                params=list(space.names),
                target=lambda trial: -trial.values[0],  # it asks what makes a target low
            )
        except (ValueError, RuntimeError, ZeroDivisionError):
            return {}
    known = {name: float(share) for name, share in found.items() if math.isfinite(share)}
    return known if sum(known.values()) > 0 else {}
