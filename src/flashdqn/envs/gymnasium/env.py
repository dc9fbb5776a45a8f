"""A Gymnasium vector environment as a `VecEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from flashdqn.core.types import Step
from flashdqn.envs.gymnasium.autoreset import LifeLoss, step_with_autoreset
from flashdqn.envs.gymnasium.config import Channels
from flashdqn.envs.gymnasium.spaces import Array, Place
from flashdqn.envs.gymnasium.vector import Vector


class GymVecEnv:
    """Steps on the CPU; `layout` says where the numbers of an observation come from.

    A Gymnasium environment cannot be saved in general. `state_dict` holds what a deterministic new start needs:
    after `load_state_dict` every unfinished episode counts as cut off, and the next step ignores its action and
    returns the first observations of new episodes. So a resumed run is reproducible, but not bit-equal to one that
    never stopped; `resumable` says so.
    """

    resumable = False
    first_board = 0
    outcome_names: tuple[str, ...] = ("score",)

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        name: str = "gymnasium",
        channels: Channels = "auto",
        timeout: float = 60.0,
        clip_reward: float = 0.0,
        life_loss: bool = False,
        action_bins: int = 0,
        *,
        scale: bool = False,
    ) -> None:
        self.vector = Vector(env, name, channels, timeout, action_bins, scale=scale)
        self.clip_reward = clip_reward or np.inf
        self.lives = LifeLoss(self.vector) if life_loss else None
        self.layout: tuple[Place, ...] = self.vector.encoder.layout
        self.name, self.num_envs, self.num_actions = name, env.num_envs, self.vector.num_actions
        self.obs_spec, self.device = self.vector.encoder.spec, torch.device("cpu")
        self.decoder, self.branches = self.vector.encoder.rows, self.vector.actions.branches
        self.action_names = self.vector.actions.names
        self.first_action = self.vector.actions.first_action  # the environment's number for our action 0
        self.mask: Tensor | None = _mask_tensor(self.vector.mask)
        self._over: Array
        self._score: Array
        self._begin(0)
        self._restart = False  # the next step starts all episodes again

    @property
    def outcomes(self) -> Tensor:
        """The return of each episode, from the environment's true rewards."""
        return torch.from_numpy(self._score.astype(np.float32))[:, None]

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment."""
        self.vector.reset(seed, self.first_board)
        if self.lives is not None:
            self.lives.reset()
        self._begin(seed)
        self._restart = False
        self.mask = _mask_tensor(self.vector.mask)
        return torch.from_numpy(self.vector.obs.copy())

    def step(self, action: Tensor) -> Step:
        """Take one step in every environment."""
        if self._restart:
            return self._start_again()
        if self.lives is None:
            answer = step_with_autoreset(self.vector, action.numpy(), self._over)
        else:
            answer = self.lives.step(action.numpy(), self._over)
        self._steps += 1
        self._score = np.where(self._over, 0.0, self._score + answer.reward)
        self._over = answer.terminated | answer.truncated
        self.mask = _mask_tensor(answer.mask)
        return Step(
            torch.from_numpy(answer.obs),
            torch.from_numpy(np.clip(answer.reward, -self.clip_reward, self.clip_reward).astype(np.float32)),
            torch.from_numpy(answer.terminated),
            torch.from_numpy(answer.truncated),
            self.mask,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The seed of the last reset and the steps since then, which determine a new start."""
        return {"seed": torch.tensor(self._seed), "steps": torch.tensor(self._steps)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Start new episodes in the next step; see the class."""
        self._seed, self._steps = int(state["seed"]), int(state["steps"])
        self._restart = True
        if self.mask is not None:
            self.mask = torch.ones_like(self.mask)  # the next action is ignored, so all are legal

    def close(self) -> None:
        """Close the environments and their processes."""
        self.vector.calls.close()

    def _begin(self, seed: int) -> None:
        self._seed, self._steps = seed, 0
        self._score = np.zeros(self.num_envs)
        self._over = np.zeros(self.num_envs, dtype=np.bool_)

    def _start_again(self) -> Step:
        words = np.random.SeedSequence([self._seed % 2**64, self._steps]).generate_state(1, np.uint64)
        obs = self.reset(int(words[0] >> 1))
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        return Step(obs, never.float(), never, never.clone(), self.mask)


def _mask_tensor(mask: Any) -> Tensor | None:
    return None if mask is None else torch.from_numpy(mask.copy())
