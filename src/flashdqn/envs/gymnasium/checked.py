"""One Gymnasium environment whose answers are checked, so that a wrong one is a sentence and not a riddle.

Vector environments would take many wrong answers without a word: None as a reward is NaN, the text "no" is True.
"""

from __future__ import annotations

import numbers
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from flashdqn.core.errors import EnvFailureError
from flashdqn.envs.gymnasium.spaces import MASK_KEY, Array, join_mask

#: What we read of an info. Everything else stays with the environment: it may not be picklable, or change its type.
INFO_KEYS = (MASK_KEY, "lives")
#: Packages whose environments take seeds below 2³¹ only.
SMALL_SEEDS = ("sumo_rl",)
#: Kinds of numbers that an observation may hold.
NUMBERS = "biuf"


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes calls on, and checks what comes back."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self.name, self.space = name, env.observation_space
        plain = isinstance(self.space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete)
        self.shape = self.space.shape if plain else None
        actions = env.action_space
        self.num_actions = int(actions.n) if isinstance(actions, spaces.Discrete) else 0
        self.small_seeds = type(env.unwrapped).__module__.partition(".")[0] in SMALL_SEEDS

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset as in Gymnasium."""
        if self.small_seeds and seed is not None:
            seed %= 2**31
        answer = self.env.reset(seed=seed, options=options) if options else self.env.reset(seed=seed)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise EnvFailureError(
                f"{self.name}: reset must return (obs, info), and returned {_describe(answer)}."
            )
        self._check_obs("reset", answer[0])
        return answer[0], self._keep_info("reset", answer[1])

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step as in Gymnasium."""
        answer: Any = self.env.step(action)
        if answer.__class__ is tuple and len(answer) == 5:
            obs, reward, terminated, truncated, info = answer
            if (
                obs.__class__ is np.ndarray
                and obs.shape == self.shape
                and reward.__class__ is float
                and terminated.__class__ is bool
                and truncated.__class__ is bool
                and info.__class__ is dict
                and not info
            ):  # what most environments answer costs almost nothing to check
                return answer
        return self._read_step(answer)

    def _read_step(self, answer: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._check_length(answer)
        obs, reward, terminated, truncated, info = answer
        if obs.__class__ is not np.ndarray or obs.shape != self.shape or obs.dtype.kind not in NUMBERS:
            self._check_obs("step", obs)
        return (
            obs,
            reward if reward.__class__ is float else self._read_reward(reward),
            terminated if terminated.__class__ is bool else self._read_flag("terminated", terminated),
            truncated if truncated.__class__ is bool else self._read_flag("truncated", truncated),
            self._keep_info("step", info),
        )

    def _check_length(self, answer: Any) -> None:
        if not isinstance(answer, tuple | list) or len(answer) != 5:
            raise EnvFailureError(
                f"{self.name}: step must return (obs, reward, terminated, truncated, info), and returned "
                f"{_describe(answer)}."
            )

    def _check_obs(self, call: str, obs: Any) -> None:
        if wrong := find_mismatch(self.space, obs):
            raise EnvFailureError(f"{self.name}: an observation of {call} {wrong}.")

    def _read_reward(self, reward: Any) -> float:
        array = None if reward is None or isinstance(reward, str | bytes) else _as_numbers(reward)
        if array is None or array.size != 1:
            raise EnvFailureError(f"{self.name}: a reward must be one number, and is {_describe(reward)}.")
        return float(array.reshape(()))

    def _read_flag(self, what: str, flag: Any) -> bool:
        array = None if flag is None or isinstance(flag, str | bytes) else _as_numbers(flag)
        if array is None or array.size != 1 or array.reshape(()) not in (0, 1):
            raise EnvFailureError(f"{self.name}: `{what}` must be True or False, and is {_describe(flag)}.")
        return bool(array.reshape(()))

    def _keep_info(self, call: str, info: Any) -> dict[str, Any]:
        if not isinstance(info, dict):
            raise EnvFailureError(
                f"{self.name}: the info of {call} must be a dict, and is {_describe(info)}."
            )
        kept = {key: info[key] for key in INFO_KEYS if key in info}
        if MASK_KEY in kept:
            if self.num_actions:
                check_mask_form(self.name, kept[MASK_KEY], self.num_actions)
            else:  # an array for each part of an action
                kept[MASK_KEY] = join_mask(kept[MASK_KEY])
        return kept


def check_mask_form(name: str, mask: Any, num_actions: int) -> None:
    """Raise if an environment's mask is not a number for each action."""
    array = None if mask is None or isinstance(mask, str | bytes) else _as_numbers(mask)
    if array is None or array.shape != (num_actions,):
        raise EnvFailureError(
            f"{name}: info['{MASK_KEY}'] must have the shape [{num_actions}], with a number for each action, and "
            f"is {_describe(mask)}."
        )


def find_mismatch(space: Space[Any], obs: Any) -> str:
    """What is wrong with an observation of a space, in words; empty: nothing."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict):
            return f"must be a dict with {', '.join(map(str, space.spaces))}, and is {_describe(obs)}"
        found = ((f"['{key}']", part, obs.get(key)) for key, part in space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            return f"must be a tuple of {len(space.spaces)}, and is {_describe(obs)}"
        found = ((f"[{i}]", part, obs[i]) for i, part in enumerate(space.spaces))
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        return _find_array_mismatch(space, obs)
    else:
        return ""
    wrong = ((place, find_mismatch(part, value)) for place, part, value in found)
    return next((f"{place} {text}".strip() for place, text in wrong if text), "")


def _find_array_mismatch(space: Space[Any], obs: Any) -> str:
    array = None if obs is None or isinstance(obs, str | bytes) else _as_numbers(obs)
    shape = space.shape or ()
    if array is None:
        return f"must be numbers of shape {list(shape)}, and is {_describe(obs)}"
    if array.shape != shape:
        return f"must have the shape {list(shape)} of its space, and has {list(array.shape)}"
    return ""


def _as_numbers(value: Any) -> Array | None:
    """As an array of real numbers; None if it is not."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return array if array.dtype.kind in NUMBERS else None


def _describe(value: Any) -> str:
    """A value in a few words."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, numbers.Number) and not isinstance(value, complex):
        return f"{value}"[:40]
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {list(value.shape)}"
    size = f" of {len(value)}" if isinstance(value, tuple | list | dict) else ""
    return f"a {type(value).__name__}{size}"
