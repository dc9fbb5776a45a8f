"""Other names of settings: short ones, and those of other trainers. Flags have hyphens, settings underscores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashdqn.core.errors import ConfigError

#: Short names of settings that people often change.
SHORT_NAMES = {
    "lr": "learn.lr",
    "gamma": "learn.gamma",
    "batch-size": "learn.batch-size",
    "hidden": "network.hidden",
}
#: Names that other trainers have for a flag; a message leads from them to ours.
FOREIGN_NAMES = {
    "learning-rate": "lr",
    "discount": "gamma",
    "discount-factor": "gamma",
    "num-envs": "envs",
    "n-envs": "envs",
    "timesteps": "steps",
    "total-timesteps": "steps",
    "num-steps": "steps",
    "time": "max-time",
    "buffer-size": "replay.capacity",
    "learning-starts": "learn.starts",
    "train-freq": "train-ratio",
    "exploration-fraction": "explore.over",
    "tau": "learn.target-tau",
    "target-update": "learn.target-every",
    "threads": "runtime.threads",
    "mode": "runtime.mode",
    "algorithm": "algo",
    "eps": "explore.end",
    "epsilon": "explore.end",
    "eps-end": "explore.end",
    "eps-start": "explore.start",
    "eps-decay": "explore.over",
    "epsilon-decay": "explore.over",
    "exploration-final-eps": "explore.end",
    "net-arch": "hidden",
    "hidden-sizes": "hidden",
    "layers": "hidden",
    "memory-size": "replay.capacity",
    "target-update-interval": "learn.target-every",
    "eval-freq": "eval.every",
    "n-eval-episodes": "eval.episodes",
    "games": "episodes",
    "gpu": "device",
    "cuda": "device",
    "output": "out",
    "output-dir": "out",
    "log-dir": "out",
}


def replace_short_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with whole names in place of short ones, `lr` for `learn.lr`; other trainers' names are refused with
    ours."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if (meant := FOREIGN_NAMES.get(flag)) is not None:
            raise ConfigError(f"Unknown setting '{name}'; did you mean '{meant.replace('-', '_')}'?")
        found[SHORT_NAMES.get(flag, name).replace("-", "_")] = value
    return found
