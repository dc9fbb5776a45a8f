"""Workers as processes of this machine; a worker that dies or hangs is replaced."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import wait
from time import monotonic
from typing import Any

import numpy as np

from flashdqn.core.errors import EnvError
from flashdqn.learn.learner import Learner
from flashdqn.replay.pieces import Array, EnvStream, Piece
from flashdqn.training.workers.board import SharedBoard
from flashdqn.training.workers.channel import Channel
from flashdqn.training.workers.nursery import Ended, Nursery
from flashdqn.training.workers.spec import WorkerSpec
from flashdqn.training.workers.transport import FailureLimit, Loss
from flashdqn.training.workers.worker import Failed

#: Seconds between two looks for workers that hang.
LOOK = 0.5
#: Seconds that a worker may take to start, besides those that an environment may take to be made.
START_SECONDS = 60.0


class ProcessTransport:
    """Processes that share memory with the learner: weights and ε lie there, pieces come as messages."""

    def __init__(self, spec: WorkerSpec, workers: int, timeout: float, learner: Learner) -> None:
        self.spec, self.timeout = spec, timeout
        players = spec.config.envs
        self._weights = [tensor.detach() for tensor in learner.online.state_dict().values()]
        self._board = SharedBoard(self._weights, players)
        self._groups = [[int(i) for i in g] for g in np.array_split(range(players), min(workers, players))]
        self._life = [0] * len(self._groups)
        self._channels: dict[int, Channel] = {}  # by worker
        self._limit = FailureLimit(len(self._groups))
        self._reasons: dict[int, str] = {}  # why a worker will have ended, if that is known
        self._looked = 0.0
        self._nursery: Nursery | None = Nursery.start(self._board.handle)  # it loads PyTorch meanwhile

    def start(self, seed: int) -> None:
        """Start all workers."""
        assert self._nursery is not None
        self.spec = replace(self.spec, seed=seed)
        self._nursery.send_spec(self.spec)
        for worker in range(len(self._groups)):
            self._start_worker(worker)

    def publish(self, version: int) -> None:
        """Copy the weights to where the workers read them."""
        self._board.publish(self._weights, version)

    def set_eps(self, eps: Array) -> None:
        """Write ε where the workers read it."""
        self._board.eps[:] = eps

    def receive(self, seconds: float) -> list[Piece | Loss]:
        """What has arrived; waits at most `seconds`."""
        assert self._nursery is not None
        sources: list[Any] = [self._nursery.control, *self._channels.values()]
        arrived: list[Piece | Loss] = []
        for source in wait(sources, seconds):
            if isinstance(source, Channel):
                arrived += self._take_pieces(source)
            else:
                arrived += self._take_end()
        if (now := monotonic()) - self._looked > LOOK:
            self._looked = now
            self._end_hanging(now)
        return arrived

    def acknowledge(self, stream: EnvStream) -> None:
        """Allow one more piece."""
        worker = self._find_worker(stream.player)
        if worker in self._channels and stream.life == self._life[worker]:
            self._channels[worker].send_small(stream)

    def close(self) -> None:
        """End all processes."""
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
            for channel in self._channels.values():
                channel.close()
            self._channels.clear()
            self._board.close()

    def _start_worker(self, worker: int) -> None:
        assert self._nursery is not None
        streams = self._list_streams(worker)
        for stream in streams:
            self._board.pulse[stream.player] = monotonic() + START_SECONDS
        self._channels[worker] = self._nursery.start_worker(worker, streams)

    def _list_streams(self, worker: int) -> list[EnvStream]:
        return [EnvStream(player, self._life[worker]) for player in self._groups[worker]]

    def _find_worker(self, player: int) -> int:
        return next(worker for worker, group in enumerate(self._groups) if player in group)

    def _take_pieces(self, channel: Channel) -> list[Piece]:
        worker = next((number for number, known in self._channels.items() if known is channel), None)
        pieces: list[Piece] = []
        # None: its end was told in the same moment; what it had sent is taken, and another one has its place.
        if worker is None:
            return pieces
        for message in channel.receive():
            if isinstance(message, Failed):
                self._reasons[worker] = message.reason
            else:
                pieces.append(message)
                self._limit.note_piece(worker)
        if channel.ended:  # the nursery will say how it ended
            channel.close()
            del self._channels[worker]
        return pieces

    def _take_end(self) -> list[Piece | Loss]:
        """A worker has ended: take what it had sent, and start another in its place."""
        assert self._nursery is not None
        try:
            ended: Ended = self._nursery.control.recv()
        except (EOFError, OSError):
            raise EnvError("The process that makes the workers has ended: nobody can collect.") from None
        worker, left = ended.worker, []
        if (channel := self._channels.get(worker)) is not None:
            left = self._take_pieces(channel)
        if (channel := self._channels.pop(worker, None)) is not None:
            channel.close()
        reason = self._reasons.pop(worker, "") or describe_end(ended.code)
        self._limit.note_failure(worker, reason)
        loss = Loss(worker, tuple(self._list_streams(worker)), reason)
        self._life[worker] += 1
        self._start_worker(worker)
        return [*left, loss]

    def _end_hanging(self, now: float) -> None:
        """Kill workers in which a call of an environment takes too long."""
        assert self._nursery is not None
        for worker in list(self._channels):
            began = self._board.pulse[self._groups[worker]]
            if ((began > 0) & (now - began > self.timeout)).any() and worker not in self._reasons:
                self._reasons[worker] = f"an environment has not answered for {self.timeout:g} s"
                self._nursery.kill_worker(worker)


def describe_end(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    return f"its process was ended by {name}"
