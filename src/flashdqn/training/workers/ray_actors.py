"""Workers as Ray actors, on this machine or on others: weights, ε and pieces travel as messages.

An actor is the same worker as a process is. Its shared memory is its own, and the learner's messages are written
there; its channel is a queue, which the learner empties. Ray spreads the actors over its machines.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch

from flashdqn.core.errors import ConfigError
from flashdqn.core.signals import STOP_SIGNALS
from flashdqn.learn.learner import Learner
from flashdqn.replay.pieces import Array, EnvStream, Piece
from flashdqn.training.workers.board import SharedBoard
from flashdqn.training.workers.spec import WorkerSpec
from flashdqn.training.workers.transport import FailureLimit, Loss
from flashdqn.training.workers.worker import Failed, Worker, part_generators

#: Seconds that an actor waits for its first piece before it answers.
TAKE_SECONDS = 0.1
#: Seconds that an actor may take to start, besides those that an environment may take to be made.
START_SECONDS = 60.0


class QueueChannel:
    """In the place of sockets, inside an actor."""

    def __init__(self) -> None:
        self.pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.acknowledged: queue.SimpleQueue[EnvStream] = queue.SimpleQueue()

    def send(self, message: Any) -> None:
        """Leave a message for the learner."""
        self.pieces.put(message)

    def wait(self) -> list[EnvStream]:
        """Wait for the learner's acknowledgement."""
        return [self.acknowledged.get()]


class ActorWorker:
    """What runs in an actor."""

    def __init__(
        self, spec: WorkerSpec, streams: list[EnvStream], weights: list[Array], version: int
    ) -> None:
        torch.set_num_threads(1)
        part_generators(spec.make_seed(streams[0], 99))
        self.streams = streams
        self.board = SharedBoard([torch.from_numpy(array.copy()) for array in weights], spec.config.envs)
        self.board.eps[:] = 1.0
        self.set_weights(weights, version)
        for stream in streams:
            self.board.pulse[stream.player] = monotonic() + START_SECONDS
        self.channel = QueueChannel()
        worker = Worker(spec, streams, self.board.handle, self.channel, end=lambda: None)
        threading.Thread(target=worker.run, daemon=True).start()

    def set_weights(self, weights: list[Array], version: int) -> None:
        """Act with these weights from now on."""
        self.board.publish([torch.from_numpy(array.copy()) for array in weights], version)

    def set_eps(self, eps: Array) -> None:
        """Use these ε from now on."""
        self.board.eps[:] = eps

    def take(self, acknowledged: list[EnvStream]) -> tuple[list[Any], float]:
        """What was played, and for how many seconds an environment has not answered."""
        for stream in acknowledged:
            self.channel.acknowledged.put(stream)
        messages: list[Any] = []
        with suppress(queue.Empty):
            messages.append(self.channel.pieces.get(timeout=TAKE_SECONDS))
            while True:
                messages.append(self.channel.pieces.get_nowait())
        began = self.board.pulse[[stream.player for stream in self.streams]]
        return messages, float(np.where(began > 0, monotonic() - began, 0.0).max())


class RayTransport:
    """Actors of a Ray cluster: the one that RAY_ADDRESS names, or one that is started on this machine."""

    def __init__(self, spec: WorkerSpec, workers: int, timeout: float, learner: Learner) -> None:
        self.ray = import_ray()
        self.spec, self.timeout = spec, timeout
        players = spec.config.envs
        self._weights = [tensor.detach() for tensor in learner.online.state_dict().values()]
        self._version, self._shared = 0, None
        self._groups = [[int(i) for i in g] for g in np.array_split(range(players), min(workers, players))]
        self._life = [0] * len(self._groups)
        self._actors: dict[int, Any] = {}
        self._takes: dict[Any, int] = {}  # the worker that each pending call asks
        self._acknowledged: dict[int, list[EnvStream]] = {n: [] for n in range(len(self._groups))}
        self._limit = FailureLimit(len(self._groups))
        self._own = not self.ray.is_initialized()
        if self._own:
            connect_ray(self.ray)

    def start(self, seed: int) -> None:
        """Start all actors."""
        self.spec = replace(self.spec, seed=seed)
        for worker in range(len(self._groups)):
            self._start_actor(worker)

    def publish(self, version: int) -> None:
        """Send the weights to all actors, through Ray's store of objects."""
        self._version = version
        self._shared = self.ray.put([tensor.cpu().numpy().copy() for tensor in self._weights])
        for actor in self._actors.values():
            actor.set_weights.remote(self._shared, version)

    def set_eps(self, eps: Array) -> None:
        """Send ε to all actors."""
        for actor in self._actors.values():
            actor.set_eps.remote(eps)

    def receive(self, seconds: float) -> list[Piece | Loss]:
        """What has arrived; waits at most `seconds`."""
        done, _ = self.ray.wait(list(self._takes), num_returns=1, timeout=seconds)
        more, _ = self.ray.wait(list(self._takes), num_returns=len(self._takes), timeout=0)
        arrived: list[Piece | Loss] = []
        for call in {*done, *more}:
            arrived += self._answer(call)
        return arrived

    def acknowledge(self, stream: EnvStream) -> None:
        """Allow one more piece, with the next call."""
        worker = next(number for number, group in enumerate(self._groups) if stream.player in group)
        if stream.life == self._life[worker]:
            self._acknowledged[worker].append(stream)

    def close(self) -> None:
        """End all actors, and the cluster if it was started here."""
        if not self.ray.is_initialized():
            return
        for actor in self._actors.values():
            self.ray.kill(actor)
        self._actors.clear()
        self._takes.clear()
        if self._own:
            self.ray.shutdown()

    def _start_actor(self, worker: int) -> None:
        path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        make = self.ray.remote(
            num_cpus=0,
            max_concurrency=4,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"PYTHONPATH": path}},
        )(ActorWorker)
        self._actors[worker] = make.remote(self.spec, self._list_streams(worker), self._shared, self._version)
        self._ask(worker)

    def _list_streams(self, worker: int) -> list[EnvStream]:
        return [EnvStream(player, self._life[worker]) for player in self._groups[worker]]

    def _ask(self, worker: int) -> None:
        waiting, self._acknowledged[worker] = self._acknowledged[worker], []
        self._takes[self._actors[worker].take.remote(waiting)] = worker

    def _answer(self, call: Any) -> list[Piece | Loss]:
        """Read an actor's answer and ask again, or replace it."""
        worker = self._takes.pop(call)
        try:
            messages, silent = self.ray.get(call)
        except self.ray.exceptions.RayError as error:
            return [self._replace(worker, f"its actor is gone ({type(error).__name__})")]
        pieces: list[Piece | Loss] = [message for message in messages if not isinstance(message, Failed)]
        if pieces:
            self._limit.note_piece(worker)
        if failed := next((message for message in messages if isinstance(message, Failed)), None):
            return [*pieces, self._replace(worker, failed.reason)]
        if silent > self.timeout:
            return [*pieces, self._replace(worker, f"an environment has not answered for {self.timeout:g} s")]
        self._ask(worker)
        return pieces

    def _replace(self, worker: int, reason: str) -> Loss:
        self.ray.kill(self._actors.pop(worker))
        self._limit.note_failure(worker, reason)
        loss = Loss(worker, tuple(self._list_streams(worker)), reason)
        self._life[worker] += 1
        self._acknowledged[worker] = []
        self._start_actor(worker)
        return loss


def import_ray() -> Any:
    """Ray, or a sentence that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ConfigError("env.transport ray needs Ray: pip install 'flashdqn[ray]'.") from None
    return ray


def connect_ray(ray: Any) -> None:
    """Connect to the cluster that RAY_ADDRESS names, or start one here."""
    address = os.environ.get("RAY_ADDRESS", "")
    here = {} if address else {"address": "local", "include_dashboard": False}
    try:
        with warnings.catch_warnings(), keep_signal_handlers():
            warnings.simplefilter("ignore")
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **here)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        where = f"at {address}" if address else "on this machine"
        raise ConfigError(
            f"Ray {where} cannot be reached: {str(error).splitlines()[0].rstrip('.')}. Look at RAY_ADDRESS, or use "
            "--env.transport processes."
        ) from None


@contextmanager
def keep_signal_handlers() -> Iterator[None]:
    """Ray sets handlers of its own: a signal must still save the training."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.getsignal(name) for name in STOP_SIGNALS}
    try:
        yield
    finally:
        for name, handler in before.items():
            if signal.getsignal(name) != handler:
                signal.signal(name, handler)
