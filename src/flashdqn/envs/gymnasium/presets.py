"""Presets for Gymnasium environments; those of Atari are in `atari_presets.py`."""

from __future__ import annotations

from flashdqn.envs.gymnasium.atari_presets import ATARI, ATARI_PRESETS
from flashdqn.envs.task import Preset

#: The preset for an environment without its own.
ANY = Preset(
    "any Gymnasium environment",
    {
        "steps": 500_000,
        "envs": 16,
        "train_ratio": 0.25,
        "replay": {"capacity": 100_000},
        "learn": {"batch_size": 128, "starts": 2_000, "target_every": 500, "v_min": -100.0, "v_max": 100.0},
        "explore": {"end": 0.02, "over": 50_000},
        "eval": {"every": 50_000, "episodes": 20},
        "log": {"every": 10_000, "checkpoint_every": 250_000},
    },
)

CARTPOLE = Preset(
    "CartPole-v1 of Gymnasium: 500 in a minute on two cores",
    {
        "steps": 50_000,
        "train_ratio": 0.5,
        "env": {"id": "CartPole-v1"},
        "network": {"hidden": (256, 256)},
        "replay": {"capacity": 50_000},
        "learn": {
            "batch_size": 64,
            "starts": 1_000,
            "target_every": 128,
            "lr": 2.3e-3,
            "lr_end": 2.3e-4,
            "lr_over": 50_000,
            "v_min": 0.0,
        },
        "explore": {"end": 0.04, "over": 8_000},
        "eval": {"every": 5_000, "episodes": 100},
        "log": {"every": 5_000, "checkpoint_every": 0},
    },
    base=ANY,
)

ACROBOT = Preset(
    "Acrobot-v1 of Gymnasium: -81 to -88 in a minute on two cores",
    {
        "steps": 100_000,
        "env": {"id": "Acrobot-v1"},
        "network": {"layer_norm": True},
        "replay": {"n_step": 3},
        "learn": {
            "batch_size": 64,
            "target_every": 0,
            "target_tau": 0.01,
            "lr": 1e-3,
            "lr_end": 1e-5,
            "lr_over": 100_000,
            "v_max": 0.0,
        },
        "explore": {"end": 0.05, "over": 20_000},
        "eval": {"every": 20_000, "episodes": 100},
        "log": {"checkpoint_every": 0},
    },
    base=ANY,
)

MOUNTAINCAR = Preset(
    "MountainCar-v0 of Gymnasium, each action for four steps: -101 to -105 in a minute on two cores",
    {
        "steps": 50_000,
        "train_ratio": 0.5,
        # The velocity is below 0.07: unscaled, the network hardly sees it. Chance alone reaches the goal only if
        # an action lasts for a while.
        "env": {"id": "MountainCar-v0", "scale": True, "action_repeat": 4},
        "replay": {"capacity": 50_000, "n_step": 3},
        "learn": {
            "batch_size": 64,
            "starts": 1_000,
            "huber": 10.0,
            "target_every": 0,
            "target_tau": 0.01,
            "lr": 1e-3,
            "lr_end": 1e-5,
            "lr_over": 50_000,
            "v_max": 0.0,
        },
        "explore": {"over": 10_000},
        "eval": {"every": 6_250, "episodes": 50},
        "log": {"checkpoint_every": 0},
    },
    base=ANY,
)

LUNARLANDER = Preset(
    "LunarLander-v3 of Gymnasium (pip install box2d): 226 to 262 in five minutes on two cores",
    {
        "steps": 400_000,
        "env": {"id": "LunarLander-v3"},
        "network": {"hidden": (256, 256)},
        "replay": {"n_step": 3},
        "learn": {
            "target_every": 0,
            "target_tau": 0.01,
            "lr": 6.3e-4,
            "lr_end": 2e-5,
            "lr_over": 400_000,
            "v_min": -300.0,
            "v_max": 300.0,
        },
        "explore": {"schedule": "spread", "start": 0.5, "over": 1_000_000},
        "eval": {"every": 25_000, "episodes": 100},
        "log": {"checkpoint_every": 0},
    },
    base=ANY,
)

BREAKOUT = Preset(
    "MinAtar Breakout (pip install minatar), a small CNN: 20 in twenty minutes on one core",
    {
        "steps": 1_500_000,
        "envs": 32,
        "train_ratio": 0.125,
        "env": {"id": "MinAtar/Breakout-v1", "max_steps": 5_000},
        "network": {"torso": "cnn", "channels": (16,), "hidden": (128,), "layer_norm": True},
        "replay": {"capacity": 250_000, "n_step": 3},
        "learn": {
            "batch_size": 64,
            "starts": 5_000,
            "target_every": 0,
            "lr": 3e-4,
            "lr_end": 5e-5,
            "lr_over": 1_500_000,
            "v_min": 0.0,
            "v_max": 20.0,
        },
        "explore": {"end": 0.01, "over": 150_000},
        "eval": {"every": 150_000},
        "log": {"every": 25_000, "checkpoint_every": 0},
    },
)


def make_minatar_preset(game: str, largest: float) -> Preset:
    """Another MinAtar game with the settings of Breakout; `largest` is the largest return for C51."""
    return Preset(
        f"MinAtar {game} (pip install minatar), a small CNN, the settings of Breakout",
        {"env": {"id": f"MinAtar/{game}-v1"}, "learn": {"v_max": largest}},
        base=BREAKOUT,
    )


PRESETS = {
    "cartpole": CARTPOLE,
    "acrobot": ACROBOT,
    "mountaincar": MOUNTAINCAR,
    "lunarlander": LUNARLANDER,
    "minatar-breakout": BREAKOUT,
    "minatar-asterix": make_minatar_preset("Asterix", 40.0),
    "minatar-freeway": make_minatar_preset("Freeway", 60.0),
    "minatar-seaquest": make_minatar_preset("Seaquest", 60.0),
    "minatar-space-invaders": make_minatar_preset("SpaceInvaders", 100.0),
    **ATARI_PRESETS,
}


def find_gym_start(name: str) -> Preset:
    """The preset of this environment, or else settings that work for many."""
    for preset in PRESETS.values():
        if preset.settings["env"]["id"] == name:
            return preset
    atari = name.removeprefix("ale_py:").startswith("ALE/")
    base = ATARI if atari else ANY
    return Preset(base.about, {"env": {"id": name}}, base)
