"""A user's own tables: what a file may say, and one sentence for every mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.sfc.load import read_tables
from flashdqn.envs.sfc.tables import PAPER, Chain, Link, Site, Tables, Vnf, link_delay_us

VNF = {"name": "NAT", "cpu": 1, "ram": 4, "storage": 7, "processing_ms": 0.06}
CHAIN = {"name": "A", "vnfs": ["NAT"], "mbps": [1, 50], "delay_ms": 5, "bundle": 3}
HERE = {"name": "here", "x_km": 0, "y_km": 0, "cpu": [12, 120], "ram": 256, "storage": 2048}
THERE = HERE | {"name": "there", "x_km": 30, "y_km": 40, "cpu": 64}
LINK = {"between": ["here", "there"], "mbps": 1000}


def write(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    path = folder / "tables.json"
    path.write_text(json.dumps(tables))
    return path


def test_a_file_says_what_it_says_and_leaves_the_rest_to_the_paper(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path, vnf=[VNF], chain=[CHAIN], dc=[HERE, THERE], link=[LINK]))
    assert tables.vnfs == (Vnf("NAT", 1, 4, 7, 0.06),)
    assert tables.chains == (Chain("A", ("NAT",), (1.0, 50.0), 5.0, (3, 3)),)
    assert tables.sites[1] == Site("there", 30, 40, (64, 64), 256, 2048)
    assert link_delay_us(*tables.sites) == 250  # 50 km at 5 µs
    only_chains = read_tables(write(tmp_path, chain=[CHAIN]))
    assert only_chains.vnfs == PAPER.vnfs
    assert not only_chains.sites
    toml = tmp_path / "t.toml"
    toml.write_text(
        '[[chain]]\nname = "A"\nvnfs = ["NAT", "FW"]\nmbps = 0.064\ndelay_ms = 5\nbundle = [1, 2]\n'
    )
    assert read_tables(toml).chains[0].kbps == (64, 64)


def without(row: dict[str, Any], column: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != column}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (
            {"chain": [CHAIN | {"vnfs": ["NAT", "DPI"]}]},
            "Chain 'A' names the VNF 'DPI', which the table does not",
        ),
        ({"dc": [HERE, THERE], "link": []}, "not connected: no links lead from 'here' to 'there'"),
        (
            {"dc": [HERE | {"storage": -1}, THERE], "link": [LINK]},
            "'here': storage must be 0 … 10000000, and is -1",
        ),
        ({"dc": [HERE | {"cpu": -4}, THERE], "link": [LINK]}, "'here': cpu must be 0"),
        ({"dc": [HERE | {"cpu": [9, 4]}, THERE], "link": [LINK]}, "cpu must be a range that rises"),
        ({"vnf": [VNF | {"cpu": -1}]}, "VNF 'NAT': cpu must be 0"),
        ({"link": [LINK | {"mbps": -1}], "dc": [HERE, THERE]}, "Link here–there: mbps must lie in 0"),
        ({"vnf": [without(VNF, "storage")]}, "vnf 'NAT' has no column 'storage'"),
        ({"chain": [without(CHAIN, "bundle")]}, "chain 'A' has no column 'bundle'"),
        ({"dc": [without(HERE, "x_km")]}, "dc 'here' has no column 'x_km'"),
        ({"vnf": [VNF | {"color": 1}]}, "unknown column 'color'"),
        ({"vnfs": [VNF]}, "unknown table 'vnfs'; known are vnf"),
        ({"vnf": [VNF, VNF]}, "two VNFs called 'NAT'"),
        ({"vnf": [VNF | {"cpu": 1.5}]}, "cpu must be a whole number"),
        ({"vnf": [VNF | {"processing_ms": 0}]}, "processing_ms must be above 0"),
        ({"vnf": [VNF | {"processing_ms": "fast"}]}, "must be a number, and is 'fast'"),
        ({"vnf": [VNF | {"name": ""}]}, "The name of a VNF must be a text"),
        ({"vnf": VNF}, "must be a list of rows"),
        ({"chain": [CHAIN | {"vnfs": []}]}, "has no VNFs"),
        ({"chain": [CHAIN | {"vnfs": "NAT"}]}, "vnfs must be a list of names"),
        ({"chain": [CHAIN | {"mbps": [5, 1]}]}, "mbps must be above 0 and rise"),
        ({"chain": [CHAIN | {"delay_ms": 0}]}, "delay_ms must be above 0"),
        ({"chain": [CHAIN | {"bundle": [3, 1]}]}, "bundle must be counts that rise"),
        ({"dc": [HERE], "link": []}, "needs 2 to 32 data centers"),
        (
            {"dc": [HERE, THERE], "link": [LINK | {"between": ["here", "moon"]}]},
            "names the data center 'moon'",
        ),
        ({"dc": [HERE, THERE], "link": [LINK | {"between": ["here", "here"]}]}, "to itself"),
        ({"dc": [HERE, THERE], "link": [LINK | {"between": "here"}]}, "must be two names"),
        ({"dc": [HERE | {"x_km": 10**6}, THERE], "link": [LINK]}, "x_km must lie in"),
    ],
)
def test_every_mistake_is_one_sentence(tmp_path: Path, tables: dict[str, Any], says: str) -> None:
    path = write(tmp_path, **tables)
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        SfcConfig(tables=str(path))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read the tables"):
        SfcConfig(tables=str(tmp_path / "missing.toml"))
    bad = tmp_path / "bad.toml"
    bad.write_text("[[vnf")
    with pytest.raises(ConfigError, match="not valid toml"):
        SfcConfig(tables=str(bad))
    bad.with_suffix(".json").write_text("[]")
    with pytest.raises(ConfigError, match="must hold tables by name"):
        SfcConfig(tables=str(bad.with_suffix(".json")))


def test_tables_need_something() -> None:
    with pytest.raises(ConfigError, match="at least one VNF"):
        Tables((), PAPER.chains)
    with pytest.raises(ConfigError, match="needs 2 to 32"):
        Tables(PAPER.vnfs, PAPER.chains, (Site("here", 0, 0, (1, 1), 1, 1),), (Link(("x", "here"), 1),))


def test_a_network_is_as_large_as_its_tables(tmp_path: Path) -> None:
    path = write(tmp_path, vnf=[VNF], chain=[CHAIN], dc=[HERE, THERE], link=[LINK])
    env = ServiceChains(SfcConfig(tables=str(path)), 2)
    assert env.num_actions == 3
    assert env.obs_spec.shape == (2 + 2 + 1 * 3 + 1 * 5,)
    assert env.outcome_names[1] == "accepted_A"


@pytest.mark.parametrize("preset", ["sfc", "sfc-paper"])
def test_presets_survive_a_file(preset: str) -> None:
    config = base_config(preset)
    data = json.loads(json.dumps(to_dict(config)))
    assert data["env"]["task"] == "sfc"
    assert apply_settings(config, data) == config
    assert apply_settings(base_config("snake"), data) == config
