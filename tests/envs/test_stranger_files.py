"""Landscapes and tables that are damaged or hostile: refused in one sentence with the file's name, or read as they
were written. Nothing else is opened on the way."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flashdqn.cli import main as cli
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks import landscape as landscape_module
from flashdqn.envs.fuelbreaks.collection import read_rasters
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.geotiff import write_folder
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape
from flashdqn.envs.sfc.load import read_tables


def load_fault_kind() -> ModuleType:
    """The fault bench's own module: the tests try a small part of what it tries."""
    folder = Path(__file__).parents[2] / "benchmarks"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location(
            "fault_kind_inputs", folder / "fault_kinds" / "inputs.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


BENCH = load_fault_kind()


def test_the_bench_in_short(tmp_path: Path) -> None:
    for tally in BENCH.try_faults(0.2, tmp_path):
        assert tally.failures == [], tally.kind
        assert tally.tried >= 40 or tally.note


def test_every_cut_of_an_archive_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "land.npz"
    write_npz(generate_landscape(3, 8), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 53):
        path.write_bytes(whole[:length])
        with pytest.raises(EnvError, match=r"land\.npz"):
            read_landscape(path)


def test_a_landscape_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landscape_module, "MOST_CELLS", 100)
    path = tmp_path / "land.npz"
    write_npz(generate_landscape(3, 12), path)
    with pytest.raises(EnvError, match=r"land\.npz has 12 x 12 cells, and 100 are the most"):
        read_landscape(path)
    pytest.importorskip("rasterio")
    write_folder(generate_landscape(3, 12), tmp_path / "ridge")
    with pytest.raises(EnvError, match=r"\.tif has 12 x 12 cells"):
        read_landscape(tmp_path / "ridge")


def test_many_landscapes_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        write_npz(generate_landscape(seed, 12), tmp_path / f"{seed}.npz")
    monkeypatch.setattr("flashdqn.envs.fuelbreaks.collection.MOST_CELLS", 100)
    with pytest.raises(EnvError, match="more than 400 cells together"):
        read_rasters(tmp_path, 12)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["land.npz", "ridge/slope.tif"])
def test_pipes_and_devices_are_not_waited_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    if name.endswith(".tif"):
        pytest.importorskip("rasterio")
    with pytest.raises(EnvError, match="named pipe"):
        read_landscape(path if name.endswith("npz") else path.parent)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(EnvError, match="device"):
        read_landscape(path if name.endswith("npz") else path.parent)


VIRTUAL = """<VRTDataset rasterXSize="12" rasterYSize="12"><VRTRasterBand dataType="Int16" band="1">
<SimpleSource><SourceFilename relativeToVRT="0">{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>
</VRTRasterBand></VRTDataset>"""


@pytest.mark.parametrize(
    "make",
    [
        lambda tif: VIRTUAL.format(source=tif).encode(),
        lambda tif: VIRTUAL.format(source="/vsicurl/http://127.0.0.1:9/x.tif").encode(),
        lambda tif: b"ncols 12\nnrows 12\nxllcorner 0\nyllcorner 0\ncellsize 30\n" + b"1 " * 144,
        lambda tif: b"\x89PNG\r\n\x1a\n" + bytes(100),
        lambda tif: (
            f"<GDAL_WMS><Service name='TMS'><ServerUrl>{tif}</ServerUrl></Service></GDAL_WMS>".encode()
        ),
    ],
    ids=["virtual", "virtual with an address", "ASCII grid", "PNG", "map service"],
)
def test_only_geotiff_is_read_whatever_the_name_says(make: Callable[[Path], bytes], tmp_path: Path) -> None:
    """GDAL has 200 drivers, some of which open other files and addresses."""
    pytest.importorskip("rasterio")
    write_folder(generate_landscape(3, 12), tmp_path / "real")
    write_folder(generate_landscape(3, 12), tmp_path / "ridge")
    (tmp_path / "ridge" / "slope.tif").write_bytes(make(tmp_path / "real" / "slope.tif"))
    with pytest.raises(EnvError, match=r"slope\.tif cannot be read as a GeoTIFF"):
        read_landscape(tmp_path / "ridge")


@pytest.mark.parametrize(
    "name", ["/vsicurl/http://127.0.0.1:9/a.npz", "/vsizip/a.zip/b", "http://127.0.0.1:9/a"]
)
def test_an_address_is_only_a_path(name: str) -> None:
    with pytest.raises(EnvError, match="no landscape"):
        read_landscape(Path(name)) if not name.endswith(".npz") else find_landscapes(Path(name).parent)


def test_files_beside_a_raster_are_not_read(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    write_folder(generate_landscape(3, 12), tmp_path / "ridge")
    path = tmp_path / "ridge" / "slope.tif"
    path.with_suffix(".tif.aux.xml").write_text(
        "<PAMDataset><GeoTransform>0, 7, 0, 0, 0, -7</GeoTransform></PAMDataset>"
    )
    assert read_landscape(tmp_path / "ridge").cell_size == 30.0
    with rasterio.open(path) as file:
        profile, values = file.profile, file.read(1)
    del profile["transform"]
    path.unlink()
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning), rasterio.open(path, "w", **profile) as file:
        file.write(values, 1)
    with pytest.raises(EnvError, match=r"slope\.tif does not say where it lies; slope\.tif\.aux\.xml may"):
        read_landscape(tmp_path / "ridge")


def test_writing_does_not_follow_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    land = generate_landscape(3, 12)
    (tmp_path / "land.npz").symlink_to(mine)
    write_npz(land, tmp_path / "land.npz")
    assert read_landscape(tmp_path / "land.npz") == land
    (tmp_path / "land.png").symlink_to(mine)
    words = ["landscapes", "show", str(tmp_path / "land.npz"), "--out", str(tmp_path / "land.png")]
    assert cli.dispatch_command(words) == 0
    if importlib.util.find_spec("rasterio") is not None:
        (tmp_path / "ridge").mkdir()
        (tmp_path / "ridge" / "slope.tif").symlink_to(mine)
        write_folder(land, tmp_path / "ridge")
    assert mine.read_text() == "mine"
    assert not list(tmp_path.glob("**/.*"))


@pytest.mark.parametrize("name", ["a.xyz", "folder", "folder/a.png/b.png"])
def test_a_picture_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.png").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"--out must end in|cannot be written"):
        cli.dispatch_command(["landscapes", "show", "--size", "8", "--out", str(tmp_path / name)])


def test_a_name_is_not_mathematics(tmp_path: Path) -> None:
    path = tmp_path / r"a $\frac$.npz"
    write_npz(generate_landscape(3, 8), path)
    assert cli.dispatch_command(["landscapes", "show", str(path), "--out", str(tmp_path / "a.png")]) == 0


def test_a_check_goes_on_after_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npz(generate_landscape(3, 8), tmp_path / "b.npz")
    whole = bytearray((tmp_path / "b.npz").read_bytes())
    whole[200:220] = random.Random(0).randbytes(20)
    (tmp_path / "a.npz").write_bytes(whole)
    assert cli.dispatch_command(["landscapes", "check", str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert "a.npz cannot be read as a landscape" in said[0]
    assert "b.npz: fine." in said[1]


# ---- tables


@pytest.mark.parametrize("odd", BENCH.ODD_VALUES, ids=lambda value: str(value)[:12])
def test_no_value_of_a_table_is_a_traceback(odd: Any, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    for name, rows in BENCH.make_tables().items():
        for column in rows[0]:
            tables = BENCH.make_tables()
            tables[name][0][column] = odd
            path.write_text(json.dumps(tables))
            said = describe_refusal(path)
            assert not said or "tables.json" in said
            assert len(said) < 400 + len(str(path))


def describe_refusal(path: Path) -> str:
    """What is wrong with a file of tables; empty if nothing is."""
    try:
        read_tables(path)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_table_from_a_pipe_or_without_end(tmp_path: Path) -> None:
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.json")
        with pytest.raises(ConfigError, match="named pipe"):
            read_tables(tmp_path / "pipe.json")
        with pytest.raises(ConfigError, match="device"):
            read_tables(Path("/dev/zero"))
        # As the shell's <(command): only the user could mean it, and a file cannot.
        reading, writing = os.pipe()
        try:
            with pytest.raises(ConfigError, match="Cannot read the tables"):
                read_tables(Path(f"/dev/fd/{reading}"))
        finally:
            os.close(reading)
            os.close(writing)
    (tmp_path / "long.json").write_bytes(b" " * 5_000_000)
    with pytest.raises(ConfigError, match=r"long\.json: has more than 4,000,000 bytes"):
        read_tables(tmp_path / "long.json")


def test_numbers_that_are_refused_stay_whole(tmp_path: Path) -> None:
    """A fuel model outside 16 bits must not wrap around to one that exists."""
    layers: dict[str, Any] = {**generate_landscape(3, 8).layers()}
    for bad in (65536 + 101, -65435, 101.5, 2.0**40, np.nan):
        path = tmp_path / "land.npz"
        np.savez(path, **(layers | {"fuel_model": np.full((8, 8), bad)}))
        with pytest.raises(EnvError, match="fuel_model must hold the whole numbers"):
            read_landscape(path)


def test_a_header_as_large_as_the_memory(tmp_path: Path) -> None:
    """NumPy reads a whole header before it refuses one that is too long; compressed, four gigabytes are small."""
    bomb = tmp_path / "bomb.npz"
    size = 50_000_000
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("elevation.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + b" " * size)
    tracemalloc.start()
    try:
        with pytest.raises(EnvError, match="header of 50,000,000 bytes"):
            read_landscape(bomb)
        assert tracemalloc.get_traced_memory()[1] < size / 2
    finally:
        tracemalloc.stop()
