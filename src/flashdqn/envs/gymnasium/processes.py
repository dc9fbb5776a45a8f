"""A vector environment in worker processes, several environments in each.

Gymnasium's own class gives every environment a process: with sixteen of them on two cores, most of the time goes
into waking processes. Here every step is one message to a worker and one back. Observations, actions, rewards and
flags lie in shared memory; only infos are sent, if an environment gives any.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import (
    CloudpickleWrapper,
    batch_space,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from flashdqn.core.blame import Failure, describe_failure
from flashdqn.core.signals import hold_stop_signals
from flashdqn.envs.gymnasium.first_look import read_spaces
from flashdqn.envs.gymnasium.spaces import Array
from flashdqn.envs.gymnasium.workers import (
    CLOSE_SECONDS,
    WorkerAnswer,
    WorkerError,
    prepare_worker,
    wait_for_answer,
)

Make = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Shared:
    """The memory that all processes share, for all environments; `arrays` gives views of it."""

    obs: Any  # in Gymnasium's layout of observations
    action: Any
    action_form: tuple[tuple[int, ...], str]  # shape and dtype of one action
    reward: Any
    terminated: Any
    truncated: Any

    @staticmethod
    def make(space: gymnasium.Space[Any], actions: gymnasium.Space[Any], count: int, context: Any) -> Shared:
        """Allocate memory for `count` environments."""
        form = tuple(actions.shape or ()), np.dtype(actions.dtype).str
        size = int(np.prod(form[0], dtype=np.int64)) * np.dtype(form[1]).itemsize
        reward, terminated, truncated = (context.RawArray(kind, count) for kind in "dbb")
        obs, action = create_shared_memory(space, count, context), context.RawArray("b", count * size)
        return Shared(obs, action, form, reward, terminated, truncated)

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Actions, rewards, terminated and truncated."""
        shape, dtype = self.action_form
        action = np.frombuffer(self.action, dtype).reshape(-1, *shape)
        reward = np.frombuffer(self.reward, np.float64)
        terminated, truncated = (np.frombuffer(x, np.bool_) for x in (self.terminated, self.truncated))
        return action, reward, terminated, truncated


class ProcessVector(VectorEnv[Any, Any, Any]):
    """Environments in `workers` processes, by the next-step rule."""

    takes_seeds = True

    def __init__(self, makers: Sequence[Make], workers: int, timeout: float | None = None) -> None:
        self.num_envs = count = len(makers)
        self.single_observation_space, self.single_action_space = read_spaces(makers[0], timeout)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        context = multiprocessing.get_context()
        shared = Shared.make(self.single_observation_space, self.single_action_space, count, context)
        self._obs = read_from_shared_memory(self.single_observation_space, shared.obs, count)
        self._action, self._reward, self._terminated, self._truncated = shared.arrays()
        self.groups = [range(g[0], g[-1] + 1) for g in np.array_split(range(count), min(workers, count))]
        self.parent_pipes: list[Any] = []
        self.processes: list[Any] = []
        for number, group in enumerate(self.groups):
            ours, theirs = context.Pipe()
            wrapped = CloudpickleWrapper([makers[i] for i in group])  # type: ignore[arg-type]
            arguments = (wrapped, group.start, theirs, ours, shared, self.single_observation_space)
            process = context.Process(
                target=run_worker, args=arguments, name=f"environments {number}", daemon=True
            )
            with hold_stop_signals():
                process.start()
            theirs.close()
            self.parent_pipes.append(ours)
            self.processes.append(process)

    def reset_async(self, *, seed: Any = None, options: Any = None) -> None:
        """Ask all workers for new episodes; `reset_wait` receives their answers."""
        chosen = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        seeds = [None] * self.num_envs if seed is None else list(seed)
        for pipe, group in zip(self.parent_pipes, self.groups, strict=True):
            part = slice(group.start, group.stop)
            pipe.send(("reset", seeds[part], chosen[part].tolist()))

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """The observations, and infos of the environments that were reset."""
        return self._obs, self._gather(timeout)

    def step_async(self, actions: Any) -> None:
        """Ask all workers for a step; `step_wait` receives their answers."""
        self._action[:] = actions
        for pipe in self.parent_pipes:
            pipe.send(("step",))

    def step_wait(self, timeout: float | None = None) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Wait for the step's results. The arrays are shared: the next step overwrites them."""
        info = self._gather(timeout)
        return self._obs, self._reward, self._terminated, self._truncated, info

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium, with a seed for each; `options["reset_mask"]` chooses environments."""
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Step as in Gymnasium."""
        self.step_async(actions)
        return self.step_wait()

    def close_extras(self, timeout: float = CLOSE_SECONDS, **kwargs: Any) -> None:
        """End the workers; kill a worker that does not answer. An error of theirs is raised when all have ended."""
        stop, failures = monotonic() + timeout, []
        for pipe in self.parent_pipes:
            with suppress(OSError, ValueError):
                pipe.send(("close",))
        for pipe, process in zip(self.parent_pipes, self.processes, strict=True):
            failures.append(_close_worker(pipe, process, stop))
        if failed := next(filter(None, failures), None):
            raise WorkerError(failed, "close")

    def _gather(self, timeout: float | None) -> dict[str, Any]:
        """Wait for every worker, and merge the infos."""
        info: dict[str, Any] = {}
        stop = None if timeout is None else monotonic() + timeout
        failed: WorkerError | None = None
        for pipe, process, group in zip(self.parent_pipes, self.processes, self.groups, strict=True):
            if not pipe.poll(1.0):
                wait_for_answer(pipe, process, stop)
            answer = pipe.recv()
            if isinstance(answer, WorkerAnswer):
                failed = failed or WorkerError(answer.failure, answer.doing)
                continue
            for i, own in zip(group, answer or (), strict=False):
                if own:
                    info = self._add_info(info, own, i)
        if failed is not None:
            raise failed
        return info


def _close_worker(pipe: Any, process: Any, stop: float) -> Failure | None:
    """Wait for a worker's end; returns what went wrong in it."""
    failure: Failure | None = None
    try:
        while pipe.poll(max(0.0, stop - monotonic())):
            answer = pipe.recv()
            if isinstance(answer, WorkerAnswer):
                failure = failure or answer.failure
    except (EOFError, OSError):
        pass
    process.join(timeout=max(0.1, stop - monotonic()))
    if process.is_alive():
        process.kill()
        process.join()
        failure = failure or Failure("it hangs", "", "a worker process")
    elif process.exitcode:
        failure = failure or Failure("died", f"exit code {process.exitcode}", "a worker process")
    pipe.close()
    return failure


def run_worker(
    makers: CloudpickleWrapper[Any],
    first: int,
    pipe: Any,
    other_end: Any,
    shared: Shared,
    space: gymnasium.Space[Any],
) -> None:
    """A worker process: make its environments, and answer until asked to close."""
    prepare_worker(other_end)
    process = os.getpid()
    envs: list[gymnasium.Env[Any, Any]] = []
    doing = "make"
    try:
        for make in makers.fn:  # type: ignore[attr-defined]
            envs.append(make())
        group = WorkerEnvs(envs, first, shared, space)
        while (message := _receive(pipe))[0] != "close":
            doing = message[0]
            answer = group.step() if doing == "step" else group.reset(*message[1:])
            end_if_copied(process)
            pipe.send(answer)
        doing = "close"
        for env in envs:
            env.close()
    except BaseException as error:  # any error of the environment's own code
        end_if_copied(process)
        with suppress(OSError):
            pipe.send(WorkerAnswer(describe_failure(error), doing))
        if doing != "close":
            for env in envs:
                with suppress(BaseException):
                    env.close()


def end_if_copied(process: int) -> None:
    """End this process if it is a copy of the worker that an environment has made (`os.fork`): one must answer."""
    if os.getpid() != process:
        os._exit(1)


def _receive(pipe: Any) -> Any:
    """The next message; the end of the trainer is a request to close."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return ("close",)


class WorkerEnvs:
    """The environments of one worker; `first` is the number of its first one among all."""

    def __init__(
        self, envs: list[gymnasium.Env[Any, Any]], first: int, shared: Shared, space: gymnasium.Space[Any]
    ) -> None:
        self.envs, self.first, self.memory, self.space = envs, first, shared.obs, space
        self.action, self.reward, self.terminated, self.truncated = shared.arrays()
        self.over = [False] * len(envs)

    def reset(self, seeds: list[int | None], chosen: list[bool]) -> list[dict[str, Any] | None]:
        """Start new episodes in the chosen environments; return their infos."""
        infos: list[dict[str, Any] | None] = [None] * len(self.envs)
        for i, env in enumerate(self.envs):
            if chosen[i]:
                obs, infos[i] = env.reset(seed=seeds[i])
                self._show(i, obs)
                self.over[i] = False
        return infos

    def step(self) -> list[dict[str, Any]] | None:
        """Step each environment, or start a new episode after an end. None: no environment has an info."""
        infos: list[dict[str, Any]] = []
        for i, env in enumerate(self.envs):
            at = self.first + i
            if self.over[i]:
                obs, info = env.reset()
                reward, terminated, truncated = 0.0, False, False
            else:
                obs, reward, terminated, truncated, info = env.step(self.action[at].copy())  # type: ignore[assignment]
            self.reward[at], self.terminated[at], self.truncated[at] = reward, terminated, truncated
            self.over[i] = bool(terminated or truncated)
            self._show(i, obs)
            infos.append(info)
        return infos if any(infos) else None

    def _show(self, i: int, obs: Any) -> None:
        write_to_shared_memory(self.space, self.first + i, obs, self.memory)
