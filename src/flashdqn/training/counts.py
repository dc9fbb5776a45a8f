"""The numbers of transitions, episodes and updates; the host reads them without stopping the device."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks


class Wishes(NamedTuple):
    """What the host of a rank tells the others with the totals, as whole numbers: the others get the sums."""

    interrupts: int = 0  # Ctrl-C
    signals: int = 0  # any other signal that asks to end
    late: int = 0  # the leader's clock asks for a checkpoint
    microseconds: int = 0  # the leader's training time


class Counts:
    """Totals on the device, and the host's view of them.

    On the CPU the host reads them as they are. On CUDA each iteration's totals travel to pinned memory behind
    the work, and the host reads those of `LAG` iterations ago: a fixed number, so runs stay reproducible. Where
    several iterations are launched together, it is that many launches.

    Ranks publish together: the host's view, `transitions` and `episodes`, is that of all of them, and `agreed` what
    their hosts wish. So all decide the same in the same iteration. `board` and `totals` are this rank's own.
    """

    LAG = 2

    def __init__(self, device: torch.device, ranks: Ranks = ALONE) -> None:
        # transitions, episodes and, where the device decides on them, updates
        self.board = torch.zeros(3, dtype=torch.int64, device=device)
        self.totals = self.board[:2]
        self.transitions = 0
        self.episodes = 0
        self.updates = 0
        self.unseen = 0  # iterations that the host's view does not contain yet
        self._traveling: deque[tuple[Tensor, torch.cuda.Event, int]] = deque()
        # Pinned memory is expensive to allocate: it is reused.
        self._idle: list[tuple[Tensor, torch.cuda.Event]] = []
        self.ranks, self.wishes, self.agreed = ranks, Wishes(), Wishes()
        length = len(self.board) + len(Wishes._fields) if ranks.many else len(self.board)
        self._together = torch.zeros(length, dtype=torch.int64, device=device)
        self._told = torch.zeros(len(Wishes._fields), dtype=torch.int64, pin_memory=device.type == "cuda")

    def publish(self, iterations: int = 1) -> None:
        """Send the totals to the host: once per launch of `iterations`, after they were raised."""
        board = self._add_up() if self.ranks.many else self.board
        if board.device.type == "cpu":
            self._take(board)
            return
        copy, event = self._idle.pop() if self._idle else make_pinned_totals(len(board))
        copy.copy_(board, non_blocking=True)
        event.record()
        self._traveling.append((copy, event, iterations))
        self.unseen += iterations
        if len(self._traveling) > self.LAG:
            self._arrive()

    def settle(self) -> None:
        """Wait until the host has the newest totals: for checkpoints and the end."""
        while self._traveling:
            self._arrive()

    def read_newest(self) -> tuple[int, int]:
        """The newest transitions and episodes, without telling the host's view of them."""
        totals = self.totals
        if self.ranks.many:
            totals = totals.clone()
            self.ranks.sum_(totals)
        transitions, episodes = totals.tolist()
        return transitions, episodes

    def load(self, transitions: int, episodes: int, updates: int = 0) -> None:
        """Continue from a checkpoint."""
        self._traveling.clear()
        self.unseen = 0
        self.transitions, self.episodes, self.updates = transitions, episodes, updates
        self.wishes, self.agreed = Wishes(), Wishes()
        self.board.copy_(torch.tensor([transitions, episodes, updates] if self.ranks.leads else [0, 0, 0]))

    def note_updates(self, updates: int) -> None:
        """Let the device count on from the host's number of updates."""
        self.updates = updates
        self.board[2:].fill_(updates)

    def _arrive(self) -> None:
        copy, event, iterations = self._traveling.popleft()
        event.synchronize()
        self._take(copy)
        self.unseen -= iterations
        self._idle.append((copy, event))

    def _add_up(self) -> Tensor:
        """The totals and wishes of all ranks together: one exchange of a few numbers."""
        start = time.perf_counter()
        together, own = self._together, len(self.board)
        together[:own].copy_(self.board)
        self._told.copy_(torch.tensor(self.wishes))
        together[own:].copy_(self._told, non_blocking=True)
        self.ranks.sum_(together)
        self.ranks.waited.counts += time.perf_counter() - start
        return together

    def _take(self, board: Tensor) -> None:
        self.transitions, self.episodes, self.updates, *wishes = board.tolist()
        if wishes:
            self.agreed = Wishes(*wishes)


def make_pinned_totals(length: int) -> tuple[Tensor, torch.cuda.Event]:
    """Pinned memory for the totals, and the event that says that they have arrived."""
    event = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]
    return torch.empty(length, dtype=torch.int64, pin_memory=True), event
