"""What the watch wrote down, read back: plain data with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Frame(NamedTuple):
    """A place in a stack."""

    file: str
    function: str
    """With its class's name."""
    line: int
    plumbing: bool
    """Whether it belongs to the libraries whose own lines say nothing about what is wrong."""


@dataclass(frozen=True)
class CallSite:
    """A line that did something countable."""

    kind: str
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
    def role(self) -> str:
        """acting, or forward: for learning."""
        return "acting" if self.acting > self.learning else "forward"


@dataclass(frozen=True)
class Container:
    """Something that a script holds, and its sizes over time."""

    name: str
    where: str
    type: str
    elements: str
    holds_graph: bool
    sizes: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class WatchRecord:
    """All that was seen."""

    raw: dict[str, Any]
    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    windows: tuple[dict[str, Any], ...]
    sites: tuple[CallSite, ...]
    forwards: tuple[ForwardSite, ...]
    containers: tuple[Container, ...]
    began: float
    """When training began, in seconds from the script's start; infinite if it never did."""

    def total(self, name: str) -> float:
        """A counter over all windows."""
        return float(sum(window[name] for window in self.windows))

    def per_step(self, site: CallSite) -> float:
        """How often a line did something for each step of the environments (or update), while that was counted."""
        counted = self.raw["counted"]
        return site.count / max(float(counted["vector_steps"] or counted["updates"]), 1.0)

    def kinds(self, *names: str) -> list[CallSite]:
        """The lines that did something of these kinds."""
        return [site for site in self.sites if site.kind in names]

    @property
    def width(self) -> int:
        """Transitions per step of the environments, the most common; 0 when none was seen."""
        widths = self.raw["widths"]
        return int(max(widths, key=lambda width: int(widths[width]), default=0))


def make_record(raw: dict[str, Any]) -> WatchRecord:
    """From the watch's JSON."""
    began = raw["training_began"]
    return WatchRecord(
        raw=raw,
        frames=tuple(Frame(*frame) for frame in raw["frames"]),
        stacks=tuple(tuple(stack) for stack in raw["stacks"]),
        windows=tuple(raw["windows"]),
        sites=tuple(CallSite(**site) for site in raw["sites"]),
        forwards=tuple(ForwardSite(**{**row, "shape": tuple(row["shape"])}) for row in raw["forwards"]),
        containers=tuple(
            Container(**{**row, "sizes": tuple((float(t), int(n)) for t, n in row["sizes"])})
            for row in raw["containers"]
        ),
        began=float("inf") if began is None else float(began),
    )
