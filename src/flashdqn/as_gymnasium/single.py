"""One game as a `gymnasium.Env`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from torch import Tensor

from flashdqn.as_gymnasium.spaces import (
    MASK_KEY,
    Array,
    action_space,
    build_task_env,
    convert_observations,
    observation_space,
)
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.tasks import find_task

WIDTH = 480  # of a picture, in pixels


class OneGame(gymnasium.Env[Array, np.int64]):
    """A board of one of our tasks. The same seed gives the same games as our own batch of one.

    `info["action_mask"]` has the legal actions where the task has masks; when an episode ends, `info["outcomes"]`
    has the numbers that sum it up, the score among them.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 15}  # type: ignore[misc]

    def __init__(self, task: str, render_mode: str | None = None, **settings: Any) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            modes = ", ".join(self.metadata["render_modes"])
            raise ConfigError(f"render_mode must be one of {modes}, or None, and is {render_mode!r}.")
        self.render_mode = render_mode
        self.task, self.game = task, build_task_env(task, 1, settings)
        self.observation_space = observation_space(self.game)
        self.action_space = action_space(self.game)
        self._over = True  # the episode is over, or none has begun: step() is not allowed
        self._seeded = False
        self._view: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode: with a seed, that seed's first game; after an end, the next one; else a random one."""
        super().reset(seed=seed)
        if seed is None and self._seeded and self._over:
            # After an end, any action starts again.
            obs = self.game.step(torch.zeros(1, dtype=torch.int64)).obs
        else:
            start = int(self.np_random.integers(2**63)) if seed is None else seed
            obs = self.game.reset(start)
        self._seeded, self._over = True, False
        return self._first(obs), self._info()

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        if self._over:
            raise ResetNeeded("The episode is over, or none has begun: call reset() before step().")
        step = self.game.step(torch.tensor([int(action)]))
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._over = terminated or truncated
        info = self._info()
        if self._over:
            names, numbers = self.game.outcome_names, self.game.outcomes[0].tolist()
            info["outcomes"] = dict(zip(names, numbers, strict=True))
        return self._first(step.obs), float(step.reward[0]), terminated, truncated, info

    def render(self) -> Any:
        """Draw the board as text, or as pixels [height, width, 3]."""
        if self.render_mode is None:
            return None
        from flashdqn.core.drawing.paint import paint_pixels

        view = self._look()
        if self.render_mode == "ansi":
            return view.text().plain
        return paint_pixels((*view.ground, *view.scene()), view.size, WIDTH).copy()

    def close(self) -> None:
        """Do nothing: there are no processes to end."""

    def _look(self) -> Any:
        if self._view is None:
            view = find_task(self.task).view
            if view is None:
                raise EnvError(f"There are no pictures of {self.game.name} yet: use render_mode=None.")
            self._view = view(self.game)
        return self._view

    def _info(self) -> dict[str, Any]:
        mask = self.game.mask
        return {} if mask is None else {MASK_KEY: mask[0].numpy().astype(np.int8)}

    def _first(self, obs: Tensor) -> Array:
        first: Array = convert_observations(self.game, obs)[0]
        return first
