"""A vector environment in worker processes, several environments in each.

Gymnasium's own class gives every environment a process: with sixteen of them on two cores, most of the time goes
into waking processes. Here every step is one message to a worker and one back. Observations, actions, rewards and
flags lie in shared memory; only infos are sent, if an environment gives any.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

from flashdqn.core.signals import hold_stop_signals, ignore_stop_signals
from flashdqn.envs.gymnasium.spaces import Array

Make = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Failure:
    """An error as text, because the error itself may not be picklable."""

    kind: str
    message: str
    where: str


class WorkerError(Exception):
    """An environment raised an error in a worker process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.kind, self.where = failure.kind, failure.where


@dataclass(frozen=True)
class Shared:
    """The memory that all processes share, for all environments; `arrays` gives views of it."""

    obs: Any  # in Gymnasium's layout of observations
    action: Any
    reward: Any
    terminated: Any
    truncated: Any

    @staticmethod
    def make(space: gymnasium.Space[Any], count: int, context: Any) -> Shared:
        """Allocate memory for `count` environments."""
        action, reward, terminated, truncated = (context.RawArray(kind, count) for kind in "qdbb")
        return Shared(create_shared_memory(space, count, context), action, reward, terminated, truncated)

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Actions, rewards, terminated and truncated."""
        action, reward = np.frombuffer(self.action, np.int64), np.frombuffer(self.reward, np.float64)
        terminated, truncated = (np.frombuffer(x, np.bool_) for x in (self.terminated, self.truncated))
        return action, reward, terminated, truncated


class ProcessVector(VectorEnv[Any, Any, Any]):
    """Environments with discrete actions, in `workers` processes, by the next-step rule."""

    takes_seeds = True

    def __init__(self, makers: Sequence[Make], workers: int) -> None:
        self.num_envs = count = len(makers)
        example = makers[0]()
        self.single_observation_space, self.single_action_space = (
            example.observation_space,
            example.action_space,
        )
        example.close()
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        context = multiprocessing.get_context()
        shared = Shared.make(self.single_observation_space, count, context)
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

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers; kill a worker that does not answer."""
        for pipe in self.parent_pipes:
            try:
                pipe.send(("close",))
            except (OSError, ValueError):
                continue
        for process in self.processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self.parent_pipes:
            pipe.close()

    def _gather(self, timeout: float | None) -> dict[str, Any]:
        """Wait for every worker, and merge the infos."""
        info: dict[str, Any] = {}
        stop = None if timeout is None else time.monotonic() + timeout
        failed: Failure | None = None
        for pipe, group in zip(self.parent_pipes, self.groups, strict=True):
            if stop is not None and not pipe.poll(max(0.0, stop - time.monotonic())):
                raise multiprocessing.TimeoutError
            answer = pipe.recv()
            if isinstance(answer, Failure):
                failed = failed or answer
                continue
            for i, own in zip(group, answer or (), strict=False):
                if own:
                    info = self._add_info(info, own, i)
        if failed is not None:
            raise WorkerError(failed)
        return info


def run_worker(
    makers: CloudpickleWrapper[Any],
    first: int,
    pipe: Any,
    other_end: Any,
    shared: Shared,
    space: gymnasium.Space[Any],
) -> None:
    """A worker process: make its environments, and answer until asked to close."""
    ignore_stop_signals()
    other_end.close()  # so this process notices when the trainer has ended
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        envs += [make() for make in makers.fn]  # type: ignore[attr-defined]
        group = WorkerEnvs(envs, first, shared, space)
        while (message := pipe.recv())[0] != "close":
            pipe.send(group.step() if message[0] == "step" else group.reset(*message[1:]))
    except EOFError:  # the trainer has ended
        pass
    except Exception as error:  # any error of the environment's own code
        last = traceback.extract_tb(error.__traceback__)[-1]
        pipe.send(Failure(type(error).__name__, str(error), f"{last.filename}, line {last.lineno}"))
    finally:
        for env in envs:
            env.close()


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
                obs, reward, terminated, truncated, info = env.step(self.action[at])  # type: ignore[assignment]
            self.reward[at], self.terminated[at], self.truncated[at] = reward, terminated, truncated
            self.over[i] = bool(terminated or truncated)
            self._show(i, obs)
            infos.append(info)
        return infos if any(infos) else None

    def _show(self, i: int, obs: Any) -> None:
        write_to_shared_memory(self.space, self.first + i, obs, self.memory)
