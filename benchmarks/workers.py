"""A slow Python environment in one process, in a process for each copy, and in a few that share them.

    python benchmarks/workers.py --envs 16 --json workers.json

The environment computes in plain Python for about as long as `--work` asks, and shows a picture of 84x84. The ways
take turns, and the median of their rounds counts: the machine may be busy. Steps per second then favor the way with
more processes, because the system shares its cores among processes. The CPU time of a step, all processes together,
does not depend on that.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from flashdqn.compute.core_count import cores
from flashdqn.envs.gymnasium.processes import ProcessVector
from measure import context, cpu_seconds, write_json


class Slow(gymnasium.Env[Any, Any]):
    """Counts in Python; an episode lasts 200 steps."""

    observation_space = spaces.Box(0, 255, (84, 84), np.uint8)
    action_space = spaces.Discrete(4)

    def __init__(self, work: int) -> None:
        self.work, self.time = work, 0
        self.picture = np.zeros((84, 84), dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.picture, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        total = 0
        for number in range(self.work):
            total += number & int(action)
        self.picture[0, 0] = total % 256
        return self.picture, 0.0, False, self.time == 200, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument(
        "--work", type=int, nargs="+", default=[300, 3_000, 30_000], help="additions in a step"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for work in options.work for row in measure(work, options)]
    print("additions a step   way                            processes     steps/s   CPU µs a step")
    for row in rows:
        speed, cost = row["steps_per_second"], row["cpu_us"]
        print(
            f"{row['work']:>16,}   {row['way']:<30} {row['processes']:>9}  {speed:>10,.0f}   {cost:>13,.1f}"
        )
    if options.json:
        write_json(options.json, {**context("cpu"), "envs": options.envs, "results": rows})


def measure(work: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    makers, few = [functools.partial(Slow, work)] * options.envs, min(cores(), options.envs)
    ways: dict[str, tuple[int, VectorEnv[Any, Any, Any]]] = {
        "in this process": (0, SyncVectorEnv(makers, copy=False)),
        "Gymnasium's, one for each": (options.envs, AsyncVectorEnv(makers, copy=False)),
        "ours, one for each": (options.envs, ProcessVector(makers, options.envs)),
        "ours, one for each core": (few, ProcessVector(makers, few)),
    }
    action, speeds, costs = np.zeros(options.envs, dtype=np.int64), {}, {}
    for _, env in ways.values():
        env.reset(seed=list(range(options.envs)))
    for number in range(options.rounds + 1):
        for way, (_, env) in ways.items():
            taken, start, before = 0, time.perf_counter(), cpu_seconds(env)
            while (now := time.perf_counter() - start) < options.seconds:
                env.step(action)
                taken += options.envs
            if number > 0:  # the first round is a warm-up
                speeds.setdefault(way, []).append(taken / now)
                costs.setdefault(way, []).append((cpu_seconds(env) - before) / taken * 1e6)
    for _, env in ways.values():
        env.close()
    return [
        {
            "work": work,
            "way": way,
            "processes": count,
            "steps_per_second": statistics.median(speeds[way]),
            "cpu_us": statistics.median(costs[way]),
        }
        for way, (count, _) in ways.items()
    ]


if __name__ == "__main__":
    main()
