"""Slow environments for benchmarks/async_collect.py: one that sleeps, and two simulators from PyPI."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium


class Sleepy(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole whose steps take `seconds`, and one in `every` takes `tail`. It sleeps and does not compute."""

    def __init__(self, seconds: float, tail: float, every: int) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.seconds, self.tail, self.every = seconds, tail, every

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step, after a while."""
        slow = self.every and self.np_random.random() * self.every < 1
        time.sleep(self.tail if slow else self.seconds)
        return self.env.step(action)


def make_sleepy(seconds: float = 0.005, tail: float = 0.2, every: int = 50) -> gymnasium.Env[Any, Any]:
    """A heavy tail, as of a simulator that computes on another machine."""
    return Sleepy(seconds, tail, every)


def make_traffic(seconds: int = 500) -> gymnasium.Env[Any, Any]:
    """Traffic lights of one crossing in SUMO, as sumo-rl brings it; an episode has `seconds` of traffic."""
    import sumo  # type: ignore[import-not-found]

    os.environ.setdefault("SUMO_HOME", sumo.SUMO_HOME)
    import sumo_rl  # type: ignore[import-not-found]

    roads = Path(sumo_rl.__file__).parent / "nets/2way-single-intersection/single-intersection"
    return gymnasium.make(
        "sumo-rl-v0",
        net_file=f"{roads}.net.xml",
        route_file=f"{roads}-vhvh.rou.xml",
        single_agent=True,
        num_seconds=seconds,
        sumo_warnings=False,
        additional_sumo_cmd="--no-step-log",
    )


def make_power_grid() -> gymnasium.Env[Any, Any]:
    """A power grid of five substations in grid2op, computed by pandapower."""
    import warnings

    warnings.simplefilter("ignore")
    import grid2op  # type: ignore[import-not-found]
    from grid2op.gym_compat import (  # type: ignore[import-not-found]
        BoxGymObsSpace,
        DiscreteActSpace,
        GymEnv,
    )

    grid = grid2op.make("rte_case5_example", test=True)
    env = GymEnv(grid)
    env.observation_space = BoxGymObsSpace(grid.observation_space, attr_to_keep=["rho", "topo_vect"])
    env.action_space = DiscreteActSpace(grid.action_space, attr_to_keep=["set_bus"])
    return WithPlainSpaces(env)


class WithPlainSpaces(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Its spaces without the simulator's own classes, which another process cannot load."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        seen: Any = env.observation_space
        chosen: Any = env.action_space
        self.observation_space = gymnasium.spaces.Box(seen.low, seen.high, seen.shape, seen.dtype)
        self.action_space = gymnasium.spaces.Discrete(int(chosen.n))
