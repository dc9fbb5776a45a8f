"""The time of the warm-up, now and the first time: compiled code is kept on disk, so later starts are short."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from flashdqn.compute.cache_folder import find_cache_folder
from flashdqn.compute.tool_caches import record_tool_caches
from flashdqn.config import Config
from flashdqn.config.settings import to_dict
from flashdqn.core.files import read_json_object, write_signed_json
from flashdqn.training.autotune import Choice

#: Times to remember; the oldest are forgotten.
MOST_TIMES = 1000
#: A longer time is damage.
MOST_SECONDS = 1e6


@dataclass(frozen=True)
class WarmUp:
    """The seconds before the clock started, and the choice that was made."""

    seconds: float
    first: float  # of the first start with this configuration
    choice: Choice

    @classmethod
    def took(cls, config: Config, seconds: float, choice: Choice) -> WarmUp:
        """Remember the first start of a configuration."""
        record_tool_caches()  # now: a training that is killed later has compiled everything
        folder, name = find_cache_folder(), warm_up_key(config)
        if folder is None:
            return cls(seconds, seconds, choice)
        path = folder / "warm-up.json"
        known = read_warm_times(path)
        if name not in known:
            known[name] = round(seconds, 3)
            with suppress(OSError):  # not essential: without it every start counts as the first
                write_warm_times(path, known)
        return cls(seconds, known[name], choice)

    def __str__(self) -> str:
        if self.first <= self.seconds:
            return f"{self.seconds:.1f} s"
        return f"{self.seconds:.1f} s (the first time: {self.first:.1f} s)"


def read_warm_times(path: Path) -> dict[str, float]:
    """The recorded times; empty if the file is missing or damaged."""
    try:
        known = {name: float(seconds) for name, seconds in read_json_object(path).items()}
    except (ValueError, TypeError, OverflowError):
        return {}
    return known if all(0 <= seconds <= MOST_SECONDS for seconds in known.values()) else {}


def write_warm_times(path: Path, known: dict[str, float]) -> None:
    """Write the whole file or nothing; if two processes write at once, the last one wins."""
    write_signed_json(path, dict(list(known.items())[-MOST_TIMES:]), mode=0o600)


def warm_up_key(config: Config) -> str:
    """Equal for comparable warm-ups: all settings except seed, budget and folder, and PyTorch's version."""
    same = replace(config, seed=0, steps=None, episodes=None, max_time=None, out="")
    text = json.dumps([to_dict(same), torch.__version__], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
