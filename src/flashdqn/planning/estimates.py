"""Means over the fires that judge, with their 95 % intervals; differences are paired by fire."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.planning.judge import summarize
from flashdqn.planning.plan import Judgement, Losses
from flashdqn.show.numbers import NOTHING, format_rate


@dataclass(frozen=True)
class Estimate:
    """A mean, and half of its 95 % interval; infinite for a single fire."""

    mean: float
    half: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half


def estimate_mean(values: NDArray[np.float64]) -> Estimate:
    """The mean over fires."""
    found = summarize(values)
    return Estimate(found.mean, found.error)


def estimate_loss(losses: Losses) -> Estimate:
    """What a fire is expected to cost: value where there is a map of it, else hectares."""
    return estimate_mean(losses.counted())


def estimate_difference(more: Losses, less: Losses) -> Estimate:
    """How much more is lost in the first case than in the second, fire by fire."""
    return estimate_mean(more.counted() - less.counted())


def share_saved(judgement: Judgement, policy: str, budget: int = -1) -> float:
    """The share of the loss that a plan saves; 0 where nothing is lost."""
    before = float(judgement.before.counted().mean())
    after = float(judgement.after[policy][budget].counted().mean())
    return 1.0 - after / before if before > 0 else 0.0


def format_interval(estimate: Estimate) -> str:
    """A loss, which is never below 0: 38.9 (36.1 to 41.7)."""
    if not math.isfinite(estimate.mean):
        return NOTHING
    if not math.isfinite(estimate.half):
        return format_rate(estimate.mean)
    low, high = format_rate(max(0.0, estimate.low)), format_rate(estimate.high)
    return f"{format_rate(estimate.mean)} ({low} to {high})"


def format_signed(estimate: Estimate) -> str:
    """+3.2 ± 0.4, and −3.2 ± 0.4 with a true minus sign."""
    if not math.isfinite(estimate.mean):
        return NOTHING
    sign = "−" if estimate.mean < 0 else "+"
    half = f" ± {format_rate(estimate.half)}" if math.isfinite(estimate.half) else ""
    return f"{sign}{format_rate(abs(estimate.mean))}{half}"
