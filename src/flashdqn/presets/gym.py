"""Gymnasium's environments."""

from __future__ import annotations

from dataclasses import replace

from flashdqn.config import (
    Config,
    EvalConfig,
    ExploreConfig,
    LearnConfig,
    LogConfig,
    NetworkConfig,
    ReplayConfig,
)
from flashdqn.envs import GymConfig
from flashdqn.presets.preset import Preset

GYM: dict[str, Preset] = {
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

#: The other games of MinAtar, at the settings of Breakout: by preset, their name there and C51's largest return.
MINATAR = {
    "minatar-asterix": ("Asterix", 40.0),
    "minatar-freeway": ("Freeway", 60.0),
    "minatar-seaquest": ("Seaquest", 60.0),
    "minatar-space-invaders": ("SpaceInvaders", 100.0),
}

for _preset, (_game, _largest) in MINATAR.items():
    _breakout = GYM["minatar-breakout"].config
    GYM[_preset] = Preset(
        f"MinAtar {_game} (pip install minatar), a small CNN, the settings of Breakout",
        replace(
            _breakout,
            preset=_preset,
            env=GymConfig(id=f"MinAtar/{_game}-v1", max_steps=5_000),
            learn=replace(_breakout.learn, v_max=_largest),
        ),
    )

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
