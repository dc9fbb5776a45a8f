"""Means over runs with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flashdqn.show.numbers import format_rate

#: Student's t, two-sided 95%, by degrees of freedom
T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def mean_with_interval(scores: Sequence[float]) -> tuple[float, float]:
    """The mean over runs, and half of its 95% interval by Student's t; NaN for a single run."""
    known = [score for score in scores if math.isfinite(score)]
    if not known:
        return math.nan, math.nan
    mean = sum(known) / len(known)
    if len(known) == 1:
        return mean, math.nan
    variance = sum((score - mean) ** 2 for score in known) / (len(known) - 1)
    t = T95[min(len(known) - 1, len(T95)) - 1]
    return mean, t * math.sqrt(variance / len(known))


def format_score_interval(score: float, half: float) -> str:
    """A score and its interval, as text: 38.9 ± 1.1."""
    if not math.isfinite(score):
        return "–"
    return f"{format_rate(score)} ± {format_rate(half)}" if math.isfinite(half) else format_rate(score)
