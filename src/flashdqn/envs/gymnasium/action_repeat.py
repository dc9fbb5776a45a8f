"""An action that is repeated for several steps of an environment."""

from __future__ import annotations

from typing import Any

import gymnasium

from flashdqn.core.errors import EnvFailureError
from flashdqn.envs.gymnasium.spaces import MASK_KEY


class ActionRepeat(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes every action `times` times, or until the episode ends. Rewards are added; the last step is observed."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, times: int) -> None:
        super().__init__(env)
        self.name, self.times = name, times

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        obs, info = self.env.reset(seed=seed, options=options)
        if MASK_KEY in info:
            raise EnvFailureError(
                f"{self.name} says which actions are legal, and an action may become illegal while it is repeated: "
                "leave out --env.action-repeat."
            )
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        total = 0.0
        for _ in range(self.times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info
