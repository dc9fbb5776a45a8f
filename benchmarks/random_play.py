"""Random play in an agent's own environment: the row that every table of scores needs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flashdqn.core.contract import VecEnv
from flashdqn.training.evaluate import Evaluation, evaluate


class RandomValues(nn.Module):
    """A network whose values are random numbers, so that every legal action is equally likely."""

    def __init__(self, actions: int, seed: int) -> None:
        super().__init__()
        self.actions, self.generator = actions, torch.Generator().manual_seed(seed)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.rand((len(obs), self.actions), generator=self.generator)

    def q(self, values: Tensor) -> Tensor:
        return values


def play_games_randomly(env: VecEnv, seed: int) -> Evaluation:
    """One game on every board."""
    player = RandomValues(env.num_actions, seed)
    return evaluate(env, player, player, seed)  # type: ignore[arg-type]
