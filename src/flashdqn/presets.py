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
from flashdqn.envs import GymConfig, SfcConfig, SnakeConfig
from flashdqn.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A configuration with one line about it."""

    about: str
    config: Config


#: The network of Onsu et al. 2024, for the state of six VNFs and six chains.
SFC_NETWORK = NetworkConfig(
    torso="branches",
    branches=("14:128,64", "6x13:64/64", "6x10:64/64"),
    attention=128,
    hidden=(256, 128, 64),
)

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
        "Snake 10x10 from the board's planes, residual network, for a GPU: 90 of 97 in ten minutes on an H200",
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
    "snake-enhanced": Preset(
        "Snake 10x10 with every vector feature, for a GPU: 56 to 59 in four minutes on an H200",
        Config(
            preset="snake-enhanced",
            steps=120_000_000,
            envs=1024,
            train_ratio=1 / 512,
            # A death costs five times what food brings: of the settings tried, this gave the most food per game.
            env=SnakeConfig(
                features="enhanced", food_reward=1.0, death_reward=-5.0, step_reward=0.0, win_reward=1.0
            ),
            network=NetworkConfig(hidden=(512, 512)),
            replay=ReplayConfig(capacity=1_000_000, n_step=3),
            learn=LearnConfig(
                gamma=0.99,
                batch_size=2048,
                starts=50_000,
                lr=3e-4,
                lr_end=1e-5,
                lr_over=120_000_000,
                huber=5.0,
                target_every=0,
                target_tau=0.01,
                v_min=-6.0,
                v_max=20.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.4, end=0.0003),
            eval=EvalConfig(every=20_000_000, episodes=256),
            log=LogConfig(every=4_000_000, checkpoint_every=0),
        ),
    ),
    "sfc": Preset(
        "service function chains over 2 to 8 data centres, one model for all of them (docs/sfc.md)",
        Config(
            preset="sfc",
            steps=1_000_000,
            envs=64,
            train_ratio=1 / 32,
            # Progress is paid at once, and time costs what all CPU could earn in it, so that values stay near 0:
            # discounting counts actions, and must not reward who makes time pass by serving less.
            env=SfcConfig(
                waiting="idle",
                satisfied_reward=0.5,
                dropped_reward=0.0,
                needed_reward=0.0,
                progress_reward=0.5,
                time_reward=-0.03,
            ),
            network=NetworkConfig(hidden=(256, 256)),
            replay=ReplayConfig(capacity=300_000),
            learn=LearnConfig(
                gamma=0.95,
                starts=30_000,
                lr_end=5e-5,
                lr_over=1_000_000,
                target_every=0,
                target_tau=0.01,
                v_min=-40.0,
                v_max=20.0,
            ),
            explore=ExploreConfig(schedule="spread", start=0.4, end=0.005),
            eval=EvalConfig(every=100_000, episodes=64),
            log=LogConfig(every=100_000, checkpoint_every=0),
        ),
    ),
    "sfc-paper": Preset(
        "service function chains with the paper's network and settings, 2 to 8 data centres",
        Config(
            preset="sfc-paper",
            steps=1_000_000,
            envs=32,
            train_ratio=0.2,
            env=SfcConfig(full_steps=True),
            network=SFC_NETWORK,
            replay=ReplayConfig(capacity=10_000),
            learn=LearnConfig(
                bootstrap="greedy",
                batch_size=32,
                starts=1_000,
                lr=1e-4,
                target_every=10,
                v_min=-50.0,
                v_max=50.0,
            ),
            explore=ExploreConfig(end=0.01, over=200_000),
            eval=EvalConfig(every=100_000, episodes=32),
            log=LogConfig(every=10_000, checkpoint_every=0),
        ),
    ),
    "cartpole": Preset(
        "CartPole-v1 of Gymnasium: 500 in a minute on two cores",
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
        "Acrobot-v1 of Gymnasium: -81 to -88 in a minute on two cores",
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
        "LunarLander-v3 of Gymnasium (pip install box2d): 226 to 262 in five minutes on two cores",
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
        "MinAtar Breakout (pip install minatar), a small CNN: 20 in twenty minutes on one core",
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
