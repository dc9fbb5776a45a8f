"""Starting points: a task with settings that are known to work."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from flashdqn.config import (
    Config,
    EvalConfig,
    ExploreConfig,
    LearnConfig,
    LogConfig,
    NetworkConfig,
    ReplayConfig,
    RuntimeConfig,
)
from flashdqn.config_io import nearest
from flashdqn.envs import GymConfig, SnakeConfig
from flashdqn.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A configuration with one line about it."""

    about: str
    config: Config


PRESETS: dict[str, Preset] = {
    "snake": Preset(
        "Snake 10x10, eleven plain features, double DQN: a minute on two cores",
        Config(preset="snake", steps=1_250_000, env=SnakeConfig(features="basic")),
    ),
    "snake-flood": Preset(
        "Snake 10x10 with flood-fill features, double DQN: what `make train` runs",
        Config(
            preset="snake-flood",
            steps=2_500_000,
            env=SnakeConfig(features="flood"),
            # Rewards are ±10: Huber's δ of 10 keeps the loss squared where the errors are, so that a rare
            # death counts for what it costs.
            learn=LearnConfig(gamma=0.995, huber=10.0, lr_end=5e-5, lr_over=3_000_000, v_max=320.0),
        ),
    ),
    "snake-grid": Preset(
        "Snake 10x10 from the board's planes, with a residual network: for a GPU, ten minutes on an H200",
        Config(
            preset="snake-grid",
            steps=350_000_000,
            envs=4096,
            train_ratio=1 / 4096,  # one gradient step per step of all boards
            # One food is 1, so that values stay small enough for bfloat16. Time costs nothing but the discount. The
            # only cap is that of hunger: a board of 97 food takes some two thousand steps.
            env=SnakeConfig(
                features="grid",
                actions="absolute",
                food_reward=1.0,
                death_reward=-1.0,
                step_reward=0.0,
                win_reward=1.0,
            ),
            network=NetworkConfig(
                torso="resnet", channels=(64, 64, 64), hidden=(512,), dueling=True, layer_norm=True
            ),
            replay=ReplayConfig(capacity=2_000_000, n_step=3),
            # Huber's δ of 5 keeps the loss squared where the errors are: a rare death costs all the food to come.
            learn=LearnConfig(
                gamma=0.99,
                batch_size=4096,
                starts=100_000,
                lr=3e-4,
                lr_end=1e-5,
                lr_over=350_000_000,
                huber=5.0,
                target_every=0,
                target_tau=0.01,
                v_min=-2.0,
                v_max=20.0,
            ),
            # A game that fills the board has room for hardly one random move: a third of the boards explore with
            # less than 0.002.
            explore=ExploreConfig(schedule="spread", start=0.4, end=0.0003),
            eval=EvalConfig(every=40_000_000, episodes=128),
            log=LogConfig(every=4_000_000, checkpoint_every=0),
            runtime=RuntimeConfig(precision="bf16"),
        ),
    ),
    "cartpole": Preset(
        "CartPole-v1 of Gymnasium: a minute on two cores",
        Config(
            preset="cartpole",
            steps=50_000,
            envs=16,
            train_ratio=0.5,
            env=GymConfig(id="CartPole-v1"),
            network=NetworkConfig(hidden=(256, 256)),
            replay=ReplayConfig(capacity=50_000),
            learn=LearnConfig(
                batch_size=64,
                starts=1_000,
                target_every=128,
                lr=2.3e-3,
                lr_end=2.3e-4,
                lr_over=50_000,
                v_min=0.0,
                v_max=100.0,
            ),
            explore=ExploreConfig(end=0.04, over=8_000),
            eval=EvalConfig(every=5_000, episodes=100),
            log=LogConfig(every=5_000, checkpoint_every=0),
        ),
    ),
    "acrobot": Preset(
        "Acrobot-v1 of Gymnasium: a minute on two cores",
        Config(
            preset="acrobot",
            steps=100_000,
            envs=16,
            train_ratio=0.25,
            env=GymConfig(id="Acrobot-v1"),
            network=NetworkConfig(layer_norm=True),
            replay=ReplayConfig(capacity=100_000, n_step=3),
            learn=LearnConfig(
                batch_size=64,
                starts=2_000,
                target_every=0,
                target_tau=0.01,
                lr=1e-3,
                lr_end=1e-5,
                lr_over=100_000,
                v_min=-100.0,
                v_max=0.0,
            ),
            explore=ExploreConfig(end=0.05, over=20_000),
            eval=EvalConfig(every=20_000, episodes=100),
            log=LogConfig(every=10_000, checkpoint_every=0),
        ),
    ),
    "lunarlander": Preset(
        "LunarLander-v3 of Gymnasium (pip install box2d): five minutes on two cores",
        Config(
            preset="lunarlander",
            steps=400_000,
            envs=16,
            train_ratio=0.25,
            env=GymConfig(id="LunarLander-v3"),
            network=NetworkConfig(hidden=(256, 256)),
            replay=ReplayConfig(capacity=100_000, n_step=3),
            learn=LearnConfig(
                batch_size=128,
                starts=2_000,
                target_every=0,
                target_tau=0.01,
                lr=6.3e-4,
                lr_end=2e-5,
                lr_over=400_000,
                v_min=-300.0,
                v_max=300.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.5, end=0.02),
            eval=EvalConfig(every=25_000, episodes=100),
            log=LogConfig(every=10_000, checkpoint_every=0),
        ),
    ),
    "minatar-breakout": Preset(
        "MinAtar Breakout (pip install minatar), from its planes, with a small CNN",
        Config(
            preset="minatar-breakout",
            steps=1_500_000,
            envs=32,
            train_ratio=0.125,
            env=GymConfig(id="MinAtar/Breakout-v1", max_steps=5_000),
            network=NetworkConfig(torso="cnn", channels=(16,), hidden=(128,), layer_norm=True),
            replay=ReplayConfig(capacity=250_000, n_step=3),
            learn=LearnConfig(
                batch_size=64,
                starts=5_000,
                target_every=0,
                target_tau=0.005,
                lr=3e-4,
                lr_end=5e-5,
                lr_over=1_500_000,
                v_min=0.0,
                v_max=20.0,
            ),
            explore=ExploreConfig(end=0.01, over=150_000),
            eval=EvalConfig(every=150_000, episodes=100),
            log=LogConfig(every=25_000, checkpoint_every=0),
        ),
    ),
}


#: Where a Gymnasium environment without a preset of its own starts from.
ANY_GYM = Config(
    preset="gym",
    steps=500_000,
    envs=16,
    train_ratio=0.25,
    env=GymConfig(),
    replay=ReplayConfig(capacity=100_000),
    learn=LearnConfig(batch_size=128, starts=2_000, target_every=500, v_min=-100.0, v_max=100.0),
    explore=ExploreConfig(end=0.02, over=50_000),
    eval=EvalConfig(every=50_000, episodes=20),
    log=LogConfig(every=10_000, checkpoint_every=250_000),
)


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
