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
    WORKERS = "workers"
    LOADING = "loading"
    SLEEP = "sleep"
    UNKNOWN = "unknown"


class SharedTime:
    """Something with a share of the time. It cannot hold a share below 0 or above 1; NaN is one that is not
    known."""

    share: float

    def __post_init__(self) -> None:
        if not math.isnan(self.share):
            object.__setattr__(self, "share", min(max(float(self.share), 0.0), 1.0))


@dataclass(frozen=True)
class Finding(SharedTime):
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
    least: float = math.nan
    """The interval of the gain, where it could be measured: from `least` …"""
    most: float = math.nan
    """… to `most` times as fast."""
    cure: str = ""
    """The one setting that cures it, by its name in `flashdqn.doctor.cures`; empty if it takes more than that."""
    within: str = ""
    """The line of a library in which the time is spent, as file:line, where `file` and `line` are the user's
    call."""
    health: bool = False
    """Whether it is about what is learned, not about time: shown in a section of its own."""


@dataclass(frozen=True)
class PhaseShare(SharedTime):
    """A phase's seconds and its share of the time."""

    name: Phase
    seconds: float
    share: float


@dataclass(frozen=True)
class HotLine(SharedTime):
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
    first: int = 0
    """Where the time may belong to any of several lines, the first of them: Python looks only now and then. 0:
    exact."""


@dataclass(frozen=True)
class CountedLine(SharedTime):
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
class WorkerShare:
    """What the script's other processes of one kind did: shares of their time."""

    name: str
    """What they are: a multiprocessing worker, a DataLoader's worker, …"""
    number: int
    """How many of them there were."""
    steps: int
    """Steps of environments, over all of them."""
    working: float
    waiting: float
    """Waiting for the main process, or for one another."""
    messages: float
    """Packing, sending and unpacking."""
    busiest: float
    """The share of work of the busiest of them."""
    place: str
    """Where most of their work is, as file:line."""


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
    trained: float = math.nan
    """How many of the watched seconds were training, without start-up; NaN: all of them."""
    warm_up: int = 0
    """Transitions before the first update."""
    evaluated: int = 0
    """Transitions of evaluations, from which nothing is learned."""
    health: tuple[Finding, ...] | None = None
    """Findings about learning, with `--health`; None if nobody asked."""
    workers: tuple[WorkerShare, ...] = ()
    """The script's other processes, and what they did."""
    load: float = math.nan
    """Cores that other programs kept busy meanwhile; NaN where it is not known."""

    @property
    def training_seconds(self) -> float:
        """Rates are per second of training: start-up is not part of it."""
        return self.seconds if math.isnan(self.trained) else self.trained

    @property
    def ratio(self) -> float:
        """Updates per transition, from the first update on; NaN if one of them was not seen."""
        collected = self.transitions - self.warm_up - self.evaluated
        return self.updates / collected if collected > 0 and self.updates else float("nan")

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
