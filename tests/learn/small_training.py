"""A small training of one algorithm on a toy environment, through the real loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import VecEnv
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.networks import mean_mode
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent

GAMMA = 0.7
ENVS = 16
UPDATES = {
    "noisy": 1000,
    "iqn": 1000,
    "rainbow": 700,
}  # where the target is noisy itself; the others take 350

#: λ of 0, for what follows is explored and not the best: a longer return would be that of the behavior.
ROLLOUTS = {"pqn.rollout": 32, "pqn.epochs": 2, "pqn.minibatches": 4, "pqn.trace": 0.0}

SMALL: dict[str, Any] = {
    "envs": ENVS,
    "train_ratio": 0.25,
    "seed": 1,
    "network": {"torso": "mlp", "hidden": (32,), "cosines": 16},
    "replay.capacity": 5000,
    "learn": {
        "gamma": GAMMA,
        "batch_size": 128,
        "starts": 500,
        "target_every": 10,
        "v_min": -8.0,
        "v_max": 8.0,
    },
    "log.tensorboard": False,
}


def trained(env: VecEnv, folder: Path, algo: str, eps: float, **changes: Any) -> Parts:
    """The parts after a training; ε is given, for these tasks must be explored evenly."""
    updates = UPDATES.get(algo, 350)
    config = apply_algorithm(apply_settings(Config(), SMALL), algo)
    named = {key.replace("__", "."): value for key, value in changes.items()}
    transitions = updates * 64 if algo == "pqn" else 500 + updates * 4
    falling = {"lr": 0.01, "lr_end": 0.0001, "lr_over": transitions}
    config = apply_settings(config, {"explore.start": eps, "explore.end": eps, "learn": falling} | ROLLOUTS)
    config = apply_settings(config, named)
    parts = assemble_parts(config, env)
    loop = Loop(config, parts, RunFolder(folder), Silent(), games=env)
    loop.start()
    while parts.learner.updates < updates:
        loop.iterate()
    return parts


def mean_q(parts: Parts, states: int) -> Tensor:
    """Q of the one-hot states without noise, [S, A]."""
    with torch.no_grad(), mean_mode(parts.learner.online):
        return parts.learner.head.q(parts.learner.online(torch.eye(states)))
