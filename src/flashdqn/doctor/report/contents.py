"""The doctor's report on a script: plain data for the terminal, JSON and the page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from flashdqn.core.files import write_output
from flashdqn.doctor.report.cure_result import CureResult
from flashdqn.doctor.watch.kinds import Ending, Phase
from flashdqn.show.numbers import format_count

JSON_VERSION = 1
"""Goes up when a field changes its meaning or is removed; new fields do not change it."""


class Limit(StrEnum):
    """What a training is limited by."""

    ENVIRONMENT = "environment"
    ACTING = "acting"
    COPIES = "copies"
    LAUNCHES = "launches"
    COMPUTE = "compute"
    COMPILATION = "compilation"
    OUTPUT = "output"
    PYTHON = "python"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One reason why a training is slow, or not what it seems."""

    name: str
    """Lower case with hyphens, the same in every report."""
    title: str
    """One sentence that says what was seen."""
    file: str
    line: int
    """Where; line 0: the script as a whole."""
    share: float
    """The share of the watched time that this costs: 0 to 1."""
    speedup: float
    """How many times as fast the whole would be without it (Amdahl, from measurements); 1.0: not about speed."""
    evidence: tuple[str, ...]
    """What was measured: counts, times, sizes; a sentence each."""
    advice: str
    """What to do, in words."""
    example: str
    """A few lines of code."""
    changes_learning: bool = False
    """Whether the cure changes what is learned from: fewer updates, other data. Never present it as speed alone."""
    certainty: float = 1.0
    """How certain the evidence makes it: 0 to 1. Nothing below `CERTAIN` is reported."""
    limit: Limit = Limit.UNKNOWN
    """What limits the training if this takes much of the time; unknown: this does not say."""


@dataclass(frozen=True)
class PhaseShare:
    """A phase's seconds and its share of the time."""

    name: Phase
    seconds: float
    share: float


@dataclass(frozen=True)
class HotLine:
    """A line of code that took much time."""

    file: str
    line: int
    function: str
    source: str
    """The line's text, stripped; empty if the file could not be read."""
    share: float
    phase: Phase
    """The phase of most of that time."""
    context: tuple[tuple[int, str], ...] = ()
    """The lines around it: number and text."""


@dataclass(frozen=True)
class CountedLine:
    """Something that a line did again and again."""

    what: str
    """`.item()`, `.cpu()`, or the name of an operation of torch."""
    file: str
    line: int
    count: int
    per_step: float
    """For each step of the environments, or for each update if no environment was seen."""
    seconds: float
    share: float
    """Of the time in which it was counted."""
    waits: int
    """How many of these made the host wait for a GPU, or moved data to or from it."""


@dataclass(frozen=True)
class Window:
    """A stretch of the watched time, about a second long."""

    start: float
    seconds: float
    transitions: int
    vector_steps: int
    updates: int
    episodes: int
    episode_length: float
    """Mean length of the episodes that ended in it; NaN if none did."""
    memory: int
    """Resident memory of the process at its end, in bytes."""
    device_memory: int
    """Memory that torch holds on the GPU, in bytes; 0 on the CPU."""
    phases: dict[Phase, float]
    """Seconds by phase."""


@dataclass(frozen=True)
class GrowingContainer:
    """Something that a script holds, and that keeps growing."""

    name: str
    where: str
    type: str
    sizes: tuple[tuple[float, int], ...]
    """Seconds from the start, and the size then."""
    unit: str = "items"
    """What it is counted in."""

    @property
    def counts(self) -> list[int]:
        """Only its sizes."""
        return [size for _, size in self.sizes]

    @property
    def extent(self) -> str:
        """The first and the last size, in words."""
        return f"{format_count(self.counts[0])} to {format_count(self.counts[-1])} {self.unit}"


@dataclass(frozen=True)
class Report:
    """The whole report."""

    script: str
    arguments: tuple[str, ...]
    ended: Ending
    error: str
    """The script's own traceback when it failed."""
    seconds: float
    """How long it was watched."""
    python: str
    torch: str
    device: str
    cores: int
    threads: int
    transitions: int
    vector_steps: int
    updates: int
    episodes: int
    batch_size: int
    """The most common batch size of the updates; 0 when unknown."""
    environments: int
    """Transitions per vector step, the most common; 0 when unknown."""
    bound: Limit
    bound_because: str
    overhead: float
    """By how much the doctor slowed the script, estimated: 0.03 is three percent."""
    samples: int
    deep: bool
    phases: tuple[PhaseShare, ...]
    lines: tuple[HotLine, ...]
    windows: tuple[Window, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What else a reader should know: what could not be seen, what was not judged and why."""
    trials: tuple[CureResult, ...] = ()
    """Cures that were tried (`--try`) and patches that were tested (`--fix`)."""
    copies: tuple[CountedLine, ...] = ()
    """Lines that take values out of tensors or move them, the most expensive first."""
    operations: tuple[CountedLine, ...] = ()
    """All operations of torch by line, the most expensive first; only in deep mode."""
    growth: tuple[GrowingContainer, ...] = ()
    """Containers that grow."""

    @property
    def ratio(self) -> float:
        """Updates per transition; NaN if one of them was not seen."""
        return self.updates / self.transitions if self.transitions and self.updates else float("nan")

    def as_dict(self) -> dict[str, Any]:
        """The report as a dict, for JSON."""
        return asdict(self) | {"ratio": self.ratio}


def encode_report_json(report: Report) -> str:
    """The whole report; what is not a number (NaN, infinity) is null."""
    return (
        json.dumps({"version": JSON_VERSION} | _make_json_safe(report.as_dict()), indent=2, allow_nan=False)
        + "\n"
    )


def write_report_json(report: Report, path: Path) -> Path:
    """Write the report to a file."""
    write_output(path, encode_report_json(report))
    return path


def _make_json_safe(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _make_json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_make_json_safe(inner) for inner in value]
    return value
