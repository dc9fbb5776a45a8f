"""An environment on one device beside a learner on another: one transfer per step each way."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.envs.contract import VecEnv, close, resumable
from flashdqn.types import Step


class Moved:
    """`env`, as seen from `device`. Its state stays where it is."""

    def __init__(self, env: VecEnv, device: torch.device) -> None:
        self.env, self.device = env, device
        self.name, self.num_envs, self.num_actions = env.name, env.num_envs, env.num_actions
        self.obs_spec, self.outcome_names = env.obs_spec, env.outcome_names
        self.resumable = resumable(env)

    @property
    def mask(self) -> Tensor | None:
        """The legal actions, on the learner's device."""
        return None if self.env.mask is None else self.env.mask.to(self.device)

    @property
    def outcomes(self) -> Tensor:
        """The outcomes, on the learner's device."""
        return self.env.outcomes.to(self.device)

    def reset(self, seed: int) -> Tensor:
        """As the environment's own."""
        return self.env.reset(seed).to(self.device)

    def step(self, action: Tensor) -> Step:
        """As the environment's own."""
        step = self.env.step(action.to(self.env.device))
        return Step(*(None if x is None else x.to(self.device) for x in step))  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Tensor]:
        """As the environment's own."""
        return self.env.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """As the environment's own."""
        self.env.load_state_dict(state)

    def close(self) -> None:
        """As the environment's own."""
        close(self.env)
