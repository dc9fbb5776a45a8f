"""Starting points: a task with settings that are known to work."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.config import Config, EvalConfig, ExploreConfig, LearnConfig, NetworkConfig, ReplayConfig
from flashdqn.config_io import nearest
from flashdqn.envs.snake.config import SnakeConfig
from flashdqn.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A configuration with one line about it."""

    about: str
    config: Config


PRESETS: dict[str, Preset] = {
    "snake": Preset(
        "Snake 10x10, eleven plain features, double DQN",
        Config(preset="snake", steps=3_000_000, env=SnakeConfig(features="basic")),
    ),
    "snake-flood": Preset(
        "Snake 10x10 with flood-fill features, double DQN: what `make train` runs",
        Config(preset="snake-flood", steps=5_000_000, env=SnakeConfig(features="flood")),
    ),
    "snake-grid": Preset(
        "Snake 10x10 from the board's planes, with a CNN",
        Config(
            preset="snake-grid",
            steps=10_000_000,
            env=SnakeConfig(features="grid"),
            network=NetworkConfig(torso="cnn"),
            replay=ReplayConfig(n_step=3),
            learn=LearnConfig(),
            explore=ExploreConfig(),
            eval=EvalConfig(),
        ),
    ),
}


def base_config(name: str) -> Config:
    """A preset's configuration."""
    if name not in PRESETS:
        raise ConfigError(f"Unknown preset '{name}'{nearest(name, PRESETS)}")
    return PRESETS[name].config
