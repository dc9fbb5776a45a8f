"""Folders of Cell2Fire: layers, fuel tables, defaults that are said, ignitions; and what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from landscape_files import CRS, make_landscape, rasterio, write_grid, write_raster

from flashdqn.cli import main as cli
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.collection import collect_landscapes
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.landscape import slope_and_aspect
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape
from flashdqn.envs.fuelbreaks.read.cell2fire import find_companions, read_ignition_cells

HEADER = "grid_value,export_value,descriptive_name,fuel_type, r, g, b, h, s, l\n"
COLORS = "1,2,3,4,5,6\n"
FUELS = np.array([[101, 102, 165], [0, 91, 189], [102, 102, 98]])
ELEVATION = np.array([[100.0, 110.0, 130.0], [105.0, 120.0, 140.0], [105.0, 125.0, 150.0]])


def write_table(folder: Path, name: str, rows: dict[int, str]) -> None:
    lines = [f"{number},{number},words about {code},{code},{COLORS}" for number, code in rows.items()]
    (folder / name).write_text(HEADER + "".join(lines))


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder with nothing but what Cell2Fire needs, and the elevation."""
    place = tmp_path / "forest"
    place.mkdir()
    write_grid(place / "fuels.asc", FUELS, cell=20.0)
    write_grid(place / "elevation.asc", ELEVATION, cell=20.0)
    codes = {101: "GR1", 102: "GR2", 165: "TU5", 189: "TL9", 0: "Non-fuel", 91: "Non-fuel", 98: "NB8"}
    write_table(place, "spain_lookup_table.csv", codes)
    (place / "Ignitions.csv").write_text("Year,Ncell\n1,1\n2,6")
    return place


def test_what_is_missing_is_filled_in_and_said(folder: Path, notes: list[str]) -> None:
    land = read_landscape(folder, tell=notes.append)
    assert land.name == "forest"
    assert land.cell_size == 20.0
    np.testing.assert_array_equal(land.fuel_model, np.where(FUELS == 0, 99, FUELS))
    slope, aspect = slope_and_aspect(ELEVATION, 20.0)
    np.testing.assert_allclose(land.slope, slope)
    np.testing.assert_allclose(land.aspect, aspect)
    assert not land.canopy_cover.any()
    said = " ".join(notes)
    for words in ("lacks slope or saz", "has no ccf, cbh, cbd", "has no hm"):
        assert words in said
    assert find_landscapes(folder.parent) == [folder]


def test_units_are_cell2fires(folder: Path, notes: list[str]) -> None:
    slope = np.linspace(0.0, 30.5, 9).reshape(3, 3)
    layers = {
        "slope": slope,
        "saz": np.array([[-1.0, 10.5, 359.0]] * 3),
        "cbd": np.full((3, 3), 0.123),
        "cbh": np.full((3, 3), 2.5),
        "ccf": np.array([[0, 55, 100]] * 3),
        "hm": np.full((3, 3), 12.5),
    }
    for name, values in layers.items():
        write_grid(folder / f"{name}.asc", values, cell=20.0)
    land = read_landscape(folder, tell=notes.append)
    np.testing.assert_allclose(land.slope, slope, rtol=1e-6)
    np.testing.assert_allclose(land.aspect[0], [0.0, 10.5, 359.0])
    np.testing.assert_allclose(land.canopy_bulk_density, 0.123, rtol=1e-6)
    np.testing.assert_allclose(land.canopy_base_height, 2.5)
    np.testing.assert_allclose(land.canopy_cover[0], [0.0, 0.55, 1.0])
    np.testing.assert_allclose(land.canopy_height, 12.5)
    assert notes == []
    write_grid(folder / "ccf.asc", np.full((3, 3), 0.55), cell=20.0)
    np.testing.assert_allclose(read_landscape(folder).canopy_cover, 0.55)
    (folder / "hm.asc").unlink()
    np.testing.assert_allclose(read_landscape(folder, tell=notes.append).canopy_height, 7.5)
    assert "3 times as high" in notes[0]


def test_geotiff_comes_before_ascii(folder: Path, notes: list[str]) -> None:
    transform = rasterio.Affine(20.0, 0.0, 0.0, 0.0, -20.0, 60.0)
    write_raster(folder / "fuels.tif", np.full((3, 3), 102), transform=transform)
    land = read_landscape(folder, tell=notes.append)
    assert (land.fuel_model == 102).all()
    assert land.place is not None
    assert rasterio.crs.CRS.from_wkt(land.place.crs) == rasterio.crs.CRS.from_string(CRS)


@pytest.mark.parametrize(
    ("table", "code", "said"),
    [
        ("fbp_lookup_table.csv", "C-2", "C-2 .words about C-2. of the Canadian FBP system"),
        ("kitral_lookup_table.csv", "PCH1", "PCH1 .* of Kitral"),
        ("portugal_lookup_table.csv", "GR1", "GR1 .* of the Portuguese fuel models"),
        (
            "spain_lookup_table.csv",
            "Boreal Spruce",
            "'Boreal Spruce' in spain_lookup_table.csv: that is not a fuel",
        ),
    ],
)
def test_other_fuels_are_refused_by_name(table: str, code: str, said: str, folder: Path) -> None:
    (folder / "spain_lookup_table.csv").unlink()
    write_table(folder, table, {0: "Non-fuel", 91: "Non-fuel", 98: "Non-fuel", 102: code})
    with pytest.raises(EnvError, match=rf"forest.*fuels.asc holds 102 in row 0, column 1, which is {said}"):
        read_landscape(folder)


def test_a_canadian_101_does_not_become_grass(folder: Path, notes: list[str]) -> None:
    """101 is ground without fuel in the Canadian table, and GR1 of Scott & Burgan."""
    (folder / "spain_lookup_table.csv").unlink()
    write_table(folder, "fbp_lookup_table.csv", {101: "NF"})
    write_grid(folder / "fuels.asc", np.full((3, 3), 101), cell=20.0)
    assert (read_landscape(folder, tell=notes.append).fuel_model == 99).all()


def test_a_table_without_the_fuel(folder: Path) -> None:
    write_table(folder, "spain_lookup_table.csv", {101: "GR1", 102: "GR2"})
    said = r"fuels.asc holds 0 in row 1, column 0, and spain_lookup_table.csv does not have this fuel"
    with pytest.raises(EnvError, match=said):
        read_landscape(folder)


def test_no_table_and_two_tables(folder: Path) -> None:
    write_table(folder, "fbp_lookup_table.csv", {101: "NF"})
    with pytest.raises(
        EnvError, match=r"must have one lookup table.*fbp_lookup_table.csv, spain_lookup_table.csv"
    ):
        read_landscape(folder)
    (folder / "fbp_lookup_table.csv").unlink()
    (folder / "spain_lookup_table.csv").unlink()
    with pytest.raises(EnvError, match=r"must have one lookup table.*it has none"):
        read_landscape(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must have a header"),
        ("number,name\n1,2\n", "lacks the column grid_value: it has number, name"),
        ("grid_value,fuel_type\nx,GR1\n", "line 2, grid_value must be a number, and is 'x'"),
        ("grid_value,fuel_type\n101\n", "line 2 has 1 columns, and the header 2"),
        ("grid_value,fuel_type\n1e400,GR1\n", "line 2, grid_value must be a number"),
    ],
)
def test_tables_that_are_not(text: str, said: str, folder: Path) -> None:
    (folder / "spain_lookup_table.csv").write_text(text)
    with pytest.raises(EnvError, match=rf"spain_lookup_table.csv.*{said}"):
        read_landscape(folder)


def test_layers_of_another_grid(folder: Path) -> None:
    write_grid(folder / "cbd.asc", np.zeros((3, 4)), cell=20.0)
    with pytest.raises(
        EnvError, match=r"the shape of canopy_bulk_density is \(3, 4\), and that of fuel_model"
    ):
        read_landscape(folder)


def test_holes(folder: Path, notes: list[str]) -> None:
    fuels = FUELS.copy()
    fuels[2, 2] = -9999
    write_grid(folder / "fuels.asc", fuels, cell=20.0)
    heights = ELEVATION.copy()
    heights[0, 0] = -9999
    write_grid(folder / "elevation.asc", heights, cell=20.0)
    with pytest.raises(EnvError, match=r"elevation.asc has no data in 1 cell .first in row 0, column 0"):
        read_landscape(folder)
    land = read_landscape(folder, "nonburnable", notes.append)
    assert land.fuel_model[0, 0] == land.fuel_model[2, 2] == 99
    assert land.fuel_model[0, 1] == 102
    assert land.slope[0, 1] < 60, "the ground does not fall to −9999 m beside a hole"


def test_ignitions(folder: Path) -> None:
    assert read_ignition_cells(folder / "Ignitions.csv", (3, 3)) == [(0, 0), (1, 2)]
    path = folder / "Ignitions.csv"
    path.write_text("Year,Ncell\n1,9\n2,10\n")
    with pytest.raises(
        EnvError, match=r"Ignitions.csv, line 3, the ignition 10 lies outside.*3 x 3 cells count from 1 to 9"
    ):
        read_ignition_cells(path, (3, 3))
    path.write_text("Year,Ncell\n1,0\n")
    with pytest.raises(EnvError, match="the ignition 0 lies outside"):
        read_ignition_cells(path, (3, 3))
    path.write_text("Year,Cell\n1,3\n")
    with pytest.raises(EnvError, match=r"Ignitions.csv lacks the column Ncell"):
        read_ignition_cells(path, (3, 3))
    path.write_text("Year,Ncell\n")
    with pytest.raises(EnvError, match="has no ignition"):
        read_ignition_cells(path, (3, 3))


def test_what_else_lies_in_a_folder(folder: Path, tmp_path: Path) -> None:
    assert find_companions(folder) == (None, folder / "Ignitions.csv")
    write_grid(folder / "probabilityMap.asc", np.ones((3, 3)), cell=20.0)
    (folder / "Weather.csv").write_text("Instance,datetime,WS,WD\na,1,2,3\n")
    assert find_companions(folder) == (folder, folder / "probabilityMap.asc")
    assert find_companions(tmp_path) == find_companions(tmp_path / "none.lcp") == (None, None)


def test_it_can_be_checked_and_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    land = make_landscape()
    place = tmp_path / "c2f"
    place.mkdir()
    write_grid(place / "fuels.asc", land.fuel_model)
    write_grid(place / "elevation.asc", land.elevation)
    codes = {int(number): "Non-fuel" if number < 100 else "GR2" for number in np.unique(land.fuel_model)}
    write_table(place, "spain_lookup_table.csv", codes)
    assert cli.dispatch_command(["landscapes", "check", str(place)]) == 0
    said = capsys.readouterr().out
    assert "Note: " in said
    assert "fine. 12 x 12 cells of 30 m" in said
    lands, _ = collect_landscapes(FuelBreaksConfig(size=8, rasters=str(place), landscapes=2, held_out=1))
    assert len(lands) == 3
    fuels = land.fuel_model.astype(np.int64)
    fuels[3, 3] = -9999
    write_grid(place / "fuels.asc", fuels)
    assert cli.dispatch_command(["landscapes", "check", str(place)]) == 1
    assert "row 3, column 3" in capsys.readouterr().out
    assert cli.dispatch_command(["landscapes", "check", str(place), "--holes", "nonburnable"]) == 0
