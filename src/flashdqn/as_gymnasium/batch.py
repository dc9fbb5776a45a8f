"""Many games at once as a `gymnasium.vector.VectorEnv`: one launch of a kernel plays them all."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from flashdqn.as_gymnasium.spaces import (
    MASK_KEY,
    Array,
    action_space,
    build_task_env,
    convert_observations,
    observation_space,
)
from flashdqn.core.errors import ConfigError, EnvError


class GameVectorEnv(VectorEnv[Array, Array, Array]):
    """`gymnasium.make_vec("flashdqn/Snake-v0", 256)`. Episodes start again in the step after their end (NEXT_STEP).

    `infos` follow Gymnasium's rule for vectors: `infos["action_mask"]` [N, A] where the task has masks, and
    `infos["outcomes"]` with an array for each number, valid where `infos["_outcomes"]` is true.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # type: ignore[misc]

    def __init__(self, task: str, num_envs: int = 1, render_mode: str | None = None, **settings: Any) -> None:
        if render_mode is not None:
            raise ConfigError("A batch of games cannot be drawn: use gymnasium.make for one game.")
        self.games = build_task_env(task, num_envs, settings)
        self.num_envs, self.render_mode = num_envs, None
        self.single_observation_space = observation_space(self.games)
        self.single_action_space = action_space(self.games)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start new episodes in all games; one seed serves all of them."""
        if seed is not None and not isinstance(seed, int | np.integer):
            raise EnvError(f"One seed serves all games: give a whole number, not {seed!r}.")
        super().reset(seed=None if seed is None else int(seed))
        obs = self.games.reset(int(self.np_random.integers(2**63)) if seed is None else int(seed))
        return convert_observations(self.games, obs), self._infos()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take one action in each game; after an end the action is ignored and a new episode starts."""
        step = self.games.step(torch.from_numpy(np.ascontiguousarray(actions, dtype=np.int64)))
        ended = (step.terminated | step.truncated).numpy()
        infos = self._infos()
        if ended.any():
            infos |= self._outcomes(ended)
        return (
            convert_observations(self.games, step.obs),
            step.reward.numpy().astype(np.float64),
            step.terminated.numpy().copy(),
            step.truncated.numpy().copy(),
            infos,
        )

    def _infos(self) -> dict[str, Any]:
        mask = self.games.mask
        if mask is None:
            return {}
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        return {MASK_KEY: mask.numpy().astype(np.int8), f"_{MASK_KEY}": everywhere}

    def _outcomes(self, ended: Array) -> dict[str, Any]:
        numbers = np.where(ended[:, None], self.games.outcomes.numpy(), 0.0)
        by_name: dict[str, Any] = {}
        for k, name in enumerate(self.games.outcome_names):
            by_name |= {name: numbers[:, k], f"_{name}": ended.copy()}
        return {"outcomes": by_name, "_outcomes": ended.copy()}
