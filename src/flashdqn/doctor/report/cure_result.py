"""What came of a cure or a patch that was tried: plain data for the terminal, JSON and the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CureResult:
    """A cure or a patch that was tried: the script with it, in turns with the untouched script."""

    cure: str
    finding: str
    """The name of the finding that it answers."""
    what: str
    """What was changed."""
    predicted: float
    """The finding's prediction; 1.0: not about speed."""
    measured: float
    """How many times as fast it was over the same work; NaN if it could not be measured."""
    low: float
    high: float
    """The interval of 95%; zero and infinity with a single pair of runs."""
    cpu: float
    """The same by CPU time, which a busy machine changes less; NaN if it could not be measured."""
    cpu_low: float
    cpu_high: float
    pairs: int
    numbers: str
    """`equal`, `rounded`, `different` or `unknown`."""
    numbers_because: str
    """The same in words."""
    load: float
    """The machine's highest load meanwhile: processes that wanted to run."""
    busy: bool
    """Whether others kept the cores busy meanwhile: then CPU time may decide what the clock cannot."""
    verdict: str
    """One sentence."""
    patch: str = ""
    """For a patch: the unified diff."""
    kept: bool = False
    """For a patch: whether it is in the file that was written."""
    changes: str = ""
    """What it may change in the numbers, in words; empty: nothing."""

    @property
    def is_faster(self) -> bool:
        """Whether it is faster by more than chance: by the clock, or on a busy machine by CPU time."""
        by_cpu = self.busy and self.measured > 1.0 and self.cpu_low > 1.0
        return self.pairs > 1 and (self.low > 1.0 or by_cpu)
