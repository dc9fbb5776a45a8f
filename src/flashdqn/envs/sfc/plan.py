"""What was done in an episode, for people who run networks: which VNF where and when, as a table and a picture."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from flashdqn.core.errors import FlashDQNError
from flashdqn.envs.sfc import layout
from flashdqn.envs.sfc.env import ServiceChains

#: More requests than this are summed up in the picture of the table, not in the table.
COLORS = ("#4878a8", "#d9822b", "#5a9367", "#b5524a", "#8a6bb0", "#8c6d4f", "#c46a9b", "#777777")


class Service(NamedTuple):
    """A VNF of a request, served on a data center for some time."""

    request: int
    chain: str
    position: int
    vnf: str
    data_center: str
    from_ms: float
    to_ms: float
    arrived_ms: float
    deadline_ms: float
    source: str
    target: str
    fate: str


def read_plan(env: ServiceChains, i: int = 0) -> list[Service]:
    """All services of network `i` so far, by request and position."""
    net, tables = env.net, env.tables
    names = name_centers(env)
    slot = env.config.slot_us
    request, places, starts = (x[i].cpu() for x in (net.request, net.places, net.starts))
    delay, arrivals = net.delay[i].cpu(), net.arrivals.cpu()
    services = []
    for r in range(int(net.state[i, layout.REQUESTS])):
        row = request[r].tolist()
        chain = tables.chains[row[layout.CHAIN]]
        begins = starts[r, : len(chain.vnfs)].tolist()
        satisfied, here = begins[-1] >= 0, row[layout.SOURCE]
        arrived = int(arrivals[row[layout.BUNDLE]]) * slot / 1000
        target = "" if row[layout.TARGET] < 0 else names[row[layout.TARGET]]
        for position, (name, begin) in enumerate(zip(chain.vnfs, begins, strict=True)):
            if begin < 0:
                break
            there = int(places[r, position])
            work = next(vnf for vnf in tables.vnfs if vnf.name == name).processing_us
            slots = -(-(int(delay[here, there]) + work) // slot)
            times = begin * slot / 1000, (begin + slots) * slot / 1000
            services.append(
                Service(
                    r,
                    chain.name,
                    position + 1,
                    name,
                    names[there],
                    *times,
                    arrived,
                    arrived + chain.delay_ms,
                    names[row[layout.SOURCE]],
                    target,
                    "satisfied" if satisfied else "dropped",
                )
            )
            here = there
    return services


def name_centers(env: ServiceChains) -> list[str]:
    """The names of the data centers, or numbers where networks are drawn."""
    return [site.name for site in env.tables.sites] or [f"DC {d}" for d in range(env.net.order.shape[1])]


def write_plan(env: ServiceChains, folder: Path) -> list[Path]:
    """Write the plan of the first network as `plan.csv` and `plan.png`; returns the files."""
    services = read_plan(env)
    if not services:
        raise FlashDQNError("Nothing was served in this episode, so there is no plan.")
    folder.mkdir(parents=True, exist_ok=True)
    sheet = folder / "plan.csv"
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Service._fields)
        writer.writerows(services)
    return [sheet, draw_plan(env, services, folder / "plan.png")]


def draw_plan(env: ServiceChains, services: list[Service], path: Path) -> Path:
    """A lane for each data center; CPU in use by VNF over time, as stacked bars under a line for what there is."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    centers = [name for d, name in enumerate(name_centers(env)) if d < int(env.net.state[0, layout.DCS])]
    slot = env.config.slot_us / 1000
    end = max(service.to_ms for service in services)
    steps = max(1, round(end / slot))
    figure = Figure(figsize=(10, 1.2 + 1.25 * len(centers)), layout="constrained")
    FigureCanvasAgg(figure)
    lanes = figure.subplots(len(centers), 1, sharex=True, squeeze=False)[:, 0]
    for d, (axes, center) in enumerate(zip(lanes, centers, strict=True)):
        below = [0.0] * steps
        for k, vnf in enumerate(env.tables.vnfs):
            used = [0.0] * steps
            for service in services:
                if service.vnf == vnf.name and service.data_center == center:
                    for t in range(round(service.from_ms / slot), min(steps, round(service.to_ms / slot))):
                        used[t] += vnf.cpu
            at = [slot * t for t in range(steps)]
            axes.bar(at, used, slot, below, align="edge", color=COLORS[k % len(COLORS)], label=vnf.name)
            below = [low + more for low, more in zip(below, used, strict=True)]
        capacity = int(env.net.capacity[0, d, layout.CPU])
        axes.axhline(capacity, color="#333", lw=0.8)
        axes.set(ylabel=center, ylim=(0, 1.05 * max(1, capacity)), xlim=(0, end))
        axes.spines[["top", "right"]].set_visible(False)
    lanes[-1].set_xlabel("ms")
    lanes[0].legend(
        ncols=len(env.tables.vnfs), frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1)
    )
    served = len({service.request for service in services if service.fate == "satisfied"})
    asked = int(env.net.state[0, layout.REQUESTS])
    figure.suptitle(
        f"CPU in use by VNF; {served} of {asked} requests satisfied", x=0.01, ha="left", fontsize=10
    )
    figure.savefig(path, dpi=130)
    return path
