"""What the learner asks of its workers, however they are reached: as processes of this machine (`processes.py`), or
as actors on others (`ray_actors.py`). Nobody outside a transport knows a process."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from flashdqn.core.errors import EnvFailureError
from flashdqn.replay.pieces import Array, EnvStream, Piece

#: A worker that fails so often in a row, without a single piece in between, ends the training.
MOST_FAILURES = 3


class Loss(NamedTuple):
    """A worker is gone: it died, hangs, or its environment raised an error. The transport replaces it."""

    worker: int
    streams: tuple[EnvStream, ...]  # what it played
    reason: str


class FailureLimit:
    """Ends a training whose workers always fail: replacing them would go on for ever."""

    def __init__(self, workers: int) -> None:
        self._in_a_row = [0] * workers  # failures of each, without a piece in between
        self._delivered = False  # whether any worker has ever sent a piece

    def note_piece(self, worker: int) -> None:
        """A worker has sent something."""
        self._in_a_row[worker], self._delivered = 0, True

    def note_failure(self, worker: int, reason: str) -> None:
        """A worker has failed. Raises if it was the first thing that happened, or happens again and again."""
        self._in_a_row[worker] += 1
        times = self._in_a_row[worker]
        if self._delivered and times < MOST_FAILURES:
            return
        often = "" if times == 1 else f" {times} times in a row, without a step in between"
        raise EnvFailureError(f"Worker {worker} of {len(self._in_a_row)} failed{often}: {reason}.")


class Transport(Protocol):
    """Workers that play and send pieces; what they need from the learner, and what they send."""

    def start(self, seed: int) -> None:
        """Start all workers. Games depend on the seed; what is learned depends on time, too."""

    def publish(self, version: int) -> None:
        """Let workers act with the current weights, which are the result of `version` gradient steps."""

    def set_eps(self, eps: Array) -> None:
        """Set ε of every environment, [N]."""

    def receive(self, seconds: float) -> list[Piece | Loss]:
        """What has arrived; waits at most `seconds` for the first."""

    def acknowledge(self, stream: EnvStream) -> None:
        """Allow the worker of this stream one more piece: those that are not acknowledged are limited."""

    def close(self) -> None:
        """End all workers; nothing is left running."""
