"""The last frames of an episode as one observation, for any environment, on any device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.core.contract import (
    Decoder,
    ObsSpec,
    VecEnv,
    close_env,
    get_branches,
    get_cause_names,
    get_decoder,
    is_capturable,
    is_resumable,
    is_timed,
)
from flashdqn.core.types import Step

STATE = "stacked."


class FrameStack:
    """`env` with its last `stack` observations along the first axis, the newest last. An episode starts with its
    first observation repeated. For a learner on CUDA they are stacked there, so only single frames are copied.
    """

    def __init__(self, env: VecEnv, stack: int) -> None:
        frame = env.obs_spec
        self.env, self.device = env, env.device
        self.name, self.num_envs, self.num_actions = env.name, env.num_envs, env.num_actions
        self.outcome_names, self.cause_names = env.outcome_names, get_cause_names(env)
        self.obs_spec = ObsSpec((frame.shape[0] * stack, *frame.shape[1:]), frame.dtype, stack)
        self.action_names: tuple[str, ...] = getattr(env, "action_names", ())
        self.first_action: int = getattr(env, "first_action", 0)
        self.branches = get_branches(env)
        # what is packed in rows is decoded together
        packed = get_decoder(env)
        self.decoder: Decoder | None = None if packed is None else packed.for_stack(stack)  # type: ignore[attr-defined]
        self.resumable, self.capturable = is_resumable(env), is_capturable(env)
        self.timed = is_timed(env)
        # These buffers never move, because a CUDA graph knows them by their address.
        shape = (env.num_envs, *self.obs_spec.shape)
        self._obs = torch.zeros(shape, dtype=frame.dtype, device=self.device)
        self._starting = torch.zeros(env.num_envs, dtype=torch.bool, device=self.device)
        self._repeats = (1, stack, *[1] * (len(shape) - 2))

    @property
    def mask(self) -> Tensor | None:
        """The environment's legal actions."""
        return self.env.mask

    @property
    def outcomes(self) -> Tensor:
        """The environment's outcomes."""
        return self.env.outcomes

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment."""
        self._obs.copy_(self.env.reset(seed).repeat(self._repeats))
        self._starting.zero_()
        return self._obs.clone()

    def step(self, action: Tensor) -> Step:
        """Take one step in every environment."""
        step = self.env.step(action)
        shifted = torch.cat((self._obs[:, step.obs.shape[1] :], step.obs), 1)
        starting = self._starting.view(-1, *[1] * (shifted.dim() - 1))
        torch.where(starting, step.obs.repeat(self._repeats), shifted, out=self._obs)
        torch.logical_or(step.terminated, step.truncated, out=self._starting)
        return step._replace(obs=self._obs)

    def state_dict(self) -> dict[str, Tensor]:
        """The environment's state, and the frames if the environment is resumable."""
        state = self.env.state_dict()
        if not self.resumable:
            return state
        return state | {f"{STATE}obs": self._obs.clone(), f"{STATE}starting": self._starting.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state; where games cannot be saved, the next step starts new episodes."""
        self.env.load_state_dict({k: v for k, v in state.items() if not k.startswith(STATE)})
        if self.resumable:
            self._obs.copy_(state[f"{STATE}obs"])
            self._starting.copy_(state[f"{STATE}starting"])
        else:
            self._starting.fill_(True)

    def close(self) -> None:
        """Close the environment."""
        if problem := close_env(self.env):
            raise problem
