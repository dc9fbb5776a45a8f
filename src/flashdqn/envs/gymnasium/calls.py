"""Calls into Gymnasium. Every error there becomes one `EnvError` that says where."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, VectorEnv

from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.processes import ProcessVector, WorkerError

#: vectors with worker processes
Worked = AsyncVectorEnv | ProcessVector

T = TypeVar("T")


class Calls:
    """`reset`, `step` and `close` of a vector environment; its worker processes may raise, die or hang."""

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, timeout: float) -> None:
        self.env, self.name, self.timeout = env, name, timeout

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        env = self.env
        if not isinstance(env, Worked):
            return self._here(lambda: env.reset(**arguments))

        def wait() -> tuple[Any, dict[str, Any]]:
            env.reset_async(**arguments)
            return env.reset_wait(self.timeout)

        return self._there(env, wait)

    def step(self, action: npt.NDArray[np.int64]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        env = self.env
        if not isinstance(env, Worked):
            return self._here(lambda: env.step(action))

        def wait() -> tuple[Any, Any, Any, Any, dict[str, Any]]:
            env.step_async(action)
            return env.step_wait(self.timeout)

        return self._there(env, wait)

    def close(self) -> None:
        """Close the environments and their processes."""
        if not self.env.closed:
            self.env.close()

    def _here(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # any error of the environment's own code
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise self._raised(type(error).__name__, error, f"{last.filename}, line {last.lineno}") from error

    def _there(self, env: Worked, call: Callable[[], T]) -> T:
        # Gymnasium reports a worker's traceback in warnings
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                return call()
            except multiprocessing.TimeoutError:
                problem = EnvError(
                    f"{self.name}: a worker process has not answered for {self.timeout:g} s. It hangs, or a step "
                    "takes longer: then raise --env.timeout."
                )
            except (EOFError, OSError):
                # a pipe breaks before its process has ended: wait for that, but not forever
                gone = multiprocessing.connection.wait([p.sentinel for p in env.processes], timeout=5.0)
                for process in env.processes:
                    if process.sentinel in gone:
                        process.join(timeout=5.0)
                codes = [str(p.exitcode) for p in env.processes if p.exitcode is not None]
                problem = EnvError(
                    f"{self.name}: a worker process died (exit code {', '.join(codes) or 'unknown'}; a negative "
                    "one is the signal that killed it). Out of memory is a common cause."
                )
            except WorkerError as error:
                problem = self._raised(error.kind, error, error.where)
            except Exception as error:  # any error of the environment's own code
                text = "".join(str(warning.message) for warning in said)
                places = re.findall(r'File "(.+?)", line (\d+)', text)
                where = f"{places[-1][0]}, line {places[-1][1]}" if places else "a worker process"
                problem = self._raised(type(error).__name__, error, where)
        _kill_workers(env)
        raise problem

    def _raised(self, kind: str, error: Exception, where: str) -> EnvError:
        return EnvError(f"{self.name} raised {kind}: {error} (in {where}).")


def _kill_workers(env: Worked) -> None:
    """Kill all workers: a worker that hangs would not answer a request to end."""
    for process in env.processes:
        process.kill()
    for process in env.processes:
        process.join()
    for pipe in env.parent_pipes:
        if pipe is not None:
            pipe.close()
    env.closed = True
