"""Presets for service function chains."""

from __future__ import annotations

from flashdqn.envs.task import Preset

BEST = Preset(
    "service function chains over 2 to 8 data centers, one model for all of them (docs/sfc.md)",
    {
        "steps": 200_000,
        "envs": 64,
        # Progress is paid at once, and time costs what all CPU could earn in it, so values stay near 0.
        # Discounting counts actions, and must not reward an agent that lets time pass by serving less.
        "env": {
            "waiting": "idle",
            "satisfied_reward": 0.5,
            "dropped_reward": 0.0,
            "needed_reward": 0.0,
            "progress_reward": 0.5,
            "progress_power": 2.0,
            "time_reward": -0.03,
        },
        "network": {"hidden": (256, 256)},
        "replay": {"capacity": 300_000},
        "learn": {
            "gamma": 0.95,
            "starts": 5_000,
            "lr_end": 5e-5,
            "lr_over": 200_000,
            "target_every": 0,
            "target_tau": 0.01,
            "v_min": -40.0,
            "v_max": 20.0,
        },
        "explore": {"schedule": "spread", "start": 0.4},
        # A rule makes room, which exploration seldom discovers: half of every batch teaches the rule's choices.
        "demos": {
            "source": "makes-room",
            "episodes": 256,
            "chance": 0.3,
            "pretrain_steps": 15_000,
            "keep": 250_000,
            "share": 0.5,
            "margin": 0.2,
        },
        "eval": {"every": 50_000, "episodes": 64},
        "log": {"every": 50_000, "checkpoint_every": 0},
    },
)

PAPER = Preset(
    "service function chains with the paper's network and settings, 2 to 8 data centers",
    {
        "steps": 1_000_000,
        "envs": 32,
        "train_ratio": 0.2,
        "env": {"full_steps": True},
        # The network of Onsu et al. 2024, for the state of six VNFs and six chains.
        "network": {
            "torso": "branches",
            "branches": ("14:128,64", "6x13:64/64", "6x10:64/64"),
            "attention": 128,
            "hidden": (256, 128, 64),
        },
        "replay": {"capacity": 10_000},
        "learn": {
            "bootstrap": "greedy",
            "batch_size": 32,
            "starts": 1_000,
            "lr": 1e-4,
            "target_every": 10,
            "v_min": -50.0,
            "v_max": 50.0,
        },
        "explore": {"end": 0.01, "over": 200_000},
        "eval": {"every": 100_000, "episodes": 32},
        "log": {"every": 10_000, "checkpoint_every": 0},
    },
)

PRESETS = {"sfc": BEST, "sfc-paper": PAPER}
