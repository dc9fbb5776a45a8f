"""The process that makes workers: it has loaded PyTorch once, and forks a worker in milliseconds.

The learner itself cannot fork: its threads, and CUDA, would not survive it. And a new Python for every worker would
load PyTorch every time. This process has no threads and computes nothing. It ends, with all workers, when the
learner does, whatever ended that.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, NamedTuple

from flashdqn.core.signals import hold_stop_signals, ignore_stop_signals
from flashdqn.replay.pieces import EnvStream
from flashdqn.training.workers.channel import Channel
from flashdqn.training.workers.spec import WorkerSpec

#: How it starts. It looks for modules where the learner does.
START = "import sys; sys.path[:] = sys.argv[3:]; from flashdqn.training.workers.nursery import serve; serve()"
#: Seconds between two looks at the workers.
LOOK = 0.2


class StartWorker(NamedTuple):
    """Make a worker; the handle of its connection follows."""

    worker: int
    streams: list[EnvStream]


class KillWorker(NamedTuple):
    """End a worker at once."""

    worker: int


class Ended(NamedTuple):
    """A worker has ended, with an exit code or, negative, by a signal."""

    worker: int
    streams: list[EnvStream]
    code: int


@dataclass
class Nursery:
    """The learner's side."""

    process: subprocess.Popen[bytes]
    control: Connection

    @classmethod
    def start(cls, board: int) -> Nursery:
        """Start the process; `board` is the handle of the shared memory."""
        ours, theirs = socket.socketpair()
        here = str(Path.cwd())
        path = [folder or here for folder in sys.path]
        handles = (theirs.fileno(), board)
        with hold_stop_signals():
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, *map(str, handles), *path], pass_fds=handles
            )
        theirs.close()
        return cls(process, Connection(ours.detach()))

    def send_spec(self, spec: WorkerSpec) -> None:
        """Say what all workers must know; once, before the first."""
        self.control.send(spec)

    def start_worker(self, worker: int, streams: list[EnvStream]) -> Channel:
        """Have a worker made; returns the channel to it."""
        ours, theirs = socket.socketpair()
        self.control.send(StartWorker(worker, streams))
        send_handle(self.control, theirs.fileno(), self.process.pid)
        theirs.close()
        return Channel(ours)

    def kill_worker(self, worker: int) -> None:
        """End a worker at once."""
        with suppress(OSError):
            self.control.send(KillWorker(worker))

    def close(self) -> None:
        """End it and all workers."""
        with suppress(OSError):
            self.control.close()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve() -> None:
    """The process itself."""
    ignore_stop_signals()
    control, board = Connection(int(sys.argv[1])), int(sys.argv[2])
    os.set_inheritable(control.fileno(), False)
    importlib.import_module("flashdqn.training.workers.worker")  # loads PyTorch
    workers: dict[int, StartWorker] = {}
    spec: WorkerSpec | None = None
    with suppress(EOFError, OSError):
        while True:
            if wait([control], LOOK):
                message: Any = control.recv()
                if isinstance(message, WorkerSpec):
                    spec = message
                elif isinstance(message, StartWorker):
                    assert spec is not None
                    workers[fork_worker(spec, message, board, control)] = message
                else:
                    end_groups([process for process, w in workers.items() if w.worker == message.worker])
            report_ended(control, workers)
    end_groups(list(workers))


def fork_worker(spec: WorkerSpec, message: StartWorker, board: int, control: Connection) -> int:
    """Make a worker; returns the number of its process."""
    from flashdqn.training.workers.worker import run_worker

    end = socket.socket(fileno=recv_handle(control))
    end.set_inheritable(False)  # a simulator that the worker starts must not keep it open
    if process := os.fork():
        end.close()
        return process
    control.close()
    try:
        run_worker(spec, message.streams, board, Channel(end))
    finally:
        os._exit(1)


def report_ended(control: Connection, workers: dict[int, StartWorker]) -> None:
    """Tell the learner of workers that have ended."""
    while workers:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        if (was := workers.pop(process, None)) is not None:
            end_groups([process])  # what its environments have left
            control.send(Ended(*was, os.waitstatus_to_exitcode(status)))


def end_groups(processes: list[int]) -> None:
    """Kill workers with all that their environments have started."""
    for process in processes:
        with suppress(OSError):
            os.killpg(process, signal.SIGKILL)
