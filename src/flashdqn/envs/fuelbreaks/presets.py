"""Presets for wildfire fuel breaks."""

from __future__ import annotations

from flashdqn.envs.task import Preset

SMALL = Preset(
    "fuel breaks on landscapes of 20x20 cells, for two cores (docs/fuelbreaks.md)",
    {
        "steps": 200_000,
        "envs": 64,
        "env": {
            "size": 20,
            "landscapes": 128,
            "held_out": 32,
            "budget": 0.1,
            "least_budget": 0.01,
            "fires": 200,
        },
        "network": {
            "torso": "cells",
            "channels": (24, 24, 24),
            "attention": 2,
            "hidden": (32,),
            "layer_norm": True,
            "dueling": True,
        },
        "replay": {"capacity": 200_000},
        # The value of a break shows at once and in the next few steps. All later rewards are nearly the same for
        # every cell: with γ near 1 their sum hides the differences between cells.
        "learn": {
            "gamma": 0.5,
            "batch_size": 32,
            "starts": 2_000,
            "lr": 1e-3,
            "lr_end": 1e-4,
            "lr_over": 150_000,
            "target_every": 0,
            "target_tau": 0.01,
            "v_min": 0.0,
            "v_max": 20.0,
        },
        "explore": {"schedule": "spread", "start": 0.5},
        "eval": {"every": 25_000, "episodes": 64},
        "log": {"every": 5_000, "checkpoint_every": 0},
    },
)

MEDIUM = Preset(
    "fuel breaks on landscapes of 20x20 cells, with a network for a GPU: minutes (docs/fuelbreaks.md)",
    {
        "steps": 800_000,
        "envs": 256,
        "env": {"landscapes": 1024, "held_out": 64, "budget": 0.2, "fires": 100},
        "network": {"channels": (64,) * 6, "attention": 4, "hidden": (64,)},
        "replay": {"capacity": 600_000},
        # Lines of breaks pay when they are closed: with this much data γ = 0.8 did better than 0.9 and 0.97.
        "learn": {
            "gamma": 0.8,
            "batch_size": 256,
            "starts": 5_000,
            "lr": 5e-4,
            "lr_end": 2e-5,
            "lr_over": 800_000,
            "v_max": 50.0,
        },
        "eval": {"every": 100_000, "episodes": 128},
        "log": {"every": 20_000},
        "runtime": {"precision": "bf16"},
    },
    base=SMALL,
)

MANY_WEATHERS = (
    "dry@0", "dry@90", "dry@180", "dry@270", "dry@45/30", "mild@225/25", "extreme@135", "extreme@315/30",
)  # fmt: skip

PLANNER = Preset(
    "the agent that plans: it sees what burns behind each cell, and learns on one core (docs/planning.md)",
    {
        "steps": 500_000,
        # Small landscapes teach most in a given time; the network, and what it sees, fit any size.
        "env": {
            "landscapes": 512,
            "held_out": 16,
            "budget": 0.2,
            "fires": 100,
            # The first breaks save forty times as much area as the last ones: in shares they count alike.
            "reward": "remaining",
            "scouts": 128,
            # One agent for all: area or houses, fires from anywhere or from some places, eight kinds of weather.
            "maps": "random",
            "weathers": MANY_WEATHERS,
        },
        "network": {"channels": (32, 32, 32)},
        "learn": {"gamma": 0.8, "huber": 10.0, "lr_end": 5e-5, "lr_over": 500_000, "v_max": 100.0},
        "eval": {"every": 100_000},
        "log": {"every": 10_000, "checkpoint_every": 100_000},
    },
    base=SMALL,
)

FULL = Preset(
    "an agent that plans, trained on landscapes of 50x50 cells, for a GPU (docs/fuelbreaks.md)",
    {
        "steps": 1_200_000,
        "envs": 256,
        "env": {"size": 50, "held_out": 64, "scouts": 512},
        "replay": {"capacity": 500_000},
        "learn": {"batch_size": 128, "starts": 10_000, "lr_end": 2e-5, "lr_over": 1_200_000},
        "eval": {"every": 300_000, "episodes": 128},
        "log": {"every": 25_000, "checkpoint_every": 250_000},
        "runtime": {"precision": "bf16"},
    },
    base=PLANNER,
)

PRESETS = {
    "fuelbreaks-small": SMALL,
    "fuelbreaks-20": MEDIUM,
    "fuelbreaks": FULL,
    "fuelbreaks-planner": PLANNER,
}
