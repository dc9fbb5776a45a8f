"""How much faster a cured run was, over the same work: from one number of transitions to another."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from flashdqn.doctor.watch.trial_rows import TrialProgress, TrialRecord

SETTLE = 0.1
"""The first tenth of the common work is left out: caches, allocators and first uses."""
LEAST_SECONDS = 0.1
"""Less common work than this says nothing."""
LEAST_REACH = 0.005
"""No interval is narrower than half a percent to each side: clocks and counts are no better."""
#: Student's t for a two-sided interval of 95%, by the number of values less one.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


@dataclass(frozen=True)
class Interval:
    """A factor, and where it lies with a certainty of 95%."""

    middle: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """Whether it is more than 1, by more than chance."""
        return self.low > 1.0

    @property
    def is_slower(self) -> bool:
        """Whether it is less than 1, by more than chance."""
        return self.high < 1.0


@dataclass(frozen=True)
class Work:
    """A stretch of work that several runs have all done."""

    unit: str
    """`transitions` or `updates`."""
    first: float
    last: float


def choose_unit(runs: Sequence[TrialRecord]) -> str:
    """Transitions where they were counted; otherwise updates."""
    return "transitions" if all(run.series and run.series[-1].transitions for run in runs) else "updates"


def find_common_work(runs: Sequence[TrialRecord], unit: str = "") -> Work | None:
    """The work that all runs have done after each began to train; None if there is none."""
    if not all(run.series for run in runs):
        return None
    unit = unit or choose_unit(runs)
    first = max(count_at_start(run, unit) for run in runs)
    last = min(float(getattr(run.series[-1], unit)) for run in runs)
    work = Work(unit, first + SETTLE * (last - first), last)
    if last <= first or any(measure_seconds(run, work) < LEAST_SECONDS for run in runs):
        return None
    return work


def count_at_start(run: TrialRecord, unit: str) -> float:
    """The work done when updates began, and when the last compilation was over."""
    trains = any(row.updates for row in run.series)
    for row in run.series:
        if row.time >= run.compiled and (row.updates or not trains):
            return float(getattr(row, unit))
    return float(getattr(run.series[-1], unit))


def measure_seconds(run: TrialRecord, work: Work, clock: str = "time") -> float:
    """Seconds from one count to another; `clock` is `time` or `cpu`."""
    return read_clock(run.series, work.unit, work.last, clock) - read_clock(
        run.series, work.unit, work.first, clock
    )


def read_clock(series: Sequence[TrialProgress], unit: str, count: float, clock: str) -> float:
    """When a count was reached, between the two rows around it."""
    counts = [float(getattr(row, unit)) for row in series]
    i = bisect_left(counts, count)
    if i == 0:
        return float(getattr(series[0], clock))
    if i == len(series):
        return float(getattr(series[-1], clock))
    before, after = series[i - 1], series[i]
    share = (count - counts[i - 1]) / (counts[i] - counts[i - 1])
    start, end = float(getattr(before, clock)), float(getattr(after, clock))
    return start + share * (end - start)


def measure_gains(
    untouched: Sequence[TrialRecord], cured: Sequence[TrialRecord], clock: str = "time", unit: str = ""
) -> list[float]:
    """For each cured run, the untouched seconds over its own: with the untouched runs before and after it."""
    gains = []
    for number, run in enumerate(cured):
        neighbors = untouched[number : number + 2]
        work = find_common_work([run, *neighbors], unit) if neighbors else None
        if work is None:
            continue
        before = statistics.geometric_mean(measure_seconds(other, work, clock) for other in neighbors)
        gains.append(before / max(measure_seconds(run, work, clock), 1e-9))
    return gains


def measure_noise(untouched: Sequence[TrialRecord]) -> list[float]:
    """How many times as fast each untouched run was as the one before it: what chance alone does."""
    found = []
    for first, second in pairwise(untouched):
        work = find_common_work([first, second])
        if work is not None:
            found.append(measure_seconds(first, work) / measure_seconds(second, work))
    return found


def compute_interval(gains: Sequence[float]) -> Interval:
    """The mean of factors, by their logarithms, and its interval; without an end where there is one factor only."""
    logs = [math.log(gain) for gain in gains]
    middle = math.exp(statistics.fmean(logs))
    if len(logs) < 2:
        return Interval(middle, 0.0, math.inf)
    student = STUDENT[min(len(logs) - 2, len(STUDENT) - 1)]
    reach = max(student * statistics.stdev(logs) / math.sqrt(len(logs)), LEAST_REACH)
    return Interval(middle, middle * math.exp(-reach), middle * math.exp(reach))
