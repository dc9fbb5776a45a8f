"""What the ranks of a training agree on: when to stop, when to save by the clock, and how much time is spent.

Each tells the others what it wishes with its counts, and all act on the sum: so they do the same after the same
step. A single process asks its own clock and its own signals.
"""

from __future__ import annotations

import signal

from flashdqn.compute.ranks import Ranks
from flashdqn.core.signals import Interrupt
from flashdqn.training.budget import SaveClock
from flashdqn.training.counts import Counts, Wishes


class RankAgreement:
    """This rank's wishes, and what all ranks have agreed on."""

    def __init__(self, counts: Counts, ranks: Ranks, checkpoint_minutes: float) -> None:
        self._counts, self._ranks = counts, ranks
        self.save_clock = SaveClock(checkpoint_minutes)
        self._told_late = False  # the other ranks know that the clock asks for a checkpoint

    def tell_wishes(self, interrupt: Interrupt, seconds: float) -> None:
        """Tell the others a signal that this rank has got and, if it leads, what its clock says: `seconds` of
        training, and whether a checkpoint is due."""
        if not self._ranks.many:
            return
        asked, leads = interrupt.signal, self._ranks.leads
        late = leads and not self._told_late and self.save_clock.is_due()
        self._told_late = self._told_late or late
        self._counts.wishes = Wishes(
            int(asked is not None and asked == signal.SIGINT),
            int(asked is not None and asked != signal.SIGINT),
            int(late),
            int(1e6 * seconds) if leads else 0,
        )

    def is_stopping(self, interrupt: Interrupt) -> bool:
        """Whether a signal has asked to end. Ranks wait until all of them know."""
        if not self._ranks.many:
            return interrupt.requested
        agreed = self._counts.agreed
        if agreed.interrupts or agreed.signals:
            interrupt.adopt(signal.SIGTERM if agreed.signals else signal.SIGINT)
            return True
        return False

    def is_late(self) -> bool:
        """Whether the clock asks for a checkpoint: the leader's, if there are several ranks."""
        return bool(self._counts.agreed.late) if self._ranks.many else self.save_clock.is_due()

    def note_saved(self) -> None:
        """A checkpoint was written: the clock may ask for the next."""
        self._told_late = False

    def choose_seconds(self, own: float, before: float) -> float:
        """Training time that counts for the budget: by the leader's clock, as all ranks know it; at least that of
        the sessions before."""
        return max(before, self._counts.agreed.microseconds / 1e6) if self._ranks.many else own
