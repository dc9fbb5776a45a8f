"""What every kind of fault returns: how many were tried, and which of them did harm.

Each module in this folder is one kind and has `try_faults(effort, folder)`: `effort` 1.0 is the full bench, a small
number the short form for `make test`; `folder` is empty, and the module may write there. It returns `Tally`s, one
for each row of the table that `benchmarks/faults.py` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Case = TypeVar("Case")


@dataclass
class Tally:
    """One row of the table: faults of one kind."""

    kind: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)
    note: str = ""

    def check(self, survived: bool, what: str) -> None:
        """Count one fault; `what` says what was done and what came of it, and is kept if it did harm."""
        self.tried += 1
        if not survived:
            self.failures.append(what)

    @property
    def survived(self) -> int:
        """Faults that did no harm."""
        return self.tried - len(self.failures)


#: Which part of the cases this process tries: (0, 1) is all of them, (2, 5) the third of five parts.
SHARE = [0, 1]


def share_cases(cases: Sequence[Case]) -> Sequence[Case]:
    """The cases of this process; the others are tried by other processes."""
    return cases[SHARE[0] :: SHARE[1]]


def scale_count(count: int, effort: float, least: int = 1) -> int:
    """How many faults to try: `count` in the full bench, fewer with less effort."""
    return max(least, round(count * effort))
