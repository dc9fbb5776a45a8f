"""`Lottery`: a walk of a few steps, each of which pays one of two prizes by chance, whatever the action.

The return is random, and its distribution is known exactly: from step s of S there are S − s prizes to come, each
`LOW` or `HIGH` with the given chance, discounted. Action 1 doubles the stakes, so it has a distribution of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from toy_envs import CPU, Episodes

from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Step

LOW, HIGH = 0.0, 4.0


class Lottery:
    """States 0 … S−1 in a row; action 1 doubles the prize of state 0; the last state terminates."""

    num_actions = 2
    outcome_names: tuple[str, ...] = Episodes.outcome_names
    mask: Tensor | None = None

    def __init__(
        self, num_envs: int = 4, num_states: int = 2, chance: float = 0.25, device: torch.device = CPU
    ) -> None:
        self.name = "lottery"
        self.num_envs, self.num_states, self.chance, self.device = num_envs, num_states, chance, device
        self.obs_spec = ObsSpec((num_states,), torch.float32)
        self.episodes = Episodes(num_envs, device)
        self.generator = torch.Generator()
        self.position = torch.zeros(num_envs, dtype=torch.int64, device=device)

    @property
    def outcomes(self) -> Tensor:
        return self.episodes.outcomes

    def reset(self, seed: int) -> Tensor:
        self.generator.manual_seed(seed)
        self.episodes.reset()
        self.position = torch.zeros_like(self.position)
        return self._observe()

    def step(self, action: Tensor) -> Step:
        lucky = (torch.rand(self.num_envs, generator=self.generator) < self.chance).to(self.device)
        prize = torch.where(lucky, HIGH, LOW)
        reward = prize * torch.where((action == 1) & (self.position == 0), 2.0, 1.0)
        last = self.position == self.num_states - 1
        moved = (self.position + 1).clamp(max=self.num_states - 1)
        self.position = torch.where(self.episodes.over, 0, moved)
        return self.episodes.advance(self._observe(), reward, last)

    def state_dict(self) -> dict[str, Tensor]:
        own = {"position": self.position.clone(), "generator": self.generator.get_state()}
        return {**own, **self.episodes.state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.position = state["position"].clone()
        self.generator.set_state(state["generator"])
        self.episodes.load_state_dict(state)

    def _observe(self) -> Tensor:
        return one_hot(self.position, self.num_states).float()  # [N, S]

    def returns(self, state: int, action: int, gamma: float) -> list[tuple[float, float]]:
        """The distribution of the return, as (return, probability) in rising order."""
        total: dict[float, float] = {}
        for draws in product((False, True), repeat=self.num_states - state):
            value, probability = 0.0, 1.0
            for k, lucky in enumerate(draws):
                stake = 2.0 if action == 1 and state == 0 and k == 0 else 1.0
                value += gamma**k * stake * (HIGH if lucky else LOW)
                probability *= self.chance if lucky else 1 - self.chance
            total[value] = total.get(value, 0.0) + probability
        return sorted(total.items())

    def q_star(self, gamma: float) -> Tensor:
        """Q* [S, 2]; nothing depends on later actions."""
        rows = [
            [sum(v * p for v, p in self.returns(s, a, gamma)) for a in (0, 1)] for s in range(self.num_states)
        ]
        return torch.tensor(rows)
