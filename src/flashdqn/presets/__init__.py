"""Starting points: a task with settings that are known to work."""

from __future__ import annotations

import re
from dataclasses import replace

from flashdqn.config import Config
from flashdqn.config_io import nearest
from flashdqn.envs import GymConfig
from flashdqn.errors import ConfigError
from flashdqn.presets.gym import ANY_GYM, GYM
from flashdqn.presets.preset import Preset
from flashdqn.presets.sfc import SFC
from flashdqn.presets.snake import SNAKE

__all__ = ["PRESETS", "Preset", "base_config"]

PRESETS: dict[str, Preset] = {**SNAKE, **SFC, **GYM}


def base_config(name: str) -> Config:
    """A preset's configuration, or one for a Gymnasium environment: gym:CartPole-v1, my_module:make_env."""
    if name in PRESETS:
        return PRESETS[name].config
    if ":" in name:
        return gym_config(name)
    if re.search(r"-v\d+$", name):
        raise ConfigError(f"Unknown preset '{name}'; a Gymnasium environment is written 'gym:{name}'.")
    raise ConfigError(f"Unknown preset '{name}'{nearest(name, PRESETS)}")


def gym_config(name: str) -> Config:
    """The preset that was made for this environment, or else settings that do for many."""
    env = name.removeprefix("gym:")
    for preset in PRESETS.values():
        if isinstance(preset.config.env, GymConfig) and preset.config.env.id == env:
            return replace(preset.config, preset=name)
    return replace(ANY_GYM, preset=name, env=GymConfig(id=env))
