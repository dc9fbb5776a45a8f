"""Service chains again, naively: lists that are searched through, and paths by trying all; the oracle.

It shares nothing with the compiled networks but the configuration and the tables, and draws the same random
numbers in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
from snake_twin import PlainRandom

from flashdqn.envs.sfc import SfcConfig
from flashdqn.envs.sfc.tables import Chain, Vnf

FAR = 2**28


@dataclass
class Request:
    number: int
    chain: Chain
    arrived: int  # µs
    source: int
    target: int | None
    kbps: int
    places: list[int] = field(default_factory=list)  # data centers that serve or served it
    busy_until: int | None = None  # the part of a step at whose start its service is over
    fate: str = ""  # satisfied, dropped, or still open

    @property
    def place(self) -> int:
        return self.places[-1] if self.places else self.source

    @property
    def deadline(self) -> int:
        return self.arrived + round(1000 * self.chain.delay_ms)

    @property
    def next_vnf(self) -> str:
        return self.chain.vnfs[len(self.places)]

    @property
    def is_last(self) -> bool:
        return len(self.places) == len(self.chain.vnfs) - 1


@dataclass
class Center:
    cpu: int
    storage: int
    ram: int
    x: int
    y: int
    installed: dict[str, int]
    idle: dict[str, int]


@dataclass
class TwinStep:
    obs: np.ndarray
    mask: list[bool]
    reward: float
    terminated: bool
    truncated: bool
    outcomes: dict[str, float]
    elapsed: int


class TwinNetwork:
    def __init__(self, config: SfcConfig, random: PlainRandom) -> None:
        self.config, self.random, self.tables = config, random, config.read()
        self.vnfs: dict[str, Vnf] = {vnf.name: vnf for vnf in self.tables.vnfs}
        self.over = True
        self.mask: list[bool] = []

    # an episode's network

    def start(self) -> None:
        low, high = self.config.dcs(self.tables)
        dcs = low + self.random.below(high - low + 1)
        low, high = self.config.min_bundles, self.config.max_bundles
        self.bundles = low + self.random.below(high - low + 1)
        self.centers = [self.draw_center(d) for d in range(dcs)]
        self.links: dict[frozenset[int], tuple[int, int]] = {}  # pair → kbit/s, µs
        self.draw_links()
        self.paths = {(a, b): self.shortest(a, b) for a in range(dcs) for b in range(dcs)}
        self.requests: list[Request] = []
        self.used: dict[str, int] = {"cpu": 0, "cpu_all": 0, "storage": 0, "storage_all": 0}
        self.causes = {"no_room": 0, "no_bandwidth": 0, "no_time": 0}
        self.delays: list[int] = []
        self.now, self.arrived, self.over = -1, 0, False
        self.actions, self.waits, self.turn = self.config.actions_per_slot, 0, 0
        self.spent = self.lapsed = 0
        self.passed: set[int] = set()
        self.bound = self.satisfiable()

    def draw_center(self, d: int) -> Center:
        config, none = self.config, dict.fromkeys(self.vnfs, 0)
        if self.tables.sites:
            site = self.tables.sites[d]
            cpu = site.cpu[0] + self.random.below(site.cpu[1] - site.cpu[0] + 1)
            return Center(cpu, site.storage, site.ram, site.x_km, site.y_km, dict(none), dict(none))
        cpu = config.cpu_low + self.random.below(config.cpu_high - config.cpu_low + 1)
        x, y = self.random.below(config.span_km + 1), self.random.below(config.span_km + 1)
        return Center(cpu, config.storage, config.ram or 2**30, x, y, dict(none), dict(none))

    def draw_links(self) -> None:
        kind, dcs = self.config.topology, len(self.centers)
        names = [site.name for site in self.tables.sites]
        for link in self.tables.links:
            pair = frozenset(names.index(name) for name in link.between)
            before = self.links.get(pair, (0, 0))[0]
            self.links[pair] = before + round(1000 * link.mbps), self.straight(*pair)
        if self.tables.sites:
            return
        for b in range(1, dcs):
            parent = self.random.below(b) if kind == "random" else 0
            for a in range(b):
                on_ring = b == a + 1 or (a == 0 and b == dcs - 1)
                chosen = {"mesh": True, "ring": on_ring}.get(kind)
                if chosen is None:
                    chosen = a == parent or self.random.below(2) == 1
                if chosen:
                    self.links[frozenset((a, b))] = 1000 * self.config.link_mbps, self.straight(a, b)

    def straight(self, a: int, b: int) -> int:
        one, two = self.centers[a], self.centers[b]
        return math.isqrt(25 * ((one.x - two.x) ** 2 + (one.y - two.y) ** 2))

    def shortest(self, a: int, b: int) -> int:
        """Delay of the shortest path: every order of every set of stops is tried."""
        if a == b:
            return 0
        others = [d for d in range(len(self.centers)) if d not in (a, b)]
        best = FAR
        for count in range(len(others) + 1):
            for stops in permutations(others, count):
                way = [a, *stops, b]
                pairs = [frozenset(pair) for pair in pairwise(way)]
                if all(pair in self.links for pair in pairs):
                    best = min(best, sum(self.links[pair][1] for pair in pairs))
        return best

    # what is free

    def free(self, d: int, what: str) -> int:
        center = self.centers[d]
        taken = sum(getattr(self.vnfs[v], what) * n for v, n in center.installed.items())
        return int(getattr(center, what)) - taken

    def has_room(self, d: int, v: str) -> bool:
        if self.centers[d].idle[v] > 0:
            return True
        return all(self.free(d, what) >= getattr(self.vnfs[v], what) for what in ("cpu", "storage", "ram"))

    def waiting(self) -> list[Request]:
        return [r for r in self.requests if not r.fate and r.busy_until is None]

    # time

    @property
    def clock(self) -> int:
        return self.now * self.config.slot_us

    def least(self, request: Request, position: int) -> int:
        """The least time from the start of a position's service to the end of the last one's."""
        total, slot = 0, self.config.slot_us
        for k in range(position, len(request.chain.vnfs)):
            work = self.vnfs[request.chain.vnfs[k]].processing_us
            total += work if k == len(request.chain.vnfs) - 1 else math.ceil(work / slot) * slot
        return total

    def pass_time(self) -> tuple[Fraction, str]:
        earned = Fraction(0)
        if self.now >= 0:
            earned += self.pay_for_time()
            self.lapsed += sum(self.unused(d) for d in range(len(self.centers)))
            self.passed = set()
            for d, center in enumerate(self.centers):
                for what in ("cpu", "storage"):
                    self.used[what] += getattr(center, what) - self.free(d, what)
                    self.used[f"{what}_all"] += getattr(center, what)
        self.now += 1
        self.actions = self.waits = self.turn = 0
        earned += self.drop_hopeless()
        self.finish()
        config = self.config
        if self.arrived < self.bundles and self.now % (config.bundle_every * config.slots) == 0:
            before = self.satisfiable()
            self.arrive()
            self.bound += self.satisfiable() - before
        self.order = self.service_order()
        done = all(r.fate and r.busy_until is None for r in self.requests)
        if done and self.arrived == self.bundles:
            return earned, "terminated"
        if config.max_steps and self.now >= config.max_steps * config.slots:
            return earned, "truncated"
        return earned, ""

    def pay_for_time(self) -> Fraction:
        cpu = sum(center.cpu for center in self.centers)
        return Fraction(str(self.config.time_reward)) * cpu if self.waiting() else Fraction(0)

    def drop_hopeless(self) -> Fraction:
        late = [r for r in self.waiting() if r.deadline < self.clock + self.least(r, len(r.places))]
        # by chain, then position, then place: bandwidth that one releases may change the cause of the next
        late.sort(key=lambda r: (self.tables.chains.index(r.chain), len(r.places), r.place, r.number))
        for request in late:
            self.causes[self.cause(request)] += 1
            request.fate = "dropped"
            self.release(request, to_target=False)
        paid = sum((self.progress(r, k) for r in late for k in range(len(r.places))), Fraction(0))
        return Fraction(str(self.config.dropped_reward)) * len(late) - paid

    def progress(self, request: Request, position: int) -> Fraction:
        """What a position of a chain pays: what it adds to the share of the chain's CPU that is done, to some
        power, in whole thousandths."""
        costs = [self.vnfs[v].cpu for v in request.chain.vnfs]
        before, after = (sum(costs[:k]) / max(1, sum(costs)) for k in (position, position + 1))
        share = self.config.progress_reward * (
            after**self.config.progress_power - before**self.config.progress_power
        )
        return Fraction(round(1000 * share), 1000)

    def cause(self, request: Request) -> str:
        roomy = [d for d in range(len(self.centers)) if self.has_room(d, request.next_vnf)]
        if not roomy:
            return "no_room"
        return "no_time" if any(self.has_bandwidth(request, d) for d in roomy) else "no_bandwidth"

    def finish(self) -> None:
        for request in self.requests:
            if request.busy_until != self.now:
                continue
            d, v = request.place, request.chain.vnfs[len(request.places) - 1]
            self.centers[d].idle[v] += 1
            request.busy_until = None
            if self.config.held == "hop":
                before = request.places[-2] if len(request.places) > 1 else request.source
                self.reserve(before, d, -request.kbps)
            if request.fate:
                self.release(request, to_target=True)

    def arrive(self) -> None:
        for chain in self.tables.chains:
            low, high = chain.bundle
            for _ in range(low + self.random.below(high - low + 1)):
                dcs = len(self.centers)
                source, target = self.random.below(dcs), None
                if self.config.endpoints == "pair":
                    target = (source + 1 + self.random.below(dcs - 1)) % dcs
                kbps = chain.kbps[0]
                if chain.kbps[1] > kbps:
                    kbps += self.random.below(chain.kbps[1] - kbps + 1)
                number = len(self.requests)
                self.requests.append(Request(number, chain, self.clock, source, target, kbps))
        self.arrived += 1

    def service_order(self) -> list[int]:
        place, target, waiting = 0, None, self.waiting()
        if waiting:
            urgent = min(waiting, key=lambda r: (r.deadline, r.number))
            place, target = urgent.place, urgent.target

        def key(d: int) -> tuple[int, int, int]:
            onward = self.paths[d, target] if target is not None else 0
            return self.paths[place, d] + onward, self.paths[place, d], d

        return sorted(range(len(self.centers)), key=key)

    # bandwidth

    def route(self, a: int, b: int) -> list[frozenset[int]]:
        """The path that is used is the compiled network's own business where several are as short; see the test."""
        links: list[frozenset[int]] = []
        while a != b:
            onward = self.hops[a][b]
            links.append(frozenset((a, onward)))
            a = onward
        return links

    def follow(self, hops: list[list[int]]) -> None:
        """Take next hops from outside, after a look that they lead along shortest paths."""
        self.hops = hops
        for (a, b), delay in self.paths.items():
            assert sum(self.links[link][1] for link in self.route(a, b)) == delay
        self.link_free = {link: kbps for link, (kbps, _) in self.links.items()}

    def reserve(self, a: int, b: int, kbps: int) -> None:
        for link in self.route(a, b):
            self.link_free[link] -= kbps

    def release(self, request: Request, to_target: bool) -> None:
        if self.config.held == "chain":
            way = [request.source, *request.places]
            for a, b in pairwise(way):
                self.reserve(a, b, -request.kbps)
        if to_target and request.target is not None:
            self.reserve(request.place, request.target, -request.kbps)

    def has_bandwidth(self, request: Request, d: int) -> bool:
        needed = self.route(request.place, d)
        if request.is_last and request.target is not None:
            needed = needed + self.route(d, request.target)
        return all(self.link_free[link] >= needed.count(link) * request.kbps for link in needed)

    # serving

    def can_serve(self, request: Request, d: int) -> bool:
        slot, position = self.config.slot_us, len(request.places)
        done = self.clock + self.paths[request.place, d] + self.vnfs[request.next_vnf].processing_us
        if not request.is_last:
            done = math.ceil(done / slot) * slot + self.least(request, position + 1)
        if request.target is not None:
            done += self.paths[d, request.target]
        return done <= request.deadline and self.has_bandwidth(request, d)

    def priority(self, request: Request, d: int) -> int:
        remaining = request.deadline - self.clock
        points = -remaining
        if request.places:
            points += 10_000 if request.place == d else -5_000
        if remaining < 10_000:
            points += 100_000_000 // remaining
        return points

    def candidates(self, v: str, d: int) -> list[Request]:
        if not self.has_room(d, v):
            return []
        return [r for r in self.waiting() if r.next_vnf == v and self.can_serve(r, d)]

    def legal(self, d: int) -> list[bool]:
        allocate = [bool(self.candidates(v, d)) for v in self.vnfs]
        uninstall = [self.centers[d].idle[v] > 0 for v in self.vnfs]
        return [*allocate, *uninstall, self.config.waiting == "always" or not any(allocate)]

    def allocate(self, v: str, d: int) -> Fraction:
        request = max(self.candidates(v, d), key=lambda r: (self.priority(r, d), -r.number))
        center, config = self.centers[d], self.config
        if center.idle[v]:
            center.idle[v] -= 1
        else:
            center.installed[v] += 1
        last, before = request.is_last, request.place
        self.reserve(before, d, request.kbps)
        request.places.append(d)
        work = self.paths[before, d] + self.vnfs[v].processing_us
        request.busy_until = self.now + math.ceil(work / config.slot_us)
        self.spent += self.vnfs[v].cpu * math.ceil(work / config.slot_us)
        earned = self.progress(request, len(request.places) - 1)
        if last:
            request.fate = "satisfied"
            if request.target is not None:
                self.reserve(d, request.target, request.kbps)
                work += self.paths[d, request.target]
            self.delays.append(self.clock + work - request.arrived)
            assert self.clock + work <= request.deadline
            earned += Fraction(str(config.satisfied_reward))
        return earned

    def uninstall(self, v: str, d: int) -> Fraction:
        self.centers[d].idle[v] -= 1
        self.centers[d].installed[v] -= 1
        needed = any(r.next_vnf == v for r in self.waiting())
        return Fraction(str(self.config.needed_reward)) if needed else Fraction(0)

    # steps

    def step(self, action: int, hops: list[list[int]]) -> TwinStep:
        earned, names = Fraction(0), list(self.vnfs)
        before = 0 if self.over else self.now
        if self.over:
            self.start()
            self.follow(hops)
        else:
            earned = self.act(action, names)
        end = ""
        while True:
            all_waited = self.waits >= len(self.centers)
            if self.actions >= self.config.actions_per_slot or (all_waited and not self.config.full_steps):
                paid, end = self.pass_time()
                earned += paid
                if end:
                    self.centre, self.over = self.order[0], True
                    self.mask = [False] * (2 * len(names)) + [True]
                    break
                continue
            self.centre = self.order[self.turn]
            self.mask = self.legal(self.centre)
            if any(self.mask[:-1]) or all_waited:
                break
            self.take_turn(waited=True)
        outcomes = self.outcomes() if end else {}
        if self.config.bound_reward:
            pay, bound = round(1000 * self.config.bound_reward), self.satisfiable()
            earned += Fraction((bound - self.bound) * pay // 1000, 1000)
            self.bound = bound
        reward = float(np.float32(float(earned)))
        ends = end == "terminated", end == "truncated"
        return TwinStep(self.observe(), self.mask, reward, *ends, outcomes, min(self.now - before, 255))

    def act(self, action: int, names: list[str]) -> Fraction:
        self.actions += 1
        earned = Fraction(0)
        if not 0 <= action <= 2 * len(names) or not self.mask[action]:
            earned = Fraction(str(self.config.invalid_reward))
        elif action < len(names):
            earned = self.allocate(names[action], self.centre)
        elif action < 2 * len(names):
            earned = self.uninstall(names[action - len(names)], self.centre)
        self.take_turn(waited=action == 2 * len(names))
        return earned

    def take_turn(self, waited: bool) -> None:
        if waited:
            self.passed.add(self.centre)
        if waited or self.config.turns == "one":
            self.turn = (self.turn + 1) % len(self.centers)
        self.waits = self.waits + 1 if waited else 0

    # what is seen

    def observe(self) -> np.ndarray:
        d, numbers = self.centre, []
        center, chains = self.centers[d], self.tables.chains
        largest = (
            {what: max(getattr(s, what) for s in self.tables.sites) for what in ("storage",)}
            if (self.tables.sites)
            else {"storage": self.config.storage}
        )
        cpu = max(s.cpu[1] for s in self.tables.sites) if self.tables.sites else self.config.cpu_high
        numbers += [shaded(center.installed[v], 4) for v in self.vnfs]
        numbers += [shaded(center.idle[v], 4) for v in self.vnfs]
        numbers += [share(self.free(d, "storage"), largest["storage"]), share(self.free(d, "cpu"), cpu)]
        served = [r for r in self.requests if r.busy_until is not None]
        for k, chain in enumerate(chains):
            busy = [r for r in served if r.chain is chain and r.place == d]
            wait = [r for r in self.waiting() if r.chain is chain and r.place == d]
            numbers.append(share(k + 1 if busy or wait else 0, len(chains)))
            now = [r.chain.vnfs[len(r.places) - 1] for r in busy]
            numbers += [shaded(now.count(v), 4) for v in self.vnfs]
            numbers += [shaded([r.next_vnf for r in wait].count(v), 16) for v in self.vnfs]
        for k, chain in enumerate(chains):
            pending = [r for r in self.requests if r.chain is chain and (not r.fate or r.busy_until)]
            wait = [r for r in self.waiting() if r.chain is chain]
            limit = round(1000 * chain.delay_ms)
            remaining = min([r.deadline - self.clock for r in pending], default=limit)
            kbps = sum(r.kbps for r in pending)
            numbers.append(share(k + 1 if pending else 0, len(chains)))
            numbers.append(shaded(len(pending), 64))
            numbers.append(share(max(0, remaining), limit))
            numbers.append(share(kbps, kbps + 1000 * self.config.link_mbps))
            numbers += [shaded([r.next_vnf for r in wait].count(v), 64) for v in self.vnfs]
        if self.config.state == "full":
            numbers += chain_lists(self.observe_next(v, d) for v in self.vnfs) + self.observe_network(d, cpu)
        return np.array(numbers, dtype=np.float32)

    def observe_next(self, v: str, d: int) -> list[float]:
        chains, others = self.tables.chains, [x for x in range(len(self.centers)) if x != d]
        ready = [] if self.over else [r for r in self.waiting() if r.next_vnf == v and self.can_serve(r, d)]
        numbers = [0.0] * (7 + len(chains))
        if ready:
            request = max(ready, key=lambda r: (self.priority(r, d), -r.number))
            slack = max(0, request.deadline - self.clock - self.least(request, len(request.places)))
            work = self.paths[request.place, d] + self.vnfs[v].processing_us
            hold = min(4, math.ceil(work / self.config.slot_us))
            numbers = [1.0, *(float(chain is request.chain) for chain in chains)]
            numbers += [share(slack, slack + 10_000), share(self.rest(request), self.most_cpu()), hold / 4]
            numbers += [float(request.place == d), float(request.target == d), float(bool(request.places))]
        waiting = sum(r.next_vnf == v for r in self.waiting())
        rooms = sum(self.has_room(x, v) for x in others)
        more = self.free(d, "cpu") // max(1, self.vnfs[v].cpu)
        return [
            *numbers,
            float(self.has_room(d, v)),
            shaded(more, 4),
            shaded(waiting, 64),
            share(rooms, len(others)),
        ]

    def observe_network(self, d: int, largest: int) -> list[float]:
        dcs, config = len(self.centers), self.config
        cpu, apart = sum(center.cpu for center in self.centers), config.bundle_every * config.slots
        needed = sum(self.rest(r) for r in self.requests if not r.fate)
        longest = round(1000 * max(chain.delay_ms for chain in self.tables.chains)) // config.slot_us
        left = max(0, (self.arrived - 1) * apart + longest - self.now)
        return [
            share(self.centers[d].cpu, largest),
            share(self.unused(d), self.centers[d].cpu),
            share(sum(map(self.unused, range(dcs))), cpu),
            shaded(dcs, 4),
            share(dcs - len(self.passed), dcs),
            float(d in self.passed),
            share(max(0, config.actions_per_slot - self.actions), config.actions_per_slot),
            share(needed, needed + cpu * left),
            share(min(self.now - (self.arrived - 1) * apart, apart), apart),
            shaded(self.arrived, 4),
        ]

    # what the CPU can still satisfy

    def unused(self, d: int) -> int:
        """CPU of a data center that serves nobody."""
        here = [r for r in self.requests if r.busy_until is not None and r.place == d]
        return self.centers[d].cpu - sum(self.vnfs[r.chain.vnfs[len(r.places) - 1]].cpu for r in here)

    def rest(self, request: Request) -> int:
        """CPU that the VNFs still need that are not allocated."""
        return sum(max(1, self.vnfs[v].cpu) for v in request.chain.vnfs[len(request.places) :])

    def most_cpu(self) -> int:
        return max(sum(max(1, self.vnfs[v].cpu) for v in chain.vnfs) for chain in self.tables.chains)

    def satisfiable(self) -> int:
        """Requests that fit into the CPU until their deadlines, the cheapest first, in thousandths: the mean for
        three shares of that CPU. All is added up again, request by request."""
        config, slot = self.config, self.config.slot_us
        cpu, apart = sum(center.cpu for center in self.centers), config.bundle_every * config.slots
        limits = [math.ceil(round(1000 * chain.delay_ms) / slot) for chain in self.tables.chains]
        last = (self.bundles - 1) * apart + max(limits)
        left = cpu * last - self.spent - self.lapsed - sum(map(self.unused, self.passed))
        due = sorted(
            (bundle * apart * slot + round(1000 * chain.delay_ms), bundle, k)
            for bundle in range(self.bundles)
            for k, chain in enumerate(self.tables.chains)
        )
        count = 0
        for percent in (100, 85, 70):
            kept: dict[tuple[int, int, int], int] = {}  # rest, chain, position → thousandths of requests
            for _, bundle, k in due:
                for key, asked in self.asked(bundle, k).items():
                    kept[key] = kept.get(key, 0) + asked
                budget = max(0, 10 * percent * (left - (last - bundle * apart - limits[k]) * cpu))
                turns = 10 * percent * self.turns_until(bundle * apart + limits[k])
                for key in sorted(kept, reverse=True):
                    excess = sum(rest * n for (rest, _, _), n in kept.items()) - budget
                    more = sum(self.turns(key) * n for key, n in kept.items()) - turns
                    removed = max(math.ceil(excess / key[0]), math.ceil(more / self.turns(key)))
                    kept[key] -= min(kept[key], max(0, removed))
            count += sum(kept.values())
        return count // 3

    def turns(self, key: tuple[int, int, int]) -> int:
        _, k, position = key
        return len(self.tables.chains[k].vnfs) - position

    def turns_until(self, slot: int) -> int:
        """Actions that are left before a part of a step."""
        ahead = slot - self.clock // self.config.slot_us
        return max(0, self.config.actions_per_slot * ahead - self.actions)

    def asked(self, bundle: int, k: int) -> dict[tuple[int, int, int], int]:
        chain, every = self.tables.chains[k], self.config.bundle_every * self.config.step_us
        if bundle >= self.arrived:
            whole = sum(max(1, self.vnfs[v].cpu) for v in chain.vnfs)
            return {(whole, k, 0): 500 * sum(chain.bundle)}
        found: dict[tuple[int, int, int], int] = {}
        for r in self.requests:
            if r.chain is chain and r.arrived == bundle * every and not r.fate:
                key = (self.rest(r), k, len(r.places))
                found[key] = found.get(key, 0) + self.counts(r)
        return found

    def counts(self, r: Request) -> int:
        """How much a request counts, in thousandths: less if it can wait no longer."""
        slack = r.deadline - self.clock - self.least(r, len(r.places))
        waits = min(16, max(0, slack // 1000))
        return int(1000 - round(1000 * self.config.bound_urgency) // 2**waits)

    def outcomes(self) -> dict[str, float]:
        good = [r for r in self.requests if r.fate == "satisfied"]
        out = {"score": share(len(good), len(self.requests))}
        for chain in self.tables.chains:
            asked = [r for r in self.requests if r.chain is chain]
            accepted = [r for r in good if r.chain is chain]
            out[f"accepted_{chain.name}"] = share(len(accepted), len(asked)) if asked else 1.0
        out["cpu"] = share(self.used["cpu"], self.used["cpu_all"])
        out["storage"] = share(self.used["storage"], self.used["storage_all"])
        out |= {cause: share(count, len(self.requests)) for cause, count in self.causes.items()}
        out["delay_ms"] = share(sum(self.delays), 1000 * len(good))
        out["throughput_gbps"] = share(sum(r.kbps for r in good), 1_000_000)
        revenue, cost = sum(map(self.revenue, good)), sum(map(self.cost, good))
        out |= {"acceptance_rate": out["score"], "total_revenue": share(revenue, 1000)}
        out |= {
            "long_term_r2c_ratio": share(revenue, cost),
            "long_term_avg_revenue": share(revenue, self.clock),
        }
        return out

    def revenue(self, request: Request) -> int:
        """What it asked for: CPU in thousandths, and kbit/s from VNF to VNF and to its target."""
        hops = len(request.chain.vnfs) + (request.target is not None)
        return 1000 * sum(self.vnfs[v].cpu for v in request.chain.vnfs) + hops * request.kbps

    def cost(self, request: Request) -> int:
        """What it took: CPU while data was on its way and processed, and kbit/s on every link."""
        way, total = [request.source, *request.places], 0
        for v, (a, b) in zip(request.chain.vnfs, pairwise(way), strict=True):
            slots = math.ceil((self.paths[a, b] + self.vnfs[v].processing_us) / self.config.slot_us)
            total += 1000 * self.vnfs[v].cpu * slots + request.kbps * len(self.route(a, b))
        if request.target is not None:
            total += request.kbps * len(self.route(way[-1], request.target))
        return total


def chain_lists(lists: Iterable[list[float]]) -> list[float]:
    return [number for numbers in lists for number in numbers]


def share(part: int, whole: int) -> float:
    return float(np.float32(part) / np.float32(whole)) if whole > 0 else 0.0


def shaded(count: int, half: int) -> float:
    return float(np.float32(count / (count + half)))
