"""Environments from before Gymnasium, under Gymnasium's rules.

The package gym had `reset()`, which returns an observation alone, `seed()`, and a `step` that returns four things.
Packages such as crafter, gym-sokoban and JSSEnv still answer so: with gym's spaces, Gymnasium's, or similar tuples.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from flashdqn.core.errors import EnvError

#: What an info of the old kind says about an end by a clock.
CUT_OFF = "TimeLimit.truncated"
OLD_CALLS = ("reset", "step", "action_space", "observation_space")


class OldEnv(gymnasium.Env[Any, Any]):
    """Passes calls on, and translates the answers where they are of the old kind."""

    #: such environments choose it when they draw
    render_mode = "rgb_array"

    def __init__(self, env: Any, name: str) -> None:
        self.env = env
        self.metadata = getattr(env, "metadata", None) or {}
        self.observation_space = translate_space(env.observation_space, name)
        self.action_space = translate_space(env.action_space, name)
        self.takes_seed = accepts_argument(env.reset, "seed")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset, seeded in the way that the environment has."""
        if self.takes_seed:
            answer = self.env.reset(seed=seed)
        else:
            if seed is not None and callable(getattr(self.env, "seed", None)):
                self.env.seed(seed % 2**31)
            answer = self.env.reset()
        is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)
        return answer if is_pair else (answer, {})

    def step(self, action: Any) -> Any:
        """Step; `done` counts as truncated only if the info says so."""
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) != 4:
            return answer
        obs, reward, done, info = answer
        late = bool(done) and isinstance(info, dict) and bool(info.get(CUT_OFF))
        return obs, reward, bool(done) and not late, late, info

    def render(self) -> Any:
        """What the environment draws."""
        has_mode = accepts_argument(self.env.render, "mode")
        return self.env.render(mode="rgb_array") if has_mode else self.env.render()

    def close(self) -> None:
        """Close it, if it can be closed."""
        if callable(close := getattr(self.env, "close", None)):
            close()

    @property
    def unwrapped(self) -> Any:
        """The user's own object."""
        return getattr(self.env, "unwrapped", self.env)


def is_old_env(env: object) -> bool:
    """Whether an object has the calls of an environment, and is not one of Gymnasium's."""
    return not isinstance(env, gymnasium.Env | type) and all(hasattr(env, call) for call in OLD_CALLS)


def adopt_env(env: Any, name: str) -> gymnasium.Env[Any, Any]:
    """An environment under Gymnasium's rules: itself, or translated, also inside Gymnasium's wrappers."""
    if is_old_env(env):
        if hasattr(env, "possible_agents"):
            raise EnvError(
                f"{name} has several agents (PettingZoo), and a DQN is one: train a version of it in which one "
                "agent decides, or wrap it so that there is one."
            )
        return OldEnv(env, name)
    outer, inner = None, env
    while isinstance(inner, gymnasium.Wrapper):
        outer, inner = inner, inner.env
    if isinstance(inner, OldEnv) or accepts_argument(inner.reset, "seed"):
        return env  # type: ignore[no-any-return]
    adopted = OldEnv(inner, name)
    if outer is None:
        return adopted
    outer.env = adopted
    return env  # type: ignore[no-any-return]


def accepts_argument(function: Callable[..., Any], argument: str) -> bool:
    """Whether a function takes an argument of this name, also by `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function: believe that it does
        return True
    return any(each.name == argument or each.kind is each.VAR_KEYWORD for each in parameters)


def translate_space(space: Any, name: str) -> Space[Any]:
    """A space of the package gym, or a tuple of the same form, as Gymnasium's."""
    if isinstance(space, Space):
        return space
    kind = type(space).__name__.removesuffix("Space")
    if kind == "Box":
        low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
        return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(space.nvec)
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.n)
    if kind == "Dict":
        return spaces.Dict({key: translate_space(part, name) for key, part in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([translate_space(part, name) for part in space.spaces])
    raise EnvError(
        f"{name} has a space of the kind {type(space).__name__}, which is none of Gymnasium's: wrap the "
        "environment so that its spaces are those of gymnasium.spaces."
    )


def find_in_old_registry(module: str, name: str) -> Callable[..., gymnasium.Env[Any, Any]] | None:
    """What makes an environment that a module has registered with the package gym; None if it has not."""
    gym = sys.modules.get("gym")
    if gym is None:
        return None
    registry = gym.envs.registration.registry
    known = getattr(registry, "env_specs", registry)
    return functools.partial(make_from_old_registry, module, name) if name in known else None


def make_from_old_registry(module: str, name: str, /, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment of gym's registry, without gym's own wrappers: these fail with NumPy 2."""
    importlib.import_module(module)
    spec: Any = importlib.import_module("gym").spec(name)
    entry = spec.entry_point
    if isinstance(entry, str):
        place, _, attribute = entry.partition(":")
        entry = getattr(importlib.import_module(place), attribute)
    given = dict(getattr(spec, "kwargs", None) or getattr(spec, "_kwargs", {})) | kwargs
    env = adopt_env(entry(**given), name)
    return gymnasium.wrappers.TimeLimit(env, spec.max_episode_steps) if spec.max_episode_steps else env
