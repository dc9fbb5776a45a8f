"""What all worker processes of environments share: their errors, their answers, and how they begin."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from time import monotonic, sleep
from typing import Any, NamedTuple

from flashdqn.core.blame import Failure
from flashdqn.core.signals import ignore_stop_signals

#: After this many seconds a line says that a worker is being waited for.
SAY_AFTER = 10.0
#: Seconds in which all workers must have closed their environments.
CLOSE_SECONDS = 5.0

_log = logging.getLogger("flashdqn")


class WorkerError(Exception):
    """An environment raised an error in a worker process, while `doing` something."""

    def __init__(self, failure: Failure, doing: str = "step") -> None:
        super().__init__(failure.message)
        self.failure, self.doing = failure, doing
        self.kind, self.where = failure.kind, failure.where


class WorkerAnswer(NamedTuple):
    """What a worker sends when an environment failed."""

    failure: Failure
    doing: str


def wait_for_answer(pipe: Any, process: Any, stop: float | None) -> None:
    """Wait until a worker has answered. After a while, a line says so."""
    start, told = monotonic(), False
    while not pipe.poll(0.5):
        now = monotonic()
        if stop is not None and now > stop:
            raise multiprocessing.TimeoutError
        if not process.is_alive() and not pipe.poll(0.1):  # a child of its own may keep the pipe open
            raise EOFError
        if now - start > SAY_AFTER and not told:
            told = True
            _log.warning("Waiting for the process '%s' since %g s", process.name, SAY_AFTER)


def prepare_worker(other_end: Any) -> None:
    """What every worker process does first."""
    ignore_stop_signals()
    other_end.close()  # so this process notices when the trainer has ended
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """End this process when the trainer is gone, also if an environment hangs."""
    while os.getppid() == parent:
        sleep(2.0)
    os._exit(1)
