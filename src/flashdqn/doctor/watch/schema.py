"""The plan that the watch reads, and the record that it writes.

The watch makes these objects and writes them as JSON; the doctor reads the JSON back into the same classes
(`doctor/record.py`). The watch knows this module under another name, in a process without flashdqn and perhaps with
Python 3.9, so it imports only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf

from .health_rows import HealthRecord
from .kinds import Ending, EventKind
from .rows import (
    CallSite,
    Container,
    CountedTime,
    DeviceTime,
    ForwardSite,
    Frame,
    Glance,
    Holding,
    LoaderUse,
    OperationUse,
    OptimizerUse,
    PartFailure,
    ProcessInfo,
    SpeedClaim,
    SubnormalCount,
    TorchSettings,
    UpdateBursts,
    WatchWindow,
    WindowCounts,
)


@dataclass(frozen=True)
class WatchPlan:
    """What to run, how to watch it, and where to write the record."""

    script: str
    given: str
    """The script as the user named it."""
    module: bool
    arguments: tuple[str, ...]
    record: str
    seconds: float
    interval: float
    """Mean seconds between two looks."""
    window: float
    flush: float
    probe: float
    """Seconds for each probe after the script's end."""
    deep: bool
    health: bool = False
    """Whether to look at what is learned."""


@dataclass(frozen=True)
class WatchCosts:
    """Seconds that the watch itself took."""

    hooks: float = 0.0
    looks: float = 0.0
    clerk: float = 0.0
    census: float = 0.0
    subnormals: float = 0.0
    operations: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return float(sum(getattr(self, part.name) for part in fields(self)))


@dataclass(frozen=True)
class ProbeTimes:
    """Seconds that the same work takes as the script does it, and after a cure."""

    now: float
    cured: float

    @property
    def factor(self) -> float:
        """How many times as fast the cure is."""
        return self.now / self.cured


@dataclass(frozen=True)
class ThreadTimes:
    """Seconds of an update with a number of threads: the mean of many turns, with its 95 % interval. Not the
    median: now and then threads wait for one that does not get a core, and that is most of what too many of them
    cost."""

    mean: float
    low: float
    high: float
    others: float | None = None
    """Cores that other programs kept busy meanwhile; None where it is not known."""


@dataclass(frozen=True)
class LaunchTimes:
    """Seconds of an update on a GPU, done in several ways; None where one did not work."""

    now: float
    graph: float | None = None
    """Captured once as a CUDA graph, and replayed."""
    compiled: float | None = None
    cpu: float | None = None
    """The same update on the CPU."""
    acting: float | None = None
    """A call for acting on the GPU, its result copied to the host."""
    acting_cpu: float | None = None
    small: float | None = None
    """The smallest operation on the GPU: its start."""
    small_cpu: float | None = None
    failed: tuple[PartFailure, ...] = ()


@dataclass(frozen=True)
class ProbeResults:
    """What each cure would gain; None where a probe does not apply or did not work."""

    threads: dict[int, ThreadTimes] | None = None
    """An update by the number of threads."""
    optimizer: ProbeTimes | None = None
    flush: ProbeTimes | None = None
    no_grad: ProbeTimes | None = None
    acting: dict[int, float] | None = None
    """Seconds of a call for acting, by its batch: the number of environments."""
    launches: LaunchTimes | None = None
    flops: float | None = None
    """Operations per second of a matrix product on this machine."""
    failed: tuple[PartFailure, ...] = ()


@dataclass(frozen=True)
class WatchRecord:
    """Everything that the watch saw."""

    script: str
    arguments: tuple[str, ...]
    ended: Ending
    error: str
    code: int
    python: str
    torch: str
    """Its version; empty if it was not imported."""
    jax: bool
    device: str
    cores: int
    threads: int
    training_began: float | None
    """In seconds from the script's start; None if it never did."""
    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Numbers of frames, the outermost first."""
    windows: tuple[WatchWindow, ...]
    sites: tuple[CallSite, ...]
    forwards: tuple[ForwardSite, ...]
    optimizers: tuple[OptimizerUse, ...]
    loads: tuple[float, ...]
    """The share of each window that counting took."""
    counted: CountedTime
    """While the tensors' methods were counted."""
    called: CountedTime
    """While the networks' calls were counted."""
    widths: dict[int, int]
    """How many transitions a step of the environments made → how often."""
    containers: tuple[Container, ...]
    claims: tuple[SpeedClaim, ...]
    subnormals: tuple[SubnormalCount, ...]
    operations: tuple[OperationUse, ...]
    deep: bool
    looks: int
    timer_taken: bool
    failures: tuple[PartFailure, ...]
    costs: WatchCosts
    probes: ProbeResults = ProbeResults()
    utilization: float | None = None
    """How busy the GPU was: 0 to 1. Measured from outside, and only where there is nvidia-smi."""
    environments: int = 0
    """How many environments were stepped again and again, each by its own call."""
    learning_began: float | None = None
    """When the first update was done, in seconds from the script's start."""
    bursts: UpdateBursts = UpdateBursts()  # noqa: RUF009 (frozen)
    device_time: DeviceTime | None = None
    """In deep mode, on a GPU."""
    health: HealthRecord | None = None
    settings: TorchSettings = TorchSettings()  # noqa: RUF009 (frozen)
    holdings: tuple[Holding, ...] = ()
    autoreset: str = ""
    """How the environments of one vector reset themselves, in their own words."""
    late_steps: int = 0
    """Steps of environments whose episode had ended, and that the script had not reset since."""
    glances: tuple[Glance, ...] = ()
    glances_tried: int = 0
    """How often a thread tried to see the exact line."""
    loaders: tuple[LoaderUse, ...] = ()
    process: ProcessInfo = ProcessInfo()  # noqa: RUF009 (frozen)
    children: tuple[WatchRecord, ...] = ()
    """The script's other processes."""
    other: str = ""
    """Another framework that the script imported instead of torch."""

    @property
    def began(self) -> float:
        """When training began; infinite if it never did."""
        return inf if self.training_began is None else self.training_began

    @property
    def seconds(self) -> float:
        """How long the script was watched."""
        return float(sum(window.seconds for window in self.windows))

    @property
    def totals(self) -> WindowCounts:
        """What was counted over all windows."""
        return sum_counts(self.windows)

    @property
    def width(self) -> int:
        """Transitions per step of the environments, the most common; 0 when none was seen."""
        return max(self.widths, key=lambda width: self.widths[width], default=0)

    def per_step(self, site: CallSite) -> float:
        """How often a line did something for each step of the environments (or update), while that was counted."""
        return site.count / max(self.counted.vector_steps or self.counted.updates, 1)

    def kinds(self, *kinds: EventKind) -> list[CallSite]:
        """The lines that did something of these kinds."""
        return [site for site in self.sites if site.kind in kinds]


def sum_counts(windows: tuple[WatchWindow, ...] | list[WatchWindow]) -> WindowCounts:
    """What was counted in all of these windows."""
    names = [part.name for part in fields(WindowCounts)]
    return WindowCounts(**{name: sum(getattr(w.counts, name) for w in windows) for name in names})
