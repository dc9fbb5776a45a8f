"""The tensors of several networks, and the tables that the kernels read; made once, on the host."""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from flashdqn.compute.kernels import board_tensor
from flashdqn.envs.sfc import layout
from flashdqn.envs.sfc.config import SfcConfig
from flashdqn.envs.sfc.features import HALVES
from flashdqn.envs.sfc.layout import Net
from flashdqn.envs.sfc.network import FAR
from flashdqn.envs.sfc.tables import Chain, Tables, link_delay_us

#: the fields of `Net` that are tables, which all networks share
TABLES = (
    "params",
    "vnfs",
    "stages",
    "uses",
    "cheapest",
    "due",
    "arrivals",
    "expected",
    "trace",
    "trace_from",
    "chains",
    "sites",
    "wires",
    "pay",
    "shades",
)
_NO_LIMIT = 1 << 30


def make_net(config: SfcConfig, tables: Tables, n: int, device: torch.device) -> Net:
    """Make all tensors on a device."""
    dcs, vnfs, chains = config.dcs(tables)[1], len(tables.vnfs), len(tables.chains)
    stages, requests, bundles = tables.stages, config.max_requests(tables), config.bundles(tables)[1]
    longest = max(len(chain.vnfs) for chain in tables.chains)
    shapes = {
        "state": (layout.STATE,),
        "request": (requests, layout.FIELDS),
        "head": (stages, dcs),
        "tail": (stages, dcs),
        "wheel": (config.longest_hold(tables) + 1,),
        "installed": (dcs, vnfs),
        "idle": (dcs, vnfs),
        "free": (dcs, layout.RESOURCES),
        "capacity": (dcs, layout.RESOURCES),
        **dict.fromkeys(("delay", "hop", "link", "wire"), (dcs, dcs)),
        "busy": (dcs, chains * vnfs),
        "waiting": (dcs, chains * vnfs),
        "demand": (chains * vnfs,),
        "unfinished": (bundles, chains),
        "tally": (chains, layout.TALLY),
        "cause": (layout.CAUSES,),
        "order": (dcs,),
        "ahead": (vnfs, layout.AHEAD),
        "todo": (bundles, stages),
    }
    own = {name: board_tensor(n, shape, torch.int32, device) for name, shape in shapes.items()}
    own["sums"] = board_tensor(n, (layout.SUMS,), torch.int64, device)
    own["counted"] = board_tensor(n, (stages,), torch.int64, device)
    own["rng"] = board_tensor(n, (2,), torch.int64, device)
    own["starts"] = board_tensor(n, (requests, longest), torch.int32, device)
    own["places"] = board_tensor(n, (requests, longest), torch.int8, device)
    # Outputs lie row by row on every device: that is how networks and rings read them.
    own["mask"] = torch.zeros(n, 2 * vnfs + 1, dtype=torch.bool, device=device)
    fixed = {name: table.to(device) for name, table in make_tables(config, tables).items()}
    return Net(**own, **fixed)


def make_tables(config: SfcConfig, tables: Tables) -> dict[str, Tensor]:
    """The tables, which never change."""
    sites = make_sites(config, tables)
    stages, uses = make_stages(config, tables)
    largest = {
        "cpu": int(sites[:, layout.CPU_HIGH].max()),
        "storage": int(sites[:, layout.SITE_STORAGE].max()),
    }
    pay = ("satisfied", "dropped", "invalid", "needed", "time", "bound")
    counts = torch.arange(layout.MAX_SHADE + 1, dtype=torch.float64)
    return {
        "params": make_params(config, tables, largest),
        "vnfs": int_tensor([[v.cpu, v.storage, v.ram, v.processing_us] for v in tables.vnfs]),
        "stages": stages,
        "uses": uses,
        "cheapest": stages[:, layout.STAGE_REST].argsort(stable=True).to(torch.int32),
        **make_arrivals(config, tables),
        "chains": make_chains(tables),
        "sites": sites,
        "wires": make_wires(tables, len(sites)),
        "pay": int_tensor([round(1000 * getattr(config, f"{name}_reward")) for name in pay]),
        "shades": torch.stack([counts / (counts + half) for half in HALVES]).to(torch.float32),
    }


def make_params(config: SfcConfig, tables: Tables, largest: dict[str, int]) -> Tensor:
    """The kernel's parameters as data, so a new setting does not compile it again; [PARAMS]."""
    params = torch.zeros(layout.PARAMS, dtype=torch.int32)
    params[layout.MIN_DCS], params[layout.MAX_DCS] = config.dcs(tables)
    params[layout.MIN_BUNDLES], params[layout.MAX_BUNDLES] = config.bundles(tables)
    kinds = {"mesh": layout.MESH, "ring": layout.RING, "random": layout.RANDOM}
    params[layout.TOPOLOGY] = layout.GIVEN if tables.sites else kinds[config.topology]
    params[layout.LINK_KBPS] = 1000 * config.link_mbps
    params[layout.SPAN_KM] = config.span_km
    params[layout.PAIRS] = int(config.endpoints == "pair")
    params[layout.PER_CHAIN] = int(config.held == "chain")
    params[layout.SLOT_US] = config.slot_us
    params[layout.ACTIONS_PER_SLOT] = config.actions_per_slot
    params[layout.BUNDLE_SLOTS] = config.bundle_every * config.slots
    params[layout.MAX_SLOTS] = config.max_steps * config.slots
    params[layout.WHEEL] = config.longest_hold(tables) + 1
    params[layout.WAIT_ALWAYS] = int(config.waiting == "always")
    params[layout.STAYS] = int(config.turns == "stay")
    params[layout.FULL_STEPS] = int(config.full_steps)
    params[layout.FULL_STATE] = int(config.state == "full")
    params[layout.LAST_LIMIT_US] = round(1000 * max(chain.delay_ms for chain in tables.chains))
    params[layout.MOST_CPU] = max(most_cpu(chain, tables) for chain in tables.chains)
    params[layout.URGENCY] = round(1000 * config.bound_urgency)
    params[layout.CPU_SCALE], params[layout.STORAGE_SCALE] = largest["cpu"], largest["storage"]
    return params


def make_stages(config: SfcConfig, tables: Tables) -> tuple[Tensor, Tensor]:
    """Every position of every chain, and where each VNF is used."""
    names = [vnf.name for vnf in tables.vnfs]
    rows: list[list[int]] = []
    for number, chain in enumerate(tables.chains):
        least = rest = 0
        own: list[list[int]] = []
        for position in reversed(range(len(chain.vnfs))):
            v = names.index(chain.vnfs[position])
            work, last = tables.vnfs[v].processing_us, position == len(chain.vnfs) - 1
            # All but the last end with a part of a step, because only then can the next VNF be requested.
            least += work if last else -(-work // config.slot_us) * config.slot_us
            rest += max(1, tables.vnfs[v].cpu)
            own.append([number, v, number * len(names) + v, int(last), least, rest])
        pays = progress_rewards(config, tables, number)
        rows += [[*row[:5], pays[k], sum(pays[:k]), row[5]] for k, row in enumerate(reversed(own))]
    users = [[s for s, row in enumerate(rows) if row[layout.STAGE_VNF] == v] for v in range(len(names))]
    starts = [len(names) + 1 + sum(map(len, users[:v])) for v in range(len(names) + 1)]
    return int_tensor(rows), int_tensor(starts + [stage for own in users for stage in own])


def most_cpu(chain: Chain, tables: Tables) -> int:
    """The CPU that all VNFs of a chain take together, each for one part of a step; a VNF counts as at least 1."""
    cpu = {vnf.name: max(1, vnf.cpu) for vnf in tables.vnfs}
    return sum(cpu[name] for name in chain.vnfs)


def progress_rewards(config: SfcConfig, tables: Tables, chain: int) -> list[int]:
    """The reward for allocating each VNF of a chain, in thousandths: the growth of the finished share of the
    chain's CPU, raised to a power."""
    cpu = {vnf.name: vnf.cpu for vnf in tables.vnfs}
    costs = [cpu[name] for name in tables.chains[chain].vnfs]
    done = [(sum(costs[:k]) / max(1, sum(costs))) ** config.progress_power for k in range(len(costs) + 1)]
    return [round(1000 * config.progress_reward * (after - before)) for before, after in pairwise(done)]


def make_chains(tables: Tables) -> Tensor:
    """The table of chains, [S, CHAIN_COLUMNS]."""
    rows, first = [], 0
    for chain in tables.chains:
        rows.append(
            [
                first,
                len(chain.vnfs),
                *chain.kbps,
                round(1000 * chain.delay_ms),
                chain.bundle[0],
                chain.bundle[1],
            ]
        )
        first += len(chain.vnfs)
    return int_tensor(rows)


def make_arrivals(config: SfcConfig, tables: Tables) -> dict[str, Tensor]:
    """When bundles arrive, what they bring, and the order of their deadlines."""
    times = config.arrival_slots(tables)
    chains = tables.chains
    mean = [500 * sum(chain.bundle) for chain in chains]
    expected = [list(mean) for _ in times]
    rows, starts = [], [0] * (len(times) + 1)
    if tables.arrivals:
        expected = [[0] * len(chains) for _ in times]
        for request in tables.arrivals:
            bundle = times.index(request.time_us // config.slot_us)
            expected[bundle][request.chain] += 1000
            starts[bundle + 1] += 1
            rows.append([request.chain, request.source, request.target, request.kbps])
        starts = list(accumulate(starts))
    pairs = [[bundle, chain] for bundle in range(len(times)) for chain in range(len(chains))]
    due = sorted(pairs, key=lambda p: times[p[0]] * config.slot_us + round(1000 * chains[p[1]].delay_ms))
    return {
        "due": int_tensor(due),
        "arrivals": int_tensor(times),
        "expected": int_tensor(expected),
        "trace": int_tensor(rows).reshape(len(rows), layout.TRACE),
        "trace_from": int_tensor(starts),
    }


def make_sites(config: SfcConfig, tables: Tables) -> Tensor:
    """What each data center has; where RAM is ignored, any amount of it. [D, SITE]"""
    if tables.sites:
        return int_tensor([[s.x_km, s.y_km, *s.cpu, s.storage, s.ram] for s in tables.sites])
    row = [0, 0, config.cpu_low, config.cpu_high, config.storage, config.ram or _NO_LIMIT]
    return int_tensor([row] * config.max_dcs)


def make_wires(tables: Tables, dcs: int) -> Tensor:
    """Bandwidth and delay of the given links; links between the same places add up. [D, D, 2]"""
    wires = torch.zeros(dcs, dcs, 2, dtype=torch.int32)
    wires[:, :, 1] = FAR
    names = [site.name for site in tables.sites]
    for link in tables.links:
        a, b = (names.index(name) for name in link.between)
        for x, y in ((a, b), (b, a)):
            wires[x, y, 0] += round(1000 * link.mbps)
            wires[x, y, 1] = link_delay_us(tables.sites[a], tables.sites[b])
    return wires


def int_tensor(rows: list[int] | list[list[int]]) -> Tensor:
    """Integers as a tensor for the kernels."""
    return torch.tensor(rows, dtype=torch.int32)
