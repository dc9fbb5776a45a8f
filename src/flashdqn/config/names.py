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
#: Names of other trainers that are accepted: what they are here, and whether their value is one by ours.
ACCEPTED_NAMES = {"train-freq": ("train-ratio", True), "target-update": ("learn.target-every", False)}
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
    "exploration-fraction": "explore.over",
    "tau": "learn.target-tau",
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


def translate_accepted(shown: str, name: str, value: Any) -> tuple[str, Any]:
    """Our name and value for another trainer's; `shown` is the name as it was written. Its train_freq counts
    transitions per gradient step, our ratio gradient steps per transition."""
    ours, inverse = ACCEPTED_NAMES[name]
    try:
        count = int(str(value))
    except ValueError:
        count = 0
    if count < 1:
        raise ConfigError(f"{shown} takes a whole number from 1 on, and '{str(value)[:40]}' is not one.")
    return ours, 1 / count if inverse else count


def replace_short_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with whole names in place of short ones, `lr` for `learn.lr`; other trainers' names are refused with
    ours."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if flag in ACCEPTED_NAMES:
            ours, value = translate_accepted(name, flag, value)
            found[ours.replace("-", "_")] = value
            continue
        if (meant := FOREIGN_NAMES.get(flag)) is not None:
            raise ConfigError(f"Unknown setting '{name}'; did you mean '{meant.replace('-', '_')}'?")
        found[SHORT_NAMES.get(flag, name).replace("-", "_")] = value
    return found
