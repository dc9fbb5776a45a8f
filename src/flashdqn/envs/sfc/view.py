"""The view of service function chains: data centers and their instances, links in use, requests by chain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from flashdqn.core.drawing.scene import Label, Line, Rect, Scene, Shape
from flashdqn.core.drawing.view import Facts, Grid
from flashdqn.envs.sfc import ServiceChains, layout

WIDE, NETWORK, ROW, FOOT = 640.0, 424.0, 26.0, 48.0
MARGIN = 24.0  # for the words under the network
NODE = (124.0, 66.0)
SMALL_NODE = (96.0, 62.0)  # for many data centers
CROWD = 9


class SfcView:
    """Shows the first network of an environment."""

    heat: Grid | None = None
    value_name = "expected return"

    def __init__(self, env: ServiceChains) -> None:
        self.env, tables = env, env.tables
        self.title = "Service function chains"
        vnfs = [vnf.name for vnf in tables.vnfs]
        self.actions = tables.action_names
        self.size = (WIDE, NETWORK + FOOT + ROW * len(tables.chains))
        self.ground: Scene = (
            Rect(0, 0, *self.size, "board"),
            Label(16, NETWORK - 4, f"Boxes: {', '.join(vnfs)}"[:64], 10, "soft"),
            Label(
                WIDE - 16,
                NETWORK - 4,
                "green: serving, ochre: idle; links: Mbit/s in use",
                10,
                "soft",
                "right",
            ),
        )

    def scene(self) -> Scene:
        """Links behind the data centers, and the chains below."""
        now = read_network_snapshot(self.env)
        places = place_sites(self.env, now.dcs)
        shapes = _draw_links(now, places)
        for d, place in enumerate(places):
            shapes += _draw_node(self.env, now, d, place)
        return (*shapes, *_draw_chains(self.env))

    def text(self) -> Text:
        """The network in words and numbers, with the data center in turn in bold."""
        text = Text(render_network(self.env, 0))
        text.highlight_regex(r"(?m)^>.*$", "bold cyan")
        text.highlight_regex(r"\d+ satisfied", "green")
        text.highlight_regex(r"[1-9]\d* dropped", "red")
        return text

    def facts(self) -> Facts:
        """The satisfied share of the decided requests, and the time."""
        state, tally = self.env.net.state[0].tolist(), self.env.net.tally[0]
        good, bad = int(tally[:, layout.SATISFIED].sum()), int(tally[:, layout.DROPPED].sum())
        done = good + bad
        milliseconds = state[layout.NOW] * self.env.config.slot_us / 1000
        return [
            ("accepted", f"{good / done:.0%}" if done else "–"),
            ("satisfied", str(good)),
            ("dropped", str(bad)),
            ("pending", str(state[layout.LEFT])),
            ("bundle", f"{state[layout.ARRIVED]} of {state[layout.BUNDLES]}"),
            ("clock", f"{milliseconds:g} ms"),
        ]

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """How the game ended, with acceptance and delay."""
        end = "out of steps" if truncated else "all requests are decided"
        return f"{end}: {outcomes['score']:.0%} accepted, {outcomes['delay_ms']:.1f} ms on average"


@dataclass(frozen=True)
class Snapshot:
    """Whose turn it is, and which links carry how much: (a, b, used, of)."""

    dcs: int
    turn: int
    links: tuple[tuple[int, int, float, float], ...]


def read_network_snapshot(env: ServiceChains) -> Snapshot:
    """Read the first network."""
    state = env.net.state[0].tolist()
    dcs = state[layout.DCS]
    wire, link = env.net.wire[0].tolist(), env.net.link[0].tolist()
    pairs = ((a, b) for a in range(dcs) for b in range(a + 1, dcs))
    links = tuple((a, b, wire[a][b] - link[a][b], wire[a][b]) for a, b in pairs if wire[a][b] > 0)
    return Snapshot(dcs, state[layout.DC], links)


def place_sites(env: ServiceChains, dcs: int) -> list[tuple[float, float]]:
    """Centers of the data centers: on the map where one is given, else around an ellipse."""
    width, height = node_size(dcs)
    left, top = width / 2 + 8, height / 2 + 10
    right, bottom = WIDE - left, NETWORK - MARGIN - top
    if sites := env.tables.sites:
        xs, ys = [site.x_km for site in sites], [-site.y_km for site in sites]
        return [
            (_rescale_value(x, xs, left, right), _rescale_value(y, ys, top, bottom))
            for x, y in zip(xs, ys, strict=True)
        ]
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
    angles = [2 * math.pi * k / dcs - math.pi / 2 + (math.pi / 2 if dcs == 2 else 0) for k in range(dcs)]
    return [
        (middle_x + (right - middle_x) * math.cos(a), middle_y + (bottom - middle_y) * math.sin(a))
        for a in angles
    ]


def node_size(dcs: int) -> tuple[float, float]:
    """The size of a data center's card: smaller if there are many."""
    return NODE if dcs < CROWD else SMALL_NODE


def _rescale_value(value: float, values: list[int], low: float, high: float) -> float:
    least, most = min(values), max(values)
    return low + (high - low) * ((value - least) / (most - least) if most > least else 0.5)


def _draw_links(now: Snapshot, places: list[tuple[float, float]]) -> list[Shape]:
    """Links: thin if unused, thicker with more traffic, and warm if little bandwidth is left."""
    shapes: list[Shape] = []
    for a, b, _, _ in now.links:
        shapes.append(Line((*places[a], *places[b]), 1.2, "faint"))
    for a, b, used, of in now.links:
        if used > 0:
            hue = "warm" if used > 0.9 * of else "accent"
            shapes.append(Line((*places[a], *places[b]), 1 + 6 * used / of, hue))
    if len(now.links) <= 15:
        for a, b, used, of in now.links:
            if used > 0:
                # not in the middle, where the lines of a mesh cross
                x, y = (places[a][k] + 0.4 * (places[b][k] - places[a][k]) for k in (0, 1))
                text = f"{used / 1000:.0f} of {of / 1000:.0f}"
                shapes.append(Rect(x - 34, y - 8, 68, 16, "board", 8))
                shapes.append(Label(x, y, text, 10, "soft", "center"))
    return shapes


def _draw_node(env: ServiceChains, now: Snapshot, d: int, place: tuple[float, float]) -> list[Shape]:
    """A data center's card: name, CPU, storage, and its instances, busy ones in color."""
    width, height = node_size(now.dcs)
    x, y = place[0] - width / 2, place[1] - height / 2
    turn = d == now.turn
    name = env.tables.sites[d].name if env.tables.sites else f"DC {d}"
    shapes: list[Shape] = [
        Rect(x - 2, y - 2, width + 4, height + 4, "accent" if turn else "faint", 10),
        Rect(x, y, width, height, "card", 8),
        Label(x + 8, y + 12, name[: int(width / 8)], 12, "accent" if turn else "ink"),
    ]
    shapes += [Label(x + width - 8, y + 12, "in turn", 10, "accent", "right")] if turn else []
    for k, (text, column) in enumerate((("CPU", layout.CPU), ("disk", layout.STORAGE))):
        free, capacity = (int(table[0, d, column]) for table in (env.net.free, env.net.capacity))
        shapes += _draw_gauge(x + 8, y + 26 + 12 * k, width - 16, text, capacity - free, capacity)
    installed, idle = env.net.installed[0, d].tolist(), env.net.idle[0, d].tolist()
    step = (width - 16) / len(installed)
    for k, (number, free) in enumerate(zip(installed, idle, strict=True)):
        fill = "faint" if not number else ("good" if free < number else "gold")
        shapes.append(Rect(x + 8 + k * step, y + height - 17, step - 3, 12, fill, 3))
        if number:
            shapes.append(
                Label(x + 8 + (k + 0.5) * step - 1.5, y + height - 11, str(number), 9, "#ffffff", "center")
            )
    return shapes


def _draw_gauge(x: float, y: float, width: float, name: str, used: int, capacity: int) -> list[Shape]:
    share = used / capacity if capacity else 0.0
    long = width - 26
    return [
        Label(x, y, name, 9, "soft"),
        Rect(x + 26, y - 3.5, long, 7, "faint", 3),
        Rect(x + 26, y - 3.5, long * share, 7, "warm" if share > 0.95 else "accent", 3),
    ]


def _draw_chains(env: ServiceChains) -> list[Shape]:
    """For each chain, the requests that are satisfied, being served, waiting and dropped."""
    tables, net = env.tables, env.net
    size = (-1, len(tables.chains), len(tables.vnfs))
    busy, waiting = (table[0].reshape(size).sum((0, 2)).tolist() for table in (net.busy, net.waiting))
    legend = (("satisfied", "good"), ("being served", "accent"), ("waiting", "gold"), ("dropped", "warm"))
    shapes: list[Shape] = [Label(16, NETWORK + 26, "Requests by chain", 12, "ink")]
    for k, (name, hue) in enumerate(legend):
        shapes.append(Rect(196 + 108 * k, NETWORK + 21, 10, 10, hue, 2))
        shapes.append(Label(212 + 108 * k, NETWORK + 26, name, 11, "soft"))
    most = max(1, *(row[layout.ASKED] for row in net.tally[0].tolist()))
    for k, (chain, row) in enumerate(zip(tables.chains, net.tally[0].tolist(), strict=True)):
        y = NETWORK + FOOT + ROW * k
        parts = (row[layout.SATISFIED], busy[k], waiting[k], row[layout.DROPPED])
        shapes.append(Label(16, y + ROW / 2 - 3, chain.name[:12], 12, "ink"))
        shapes.append(Rect(120, y + 2, 400, ROW - 10, "faint", 3))
        x = 120.0
        for number, (_, hue) in zip(parts, legend, strict=True):
            shapes.append(Rect(x, y + 2, 400 * number / most, ROW - 10, hue))
            x += 400 * number / most
        words = f"{row[layout.SATISFIED]} of {row[layout.ASKED]}"
        shapes.append(Label(WIDE - 16, y + ROW / 2 - 3, words, 12, "soft", "right"))
    return [shape for shape in shapes if not (isinstance(shape, Rect) and shape.width <= 0)]


def render_network(env: ServiceChains, i: int) -> str:
    """Data centers with what they have installed (busy / all), links in use, and requests.

    It reads the device, so it is for display only, not for training.
    """
    net, tables = env.net, env.tables
    state = net.state[i].tolist()
    dcs = state[layout.DCS]
    names = [site.name for site in tables.sites] or [f"DC {d}" for d in range(dcs)]
    lines = [
        f"{state[layout.NOW] * env.config.slot_us / 1000:g} ms, bundle {state[layout.ARRIVED]} of "
        f"{state[layout.BUNDLES]}, {state[layout.LEFT]} requests pending"
    ]
    for d in range(dcs):
        turn = ">" if d == state[layout.DC] else " "
        free, all_ = (int(x[i, d, layout.CPU]) for x in (net.free, net.capacity))
        counts = zip(tables.vnfs, net.installed[i, d].tolist(), net.idle[i, d].tolist(), strict=True)
        inside = "  ".join(f"{vnf.name} {n - idle}/{n}" for vnf, n, idle in counts if n)
        lines.append(f"{turn} {names[d]:<10} CPU {all_ - free:>3} of {all_:<3}  {inside}")
    for a in range(dcs):
        for b in range(a + 1, dcs):
            if used := int(net.wire[i, a, b] - net.link[i, a, b]):
                lines.append(
                    f"  {names[a]} – {names[b]}: {used / 1000:g} of {net.wire[i, a, b] / 1000:g} Mbit/s"
                )
    for chain, row in zip(tables.chains, net.tally[i].tolist(), strict=True):
        asked, good, dropped = row[layout.ASKED], row[layout.SATISFIED], row[layout.DROPPED]
        lines.append(f"  {chain.name:<8} {asked:>4} asked, {good} satisfied, {dropped} dropped")
    return "\n".join(lines)
