"""A user's batched environment behind a guard: its errors and hangs become one `EnvError`, and a step of the wrong
form is refused before it reaches the replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import EnvError
from flashdqn.core.guard import Guard
from flashdqn.core.types import Step
from flashdqn.envs.check.step import check_finite, check_form, check_tensor


class GuardedEnv:
    """`env` with guarded calls. Everything else is the environment's own."""

    def __init__(self, env: VecEnv, guard: Guard) -> None:
        self.env, self.guard = env, guard
        self._last: Any = (None, None, None, None, None)  # tensors that were checked
        self._masked = self.mask is not None

    def __getattr__(self, name: str) -> Any:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def mask(self) -> Tensor | None:
        """The legal actions."""
        return self.guard.call("mask", lambda: self.env.mask)

    @property
    def outcomes(self) -> Tensor:
        """The outcomes."""
        return self.guard.call("outcomes", lambda: self.env.outcomes)

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment."""
        obs = self.guard.call("reset", self.env.reset, seed)
        check_tensor(self.env, "what reset returns", obs, self.env.obs_spec.shape, self.env.obs_spec.dtype)
        check_finite(self.env, "the observation of reset", obs)
        if (mask := self.mask) is not None:
            check_tensor(self.env, "`mask` after reset", mask, (self.env.num_actions,), torch.bool)
        return obs

    def step(self, action: Tensor) -> Step:
        """Take one step in every environment."""
        step = self.guard.call("step", self.env.step, action)
        last = self._last
        if (
            step.__class__ is not Step
            or step.obs is not last[0]
            or step.reward is not last[1]
            or step.terminated is not last[2]
            or step.truncated is not last[3]
            or step.mask is not last[4]
        ):
            check_form(self.env, step)
            if (step.mask is not None) != self._masked:
                raise EnvError(
                    f"{self.env.name}: `mask` must be None always or never, and this has changed. Return an "
                    "all-True mask where every action is legal."
                )
            self._last = step
        return step

    def state_dict(self) -> dict[str, Tensor]:
        """The environment's state."""
        return self.guard.call("state_dict", self.env.state_dict)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        try:
            self.guard.call("load_state_dict", self.env.load_state_dict, state)
        except EnvError as error:
            # An error of another environment: the caller says so.
            if isinstance(error.__cause__, KeyError | RuntimeError):
                raise error.__cause__ from None
            raise

    def close(self) -> None:
        """Close the environment, if it can be closed."""
        if callable(end := getattr(self.env, "close", None)):
            self.guard.call("close", end)
