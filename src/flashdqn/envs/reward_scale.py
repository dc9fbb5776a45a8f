"""Rewards divided by the deviation of returns, for any environment, on its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.saved import require_everywhere, require_finite, require_same_kind
from flashdqn.core.types import Step

STATE = "scale."
#: The discount of the returns whose deviation counts.
GAMMA = 0.99
#: A reward is at most this many deviations.
MOST = 10.0


class RewardScale:
    """`env` with rewards that are divided by the running deviation of the discounted return of all its episodes,
    and then clipped to ±10. Everything else is the environment's own, scores included.

    Statistics are updated in every step, on the device (Chan et al. 1979), and saved with the environment's state.
    Several ranks have the statistics of all their returns together.
    """

    ranks: Ranks = ALONE

    def __init__(self, env: VecEnv) -> None:
        self.env = env
        # These buffers never move, because a CUDA graph knows them by their address.
        self._return = torch.zeros(env.num_envs, device=env.device)
        self._ended = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._count = torch.zeros((), dtype=torch.float64, device=env.device)
        self._mean = torch.zeros((), dtype=torch.float64, device=env.device)
        self._squares = torch.zeros((), dtype=torch.float64, device=env.device)

    def __getattr__(self, name: str) -> Any:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def mask(self) -> Tensor | None:
        """The environment's legal actions."""
        return self.env.mask

    @property
    def outcomes(self) -> Tensor:
        """The environment's outcomes."""
        return self.env.outcomes

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment, and the statistics, too: the same seed gives the same rewards."""
        for tensor in self._tensors().values():
            tensor.zero_()
        return self.env.reset(seed)

    def step(self, action: Tensor) -> Step:
        """Take one step in every environment."""
        step = self.env.step(action)
        self._return.mul_(GAMMA).add_(step.reward).masked_fill_(self._ended, 0.0)
        self._add(self._return.to(torch.float64))
        torch.logical_or(step.terminated, step.truncated, out=self._ended)
        variance = self._squares / self._count
        scaled = step.reward / (variance + 1e-8).sqrt().to(torch.float32)
        return step._replace(reward=scaled.clamp(-MOST, MOST))

    def state_dict(self) -> dict[str, Tensor]:
        """The environment's state, and the statistics."""
        return self.env.state_dict() | {f"{STATE}{name}": x.clone() for name, x in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state; where games cannot be saved, the next step starts new episodes."""
        self.env.load_state_dict({k: v for k, v in state.items() if not k.startswith(STATE)})
        for name, tensor in self._tensors().items():
            require_same_kind(f"env.{STATE}{name}", state[f"{STATE}{name}"], tensor)
            require_finite(f"env.{STATE}{name}", state[f"{STATE}{name}"])
        for name in ("count", "squares"):
            require_everywhere(state[f"{STATE}{name}"] >= 0, f"env.{STATE}{name} must be 0 or more")
        for name, tensor in self._tensors().items():
            tensor.copy_(state[f"{STATE}{name}"])
        if not getattr(self.env, "resumable", True):
            self._ended.fill_(True)

    def close(self) -> None:
        """Close the environment."""
        if problem := close_env(self.env):
            raise problem

    def _add(self, values: Tensor) -> None:
        """Merge a batch, [N], into the statistics."""
        number, mean = len(values) * self.ranks.world, values.mean()
        self.ranks.average_(mean)
        squares = (values - mean).square().sum()
        self.ranks.sum_(squares)
        difference, total = mean - self._mean, self._count + number
        self._squares.add_(squares + difference.square() * self._count * number / total)
        self._mean.add_(difference * number / total)
        self._count.copy_(total)

    def _tensors(self) -> dict[str, Tensor]:
        statistics = {"count": self._count, "mean": self._mean, "squares": self._squares}
        return statistics | {"return": self._return, "ended": self._ended}
