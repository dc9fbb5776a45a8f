"""Observations without their texts: a Q-network reads numbers.

MiniGrid's observations hold an image, a direction and the text of the mission, which is often always the same.
"""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
from gymnasium import Space, spaces

_log = logging.getLogger("flashdqn")
#: Environments whose texts were spoken of.
_told: set[str] = set()


class WithoutText(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Leaves texts out of a Dict."""

    def __init__(self, env: gymnasium.Env[Any, Any], texts: tuple[str, ...]) -> None:
        super().__init__(env)
        self.texts = texts
        kept = {key: part for key, part in env.observation_space.spaces.items() if key not in texts}  # type: ignore[attr-defined]
        self.observation_space = spaces.Dict(kept)

    def reset(self, **more: Any) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        answer = self.env.reset(**more)
        return (self.keep(answer[0]), *answer[1:]) if isinstance(answer, tuple) else answer

    def step(self, action: Any) -> Any:
        """Step as in Gymnasium."""
        answer = self.env.step(action)
        return (self.keep(answer[0]), *answer[1:]) if isinstance(answer, tuple) else answer

    def keep(self, obs: Any) -> Any:
        """An observation without its texts; a wrong one stays as it is, to be refused."""
        if not isinstance(obs, dict):
            return obs
        return {key: part for key, part in obs.items() if key not in self.texts}


def leave_out_texts(env: gymnasium.Env[Any, Any], name: str) -> gymnasium.Env[Any, Any]:
    """An environment without the texts of its observations, if numbers remain."""
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        return env
    texts = tuple(key for key, part in space.spaces.items() if is_text(part))
    if not texts or len(texts) == len(space.spaces):
        return env
    if name not in _told:
        _told.add(name)
        _log.warning(
            "%s: the text '%s' is left out of the observation, because a Q-network reads numbers. If it matters, "
            "wrap the environment so that it returns numbers for it",
            name,
            "', '".join(texts),
        )
    return WithoutText(env, texts)


def is_text(space: Space[Any]) -> bool:
    """Whether a space holds texts: Gymnasium's own, or one of a package."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and space.dtype.kind in "US")
