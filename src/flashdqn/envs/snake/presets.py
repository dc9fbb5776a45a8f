"""Presets for Snake."""

from __future__ import annotations

from flashdqn.envs.task import Preset

BASIC = Preset(
    "Snake 10x10, eleven plain features, double DQN: a minute on two cores",
    {"steps": 1_250_000, "env": {"features": "basic"}},
)

FLOOD = Preset(
    "Snake 10x10 with flood-fill features, double DQN: what `make train` runs",
    {
        "steps": 2_500_000,
        "env": {"features": "flood"},
        # Rewards are ±10: Huber's δ of 10 keeps the loss squared for most errors, so a rare death has its full
        # weight.
        "learn": {"gamma": 0.995, "huber": 10.0, "lr_end": 5e-5, "lr_over": 3_000_000, "v_max": 320.0},
    },
)

#: The settings that the presets for a GPU share.
ON_GPU = Preset(
    "Snake 10x10 on a GPU",
    {
        # One food is 1, so values stay small enough for bfloat16. Time costs only the discount. Hunger is the only
        # limit: a board of 97 food takes about two thousand steps.
        "env": {"food_reward": 1.0, "step_reward": 0.0, "win_reward": 1.0},
        "replay": {"n_step": 3},
        # Huber's δ of 5 keeps the loss squared for most errors: a rare death costs all the food to come.
        "learn": {
            "lr": 3e-4,
            "lr_end": 1e-5,
            "huber": 5.0,
            "target_every": 0,
            "target_tau": 0.01,
            "v_max": 20.0,
        },
        # A game that fills the board hardly survives one random move: a third of the boards explore with less
        # than 0.002.
        "explore": {"schedule": "spread", "start": 0.4, "end": 0.0003},
        "log": {"every": 4_000_000, "checkpoint_every": 0},
    },
)

GRID = Preset(
    "Snake 10x10 from the board's planes, residual network, for a GPU: 90 of 97 in ten minutes on an H200",
    {
        "steps": 350_000_000,
        "envs": 4096,
        "train_ratio": 1 / 4096,  # one gradient step per step of all boards
        "env": {"features": "grid", "actions": "absolute", "death_reward": -1.0},
        "network": {
            "torso": "resnet",
            "channels": (64, 64, 64),
            "hidden": (512,),
            "dueling": True,
            "layer_norm": True,
        },
        "replay": {"capacity": 2_000_000},
        "learn": {"batch_size": 4096, "starts": 100_000, "lr_over": 350_000_000, "v_min": -2.0},
        "eval": {"every": 40_000_000, "episodes": 128},
        "runtime": {"precision": "bf16"},
    },
    base=ON_GPU,
)

ENHANCED = Preset(
    "Snake 10x10 with every vector feature, for a GPU: 56 to 59 in four minutes on an H200",
    {
        "steps": 120_000_000,
        "envs": 1024,
        "train_ratio": 1 / 512,
        # A death costs five times what food brings: of the settings tried, this gave the most food per game.
        "env": {"features": "enhanced", "death_reward": -5.0},
        "network": {"hidden": (512, 512)},
        "replay": {"capacity": 1_000_000},
        "learn": {"batch_size": 2048, "starts": 50_000, "lr_over": 120_000_000, "v_min": -6.0},
        "eval": {"every": 20_000_000, "episodes": 256},
    },
    base=ON_GPU,
)

PRESETS = {"snake": BASIC, "snake-flood": FLOOD, "snake-grid": GRID, "snake-enhanced": ENHANCED}
