"""The numbers of transitions, episodes and updates; the host reads them without stopping the device."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor


class Counts:
    """Totals on the device, and the host's view of them.

    On the CPU the host reads them as they are. On CUDA each iteration's totals travel to pinned memory behind
    the work, and the host reads those of `LAG` iterations ago: a fixed number, so runs stay reproducible. Where
    several iterations are launched together, it is that many launches.
    """

    LAG = 2

    def __init__(self, device: torch.device) -> None:
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

    def publish(self, iterations: int = 1) -> None:
        """Send the totals to the host: once per launch of `iterations`, after they were raised."""
        if self.board.device.type == "cpu":
            self.transitions, self.episodes, self.updates = self.board.tolist()
            return
        copy, event = self._idle.pop() if self._idle else make_pinned_totals()
        copy.copy_(self.board, non_blocking=True)
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
        transitions, episodes = self.totals.tolist()
        return transitions, episodes

    def load(self, transitions: int, episodes: int, updates: int = 0) -> None:
        """Continue from a checkpoint."""
        self._traveling.clear()
        self.unseen = 0
        self.transitions, self.episodes, self.updates = transitions, episodes, updates
        self.board.copy_(torch.tensor([transitions, episodes, updates]))

    def note_updates(self, updates: int) -> None:
        """Let the device count on from the host's number of updates."""
        self.updates = updates
        self.board[2:].fill_(updates)

    def _arrive(self) -> None:
        copy, event, iterations = self._traveling.popleft()
        event.synchronize()
        self.transitions, self.episodes, self.updates = copy.tolist()
        self.unseen -= iterations
        self._idle.append((copy, event))


def make_pinned_totals() -> tuple[Tensor, torch.cuda.Event]:
    """Pinned memory for the totals, and the event that says that they have arrived."""
    event = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]
    return torch.empty(3, dtype=torch.int64, pin_memory=True), event
