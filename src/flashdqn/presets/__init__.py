"""Starting points: a task with settings that are known to work."""

from __future__ import annotations

import re
from dataclasses import replace

from flashdqn.config import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.envs import GymConfig, UserEnvConfig
from flashdqn.envs.user_env import takes_num_envs
from flashdqn.presets.atari import ANY_ATARI, ATARI
from flashdqn.presets.fuelbreaks import FUELBREAKS
from flashdqn.presets.gym import ANY_GYM, GYM
from flashdqn.presets.preset import Preset
from flashdqn.presets.sfc import SFC
from flashdqn.presets.snake import SNAKE
from flashdqn.presets.user_env import ANY_OWN

__all__ = ["PRESETS", "Preset", "base_config"]

PRESETS: dict[str, Preset] = {**SNAKE, **SFC, **FUELBREAKS, **GYM, **ATARI}


def base_config(name: str) -> Config:
    """A preset's configuration, or one for a Gymnasium environment, gym:CartPole-v1, my_module:make_env, or for a
    batched game of one's own, my_game:Coins."""
    if name in PRESETS:
        return PRESETS[name].config
    if name.startswith("own:") or (":" in name and not name.startswith("gym:") and takes_num_envs(name)):
        return replace(ANY_OWN, preset=name, env=UserEnvConfig(id=name.removeprefix("own:")))
    if ":" in name:
        return gym_config(name)
    if re.search(r"-v\d+$", name):
        raise ConfigError(f"Unknown preset '{name}'; a Gymnasium environment is written 'gym:{name}'.")
    raise ConfigError(f"Unknown preset '{name}'{suggest_nearest(name, PRESETS)}")


def gym_config(name: str) -> Config:
    """The preset that was made for this environment, or else settings that do for many."""
    env = name.removeprefix("gym:")
    for preset in PRESETS.values():
        if isinstance(preset.config.env, GymConfig) and preset.config.env.id == env:
            return replace(preset.config, preset=name)
    if env.removeprefix("ale_py:").startswith("ALE/"):
        return replace(ANY_ATARI, preset=name, env=replace(ANY_ATARI.env, id=env))  # type: ignore[arg-type]
    return replace(ANY_GYM, preset=name, env=GymConfig(id=env))
