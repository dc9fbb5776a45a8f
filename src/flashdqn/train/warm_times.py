"""How long the warm-up took, now and the first time: compiled code is kept on disk, so later starts are short."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

import torch

from flashdqn.config import Config
from flashdqn.config_io import to_dict
from flashdqn.envs.kernel_cache import cache_folder
from flashdqn.train.choose import Choice


@dataclass(frozen=True)
class WarmUp:
    """The seconds before the clock started, and what was chosen in them."""

    seconds: float
    first: float  # of the first start with this configuration
    choice: Choice

    @classmethod
    def took(cls, config: Config, seconds: float, choice: Choice) -> WarmUp:
        """Remember the first start of a configuration."""
        path = cache_folder() / "warm-up.json"
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        first = known.setdefault(key(config), round(seconds, 3))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known), encoding="utf-8")
        except OSError:  # it is a nicety: without it every start counts as the first
            pass
        return cls(seconds, float(first), choice)

    def __str__(self) -> str:
        if self.first <= self.seconds:
            return f"{self.seconds:.1f} s"
        return f"{self.seconds:.1f} s (the first time: {self.first:.1f} s)"


def key(config: Config) -> str:
    """What makes two warm-ups comparable: all but seed, budget and place, and the version of PyTorch."""
    same = replace(config, seed=0, steps=None, episodes=None, max_time=None, out="")
    text = json.dumps([to_dict(same), torch.__version__], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
