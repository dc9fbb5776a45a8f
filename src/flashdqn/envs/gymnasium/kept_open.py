"""A user's own instance that a training borrows: the training does not close it."""

from __future__ import annotations

from typing import Any

import gymnasium

from flashdqn.envs.live_env import LiveEnv


class KeptOpen(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes all calls on but `close`, which gives the instance back."""

    def __init__(self, env: gymnasium.Env[Any, Any], live: LiveEnv) -> None:
        super().__init__(env)
        self._live = live
        live.lent = True

    def close(self) -> None:
        """Give the instance back."""
        self._live.lent = False
