"""ESRI ASCII grids: read by hand, with GDAL's reader as the oracle; folders of them; and what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from landscape_files import CRS, make_landscape, rasterio, store_layers, write_grid

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks import landscape as landscape_module
from flashdqn.envs.fuelbreaks.rasters import read_landscape
from flashdqn.envs.fuelbreaks.read.ascii_grid import read_ascii_grid

NUMBERS = st.one_of(st.integers(-10_000, 10_000), st.floats(-1e6, 1e6, width=32))


def ignore(text: str) -> None:
    """Notes that a test does not look at."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_it_reads_what_gdal_reads(tmp_path: Path, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    cells = data.draw(st.lists(NUMBERS, min_size=rows * columns, max_size=rows * columns))
    kind = data.draw(st.sampled_from(["corner", "center"]))
    west, south = data.draw(st.integers(-9999, 9999)), data.draw(st.integers(-9999, 9999))
    space = data.draw(st.sampled_from([" ", "  ", "\t"]))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [f"NCOLS {columns}", f"nrows {rows}", f"xll{kind}{space}{west}", f"yll{kind} {south}"]
    lines += ["cellsize 25.5", "NODATA_value -1"]
    lines += [space.join(map(str, cells[row * columns : (row + 1) * columns])) for row in range(rows)]
    path = tmp_path / "grid.asc"
    path.write_bytes(end.join(lines).encode() + end.encode())
    found = read_ascii_grid(path, ignore)
    with rasterio.open(path) as file:
        np.testing.assert_allclose(found.values, file.read(1), rtol=1e-6, atol=1e-30)
        np.testing.assert_allclose(found.place.transform, tuple(file.transform)[:6], atol=1e-9)
        usual = np.isin(found.values, (-9999.0, 32767.0))
        np.testing.assert_array_equal(found.empty, (file.read(1) == -1) | usual)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """LANDFIRE's layers as ASCII grids."""
    (tmp_path / "ridge").mkdir()
    for layer, values in store_layers(make_landscape()).items():
        write_grid(tmp_path / "ridge" / f"{layer}.asc", values, corner=(500_000.0, 4_000_000.0))
    return tmp_path / "ridge"


def test_a_folder_of_grids_is_a_landscape(folder: Path) -> None:
    found = read_landscape(folder)
    assert found == make_landscape()
    assert found.place is not None
    assert found.place.transform == (30.0, 0.0, 500_000.0, 0.0, -30.0, 4_000_360.0)
    assert found.place.crs == ""


def test_without_rasterio_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rasterio", "rasterio.crs"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    assert read_landscape(folder) == make_landscape()


def test_a_prj_file_gives_the_coordinate_system(folder: Path) -> None:
    wkt = rasterio.crs.CRS.from_string(CRS).to_wkt()
    (folder / "slope.prj").write_text(wkt)
    place = read_landscape(folder).place
    assert place is not None
    assert rasterio.crs.CRS.from_wkt(place.crs) == rasterio.crs.CRS.from_string(CRS)
    (folder / "aspect.prj").write_text(rasterio.crs.CRS.from_epsg(32611).to_wkt())
    with pytest.raises(EnvError, match=r"the crs of aspect is EPSG:32611, and that of slope is EPSG:5070"):
        read_landscape(folder)


def test_a_prj_file_without_a_code_has_the_code_of_the_same_system(folder: Path) -> None:
    """Esri's text has none. GIS programs know a system by its code."""
    wkt = rasterio.crs.CRS.from_epsg(32611).to_wkt(version="WKT1_ESRI")
    assert "32611" not in wkt
    (folder / "slope.prj").write_text(wkt)
    place = read_landscape(folder).place
    assert place is not None
    assert 'AUTHORITY["EPSG","32611"]' in place.crs
    own = wkt.replace("500000.0", "512345.0")
    (folder / "slope.prj").write_text(own)
    place = read_landscape(folder).place
    assert place is not None
    assert "512345" in place.crs


@pytest.mark.parametrize(
    "text", ["Projection UTM\nZone 11", "http://127.0.0.1:9/wkt", "/etc/hostname", "PROJCS[oops"]
)
def test_a_prj_file_that_is_not_understood(text: str, folder: Path) -> None:
    (folder / "slope.prj").write_text(text)
    notes: list[str] = []
    place = read_landscape(folder, tell=notes.append).place
    assert place is not None
    assert place.crs == ""
    assert notes == [
        f"{folder / 'slope.prj'} is not a coordinate system as well-known text: the coordinate system is unknown."
    ]


def test_grids_in_degrees(folder: Path) -> None:
    write_grid(folder / "slope.asc", np.zeros((12, 12)), cell=0.0003)
    with pytest.raises(EnvError, match=r"slope.asc are 0.0003 wide, in degrees"):
        read_landscape(folder)


def test_grids_that_do_not_match(folder: Path) -> None:
    write_grid(folder / "slope.asc", np.zeros((11, 12)), corner=(500_000.0, 4_000_000.0))
    with pytest.raises(EnvError, match=r"the shape of aspect is \(12, 12\), and that of slope is \(11, 12\)"):
        read_landscape(folder)
    write_grid(folder / "slope.asc", np.zeros((12, 12)), corner=(500_030.0, 4_000_000.0))
    with pytest.raises(EnvError, match=r"the corner of aspect"):
        read_landscape(folder)
    write_grid(folder / "slope.asc", np.zeros((12, 12)), cell=20.0, corner=(500_000.0, 4_000_000.0))
    with pytest.raises(EnvError, match=r"the cell size of aspect is 30.0, and that of slope is 20.0"):
        read_landscape(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks ncols"),
        ("1 2 3", "lacks ncols"),
        ("ncols 2\ncellsize 3\n", "lacks nrows"),
        ("ncols two\nnrows 2\n", "its ncols is b'two', not a number"),
        ("ncols 2\nnrows -2\ncellsize 30\n1 2", "its nrows is -2"),
        ("ncols 2\nnrows nan\ncellsize 30\n1 2", "its nrows is nan"),
        ("ncols 2\nnrows 2\n1 2 3 4", "needs a line such as `cellsize 30`"),
        ("ncols 2\nnrows 2\ncellsize 30\n1 2 3", "it has 3 numbers, and its header says 2 x 2"),
        ("ncols 2\nnrows 2\ncellsize 30\n1 2 3 4 5", "it has 5 numbers"),
        ("ncols 2\nnrows 2\ncellsize 30\n1 2 3 x4", "'x4' in row 1, column 1 is not a number"),
        ("ncols 2\nnrows 2\ncellsize 30\n1,5 2 3 4", "'1,5' in row 0, column 0 .* decimals have a point"),
        ("ncols 2\nnrows 2\ncellsize 30\n1 2 3 \u00e9", "row 1, column 1 is not a number"),
        ("ncols 2\nnrows 2\nxllcorner inf\ncellsize 30\n1 2 3 4", "its corner is inf"),
    ],
)
def test_grids_that_are_not(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "slope.asc"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        EnvError, match=rf"slope.asc cannot be read as an ASCII grid: .*{said.replace('.* ', '.*')}"
    ):
        read_ascii_grid(path, ignore)


def test_a_grid_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landscape_module, "MOST_CELLS", 100)
    path = tmp_path / "slope.asc"
    path.write_text("ncols 1000000\nnrows 1000000\ncellsize 30\n1")
    with pytest.raises(EnvError, match=r"slope.asc has 1000000 x 1000000 cells, and 100 are the most"):
        read_ascii_grid(path, ignore)
