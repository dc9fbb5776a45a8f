"""The algorithms of the family by name. Each sets every axis, so it means the same on any task.
`--algo NAME` applies one on top of the task's preset; a file and flags are applied on top of that.

docs/algorithms.md has their equations, and the differences from the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest


@dataclass(frozen=True)
class Algorithm:
    """Settings with one line about them."""

    about: str
    settings: Mapping[str, Any]


#: Mnih et al. 2015 on every axis; the other algorithms list what they change.
_DQN: dict[str, Any] = {
    "learn.method": "replay",
    "learn.head": "scalar",
    "learn.bootstrap": "greedy",
    "network.dueling": False,
    "network.noisy": False,
    "replay.priority": 0.0,
    "replay.n_step": 1,
}
#: The noise explores, not ε.
_NOISY: dict[str, Any] = {
    "network.noisy": True,
    "network.noisy_sigma": 0.5,
    "explore.schedule": "linear",
    "explore.start": 0.0,
    "explore.end": 0.0,
}

ALGORITHMS: dict[str, Algorithm] = {
    "dqn": Algorithm("deep Q-learning (Mnih et al. 2015)", _DQN),
    "double": Algorithm(
        "the online network chooses, the target judges (van Hasselt et al. 2016)",
        _DQN | {"learn.bootstrap": "double"},
    ),
    "dueling": Algorithm(
        "double, with streams for value and advantage (Wang et al. 2016)",
        _DQN | {"learn.bootstrap": "double", "network.dueling": True},
    ),
    "per": Algorithm(
        "double, with prioritized replay (Schaul et al. 2016)",
        _DQN | {"learn.bootstrap": "double", "replay.priority": 0.6, "replay.beta": 0.4},
    ),
    "noisy": Algorithm("learned noise explores (Fortunato et al. 2018)", _DQN | _NOISY),
    "c51": Algorithm(
        "the return's distribution by fixed atoms (Bellemare et al. 2017)",
        _DQN | {"learn.head": "categorical", "learn.atoms": 51},
    ),
    "qr-dqn": Algorithm(
        "the return's distribution by fixed quantiles (Dabney et al. 2018a)",
        _DQN | {"learn.head": "quantile", "learn.quantiles": 32},
    ),
    "iqn": Algorithm(
        "the return's distribution by any quantile (Dabney et al. 2018b)",
        _DQN | {"learn.head": "iqn", "learn.iqn_learn": 8, "learn.iqn_target": 8, "learn.iqn_choose": 16},
    ),
    "munchausen": Algorithm(
        "the policy's log-probability is a reward (Vieillard et al. 2020)",
        _DQN
        | {
            "learn.bootstrap": "munchausen",
            "learn.munchausen_alpha": 0.9,
            "learn.munchausen_tau": 0.03,
            "learn.munchausen_clip": -1.0,
        },
    ),
    "rainbow": Algorithm(
        "c51, double, per, 3 steps, dueling, noisy (Hessel et al. 2018)",
        _DQN
        | _NOISY
        | {
            "learn.head": "categorical",
            "learn.atoms": 51,
            "learn.bootstrap": "double",
            "network.dueling": True,
            "replay.priority": 0.5,
            "replay.beta": 0.4,
            "replay.n_step": 3,
        },
    ),
    "pqn": Algorithm(
        "λ-returns of rollouts; no replay, no target (Gallici et al. 2024)",
        _DQN
        | {
            "learn.method": "pqn",
            "learn.optimizer": "radam",
            "learn.huber": 0.0,
            "network.layer_norm": True,
            "demos.source": "none",
            "pqn.rollout": 32,
            "pqn.epochs": 2,
            "pqn.minibatches": 32,
            "pqn.trace": 0.65,
        },
    ),
}


def apply_algorithm(config: Config, name: str) -> Config:
    """A configuration with an algorithm's settings on top."""
    if name not in ALGORITHMS:
        raise ConfigError(f"Unknown algorithm '{name}'{suggest_nearest(name, ALGORITHMS)}")
    return apply_settings(config, ALGORITHMS[name].settings)
