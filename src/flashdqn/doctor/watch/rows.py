"""The rows of a record: frames, lines that were counted, things that grow, windows of time; see `schema.py`."""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import EventKind, Owner, Phase


@dataclass(frozen=True)
class Frame:
    """A place in a stack."""

    file: str
    function: str
    """The function's name, with its class."""
    line: int
    owner: Owner
    phase: Phase | None = None
    """The phase that a stand-in of the watch shows; None for every other frame. A stand-in for a network's call
    shows `FORWARD`, also where the network is called to act."""

    @property
    def plumbing(self) -> bool:
        """Whether it is not the script's own code."""
        return self.owner is not Owner.SCRIPT


@dataclass(frozen=True)
class CallSite:
    """A line, and something that it did, counted."""

    kind: EventKind
    file: str
    line: int
    function: str
    count: int
    seconds: float
    elements: int
    on_device: int


@dataclass(frozen=True)
class ForwardSite:
    """A line that called a network."""

    file: str
    line: int
    function: str
    count: int
    seconds: float
    acting: int
    learning: int
    graded: int
    batch: int
    shape: tuple[int, ...]
    network: str
    parameters: int
    trained: bool
    given_gradients: bool

    @property
    def role(self) -> Phase:
        """ACTING, or FORWARD for learning."""
        return Phase.ACTING if self.acting > self.learning else Phase.FORWARD


@dataclass(frozen=True)
class OptimizerUse:
    """An optimizer that was stepped."""

    name: str
    fused: bool
    can_fuse: bool
    tensors: int
    elements: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class Container:
    """Something that a script holds, and its sizes over time."""

    name: str
    where: str
    type: str
    elements: str
    is_graph: bool
    """Whether it is the graph behind a tensor."""
    holds_graph: bool
    """Whether its newest element has a graph behind it; also true of a graph itself."""
    sizes: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class SpeedClaim:
    """A printed speed, with the transitions that were counted by then."""

    time: float
    file: str
    line: int
    text: str
    value: float
    transitions: int


@dataclass(frozen=True)
class SubnormalCount:
    """How many of an optimizer's checked values were subnormal."""

    time: float
    count: int
    of: int
    flushed: bool


@dataclass(frozen=True)
class OperationUse:
    """An operation of torch that a line called."""

    file: str
    line: int
    function: str
    operation: str
    count: int
    seconds: float


@dataclass(frozen=True)
class PartFailure:
    """A part of the watch that did not work."""

    part: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.reason}"


@dataclass(frozen=True)
class WindowCounts:
    """What was counted in a stretch of time."""

    transitions: int = 0
    vector_steps: int = 0
    episodes: int = 0
    episode_steps: int = 0
    updates: int = 0
    cpu: float = 0.0
    """Seconds of all cores together."""


@dataclass(frozen=True)
class WatchWindow:
    """About a second of watching."""

    start: float
    seconds: float
    samples: dict[int, float]
    """Seconds by the number of a stack."""
    memory: int
    device_memory: int
    counts: WindowCounts


@dataclass
class CountedTime:
    """What happened while something was counted; rates are computed from it."""

    vector_steps: int = 0
    updates: int = 0
    seconds: float = 0.0
