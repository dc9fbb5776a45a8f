"""The settings of service chain provisioning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import Between, check_values
from flashdqn.envs.sfc.graphml import Defaults, read_graphml
from flashdqn.envs.sfc.load import read_tables
from flashdqn.envs.sfc.tables import PAPER, US_PER_KM, Tables
from flashdqn.envs.sfc.trace import read_trace
from flashdqn.envs.task import EnvConfig

TOPOLOGIES = ("mesh", "ring", "random")
Endpoints = Literal["pair", "source"]
Held = Literal["chain", "hop"]
Turns = Literal["one", "stay"]
Waiting = Literal["always", "idle"]
Discount = Literal["action", "time"]
State = Literal["paper", "full"]

MAX_DCS, MAX_BUNDLES, MAX_REQUESTS = 16, 64, 30_000
#: The most different times of a trace.
MAX_TIMES = 1000
_REWARDS = (
    "satisfied_reward",
    "dropped_reward",
    "invalid_reward",
    "needed_reward",
    "progress_reward",
    "time_reward",
    "bound_reward",
)


@dataclass(frozen=True)
class SfcConfig(EnvConfig):
    """Networks, requests, clock and rewards of service function chain provisioning."""

    task: ClassVar[str] = "sfc"

    tables: str = ""
    """A TOML or JSON file with your own VNFs, chains or topology; empty: the paper's. The file must stay in its
    place."""
    min_dcs: Annotated[int, Between(2, MAX_DCS)] = 2
    """Smallest number of data centers in an episode's network."""
    max_dcs: Annotated[int, Between(2, MAX_DCS)] = 8
    """Largest number of data centers; every episode draws its number. Your own topology has its own number."""
    min_bundles: Annotated[int, Between(1, MAX_BUNDLES)] = 1
    """Smallest number of bundles in an episode."""
    max_bundles: Annotated[int, Between(1, MAX_BUNDLES)] = 5
    """Largest number of bundles; every episode draws its number. A bundle has requests for every chain."""
    topology: str = "mesh"
    """How data centers are linked. mesh: all pairs. ring: a ring. random: a random tree, and each further link with
    probability ½. Or a GraphML file with your own network, as network.graphml; it must stay in its place."""
    trace: str = ""
    """A CSV file with the requests: time_ms, chain, source, target, mbps. Empty: every episode draws its own."""
    link_mbps: Annotated[int, Between(0, 10**6)] = 1000
    """Bandwidth of a link in Mbit/s, for both directions together."""
    span_km: Annotated[int, Between(0, 10**6)] = 200
    """Side in km of the square in which data centers lie; light takes 5 µs per km."""
    cpu_low: Annotated[int, Between(0, 10**6)] = 12
    """Smallest CPU of a data center, in the unit of the VNFs' table: one vCPU counts as one GHz."""
    cpu_high: Annotated[int, Between(0, 10**6)] = 120
    """Largest CPU of a data center; each one draws its own."""
    ram: Annotated[int, Between(0, 10**6)] = 256
    """RAM of a data center in GB; 0: RAM is ignored."""
    storage: Annotated[int, Between(0, 10**6)] = 2048
    """Storage of a data center in GB."""
    endpoints: Endpoints = "pair"
    """pair: a request enters at one data center and leaves at another. source: it leaves where its chain ends."""
    held: Held = "chain"
    """How long a chain's bandwidth stays reserved. chain: until the chain ends. hop: until the VNF at the end of
    the hop has finished."""
    step_us: Annotated[int, Between(1, 10**6)] = 1000
    """Length of a step in microseconds."""
    actions_per_step: Annotated[int, Between(1, 10**6)] = 100
    """Largest number of actions in a step. Unless full_steps is on, a step ends earlier when every data center in a
    row has waited."""
    full_steps: bool = False
    """Give every step all its actions, even if the last ones are only waits. Then discounting by actions is
    discounting by time, and waiting gains nothing."""
    slots: Annotated[int, Between(1, 10**6)] = 1
    """Number of parts of a step. An instance serves one request at a time. The instance, and the request for its
    next VNF, are free again at the end of a part."""
    bundle_every: Annotated[int, Between(1, 10**6)] = 4
    """Number of steps between bundles."""
    max_steps: Annotated[int, Between(0, 100_000)] = 250
    """Truncate an episode after this many steps; 0: no limit."""
    turns: Turns = "stay"
    """Whose turn it is after an action. stay: the same data center's until it waits. one: the next one's."""
    waiting: Waiting = "always"
    """When a data center may wait. always: at any time. idle: only when it cannot serve any request."""
    state: State = "paper"
    """What the agent sees. paper: the three parts of Onsu et al. 2024. full: also which request each VNF would
    serve next, what else there is room for, and how much the network has to do."""
    discount: Discount = "action"
    """What γ counts. action: every action. time: parts of a step, so that actions within a part are not discounted
    against each other, and it gains nothing to let time pass faster."""
    masks: bool = True
    """Tell the agent which actions are legal. If off, an illegal action costs `invalid_reward`."""
    satisfied_reward: Annotated[float, Between(-1000, 1000)] = 2.0
    """Reward for every chain whose last VNF is allocated in time."""
    dropped_reward: Annotated[float, Between(-1000, 1000)] = -1.5
    """Reward for every chain that can no longer be in time."""
    invalid_reward: Annotated[float, Between(-1000, 1000)] = -1.0
    """Reward for an illegal action, which does nothing."""
    needed_reward: Annotated[float, Between(-1000, 1000)] = -0.5
    """Reward for uninstalling a VNF that some request waits for."""
    progress_reward: Annotated[float, Between(-1000, 1000)] = 0.0
    """Reward for every allocated VNF, times its share of the chain's CPU; taken back if the chain is dropped."""
    progress_power: Annotated[float, Between(0, 100, above=True)] = 1.0
    """Power of the finished share of a chain in the progress reward. Above 1, a chain's later VNFs pay more than
    its first ones, so it pays to finish chains before new ones start."""
    time_reward: Annotated[float, Between(-1000, 1000)] = 0.0
    """Reward for each unit of CPU of the network, at the end of every part of a step in which requests wait."""
    bound_reward: Annotated[float, Between(-1000, 1000)] = 0.0
    """Reward for every request by which the number of requests that the network's CPU can still satisfy changes.
    With satisfied_reward 1 an action's reward is then what it costs: 0 at best."""

    bound_urgency: Annotated[float, Between(0, 1)] = 0.0
    """How much less a request counts among those that can still be satisfied if it can wait no longer; each
    millisecond that it can still wait halves that. So it pays to serve urgent requests first. 0: all are alike."""

    def __post_init__(self) -> None:
        check_values(self, "env.")
        self._check_order()
        self._check_topology()
        self._check_clock()
        self._check_rewards()
        self._check_size(self.read())

    def read(self) -> Tables:
        """The tables: the paper's, or those of the files."""
        tables = read_tables(Path(self.tables)) if self.tables else PAPER
        if self.topology not in TOPOLOGIES:
            if tables.sites:
                raise ConfigError(f"{self.tables} and {self.topology} both give a topology: leave one out.")
            tables = read_graphml(Path(self.topology), tables, self.default_site)
        return read_trace(Path(self.trace), tables, self.dcs(tables)) if self.trace else tables

    @property
    def default_site(self) -> Defaults:
        """What a data center and a link have where a file does not say it."""
        return Defaults((self.cpu_low, self.cpu_high), self.ram or 10**6, self.storage, self.link_mbps)

    def bundles(self, tables: Tables) -> tuple[int, int]:
        """Smallest and largest number of bundles; a trace has as many as there are different times."""
        if tables.arrivals:
            return (len(self.arrival_slots(tables)),) * 2
        return self.min_bundles, self.max_bundles

    def arrival_slots(self, tables: Tables) -> list[int]:
        """The parts of a step in which bundles arrive."""
        if tables.arrivals:
            return sorted({arrival.time_us // self.slot_us for arrival in tables.arrivals})
        return [k * self.bundle_every * self.slots for k in range(self.max_bundles)]

    @property
    def slot_us(self) -> int:
        """Length of a part of a step in microseconds."""
        return self.step_us // self.slots

    @property
    def actions_per_slot(self) -> int:
        """Largest number of actions in a part of a step."""
        return self.actions_per_step // self.slots

    def dcs(self, tables: Tables) -> tuple[int, int]:
        """Smallest and largest number of data centers."""
        return (len(tables.sites),) * 2 if tables.sites else (self.min_dcs, self.max_dcs)

    def max_requests(self, tables: Tables) -> int:
        """The largest number of requests in an episode."""
        return len(tables.arrivals) or self.max_bundles * sum(chain.bundle[1] for chain in tables.chains)

    def longest_hold(self, tables: Tables) -> int:
        """The longest time that an instance can be held, in parts of a step: the longest path and processing."""
        if tables.sites:
            xs, ys = [site.x_km for site in tables.sites], [site.y_km for site in tables.sites]
            across = math.hypot(max(xs) - min(xs), max(ys) - min(ys))
        else:
            across = math.hypot(self.span_km, self.span_km)
        hops = 1 if self.topology == "mesh" and not tables.sites else self.dcs(tables)[1] - 1
        longest = hops * (US_PER_KM * across + 1) + max(vnf.processing_us for vnf in tables.vnfs)
        return math.ceil(longest / self.slot_us) + 1

    def _check_order(self) -> None:
        for low, high in (("min_dcs", "max_dcs"), ("min_bundles", "max_bundles"), ("cpu_low", "cpu_high")):
            a, b = getattr(self, low), getattr(self, high)
            if a > b:
                raise ConfigError(f"env needs {low} ≤ {high}, and has {a} and {b}.")

    def _check_topology(self) -> None:
        if self.topology not in TOPOLOGIES and Path(self.topology).suffix != ".graphml":
            known = ", ".join(TOPOLOGIES)
            raise ConfigError(f"env.topology must be {known} or a .graphml file, and is '{self.topology}'.")

    def _check_clock(self) -> None:
        if self.step_us % self.slots or self.actions_per_step % self.slots:
            raise ConfigError(
                f"env.slots must divide env.step_us ({self.step_us}) and env.actions_per_step "
                f"({self.actions_per_step}); it is {self.slots}."
            )

    def _check_rewards(self) -> None:
        for name in _REWARDS:
            value = getattr(self, name)
            if abs(value * 1000 - round(value * 1000)) > 1e-6:
                raise ConfigError(
                    f"env.{name} must be a multiple of 0.001 in -1000 … 1000; it is {value}. "
                    "Rewards are added up in whole thousandths, so all devices agree."
                )

    def _check_size(self, tables: Tables) -> None:
        slots = self.arrival_slots(tables)
        if len(slots) > MAX_TIMES:
            raise ConfigError(
                f"{self.trace} has requests at {len(slots)} times, and {MAX_TIMES} are the most."
            )
        if tables.arrivals and 0 < self.max_steps * self.slots <= slots[-1]:
            raise ConfigError(
                f"{self.trace} lasts {slots[-1] // self.slots + 1} steps, and an episode is cut off after "
                f"env.max_steps {self.max_steps}: raise that."
            )
        if self.max_requests(tables) > MAX_REQUESTS:
            raise ConfigError(
                f"An episode may have {self.max_requests(tables)} requests, and {MAX_REQUESTS} is the most: "
                "lower env.max_bundles, or the bundles of the chains."
            )
        if self.longest_hold(tables) > 4096:
            raise ConfigError(
                f"A request may be under way for {self.longest_hold(tables)} parts of a step, and 4096 is the "
                "most: raise env.step_us, or lower env.span_km or the processing times."
            )
