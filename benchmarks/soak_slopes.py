"""Does a series grow? Slopes with confidence intervals, and what a day would make of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WARMUP = 1 / 3  # of the time: kernels, allocators and caches settle
BLOCKS = 10
#: Student's t by degrees of freedom, for intervals of 99.8 %: a dozen measures are judged, and with the usual 95 %
#: one of them would often grow by chance.
STUDENT = {1: 318.3, 2: 22.33, 3: 10.21, 4: 7.173, 5: 5.893, 6: 5.208, 7: 4.785, 8: 4.501}
#: What a day may add: a share of the level, or a number.
SHARE_PER_DAY, COUNT_PER_DAY = 0.10, 1.0


@dataclass(frozen=True)
class Slope:
    """Growth per hour, with its 99.8 % interval."""

    level: float
    per_hour: float
    low: float
    high: float

    def grows(self, is_count: bool) -> bool:
        """Whether growth is certain, and a day of it would matter."""
        allowed = COUNT_PER_DAY if is_count else SHARE_PER_DAY * self.level
        return self.low > 0 and self.per_hour * 24 > allowed


def measure_slope(seconds: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope after the warm-up; None if there are too few values.

    Neighboring values resemble each other, so that single ones would promise too much: the line is drawn through
    the means of a few blocks.
    """
    kept = [(s / 3600, v) for s, v in zip(seconds, values, strict=True) if s >= WARMUP * seconds[-1]]
    count = min(BLOCKS, len(kept))
    if count < 3:
        return None
    cuts = [round(at * len(kept) / count) for at in range(count + 1)]
    blocks = [kept[low:high] for low, high in pairwise(cuts)]
    times = [statistics.fmean(time for time, _ in block) for block in blocks]
    means = [statistics.fmean(value for _, value in block) for block in blocks]
    line = statistics.linear_regression(times, means)
    residuals = [v - line.intercept - line.slope * t for t, v in zip(times, means, strict=True)]
    spread = sum((t - statistics.fmean(times)) ** 2 for t in times)
    error = math.sqrt(sum(r * r for r in residuals) / (count - 2) / spread)
    half = STUDENT[count - 2] * error
    return Slope(statistics.fmean(means), line.slope, line.slope - half, line.slope + half)


def extrapolate_day(
    rate: float, unit_bytes: dict[str, float], every: dict[str, float]
) -> dict[str, dict[str, float]]:
    """On paper: how often each kind of file grows in 24 hours at `rate` transitions per second, and by how much.

    `unit_bytes`: bytes of one row, event or checkpoint. `every`: transitions between two of them.
    """
    day = rate * 86_400
    return {
        kind: {
            "count": day / every[kind],
            "mb_per_million": 1e6 / every[kind] * size / 1e6,
            "mb_per_day": day / every[kind] * size / 1e6,
        }
        for kind, size in unit_bytes.items()
    }
