"""The plan and the record of a trial: a script run for some seconds, as it is or with a cure.

Written and read like `schema.py`, by a process that may have no flashdqn: the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import Ending


@dataclass(frozen=True)
class TrialPlan:
    """What to run, for how long, and what to change in it."""

    script: str
    given: str
    module: bool
    arguments: tuple[str, ...]
    record: str
    seconds: float
    """How long it may train, from its first update (or first step, if it makes no updates)."""
    longest: float
    """The most seconds until training has begun."""
    waits_for_updates: bool
    """Whether the clock starts at the first update; otherwise at the first step of an environment."""
    injections: tuple[tuple[str, dict[str, object]], ...]
    """Names of the injections in `injections.py`, each with its settings."""
    replaced: dict[str, str]
    """Source files, and the file whose text is run in the place of each."""
    seed: int
    """Set before the script's first line, so that a script without seeds repeats itself, if it can."""


@dataclass(frozen=True)
class TrialProgress:
    """How far the script was at a moment."""

    time: float
    """Seconds from the script's start."""
    transitions: int
    updates: int
    cpu: float
    """CPU seconds of the process so far."""


@dataclass(frozen=True)
class Digest:
    """What an optimizer's parameters were after some updates."""

    optimizer: int
    """Its number, in the order of first steps."""
    updates: int
    """Its own steps so far."""
    code: str
    """A checksum over all bits."""
    sample: tuple[float, ...]
    """Some of the values, always the same places: how far two runs are apart."""


@dataclass(frozen=True)
class TrialRecord:
    """What a trial saw."""

    ended: Ending
    error: str
    series: tuple[TrialProgress, ...]
    digests: tuple[Digest, ...]
    applied: tuple[str, ...]
    """The injections that took effect, and what they changed, in words."""
    failed: tuple[str, ...]
    """The injections that did not work, with the reason."""
    compiled: float
    """When something was compiled last, in seconds from the script's start; 0.0 if nothing was."""
    load: float
    """The machine's load at the end: how many processes wanted to run, on average over the last minute."""
