"""A topology from a GraphML file, as the Topology Zoo and converters of SNDlib write them.

A node is a data center. Its place comes from `Latitude` and `Longitude`, in degrees, or `x` and `y`, in km; a
node that has none lies in the middle of its neighbors. `cpu`, `ram` and `storage` are its resources, and an
edge's bandwidth is `mbps`, `capacity` or `bandwidth`, in Mbit/s, or `LinkSpeedRaw`, in bit/s. What the file
does not say comes from the settings. Several edges between the same nodes are one link with their bandwidth
added up. Letters of any case will do.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import read_limited_file
from flashdqn.envs.sfc.tables import Link, Site, Tables

MOST_BYTES = 4_000_000
KM_PER_DEGREE = 111.2


class Defaults(NamedTuple):
    """What a data center and a link have where the file does not say it."""

    cpu: tuple[int, int]
    ram: int
    storage: int
    mbps: float


@dataclass
class Element:
    """A node or an edge, with its data by name, and where it stands."""

    line: int
    ends: tuple[str, ...]  # a node's id; both ends of an edge
    data: dict[str, str] = field(default_factory=dict)

    def number(self, path: Path, *names: str) -> float | None:
        """The first of some columns that it has, as a number."""
        for name in names:
            if name in self.data:
                try:
                    value = float(self.data[name])
                except ValueError:
                    value = math.nan
                if not math.isfinite(value):
                    raise ConfigError(
                        f"{path}:{self.line}: {name} must be a number, and is '{self.data[name][:40]}'."
                    )
                return value
        return None


class GraphReader:
    """Collects nodes and edges while a file is parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[str, Element] = {}
        self.edges: list[Element] = []
        self._keys: dict[str, str] = {}
        self._open: Element | None = None
        self._column = ""
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def parse(self, content: bytes) -> None:
        """Read the whole file."""
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            what = expat.errors.messages[error.code]
            raise ConfigError(f"{self.path}:{error.lineno}: this is not valid GraphML: {what}.") from None

    def _refuse_doctype(self, *_: object) -> None:
        raise ConfigError(
            f"{self.path}: a GraphML file needs no DOCTYPE, which can hide other files. Remove it."
        )

    def _start(self, tag: str, given: dict[str, str]) -> None:
        tag, line = tag.rpartition(":")[2], self._parser.CurrentLineNumber
        if tag == "key":
            self._keys[given.get("id", "")] = given.get("attr.name", given.get("id", "")).lower()
        elif tag == "node":
            name = self._require(given, "id", "node")
            if name in self.nodes:
                raise ConfigError(f"{self.path}:{line}: there are two nodes '{name[:40]}'.")
            self._open = self.nodes[name] = Element(line, (name,))
        elif tag == "edge":
            ends = self._require(given, "source", "edge"), self._require(given, "target", "edge")
            self._open = Element(line, ends)
            self.edges.append(self._open)
        elif tag == "data":
            key = given.get("key", "")
            self._column = self._keys.get(key, key.lower())

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        if tag in ("node", "edge"):
            self._open = None
        elif tag == "data":
            self._column = ""

    def _text(self, text: str) -> None:
        if self._open is not None and self._column and text.strip():
            self._open.data[self._column] = text.strip()

    def _require(self, given: dict[str, str], name: str, tag: str) -> str:
        if name not in given:
            line = self._parser.CurrentLineNumber
            raise ConfigError(f"{self.path}:{line}: this {tag} has no attribute '{name}'. Add it.")
        return given[name]


def read_graphml(path: Path, tables: Tables, defaults: Defaults) -> Tables:
    """The tables with the topology of a file."""
    try:
        content = read_limited_file(path, MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"Cannot read the topology {path}: {error.strerror}.") from None
    reader = GraphReader(path)
    reader.parse(content)
    if not reader.nodes:
        raise ConfigError(f"{path} has no nodes: a topology needs 2 or more.")
    names = name_nodes(reader)
    links = make_links(reader, names, defaults)
    places = place_nodes(reader)
    sites = tuple(
        make_site(path, node, names[key], places[key], defaults) for key, node in reader.nodes.items()
    )
    try:
        return dataclasses.replace(tables, sites=sites, links=links)
    except ConfigError as error:
        lost = next((n.line for k, n in reader.nodes.items() if f"to '{names[k]}'" in str(error)), 0)
        raise ConfigError(f"{path}{f':{lost}' if lost else ''}: {error}") from None


def name_nodes(reader: GraphReader) -> dict[str, str]:
    """A name for every node: its label, or its id where several have the same label."""
    labels = {key: node.data.get("label", key).strip()[:60] or key for key, node in reader.nodes.items()}
    counts = list(labels.values())
    return {
        key: label if counts.count(label) == 1 else f"{label[:40]} {key}" for key, label in labels.items()
    }


def make_links(reader: GraphReader, names: dict[str, str], defaults: Defaults) -> tuple[Link, ...]:
    """The edges, those between the same nodes added up."""
    speeds: dict[frozenset[str], float] = {}
    for edge in reader.edges:
        for end in edge.ends:
            if end not in names:
                raise ConfigError(
                    f"{reader.path}:{edge.line}: this edge names the node '{end[:40]}', which does not exist."
                )
        if edge.ends[0] == edge.ends[1]:
            raise ConfigError(
                f"{reader.path}:{edge.line}: this edge leads from '{edge.ends[0][:40]}' to itself."
            )
        mbps, bits = (
            edge.number(reader.path, "mbps", "capacity", "bandwidth"),
            edge.number(reader.path, "linkspeedraw"),
        )
        speed = mbps if mbps is not None else bits / 1e6 if bits is not None else defaults.mbps
        if not 0 <= speed <= 2_000_000:
            raise ConfigError(
                f"{reader.path}:{edge.line}: a link has 0 to 2000000 Mbit/s, and this one {speed:g}."
            )
        pair = frozenset(edge.ends)
        speeds[pair] = min(2_000_000.0, speeds.get(pair, 0.0) + speed)
    ordered = [tuple(sorted(pair, key=list(names).index)) for pair in speeds]
    return tuple(Link((names[a], names[b]), speeds[frozenset((a, b))]) for a, b in ordered)


def place_nodes(reader: GraphReader) -> dict[str, tuple[float, float]]:
    """Where nodes lie, in km; those without a place in the middle of their neighbors, or of all."""
    path = reader.path
    degrees: dict[str, tuple[float, float]] = {}
    places: dict[str, tuple[float, float]] = {}
    for key, node in reader.nodes.items():
        north, east = node.number(path, "latitude", "lat"), node.number(path, "longitude", "lon")
        x, y = node.number(path, "x"), node.number(path, "y")
        if north is not None and east is not None:
            degrees[key] = north, east
        elif x is not None and y is not None:
            places[key] = x, y
    if degrees:
        middle = math.radians(sum(north for north, _ in degrees.values()) / len(degrees))
        first = next(iter(degrees.values()))
        for key, (north, east) in degrees.items():
            turn = (east - first[1] + 180) % 360 - 180  # the short way around
            places[key] = KM_PER_DEGREE * turn * math.cos(middle), KM_PER_DEGREE * (north - first[0])
    known = dict(places)
    for key in reader.nodes:
        if key not in places:
            near = [known[e] for edge in reader.edges if key in edge.ends for e in edge.ends if e in known]
            near = near or list(known.values()) or [(0.0, 0.0)]
            places[key] = sum(x for x, _ in near) / len(near), sum(y for _, y in near) / len(near)
    return places


def make_site(path: Path, node: Element, name: str, place: tuple[float, float], defaults: Defaults) -> Site:
    """A node as a data center."""
    cpu = node.number(path, "cpu")
    ram, storage = node.number(path, "ram"), node.number(path, "storage")
    try:
        return Site(
            name, round(place[0]), round(place[1]),
            defaults.cpu if cpu is None else (round(cpu), round(cpu)),
            defaults.ram if ram is None else round(ram),
            defaults.storage if storage is None else round(storage),
        )  # fmt: skip
    except ConfigError as error:
        raise ConfigError(f"{path}:{node.line}: {error}") from None
