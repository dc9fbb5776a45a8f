"""The train ratio: gradient steps per collected transition, exact over time."""

from __future__ import annotations

from fractions import Fraction


class TrainRatio:
    """Says how many updates are due. Whole-number arithmetic: no drift, whatever the number of environments.

    Transitions collected before `starts` earn no updates, so that none are caught up in a burst.
    """

    def __init__(self, ratio: float, starts: int) -> None:
        self.ratio = Fraction(repr(float(ratio)))
        self.starts = starts

    def due(self, transitions: int, updates: int) -> int:
        """Updates to do now, for all that was collected and done so far."""
        earned = (max(0, transitions - self.starts) * self.ratio).__floor__()
        return max(0, earned - updates)

    def achieved(self, transitions: int, updates: int) -> float:
        """The ratio that was really kept since learning started."""
        return updates / (transitions - self.starts) if transitions > self.starts else 0.0
