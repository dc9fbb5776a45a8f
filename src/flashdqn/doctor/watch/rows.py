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
    since: int = 0
    """The first line that a look here may stand for, where that is not this line: see `segments.py`. 0: this
    line."""

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
    first: float = 0.0
    """Seconds of the first time, which often includes setting something up."""

    @property
    def each(self) -> float:
        """Seconds of one time, the first left out."""
        return mean_without_first(self.count, self.seconds, self.first)

    @property
    def steady(self) -> float:
        """Seconds of all, as if the first had been like the others."""
        return self.count * self.each


def mean_without_first(count: int, seconds: float, first: float) -> float:
    """The mean of all but the first; the first itself where there is no other."""
    return max(seconds - first, 0.0) / (count - 1) if count > 1 else seconds


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
    first: float = 0.0
    """Seconds of the first call."""

    @property
    def each(self) -> float:
        """Seconds of a call, the first left out."""
        return mean_without_first(self.count, self.seconds, self.first)

    @property
    def steady(self) -> float:
        """Seconds of all calls, as if the first had been like the others."""
        return self.count * self.each

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
    queued: float = 0.0
    """Seconds in which the thread that trains was ready, and waited for a core."""
    throttled: float = 0.0
    """Seconds in which the container's quota of CPU time was used up."""


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
    machine: float | None = None
    """Seconds that the cores of this process were busy, with the work of all processes; None where it is not
    known."""


@dataclass(frozen=True)
class Glance:
    """A line in whose operations the training was seen while they ran."""

    file: str
    line: int
    count: int


@dataclass(frozen=True)
class DeviceTime:
    """Two seconds of a GPU: what it did, and what it waited for."""

    seconds: float
    operations: int
    computing: float
    copies: float
    launches: float
    """Short gaps: the next kernel was being launched."""
    host: float
    """Long gaps: the host did something else."""


@dataclass(frozen=True)
class Holding:
    """A large array, or a long list of arrays."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """The length of a list comes first."""
    copies: int
    """How many arrays of this shape each element holds: an observation and the next one are two."""


@dataclass(frozen=True)
class TorchSettings:
    """How torch is set, and what the network that learns is made of."""

    tf32: bool = False
    capability: int = 0
    """The GPU's generation; 8 and up have TF32. 0 on the CPU."""
    cudnn_benchmark: bool = False
    reserved: int = 0
    """Bytes that torch keeps on the GPU."""
    allocated: int = 0
    """The most bytes that tensors have had there."""
    dtypes: tuple[str, ...] = ()
    widths: tuple[tuple[int, int], ...] = ()
    """Inputs and outputs of each linear layer."""
    network: str = ""
    collections: int = 0
    """How often Python went through all objects for garbage, since training began."""
    collecting: float = 0.0
    """Seconds of all collections."""


@dataclass(frozen=True)
class LoaderUse:
    """A DataLoader that the script went through."""

    file: str
    line: int
    workers: int
    batch: int
    pinned: bool
    persistent: bool
    dataset: str
    """The name of the dataset's class."""
    length: int
    """Examples in it; 0 if it does not say."""
    epochs: int
    starting: float
    """Seconds in which epochs began: with workers, in which these were started."""


@dataclass(frozen=True)
class ProcessInfo:
    """Which process a record is of."""

    pid: int = 0
    parent: int = 0
    how: str = ""
    """How it was started: fork, or spawn for a Python of its own; empty for the script's own process."""
    name: str = ""
    """As multiprocessing calls it."""
    command: str = ""
    rank: str = ""
    """Its number among the processes that torchrun started."""


@dataclass(frozen=True)
class UpdateBursts:
    """From the first burst of updates to the latest: what was collected, and the updates that it was for."""

    number: int = 0
    transitions: int = 0
    vector_steps: int = 0
    updates: int = 0
    """The updates of all bursts but the first, which is for the warm-up before it."""


@dataclass
class CountedTime:
    """What happened while something was counted; rates are computed from it."""

    vector_steps: int = 0
    updates: int = 0
    seconds: float = 0.0
