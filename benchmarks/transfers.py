"""The cost of moving the results of games on the CPU to a GPU: tensor by tensor, and packed into one copy.

    python benchmarks/transfers.py --json transfers.json

`plain` moves every tensor with its own `.to(device)`, out of pageable memory, and the host waits for each; it moves
the actions by `.to("cpu")`. `packed` is what `envs.moved` does. Both move the results of the same environment,
which only points at prepared tensors. A step moves the actions there and the results back, and then something
reads them. They take turns, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.contract import ObsSpec, VecEnv
from flashdqn.core.types import Step
from flashdqn.envs.host_env import HostEnv
from measure import context, write_json

#: name, environments, observation, actions, masks
CASES = (
    ("Snake, 11 numbers", 256, ObsSpec((11,), torch.float32), 3, False),
    ("a chain, 158 numbers and masks", 64, ObsSpec((158,), torch.float32), 64, True),
    ("Atari, one frame", 64, ObsSpec((1, 84, 84), torch.uint8), 18, False),
    ("Atari, one frame", 256, ObsSpec((1, 84, 84), torch.uint8), 18, False),
    ("Atari, a stack of four", 64, ObsSpec((4, 84, 84), torch.uint8), 18, False),
)


class Still:
    """An environment in which nothing happens."""

    name, outcome_names, device = "still", ("score",), torch.device("cpu")

    def __init__(self, num_envs: int, spec: ObsSpec, num_actions: int, masked: bool) -> None:
        self.num_envs, self.obs_spec, self.num_actions = num_envs, spec, num_actions
        self.mask = torch.ones((num_envs, num_actions), dtype=torch.bool) if masked else None
        self.outcomes = torch.zeros((num_envs, 1))
        obs = torch.ones((num_envs, *spec.shape)).to(spec.dtype)
        never = torch.zeros(num_envs, dtype=torch.bool)
        self.answer = Step(obs, torch.ones(num_envs), never, never.clone(), self.mask)

    def reset(self, seed: int) -> Tensor:
        return self.answer.obs

    def step(self, action: Tensor) -> Step:
        int(action[0])  # an environment reads it
        return self.answer

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: there is no state."""


class Plain:
    """One copy for every tensor."""

    def __init__(self, env: VecEnv, device: torch.device) -> None:
        self.env, self.device = env, device

    @property
    def outcomes(self) -> Tensor:
        return self.env.outcomes.to(self.device)

    def reset(self, seed: int) -> Tensor:
        return self.env.reset(seed).to(self.device)

    def step(self, action: Tensor) -> Step:
        step = self.env.step(action.to(self.env.device))
        return Step(*(None if x is None else x.to(self.device) for x in step))  # type: ignore[arg-type]


def time_steps(env: Any, device: torch.device, steps: int) -> float:
    """Microseconds of a step: actions there, results back, and something that reads them."""
    total = torch.zeros((), device=device)
    action = torch.zeros(env.env.num_envs, dtype=torch.int64, device=device)
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(steps):
        step = env.step(action)
        total += step.reward.sum() + env.outcomes.sum()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark measures copies to a GPU, but there is no GPU here.")
    device, rows = torch.device("cuda", 0), []
    for name, count, spec, actions, masked in CASES:
        ways: dict[str, Any] = {
            "plain": Plain(Still(count, spec, actions, masked), device),
            "packed": HostEnv(Still(count, spec, actions, masked), device),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(options.rounds + 1):
            for way, env in ways.items():
                env.reset(0)
                taken = time_steps(env, device, options.steps)
                if number > 0:  # the first round is a warm-up
                    times[way].append(taken)
        row = {"case": name, "envs": count, "bytes": count * spec.nbytes}
        rows.append(row | {way: statistics.median(values) for way, values in times.items()})
    print("answers of                        envs      bytes   plain µs   packed µs   times faster")
    for row in rows:
        gain = row["plain"] / row["packed"]
        print(
            f"{row['case']:<32} {row['envs']:>5} {row['bytes']:>10,} {row['plain']:>10.0f} "
            f"{row['packed']:>11.0f} {gain:>14.1f}"
        )
    if options.json:
        write_json(options.json, {**context("cuda"), "results": rows})


if __name__ == "__main__":
    main()
