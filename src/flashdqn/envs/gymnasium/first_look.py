"""A first look at an environment, in a process of its own: making one may hang or end the process."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import gymnasium
from gymnasium.vector.utils import CloudpickleWrapper

from flashdqn.core.blame import Failure, describe_failure
from flashdqn.core.signals import hold_stop_signals
from flashdqn.envs.gymnasium.workers import (
    CLOSE_SECONDS,
    WorkerAnswer,
    WorkerError,
    prepare_worker,
    wait_for_answer,
)

Make = Callable[[], gymnasium.Env[Any, Any]]


def read_spaces(make: Make, timeout: float | None, with_reset: bool = False) -> tuple[Any, Any]:
    """The spaces of observations and actions. `with_reset`: resetting and closing the environment must not hang or
    end the process either."""
    context = multiprocessing.get_context()
    ours, theirs = context.Pipe()
    process = context.Process(
        target=show_spaces,
        args=(CloudpickleWrapper(make), with_reset, theirs, ours),
        name="environments, a first look",
        daemon=True,
    )
    with hold_stop_signals():
        process.start()
    theirs.close()
    doing = "make"
    try:
        spaces = _receive_look(ours, process, timeout)
        if with_reset:
            for doing, limit in (("reset", timeout), ("close", CLOSE_SECONDS)):
                with _name_hang(doing):
                    _receive_look(ours, process, limit)
        elif ours.poll(2.0):
            doing = "close"
            ours.recv()
    except EOFError:
        process.join(timeout=5.0)
        died = Failure("its process died", f"exit code {process.exitcode}", "a worker process")
        raise WorkerError(died, doing) from None
    finally:
        process.join(timeout=0.0 if sys.exc_info()[0] else 2.0)
        process.kill()
        process.join()
        ours.close()
    shown: tuple[Any, Any] = spaces.fn
    return shown


def _receive_look(pipe: Any, process: Any, timeout: float | None) -> Any:
    """The next answer of a process that looks at an environment."""
    wait_for_answer(pipe, process, None if timeout is None else monotonic() + timeout)
    answer = pipe.recv()
    if isinstance(answer, WorkerAnswer):
        raise WorkerError(answer.failure, answer.doing)
    return answer


@contextmanager
def _name_hang(doing: str) -> Iterator[None]:
    """A time that has passed becomes an error that says while doing what."""
    try:
        yield
    except multiprocessing.TimeoutError:
        raise WorkerError(Failure("it hangs", f"in `{doing}`", "a worker process"), doing) from None


def show_spaces(make: CloudpickleWrapper[Any], with_reset: bool, pipe: Any, other_end: Any) -> None:
    """Send the spaces of one environment; then say when it was reset, if that is asked, and closed."""
    prepare_worker(other_end)
    doing = "make"
    try:
        env = make.fn()
        pipe.send(CloudpickleWrapper((env.observation_space, env.action_space)))  # type: ignore[arg-type]
        if with_reset:
            doing = "reset"
            env.reset(seed=0)
            pipe.send("reset")
    except BaseException as error:
        pipe.send(WorkerAnswer(describe_failure(error), doing))
        return
    with suppress(BaseException):
        env.close()
    pipe.send("closed")
