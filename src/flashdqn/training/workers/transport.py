"""What the learner asks of its workers, however they are reached: here by processes of one machine.

Workers on other machines would be another class with these methods: weights and ε by messages instead of shared
memory, pieces by messages as here. Nothing else would change, because nobody outside a transport knows a process.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from flashdqn.replay.pieces import Array, EnvStream, Piece


class Loss(NamedTuple):
    """A worker is gone: it died, hangs, or its environment raised an error. The transport replaces it."""

    worker: int
    streams: tuple[EnvStream, ...]  # what it played
    reason: str


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
