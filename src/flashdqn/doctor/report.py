"""What the doctor has to say about a script: plain data, for the terminal, JSON and the page alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from flashdqn.doctor.watch.kinds import Ending, Phase


@dataclass(frozen=True)
class Finding:
    """One reason why a training is slow, or not what it seems."""

    name: str
    """What it is called: lower case with hyphens, the same in every report."""
    title: str
    """One sentence that says what was seen."""
    file: str
    line: int
    """Where; line 0: the script as a whole."""
    share: float
    """Of the watched time, what this costs: 0 to 1."""
    speedup: float
    """How many times as fast the whole would be without it (Amdahl, from what was measured); 1.0: not a matter of
    time."""
    evidence: tuple[str, ...]
    """What was measured: counts, times, sizes; a sentence each."""
    advice: str
    """What to do, in words."""
    example: str
    """A few lines of code."""
    changes_learning: bool = False
    """Whether the cure changes what is learnt from: fewer updates, other data. Never to be sold as speed alone."""
    certainty: float = 1.0
    """How sure the evidence makes it: 0 to 1. Nothing below `CERTAIN` is reported."""


@dataclass(frozen=True)
class PhaseShare:
    """What a phase takes of the time."""

    name: Phase
    seconds: float
    share: float


@dataclass(frozen=True)
class HotLine:
    """A line of code on which much time went by."""

    file: str
    line: int
    function: str
    source: str
    """The line's text, stripped; empty where the file could not be read."""
    share: float
    phase: Phase
    """What most of that time was."""
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
    """For each step of the environments; of each update, where no environment was seen."""
    seconds: float
    share: float
    """Of the time in which it was counted."""
    waits: int
    """How often of these the host waited for a GPU, or data crossed over."""


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
    """Mean length of the episodes that ended in it; NaN where none did."""
    memory: int
    """Resident memory of the process at its end, in bytes."""
    device_memory: int
    """Memory that torch holds on the GPU, in bytes; 0 on the CPU."""
    phases: dict[Phase, float]
    """Seconds by phase."""


@dataclass(frozen=True)
class Report:
    """All of it."""

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
    """Of the gradient steps, the most common; 0 when unknown."""
    environments: int
    """Transitions per vector step, the most common; 0 when unknown."""
    bound: str
    """What limits it: environment, acting, copies, launches, compute, compilation, output, python; or unknown."""
    bound_because: str
    overhead: float
    """By how much the doctor slowed the script, estimated: 0.03 is three per cent."""
    samples: int
    deep: bool
    phases: tuple[PhaseShare, ...]
    lines: tuple[HotLine, ...]
    windows: tuple[Window, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What else a reader should know: what could not be seen, what was not judged and why."""
    copies: tuple[CountedLine, ...] = ()
    """Lines that take values out of tensors or move them, the costliest first."""
    operations: tuple[CountedLine, ...] = ()
    """All operations of torch by line, the costliest first; only in the deeper look."""
    growth: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    """Containers that grow: name, where, type, sizes over time."""

    @property
    def ratio(self) -> float:
        """Gradient steps per transition; NaN where one of them was not seen."""
        return self.updates / self.transitions if self.transitions and self.updates else float("nan")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"ratio": self.ratio}
