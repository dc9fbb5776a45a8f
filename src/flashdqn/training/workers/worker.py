"""A worker process: it plays its environments, each by itself, until the learner is gone."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from flashdqn.core.blame import Failure, describe_failure
from flashdqn.core.contract import VecEnv
from flashdqn.core.signals import ignore_stop_signals
from flashdqn.replay.pieces import EnvStream, Piece
from flashdqn.training.workers.board import open_pulse
from flashdqn.training.workers.channel import Channel
from flashdqn.training.workers.player import EnvPlayer, WorkerPolicy
from flashdqn.training.workers.spec import CREDITS, WorkerSpec

#: Seconds between two looks whether the process that made this one still lives.
LOOK = 1.0


class Failed(NamedTuple):
    """What a worker sends before it ends: an environment, or the code around it, raised an error."""

    failure: Failure

    @property
    def reason(self) -> str:
        """What happened, without a period. Of our own errors, only the message is there."""
        return (str(self.failure) if self.failure.kind else self.failure.message).rstrip(". ")


class WorkerChannel(Protocol):
    """How a worker reaches its learner."""

    def send(self, message: Any) -> None:
        """Send a piece, or what went wrong."""

    def wait(self) -> list[EnvStream]:
        """Wait for the streams of pieces that the learner has acknowledged."""


class Worker:
    """The environments of one process. With several, each has a thread: a slow one does not hold up the others."""

    def __init__(
        self,
        spec: WorkerSpec,
        streams: list[EnvStream],
        board: int,
        channel: WorkerChannel,
        end: Callable[[], None],
    ) -> None:
        """`end` is called when it cannot go on."""
        self.spec, self.streams, self.board, self.channel = spec, streams, board, channel
        self.credits = {stream: threading.Semaphore(CREDITS) for stream in streams}
        self.pulse: Any = open_pulse(board, spec.config.envs)
        self._end = end
        self._policy: WorkerPolicy | None = None
        self._making, self._sending = threading.Lock(), threading.Lock()

    def run(self) -> None:
        """Play until something ends this process."""
        threading.Thread(target=self._take_acknowledgements, daemon=True).start()
        others = [threading.Thread(target=self._play, args=(s,), daemon=True) for s in self.streams[1:]]
        for thread in others:
            thread.start()
        self._play(self.streams[0])  # the main thread: some simulators work only there

    def _play(self, stream: EnvStream) -> None:
        try:
            EnvPlayer(self.spec, stream, self._find_policy, self._beat, self._send).play()
        except BaseException as error:  # any error of the environment's own code
            with suppress(OSError), self._sending:
                self.channel.send(Failed(describe_failure(error)))
        self._end()

    def _find_policy(self, env: VecEnv, stream: EnvStream) -> WorkerPolicy:
        with self._making:
            if self._policy is None:
                self._policy = WorkerPolicy(self.spec, env, stream, self.spec.config.envs, self.board)
            return self._policy

    def _beat(self, player: int, when: float) -> None:
        self.pulse[player] = when

    def _send(self, piece: Piece) -> None:
        self._beat(piece.stream.player, 0.0)  # it waits for the learner, however long
        self.credits[piece.stream].acquire()
        with self._sending:
            self.channel.send(piece)
        self._beat(piece.stream.player, monotonic())

    def _take_acknowledgements(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                for stream in self.channel.wait():
                    self.credits[stream].release()
        self._end()  # the learner is gone


def run_worker(spec: WorkerSpec, streams: list[EnvStream], board: int, channel: Channel) -> None:
    """What a forked process does."""
    with suppress(OSError):
        os.setpgid(0, 0)  # simulators that it starts belong to it, and end with it
    ignore_stop_signals()
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    part_generators(spec.make_seed(streams[0], 99))
    Worker(spec, streams, board, channel, end_group).run()


def part_generators(seed: int) -> None:
    """Forked processes would draw the same from the generators of Python and its libraries; some environments use
    these instead of their own."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def end_with_parent(parent: int) -> None:
    """End this process when the one that made it is gone, also if an environment hangs."""
    while os.getppid() == parent:
        sleep(LOOK)
    end_group()


def end_group() -> None:
    """End this process and all that its environments have started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
