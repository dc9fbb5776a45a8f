"""The tables of a service network: what VNFs need, what chains ask for, and a topology where one is given.

Each table checks itself, and reports a mistake in one sentence. `PAPER` holds those of Onsu et al. 2024, IEEE
Networking Letters 6(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from flashdqn.core.errors import ConfigError

MAX_SITES = 32
#: The most VNFs, chains, and VNFs in a chain.
MAX_ROWS = 100
#: light in fiber: 200 km per millisecond
US_PER_KM = 5


@dataclass(frozen=True)
class Vnf:
    """A network function: what an instance takes from its data center, and how long it works on a request."""

    name: str
    cpu: int
    ram: int
    storage: int
    processing_ms: float

    def __post_init__(self) -> None:
        for column in ("cpu", "ram", "storage"):
            _require_amount(f"VNF '{self.name}'", column, getattr(self, column))
        if not 0 < self.processing_ms < 10_000:
            raise ConfigError(
                f"VNF '{self.name}': processing_ms must be above 0 and below 10000, and is {self.processing_ms}."
            )

    @property
    def processing_us(self) -> int:
        """Processing time in whole microseconds, at least one."""
        return max(1, round(1000 * self.processing_ms))


@dataclass(frozen=True)
class Chain:
    """A service: its VNFs in order, its bandwidth and longest delay, and how many requests for it a bundle has."""

    name: str
    vnfs: tuple[str, ...]
    mbps: tuple[float, float]
    delay_ms: float
    bundle: tuple[int, int]

    def __post_init__(self) -> None:
        where = f"Chain '{self.name}'"
        if not self.vnfs:
            raise ConfigError(f"{where} has no VNFs: name at least one.")
        if len(self.vnfs) > MAX_ROWS:
            raise ConfigError(f"{where} has {len(self.vnfs)} VNFs, and {MAX_ROWS} are the most.")
        if not 0 < self.mbps[0] <= self.mbps[1] <= 1_000_000:
            raise ConfigError(f"{where}: mbps must be above 0 and rise, and is {_format_range(self.mbps)}.")
        if not 0 < self.delay_ms <= 1_000_000:
            raise ConfigError(
                f"{where}: delay_ms must be above 0, and at most 1000000; it is {self.delay_ms}."
            )
        if not 0 <= self.bundle[0] <= self.bundle[1] or self.bundle[1] == 0:
            raise ConfigError(
                f"{where}: bundle must be counts that rise, as [40, 55], and is {_format_range(self.bundle)}."
            )

    @property
    def kbps(self) -> tuple[int, int]:
        """The range of its bandwidth in whole kbit/s."""
        return max(1, round(1000 * self.mbps[0])), max(1, round(1000 * self.mbps[1]))


@dataclass(frozen=True)
class Site:
    """A data center of a given topology: where it lies, and what it has; its CPU is drawn from a range."""

    name: str
    x_km: int
    y_km: int
    cpu: tuple[int, int]
    ram: int
    storage: int

    def __post_init__(self) -> None:
        where = f"Data center '{self.name}'"
        _require_amount(where, "cpu", self.cpu[0])
        if self.cpu[0] > self.cpu[1]:
            raise ConfigError(f"{where}: cpu must be a range that rises, and is {_format_range(self.cpu)}.")
        for column in ("ram", "storage"):
            _require_amount(where, column, getattr(self, column))
        for column in ("x_km", "y_km"):
            if abs(getattr(self, column)) > 20_000:
                raise ConfigError(
                    f"{where}: {column} must lie in -20000 … 20000, and is {getattr(self, column)}."
                )


@dataclass(frozen=True)
class Link:
    """A line between two data centers, for both directions together."""

    between: tuple[str, str]
    mbps: float

    def __post_init__(self) -> None:
        if not 0 <= self.mbps <= 2_000_000:
            raise ConfigError(
                f"Link {self.between[0]}–{self.between[1]}: mbps must lie in 0 … 2000000, and is {self.mbps}."
            )


@dataclass(frozen=True)
class TracedRequest:
    """A request of a trace: when it arrives, its chain by number, its ends, and its bandwidth."""

    time_us: int
    chain: int
    source: int
    target: int  # -1: it leaves where its chain ends
    kbps: int


@dataclass(frozen=True)
class Tables:
    """VNFs and chains; sites and links only where a topology is given, arrivals only where a trace is. Otherwise
    every episode draws them."""

    vnfs: tuple[Vnf, ...]
    chains: tuple[Chain, ...]
    sites: tuple[Site, ...] = field(default=())
    links: tuple[Link, ...] = field(default=())
    arrivals: tuple[TracedRequest, ...] = field(default=())

    def __post_init__(self) -> None:
        for what, rows in (("VNF", self.vnfs), ("chain", self.chains), ("data center", self.sites)):
            _require_unique(what, [row.name for row in rows])
        if not self.vnfs or not self.chains:
            raise ConfigError("The tables need at least one VNF and one chain.")
        if max(len(self.vnfs), len(self.chains)) > MAX_ROWS:
            raise ConfigError(
                f"The tables have {len(self.vnfs)} VNFs and {len(self.chains)} chains, and {MAX_ROWS} of each are "
                "the most."
            )
        known = {vnf.name for vnf in self.vnfs}
        for chain in self.chains:
            for name in chain.vnfs:
                if name not in known:
                    raise ConfigError(
                        f"Chain '{chain.name}' names the VNF '{name}', which the table does not have; "
                        f"it has {', '.join(vnf.name for vnf in self.vnfs)}."
                    )
        if self.sites or self.links:
            _check_topology(self.sites, self.links)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Allocate each VNF, uninstall each, wait."""
        names = [vnf.name for vnf in self.vnfs]
        return (*(f"allocate {name}" for name in names), *(f"uninstall {name}" for name in names), "wait")

    @property
    def stages(self) -> int:
        """Number of positions of all chains together."""
        return sum(len(chain.vnfs) for chain in self.chains)


def _require_amount(where: str, column: str, value: int) -> None:
    if not 0 <= value <= 10_000_000:
        raise ConfigError(f"{where}: {column} must be 0 … 10000000, and is {value}.")


def _require_unique(what: str, names: Sequence[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"There are two {what}s called '{twice}': every one needs its own name.")


def _format_range(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g} to {pair[1]:g}"


def _check_topology(sites: Sequence[Site], links: Sequence[Link]) -> None:
    if not 2 <= len(sites) <= MAX_SITES:
        raise ConfigError(f"A topology needs 2 to {MAX_SITES} data centers, and this one has {len(sites)}.")
    names = [site.name for site in sites]
    for link in links:
        for name in link.between:
            if name not in names:
                raise ConfigError(
                    f"A link names the data center '{name}', which does not exist; there are {', '.join(names)}."
                )
        if link.between[0] == link.between[1]:
            raise ConfigError(f"A link leads from '{link.between[0]}' to itself: name two data centers.")
    pairs = [frozenset(link.between) for link in links]
    if twice := next((link for link in links if pairs.count(frozenset(link.between)) > 1), None):
        raise ConfigError(
            f"There are two links between '{twice.between[0]}' and '{twice.between[1]}': add up their bandwidth."
        )
    reached = _reached_from(names[0], links)
    if lost := [name for name in names if name not in reached]:
        raise ConfigError(
            f"The topology is not connected: no links lead from '{names[0]}' to '{lost[0]}'. Add one."
        )


def _reached_from(start: str, links: Sequence[Link]) -> set[str]:
    reached, border = {start}, [start]
    while border:
        here = border.pop()
        for link in links:
            if here in link.between:
                there = link.between[1] if link.between[0] == here else link.between[0]
                if there not in reached:
                    reached.add(there)
                    border.append(there)
    return reached


def link_delay_us(a: Site, b: Site) -> int:
    """Propagation along a straight line, in whole microseconds."""
    return math.isqrt(US_PER_KM**2 * ((a.x_km - b.x_km) ** 2 + (a.y_km - b.y_km) ** 2))


PAPER = Tables(
    vnfs=(
        Vnf("NAT", cpu=1, ram=4, storage=7, processing_ms=0.06),
        Vnf("FW", cpu=9, ram=5, storage=1, processing_ms=0.03),
        Vnf("VOC", cpu=5, ram=11, storage=13, processing_ms=0.11),
        Vnf("TM", cpu=13, ram=7, storage=7, processing_ms=0.07),
        Vnf("WO", cpu=5, ram=2, storage=5, processing_ms=0.08),
        Vnf("IDPS", cpu=11, ram=15, storage=2, processing_ms=0.02),
    ),
    chains=(
        Chain("CG", ("NAT", "FW", "VOC", "WO", "IDPS"), (4.0, 4.0), 80.0, (40, 55)),
        Chain("AR", ("NAT", "FW", "TM", "VOC", "IDPS"), (100.0, 100.0), 10.0, (1, 4)),
        Chain("VoIP", ("NAT", "FW", "TM", "FW", "NAT"), (0.064, 0.064), 100.0, (100, 200)),
        Chain("VS", ("NAT", "FW", "TM", "VOC", "IDPS"), (4.0, 4.0), 100.0, (50, 100)),
        Chain("MIoT", ("NAT", "FW", "IDPS"), (1.0, 50.0), 5.0, (10, 15)),
        Chain("Ind4.0", ("NAT", "FW"), (70.0, 70.0), 8.0, (1, 4)),
    ),
)
