"""What a preset is."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.config import Config


@dataclass(frozen=True)
class Preset:
    """A configuration with one line about it."""

    about: str
    config: Config
