"""Files besides the run that may be damaged or hostile: landscapes (.npz, GeoTIFF) and tables of service chains.

Each file is damaged in one of eight ways at a random place, or made with a fault in mind. It is survived if it is
refused in one sentence with the file's name, or read as what it was before the damage. GeoTIFF files and tables
have no checksum: a number that was changed to another one in its range is read as that.
"""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fault_kinds.tally import Tally, scale_count
from flashdqn.core.errors import FlashDQNError
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.geotiff import write_folder
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.envs.fuelbreaks.rasters import read_landscape
from flashdqn.envs.sfc.load import read_tables
from flashdqn.envs.sfc.tables import Tables

NPZ, GEOTIFF, TABLES = 400, 200, 300


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """Damage landscapes and tables, and read them."""
    luck = random.Random(18)
    return [
        try_npz(scale_count(NPZ, effort, 8), folder / "npz", luck),
        try_geotiff(scale_count(GEOTIFF, effort, 8), folder / "geotiff", luck),
        try_tables(scale_count(TABLES, effort, 8), folder / "tables", luck),
    ]


def damage_bytes(data: bytes, luck: random.Random) -> tuple[str, bytes]:
    """One change at a random place, and what it is."""
    at, length = luck.randrange(len(data)), luck.choice((1, 2, 4, 8, 64))
    before, after = data[:at], data[at + length :]
    kind = luck.choice(("bit", "byte", "cut", "zeros", "ones", "lost", "doubled", "noise"))
    changed = {
        "bit": lambda: before + bytes([data[at] ^ (1 << luck.randrange(8))]) + data[at + 1 :],
        "byte": lambda: before + bytes([luck.randrange(256)]) + data[at + 1 :],
        "cut": lambda: before,
        "zeros": lambda: before + bytes(length) + after,
        "ones": lambda: before + b"\xff" * length + after,
        "lost": lambda: before + after,
        "doubled": lambda: before + data[at : at + length] * 2 + after,
        "noise": lambda: before + luck.randbytes(length) + after,
    }[kind]()
    return f"{kind} at {at}", changed


def check_reading(
    tally: Tally, what: str, path: Path, read: Callable[[Path], Any], same: Callable[[Any], bool]
) -> None:
    """Count one reading of a damaged file."""
    try:
        found = read(path)
    except FlashDQNError as error:
        text = str(error)
        tally.check(path.name in text and "\n" not in text and len(text) < 2000, f"{what}: {text[:200]}")
    except Exception as error:  # this is what must not happen
        tally.check(False, f"{what}: {type(error).__name__}: {error}"[:300])
    else:
        tally.check(same(found), f"{what}: silently accepted")


def try_npz(count: int, folder: Path, luck: random.Random) -> Tally:
    """Landscapes as .npz files. Their arrays have checksums: what is read must equal what was written."""
    tally = Tally("damaged landscapes (.npz)")
    folder.mkdir(parents=True)
    land, path = generate_landscape(3, 12, cell_size=90.0), folder / "land.npz"
    write_npz(land, path)
    whole = path.read_bytes()
    for _ in range(count):
        what, data = damage_bytes(whole, luck)
        path.write_bytes(data)
        check_reading(tally, what, path, read_landscape, lambda found: found == land)
    for what, make in list_bad_archives(land).items():
        make(path)
        check_reading(tally, what, path, read_landscape, lambda found: False)
    return tally


def list_bad_archives(land: Landscape) -> dict[str, Callable[[Path], None]]:
    """Archives that nobody writes by accident."""
    layers: dict[str, Any] = {**land.layers()}

    def save(**changes: Any) -> Callable[[Path], None]:
        return lambda path: np.savez(path, **(layers | changes))

    slope = layers["slope"].astype(np.float64)
    spoiled = {
        "a pickle": save(slope=np.array([[print, 1]], dtype=object)),
        "texts": save(slope=slope.astype("U8")),
        "complex numbers": save(slope=slope.astype(np.complex64)),
        "dates": save(slope=slope.astype("datetime64[s]")),
        "not a number": save(slope=np.where(slope == slope[0, 0], np.nan, slope)),
        "infinite": save(elevation=np.full_like(slope, np.inf)),
        "too large for 4 bytes": save(elevation=np.full_like(slope, 1e300)),
        "three axes": save(slope=slope[None]),
        "no cells": save(**{layer: np.zeros((0, 5)) for layer in LAYERS}),
        "another shape": save(slope=slope[:3]),
        "no fuel model of that number": save(fuel_model=np.full(land.shape, 77)),
        "a fuel model that wraps": save(fuel_model=np.full(land.shape, 65536 + 101)),
        "a fuel model and a half": save(fuel_model=np.full(land.shape, 101.5)),
        "no cell size": save(cell_size=np.zeros(0)),
        "two cell sizes": save(cell_size=np.array([30.0, 30.0])),
        "a negative cell size": save(cell_size=-30.0),
        "a cell size that is not a number": save(cell_size=np.nan),
        "a cell size as text": save(cell_size="30"),
        "a huge array": write_huge_header,
        "an empty archive": lambda path: np.savez(path),
        "a text": lambda path: path.write_text("slope"),  # type: ignore[dict-item,return-value]
        "nothing": lambda path: path.write_bytes(b""),  # type: ignore[dict-item,return-value]
    }
    return spoiled


def write_huge_header(path: Path) -> None:
    """An archive of a few hundred bytes whose arrays say that they take 100 GB."""
    header = str({"descr": "<f8", "fortran_order": False, "shape": (1 << 20, 12_500)}).ljust(117) + "\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for layer in LAYERS:
            start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            archive.writestr(f"{layer}.npy", start + bytes(1000))


def try_geotiff(count: int, folder: Path, luck: random.Random) -> Tally:
    """Landscapes as folders of GeoTIFF files."""
    tally = Tally("damaged landscapes (GeoTIFF)")
    try:
        write_folder(generate_landscape(3, 12), folder)
    except FlashDQNError:
        tally.note = "rasterio is not installed"
        return tally
    files = sorted(folder.iterdir())
    for _ in range(count):
        path = luck.choice(files)
        whole = path.read_bytes()
        what, data = damage_bytes(whole, luck)
        path.write_bytes(data)
        check_reading(tally, f"{path.name}: {what}", folder, read_landscape, is_landscape_in_range)
        path.write_bytes(whole)
    return tally


def is_landscape_in_range(found: object) -> bool:
    """Whether it is a landscape; one checks itself when it is made."""
    return isinstance(found, Landscape)


def try_tables(count: int, folder: Path, luck: random.Random) -> Tally:
    """Tables of service chains: damaged texts, and well-formed files with values that cannot be."""
    tally = Tally("damaged tables (JSON, TOML)")
    folder.mkdir(parents=True)
    path = folder / "tables.json"
    whole = json.dumps(make_tables(), indent=1)
    for number in range(count):
        if number % 2:
            what, data = damage_bytes(whole.encode(), luck)
        else:
            what, data = change_value(luck)
        path.write_bytes(data)
        check_reading(tally, what, path, read_tables, lambda found: isinstance(found, Tables))
    for what, name, text in list_bad_tables():
        path = folder / name
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        check_reading(tally, what, path, read_tables, lambda found: False)
    return tally


def make_tables() -> dict[str, list[dict[str, Any]]]:
    """Tables of every kind."""
    site = {"x_km": 0, "y_km": 0, "cpu": [12, 120], "ram": 256, "storage": 2048}
    return {
        "vnf": [{"name": "NAT", "cpu": 1, "ram": 4, "storage": 7, "processing_ms": 0.06}],
        "chain": [{"name": "A", "vnfs": ["NAT"], "mbps": [1, 50], "delay_ms": 5, "bundle": 3}],
        "dc": [site | {"name": "here"}, site | {"name": "there", "x_km": 30}],
        "link": [{"between": ["here", "there"], "mbps": 1000}],
    }


#: Values of every kind, most of which no column takes.
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 1e308, -1e308, 10**400, -(10**400), 2**63, float("nan"), float("inf"), "", " ", "x",
    "NAT", "\x1b[2J", "a\nb", "x" * 5000, [], {}, [[]], [None], [1, 2, 3], [10**400, 1], [float("nan"), 1],
    {"name": 1}, ["NAT"] * 1000, ["here", "here"], [["here"], "there"],
)  # fmt: skip


def change_value(luck: random.Random) -> tuple[str, bytes]:
    """Tables with one value changed to an odd one."""
    tables: dict[str, Any] = make_tables()
    name = luck.choice(list(tables))
    row = luck.choice(tables[name])
    column = luck.choice(list(row))
    row[column] = luck.choice(ODD_VALUES)
    return f"{name}.{column} = {str(row[column])[:40]}", json.dumps(tables).encode()


def list_bad_tables() -> Iterator[tuple[str, str, str]]:
    """What was done, the file's name and its text."""
    rows = make_tables()
    yield "nested deeply", "deep.json", '{"vnf": ' + "[" * 100_000 + "]" * 100_000 + "}"
    yield "nested deeply", "deep.toml", "vnf = " + "[" * 5_000 + "]" * 5_000
    yield "a number of 5000 digits", "digits.json", '{"vnf": ' + "9" * 5000 + "}"
    yield "a number of 5000 digits", "digits.toml", "vnf = " + "9" * 5000
    yield "many rows", "many.json", json.dumps({"vnf": rows["vnf"] * 5000})
    yield "a name twice", "twice.json", json.dumps(rows | {"vnf": rows["vnf"] * 2})
    yield "a link twice", "links.json", json.dumps(rows | {"link": rows["link"] * 2})
    yield "not connected", "lonely.json", json.dumps(rows | {"link": []})
    yield "half a surrogate", "half.json", '{"vnf": "\udc80"}'
    yield "a list", "list.json", "[]"
    yield "nothing", "nothing.json", ""
