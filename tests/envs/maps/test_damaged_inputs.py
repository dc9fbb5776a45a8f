"""Files of planners with damage at random places: refused in one sentence with the file's name, or read."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from landscape_files import (
    CRS,
    LANDFIRE_NAMES,
    TRANSFORM,
    make_landscape,
    rasterio,
    store_layers,
    write_grid,
    write_lcp,
    write_stack,
)

from flashdqn.core.errors import FlashDQNError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.value import read_value
from flashdqn.envs.fuelbreaks.rasters import read_landscape
from flashdqn.planning.scenarios import read_scenarios

pyogrio = pytest.importorskip("pyogrio")
shapely = pytest.importorskip("shapely")

TRIES = 60


def ignore(text: str) -> None:
    """Notes that a test does not look at."""


def damage_bytes(data: bytes, luck: random.Random) -> bytes:
    """One change at a random place; half of them near the beginning, where headers are."""
    at = luck.randrange(len(data) if luck.random() < 0.5 else min(len(data), 400))
    length = luck.choice((1, 2, 8, 64))
    fill = luck.choice((b"", bytes(length), b"\xff" * length, luck.randbytes(length), b"9" * length))
    return data[:at] if luck.random() < 0.15 else data[:at] + fill + data[at + length :]


def describe_refusal(read: Callable[[Path], Any], path: Path) -> str:
    """What is wrong with a file; empty if nothing is."""
    try:
        read(path)
    except FlashDQNError as error:
        return str(error)
    return ""


def try_damage(path: Path, read: Callable[[Path], Any]) -> int:
    """Damage a file many times; the number of refusals."""
    luck = random.Random(5)
    whole, refused = path.read_bytes(), 0
    assert describe_refusal(read, path) == ""
    for _ in range(TRIES):
        path.write_bytes(damage_bytes(whole, luck))
        said = describe_refusal(read, path)
        assert not said or (path.name.split(".")[0] in said and "\n" not in said and len(said) < 1000), said
        refused += bool(said)
    return refused


def read_quietly(path: Path) -> Landscape:
    return read_landscape(path, tell=ignore)


def test_lcp_and_stacks(tmp_path: Path) -> None:
    bands = list(store_layers(make_landscape()).values())
    assert try_damage(write_lcp(tmp_path / "ridge.lcp", bands), read_quietly) > 5
    assert try_damage(write_stack(tmp_path / "stack.tif", bands, LANDFIRE_NAMES), read_quietly) > 5


def test_grids(tmp_path: Path) -> None:
    (tmp_path / "ridge").mkdir()
    for layer, values in store_layers(make_landscape()).items():
        write_grid(tmp_path / "ridge" / f"{layer}.asc", values)
    path = tmp_path / "ridge" / "slope.asc"
    assert try_damage(path, lambda path: read_quietly(path.parent)) > 20


def test_shapes(tmp_path: Path) -> None:
    wkt = rasterio.crs.CRS.from_string(CRS).to_wkt()
    land = replace(make_landscape(), place=Georeference(wkt, tuple(TRANSFORM)[:6]))
    corner = shapely.Point(TRANSFORM.c + 45.0, TRANSFORM.f - 45.0)
    for name, driver in (("houses.gpkg", "GPKG"), ("houses.geojson", "GeoJSON")):
        pyogrio.raw.write(
            str(tmp_path / name),
            geometry=np.array([shapely.to_wkb(corner)], dtype=object),
            field_data=[np.array([3.0])],
            fields=np.array(["people"]),
            geometry_type="Point",
            crs=CRS,
            driver=driver,
        )
        refused = try_damage(tmp_path / name, lambda path: read_value(path, land, "people", tell=ignore))
        assert refused > 5


def test_weather(tmp_path: Path) -> None:
    path = tmp_path / "Weather.csv"
    path.write_text("Instance,datetime,WS,WD,FireScenario\n" + "a,13:00,26,321.0,1\n" * 12)
    assert try_damage(path, lambda path: read_scenarios(path, ignore)) > 5
    path = tmp_path / "Weather.toml"
    path.write_text('[[scenario]]\nname = "a"\nwind_speed = 3\nwind_from = 90\n' * 5)
    assert try_damage(path, lambda path: read_scenarios(path, ignore)) > 5
