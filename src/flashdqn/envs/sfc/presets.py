"""Presets for service function chains."""

from __future__ import annotations

from flashdqn.envs.task import Preset

BEST = Preset(
    "service function chains over 2 to 8 data centers, one model for all of them (docs/sfc.md)",
    {
        "steps": 6_000_000,
        "envs": 32,
        # Every action is paid for what it costs of the requests that CPU still allows, so its worth shows at once,
        # and the agent sees which request it would serve (docs/sfc-learning.md).
        "env": {
            "state": "full",
            "waiting": "idle",
            "satisfied_reward": 1.0,
            "dropped_reward": 0.0,
            "needed_reward": 0.0,
            "bound_reward": 1.0,
            "bound_urgency": 0.6,
        },
        "network": {"hidden": (256, 256)},
        "replay": {"capacity": 300_000},
        "learn": {
            "starts": 20_000,
            "lr_end": 5e-6,
            "lr_over": 6_000_000,
            "target_every": 0,
            "target_tau": 0.01,
            "v_min": -40.0,
            "v_max": 20.0,
        },
        "explore": {"schedule": "spread", "start": 0.4},
        "eval": {"episodes": 64},
        "log": {"every": 50_000, "checkpoint_every": 0},
    },
)

SHOWN = Preset(
    "the same, and a rule shows how: it needs fewer steps",
    {
        "steps": 300_000,
        "learn": {"lr_over": 300_000, "starts": 5_000},
        "demos": {
            "source": "makes-room",
            "episodes": 64,
            "chance": 0.3,
            "pretrain_steps": 10_000,
            "keep": 150_000,
            "margin": 0.05,
            "margin_weight": 0.3,
        },
    },
    base=BEST,
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

SEED = Preset(
    "the paper's network with the settings that its first users trained with: batch 16, a copy every 50 updates",
    {"learn": {"batch_size": 16, "target_every": 50}},
    base=PAPER,
)

PRESETS = {"sfc": BEST, "sfc-shown": SHOWN, "sfc-paper": PAPER, "sfc-seed": SEED}
