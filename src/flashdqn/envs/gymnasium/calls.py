"""Calls into Gymnasium. Every error there becomes one `EnvFailureError` that says where."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from flashdqn.core.blame import Failure, belongs_to_us, describe_failure, env_error
from flashdqn.core.errors import EnvFailureError, EnvHangError
from flashdqn.core.guard import Guard
from flashdqn.envs.gymnasium.processes import ProcessVector
from flashdqn.envs.gymnasium.workers import WorkerError

#: vectors with worker processes
Worked = AsyncVectorEnv | ProcessVector

T = TypeVar("T")


class Calls:
    """`reset`, `step` and `close` of a vector environment; its worker processes may raise, die or hang."""

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, timeout: float) -> None:
        self.env, self.name, self.timeout = env, name, timeout
        self.guard = Guard(name, timeout)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        env = self.env
        if not isinstance(env, Worked):
            return self.guard.call("reset", env.reset, **arguments)

        def wait() -> tuple[Any, dict[str, Any]]:
            env.reset_async(**arguments)
            return env.reset_wait(self.timeout)

        return self._there(env, wait)

    def step(self, action: npt.NDArray[np.int64]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        env = self.env
        if not isinstance(env, Worked):
            return self.guard.call("step", env.step, action)

        def wait() -> tuple[Any, Any, Any, Any, dict[str, Any]]:
            env.step_async(action)
            return env.step_wait(self.timeout)

        return self._there(env, wait)

    def close(self) -> None:
        """Close the environments and their processes; the first error is raised when all are closed."""
        env = self.env
        if env.closed:
            return
        if isinstance(env, Worked):
            self._close_there(env)
            return
        each = [one.close for one in env.envs] if isinstance(env, SyncVectorEnv) else [env.close]
        problem: EnvFailureError | None = None
        for close in each:
            try:
                self.guard.call("close", close)
            except EnvFailureError as error:
                problem = problem or error
                if isinstance(error, EnvHangError):  # so would the others
                    break
        env.closed = True
        if problem is not None:
            raise problem

    def _there(self, env: Worked, call: Callable[[], T]) -> T:
        # Gymnasium reports a worker's traceback in warnings
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                return call()
            except multiprocessing.TimeoutError:
                problem = EnvFailureError(
                    f"{self.name}: a worker process has not answered for {self.timeout:g} s. It hangs, or a step "
                    "takes longer: then raise --env.timeout."
                )
            except (EOFError, OSError):
                problem = EnvFailureError(f"{self.name}: {describe_death(env)}")
            except WorkerError as error:
                problem = env_error(self.name, error.doing, error.failure)
            except BaseException as error:  # any error of the environment's own code
                if belongs_to_us(error):
                    raise
                failure = describe_failure(error)
                text = "".join(str(warning.message) for warning in said)
                if places := re.findall(r'File "(.+?)", line (\d+)', text):
                    failure = failure._replace(where=f"{places[-1][0]}, line {places[-1][1]}")
                problem = env_error(self.name, "step", failure)
        kill_workers(env)
        raise problem

    def _close_there(self, env: Worked) -> None:
        try:
            env.close_extras(timeout=5.0)
        except WorkerError as error:
            raise env_error(self.name, "close", error.failure) from None
        except (EOFError, OSError, multiprocessing.TimeoutError) as error:
            raise env_error(
                self.name, "close", Failure(type(error).__name__, "", "a worker process")
            ) from None
        finally:
            kill_workers(env)


def describe_death(env: Worked) -> str:
    """How a worker process ended."""
    # a pipe breaks before its process has ended: wait for that, but not forever
    gone = multiprocessing.connection.wait([p.sentinel for p in env.processes], timeout=5.0)
    for process in env.processes:
        if process.sentinel in gone:
            process.join(timeout=5.0)
    codes = [str(p.exitcode) for p in env.processes if p.exitcode is not None]
    return (
        f"a worker process died (exit code {', '.join(codes) or 'unknown'}; a negative "
        "one is the signal that killed it). Out of memory is a common cause."
    )


def kill_workers(env: Worked) -> None:
    """Kill all workers: a worker that hangs would not answer a request to end."""
    for process in env.processes:
        process.kill()
    for process in env.processes:
        process.join()
    for pipe in env.parent_pipes:
        if pipe is not None:
            pipe.close()
    env.closed = True
