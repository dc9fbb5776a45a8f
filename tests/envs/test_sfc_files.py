"""Topologies from GraphML, requests from a trace, and the plan of an episode; every mistake is one sentence."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.errors import ConfigError
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import Heuristic
from flashdqn.envs.sfc.plan import read_plan, write_plan

# As the Topology Zoo writes it: keys with numbers, places in degrees, a node without a place, a double edge.
ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Latitude" attr.type="double" for="node" id="d29" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d32" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d35" />
  <graph edgedefault="undirected">
    <node id="0"><data key="d29">45.42</data><data key="d32">-75.69</data><data key="d33">Ottawa</data></node>
    <node id="1"><data key="d29">45.50</data><data key="d32">-73.58</data><data key="d33">Montreal</data></node>
    <node id="2"><data key="d29">44.23</data><data key="d32">-76.48</data><data key="d33">Kingston</data></node>
    <node id="3"><data key="d33">Somewhere</data></node>
    <edge source="0" target="1"><data key="d35">10000000000.0</data></edge>
    <edge source="1" target="0"><data key="d35">5000000000.0</data></edge>
    <edge source="0" target="2" />
    <edge source="1" target="3" />
  </graph>
</graphml>
"""
# As converters of SNDlib write it: names as ids, km, capacities in Mbit/s.
SND = """<graphml>
  <key id="x" for="node" attr.name="x"/><key id="y" for="node" attr.name="y"/>
  <key id="cpu" for="node" attr.name="cpu"/><key id="c" for="edge" attr.name="capacity"/>
  <graph edgedefault="undirected">
    <node id="Wien"><data key="x">0</data><data key="y">0</data><data key="cpu">64</data></node>
    <node id="Graz"><data key="x">30</data><data key="y">-40</data></node>
    <edge source="Wien" target="Graz"><data key="c">622</data></edge>
  </graph>
</graphml>
"""
TRACE = """time_ms,chain,source,target,mbps
0,VoIP,Ottawa,Montreal,0.064
0.5,CG,Kingston,Ottawa,
4,MIoT,Montreal,,12
"""


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_a_topology_of_the_zoo(tmp_path: Path) -> None:
    tables = SfcConfig(topology=write(tmp_path, "net.graphml", ZOO), cpu_low=20, link_mbps=300).read()
    ottawa, montreal, kingston, somewhere = tables.sites
    assert [site.name for site in tables.sites] == ["Ottawa", "Montreal", "Kingston", "Somewhere"]
    assert (ottawa.x_km, ottawa.y_km, ottawa.cpu) == (0, 0, (20, 120))
    assert 160 < montreal.x_km < 170  # by road it is 200 km
    assert kingston.y_km == round(111.2 * (44.23 - 45.42))
    assert (somewhere.x_km, somewhere.y_km) == (montreal.x_km, montreal.y_km)  # its only neighbor
    speeds = {frozenset(link.between): link.mbps for link in tables.links}
    assert speeds[frozenset(("Ottawa", "Montreal"))] == 15_000
    assert speeds[frozenset(("Ottawa", "Kingston"))] == 300


def test_a_topology_in_kilometers_with_capacities(tmp_path: Path) -> None:
    tables = SfcConfig(topology=write(tmp_path, "net.graphml", SND)).read()
    assert [site.cpu for site in tables.sites] == [(64, 64), (12, 120)]
    assert tables.links[0].mbps == 622
    env = ServiceChains(SfcConfig(topology=str(tmp_path / "net.graphml")), 1)
    assert int(env.net.delay[0, 0, 1]) == 250  # 50 km


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("</graphml>", "", "net.graphml:18: this is not valid GraphML: no element found"),
        (
            'target="3" />',
            'target="9" />',
            "net.graphml:15: this edge names the node '9', which does not exist",
        ),
        ('    <edge source="1" target="3" />\n', "", "net.graphml:11: The topology is not connected"),
        (
            'source="1" target="3"',
            'source="3" target="3"',
            "net.graphml:15: this edge leads from '3' to itself",
        ),
        ('<node id="1">', '<node id="0">', "net.graphml:9: there are two nodes '0'"),
        ('<node id="1">', "<node>", "net.graphml:9: this node has no attribute 'id'"),
        ("45.50", "north", "net.graphml:9: latitude must be a number, and is 'north'"),
        ("10000000000.0", "-1", "net.graphml:12: a link has 0 to 2000000 Mbit/s"),
        ("<graphml", '<!DOCTYPE g [<!ENTITY x "y">]>\n<graphml', "needs no DOCTYPE"),
    ],
)
def test_a_bad_topology_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = write(tmp_path, "net.graphml", ZOO.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        SfcConfig(topology=path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_two_topologies_are_one_too_many(tmp_path: Path) -> None:
    rows = "".join(
        f'[[dc]]\nname = "{n}"\nx_km = 0\ny_km = 0\ncpu = 9\nram = 9\nstorage = 9\n' for n in ("A", "B")
    )
    tables = write(tmp_path, "t.toml", rows + '[[link]]\nbetween = ["A", "B"]\nmbps = 5\n')
    with pytest.raises(ConfigError, match="both give a topology"):
        SfcConfig(tables=tables, topology=write(tmp_path, "net.graphml", ZOO))
    with pytest.raises(ConfigError, match="Cannot read the topology"):
        SfcConfig(topology=str(tmp_path / "none.graphml"))
    with pytest.raises(ConfigError, match="mesh, ring, random or a"):
        SfcConfig(topology="star")


def play(config: SfcConfig) -> ServiceChains:
    """One episode by the rule, to its end."""
    env = ServiceChains(config, 1)
    rule = Heuristic(env, makes_room=True)
    env.reset(0)
    for _ in range(20_000):
        step = env.step(rule.choose())
        if step.terminated[0] or step.truncated[0]:
            return env
    raise AssertionError("the episode does not end")


def test_a_trace_arrives_as_it_is_written(tmp_path: Path) -> None:
    topology, trace = write(tmp_path, "net.graphml", ZOO), write(tmp_path, "t.csv", TRACE)
    env = play(SfcConfig(topology=topology, trace=trace, cpu_low=60))
    assert env.net.state[0, layout.REQUESTS] == 3
    columns = [layout.CHAIN, layout.SOURCE, layout.TARGET, layout.BUNDLE, layout.BANDWIDTH]
    rows = env.net.request[0, :, columns].tolist()
    assert rows == [[2, 0, 1, 0, 64], [0, 2, 0, 0, 4000], [4, 1, -1, 1, 12_000]]
    assert env.net.arrivals.tolist() == [0, 4]
    assert env.outcomes[0, 0] == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("time_ms,", "when,", "t.csv:1: the column 'time_ms' is missing"),
        ("mbps\n", "mbps,color\n", "t.csv:1: unknown column 'color'"),
        ("4,MIoT", "0.2,MIoT", "t.csv:4: time runs backwards, from 0.5 to 0.2 ms"),
        ("CG", "Chess", "t.csv:3: there is no chain 'Chess'; there are CG, AR"),
        ("Kingston", "Paris", "t.csv:3: there is no data center 'Paris' (source)"),
        ("Ottawa,Montreal", "Ottawa,Ottawa", "t.csv:2: source and target are both 'Ottawa'"),
        (",12\n", ",fast\n", "t.csv:4: mbps must be a number from 0 to 1e+06, and is 'fast'"),
        ("0.5,CG", "-3,CG", "t.csv:3: time_ms must be a number"),
        ("4,MIoT", "400,MIoT", "lasts 401 steps, and an episode is cut off after env.max_steps 250"),
    ],
)
def test_a_bad_trace_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    topology, trace = (
        write(tmp_path, "net.graphml", ZOO),
        write(tmp_path, "t.csv", TRACE.replace(old, new, 1)),
    )
    with pytest.raises(ConfigError) as error:
        SfcConfig(topology=topology, trace=trace)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bad_table_names_its_line(tmp_path: Path) -> None:
    chain = '[[chain]]\nname = "X"\nvnfs = ["NAT", "LB"]\nmbps = 1\ndelay_ms = 5\nbundle = [1, 2]\n'
    with pytest.raises(ConfigError, match=r"t\.toml:3: Chain 'X' names the VNF 'LB'"):
        SfcConfig(tables=write(tmp_path, "t.toml", chain))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_a_plan_keeps_order_time_and_capacity(seed: int) -> None:
    config = SfcConfig(min_dcs=3, max_dcs=3, max_bundles=1, cpu_low=30)
    env = ServiceChains(config, 1)
    env.reset(seed)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(800):
        chances = env.net.mask.float() * torch.tensor([8.0] * 6 + [1.0] * 7)
        step = env.step(torch.multinomial(chances, 1, generator=generator)[:, 0])
        if step.terminated[0]:
            break
    plan = read_plan(env)
    cpu = {vnf.name: vnf.cpu for vnf in env.tables.vnfs}
    by_request: dict[int, list[int]] = {}
    for k, service in enumerate(plan):
        by_request.setdefault(service.request, []).append(k)
        assert service.arrived_ms <= service.from_ms < service.to_ms
    for numbers in by_request.values():
        own = [plan[k] for k in numbers]
        assert [service.position for service in own] == list(range(1, len(own) + 1))
        assert all(a.to_ms <= b.from_ms for a, b in pairwise(own))
    for d in range(3):
        for t in range(int(max(service.to_ms for service in plan))):
            here = [s for s in plan if s.data_center == f"DC {d}" and s.from_ms <= t < s.to_ms]
            assert sum(cpu[s.vnf] for s in here) <= env.net.capacity[0, d, layout.CPU]
    done = {service.request for service in plan if service.fate == "satisfied"}
    assert len(done) == env.net.tally[0, :, layout.SATISFIED].sum()


def test_a_plan_is_written_as_table_and_picture(tmp_path: Path) -> None:
    topology, trace = write(tmp_path, "net.graphml", ZOO), write(tmp_path, "t.csv", TRACE)
    env = play(SfcConfig(topology=topology, trace=trace, cpu_low=60))
    sheet, picture = write_plan(env, tmp_path / "plan")
    with sheet.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chains = {chain.name: list(chain.vnfs) for chain in env.tables.chains}
    assert [row["vnf"] for row in rows] == chains["VoIP"] + chains["CG"] + chains["MIoT"]
    assert {row["data_center"] for row in rows} <= {"Ottawa", "Montreal", "Kingston", "Somewhere"}
    assert picture.read_bytes()[:4] == b"\x89PNG"
