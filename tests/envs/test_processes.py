"""Several environments in a worker process, step by step beside Gymnasium's own vector in one process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from gym_envs import Faulty, Parts, Screen, Walk
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import flashdqn
from flashdqn.core.errors import ConfigError
from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.envs.gymnasium.processes import ProcessVector
from flashdqn.envs.gymnasium.workers import WorkerError

MAKERS = {
    "walk": functools.partial(Walk, limit=4, masked=True, first=5),
    "screen": functools.partial(Screen, limit=5),
    "parts": Parts,
}


def flat(value: Any) -> list[Any]:
    """The arrays of a nested observation or info, in order, with their names."""
    if isinstance(value, dict):
        return [item for key in sorted(value) for item in [key, *flat(value[key])]]
    return [item for part in value for item in flat(part)] if isinstance(value, tuple) else [value]


def assert_same(one: Any, other: Any) -> None:
    first, second = flat(one), flat(other)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("workers", [1, 2, 5, 9])
@pytest.mark.parametrize("name", MAKERS)
def test_workers_give_what_one_process_gives(name: str, workers: int) -> None:
    makers = [MAKERS[name]] * 5
    here = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)
    there = ProcessVector(makers, workers)
    assert len(there.processes) == min(workers, 5)
    assert there.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert there.single_observation_space == here.single_observation_space
    seeds = [3, 1, 4, 1, 5]
    assert_same(here.reset(seed=seeds), there.reset(seed=seeds))
    generator, ends = np.random.default_rng(0), {"terminated": 0, "truncated": 0}
    first = int(here.single_action_space.start)  # type: ignore[attr-defined]
    masks = None
    for number in range(30):
        action = generator.integers(0, here.single_action_space.n, 5) + first  # type: ignore[attr-defined]
        if name == "walk" and masks is not None:  # only legal ones
            action = np.array([generator.choice(np.flatnonzero(mask)) for mask in masks]) + first
        one, other = here.step(action), there.step(action)
        assert_same(one, other)
        masks = one[4].get("action_mask")
        ends["terminated"] += int(one[2].sum())
        ends["truncated"] += int(one[3].sum())
        if number == 20:  # some alone
            rows = np.array([True, False, False, True, False])
            fresh, again = (env.reset(options={"reset_mask": rows}) for env in (here, there))
            assert_same(fresh, again)
            masks = None if masks is None else [[0, 0, 1]] * 5
    assert ends["truncated"] > 0
    assert ends["terminated"] > 0 or name == "parts"
    there.close()
    here.close()
    assert not any(process.is_alive() for process in there.processes)


def test_sixteen_environments_share_a_few_processes() -> None:
    env = flashdqn.make_env("gym_envs:make_screen", 16, vectorization="async", workers=2)
    assert isinstance(env, GymVecEnv)
    assert isinstance(env.vector.env, ProcessVector)
    assert [len(group) for group in env.vector.env.groups] == [8, 8]
    report = check_env(env, steps=40)
    assert report.terminated > 0
    assert report.truncated > 0
    env.close()
    with pytest.raises(ConfigError, match=r"env.workers must be at least 0"):
        flashdqn.make_env("gym_envs:make_screen", 2, workers=-1)


def test_an_environment_that_raises_is_told_with_its_place() -> None:
    vector = ProcessVector([functools.partial(Faulty, limit=9), functools.partial(Walk, limit=9)] * 2, 2)
    vector.reset(seed=[0] * 4)
    go = np.zeros(4, dtype=np.int64)
    vector.step(go)
    vector.step(go)
    with pytest.raises(WorkerError, match="no more") as told:
        vector.step(go)
    assert told.value.kind == "ZeroDivisionError"
    assert "gym_envs.py, line" in told.value.where
    vector.close()
    assert not any(process.is_alive() for process in vector.processes)


def test_a_worker_ends_when_its_trainer_is_gone() -> None:
    vector = ProcessVector([functools.partial(Walk, limit=9)] * 2, 1)
    vector.reset(seed=[0, 1])
    vector.parent_pipes[0].close()
    vector.processes[0].join(timeout=10)
    assert vector.processes[0].exitcode == 0
