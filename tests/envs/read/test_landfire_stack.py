"""One GeoTIFF with all layers as bands: LANDFIRE's names, FARSITE's, none; units in the file; and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from landscape_files import (
    CORNER,
    CRS,
    LANDFIRE_NAMES,
    TRANSFORM,
    make_landscape,
    rasterio,
    store_layers,
    write_grid,
    write_stack,
)

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import write_folder
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape
from flashdqn.envs.fuelbreaks.read.layer_names import FARSITE_ORDER, is_nameless, match_layer_name

FARSITE_NAMES = ("ELEVATION", "SLOPE", "ASPECT", "FUEL_MODEL", "CANOPY_COV", "CANOPY_HT", "CBH", "CBD")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.mark.parametrize("names", [LANDFIRE_NAMES, FARSITE_NAMES, ()], ids=["LANDFIRE", "FARSITE", "none"])
def test_a_file_is_a_landscape(names: tuple[str, ...], tmp_path: Path, notes: list[str]) -> None:
    land = make_landscape()
    path = write_stack(tmp_path / "lf.tif", list(store_layers(land).values()), names)
    found = read_landscape(path, tell=notes.append)
    assert found == land
    assert found.name == "lf"
    assert found.place is not None
    assert rasterio.crs.CRS.from_wkt(found.place.crs) == rasterio.crs.CRS.from_string(CRS)
    assert found.place.transform == tuple(TRANSFORM)[:6]
    assert find_landscapes(path) == [path]
    assert ("FARSITE's order" in " ".join(notes)) == (not names)


def test_the_order_of_named_bands_does_not_matter(tmp_path: Path) -> None:
    land = make_landscape()
    bands = list(store_layers(land).values())[::-1]
    path = write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES[::-1])
    assert read_landscape(path) == land


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("US_220F40_22", "fuel_model"),
        ("US_200FBFM40", "fuel_model"),
        ("US_105FBFM13", "fuel_model"),
        ("US_220CC_22", "canopy_cover"),
        ("US_220CBH_22", "canopy_base_height"),
        ("LC22_CBD_220", "canopy_bulk_density"),
        ("AK_ELEV2020", "elevation"),
        ("Fuel models", "fuel_model"),
        ("CANOPY_HT", "canopy_height"),
        ("US_240EVC", None),
        ("Duff", None),
    ],
)
def test_names_of_bands(name: str, layer: str | None) -> None:
    assert match_layer_name(name) == layer


def test_names_that_say_nothing() -> None:
    assert all(map(is_nameless, (None, "", "Band 1", "band_3", "Layer_2")))
    assert not any(map(is_nameless, ("slope", "band of trees")))


def test_a_window_knows_its_place(tmp_path: Path) -> None:
    path = write_stack(tmp_path / "lf.tif", list(store_layers(make_landscape()).values()), LANDFIRE_NAMES)
    part = read_landscape(path).window(2, 5, 4)
    assert part.place is not None
    with rasterio.open(path) as file:
        west, north = file.xy(2, 5, offset="ul")
        np.testing.assert_array_equal(part.fuel_model, file.read(4)[2:6, 5:9])
    assert part.place.transform == (30.0, 0.0, west, 0.0, -30.0, north)
    write_folder(part, tmp_path / "part")
    again = read_landscape(tmp_path / "part")
    assert again == part
    assert again.place == part.place


def test_an_archive_keeps_the_place(tmp_path: Path) -> None:
    path = write_stack(tmp_path / "lf.tif", list(store_layers(make_landscape()).values()), LANDFIRE_NAMES)
    land = read_landscape(path)
    write_npz(land, tmp_path / "land.npz")
    again = read_landscape(tmp_path / "land.npz")
    assert again == land
    assert again.place == land.place
    write_npz(make_landscape(), tmp_path / "land.npz")
    assert read_landscape(tmp_path / "land.npz").place is None
    layers: dict[str, Any] = {**land.layers()}
    for wrong in (
        {"transform": np.zeros(5)},
        {"transform": np.full(6, np.nan)},
        {"transform": np.zeros(6), "crs": np.zeros(3)},
    ):
        np.savez(tmp_path / "land.npz", **layers, **wrong)
        with pytest.raises(EnvError, match=r"land.npz, transform must be six numbers"):
            read_landscape(tmp_path / "land.npz")


def test_units_in_the_file_are_used(tmp_path: Path) -> None:
    land = make_landscape()
    bands = [band.astype(np.float64) for band in store_layers(land).values()]
    bands[0] = land.elevation / 0.3048
    bands[1] = 100.0 * np.tan(np.radians(land.slope.astype(np.float64)))
    bands[4] = land.canopy_cover.astype(np.float64)
    bands[5] = land.canopy_height.astype(np.float64)
    bands[6] = land.canopy_base_height / 0.3048
    bands[7] = land.canopy_bulk_density / 16.01846337396014
    units = {1: "feet", 2: "%", 5: "fraction", 6: "m", 7: "ft", 8: "lb/ft^3"}
    found = read_landscape(write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES, units))
    for layer in FARSITE_ORDER:
        np.testing.assert_allclose(getattr(found, layer), getattr(land, layer), rtol=1e-5, atol=1e-5)


def test_landfires_slope_in_percent(tmp_path: Path) -> None:
    """SlpP beside SlpD: in a band's name, in a file's, and in that of an ASCII grid."""
    bands = store_layers(make_landscape())
    bands["slope"][:] = 100
    names = ("LF2020_Elev_CONUS", "LF2020_SlpP_CONUS", *LANDFIRE_NAMES[2:])
    found = read_landscape(write_stack(tmp_path / "lf.tif", list(bands.values()), names))
    np.testing.assert_allclose(found.slope, 45.0, rtol=1e-6)
    folder = tmp_path / "layers"
    folder.mkdir()
    for layer, band in bands.items():
        write_stack(folder / f"{'LC20_SlpP_220' if layer == 'slope' else layer}.tif", [band])
    np.testing.assert_allclose(read_landscape(folder).slope, 45.0, rtol=1e-6)
    (folder / "LC20_SlpP_220.tif").unlink()
    write_grid(folder / "LC20_SlpP_220.asc", bands["slope"], corner=(CORNER[0], CORNER[1] - 360.0))
    np.testing.assert_allclose(read_landscape(folder).slope, 45.0, rtol=1e-6)
    (folder / "LC20_SlpP_220.asc").unlink()
    write_stack(folder / "j97f36f30.tif", [bands["slope"]], ["LF2020_SlpP_CONUS"])
    np.testing.assert_allclose(read_landscape(folder).slope, 45.0, rtol=1e-6)


def test_a_file_that_scales_its_own_numbers(tmp_path: Path) -> None:
    land = make_landscape()
    path = write_stack(tmp_path / "lf.tif", list(store_layers(land).values()), LANDFIRE_NAMES)
    with rasterio.open(path, "r+") as file:
        file.scales = (1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.01)
    found = read_landscape(path)
    for layer in FARSITE_ORDER:
        np.testing.assert_allclose(getattr(found, layer), getattr(land, layer), rtol=1e-6)


def test_fractions_without_a_unit_are_refused(tmp_path: Path) -> None:
    bands = [band.astype(np.float64) for band in store_layers(make_landscape()).values()]
    bands[6][3, 4] = 2.5
    path = write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES)
    said = r"band 7. of lf.tif does not say the unit of canopy_base_height, and holds 2.5 in row 3, column 4"
    with pytest.raises(EnvError, match=said):
        read_landscape(path)


def test_an_unknown_unit(tmp_path: Path) -> None:
    bands = list(store_layers(make_landscape()).values())
    path = write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES, {1: "furlongs"})
    with pytest.raises(
        EnvError, match=r"unit of elevation in elevation .band 1. of lf.tif is 'furlongs'.*m, ft"
    ):
        read_landscape(path)


def test_a_band_that_is_missing_or_there_twice(tmp_path: Path) -> None:
    bands = list(store_layers(make_landscape()).values())
    path = write_stack(tmp_path / "seven.tif", bands[:7], LANDFIRE_NAMES[:7])
    with pytest.raises(EnvError, match=r"seven.tif lacks canopy_bulk_density .a band with 'cbd' in its name"):
        read_landscape(path)
    path = write_stack(tmp_path / "twice.tif", [*bands, bands[0]], [*LANDFIRE_NAMES, "DEM"])
    with pytest.raises(EnvError, match=r"twice.tif has elevation twice, in bands 1 and 9"):
        read_landscape(path)
    path = write_stack(tmp_path / "one.tif", bands[:1])
    with pytest.raises(EnvError, match=r"one.tif is a GeoTIFF whose bands do not name a layer"):
        read_landscape(path)


def test_a_fuel_model_that_no_table_knows(tmp_path: Path) -> None:
    bands = list(store_layers(make_landscape()).values())
    bands[3][5, 6] = 77
    path = write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES)
    with pytest.raises(EnvError, match=r"lf.*fuel model 77 .first in row 5, column 6"):
        read_landscape(path)


def test_degrees_and_turned_grids_are_refused(tmp_path: Path) -> None:
    bands = list(store_layers(make_landscape()).values())
    degrees = rasterio.Affine(0.0003, 0.0, -120.0, 0.0, -0.0003, 40.0)
    path = write_stack(tmp_path / "d.tif", bands, LANDFIRE_NAMES, crs="EPSG:4326", transform=degrees)
    with pytest.raises(EnvError, match=r"d.tif are 0.0003 wide, in degrees"):
        read_landscape(path)
    path = write_stack(
        tmp_path / "t.tif", bands, LANDFIRE_NAMES, transform=rasterio.Affine(30.0, 3.0, 0.0, 3.0, -30.0, 0.0)
    )
    with pytest.raises(EnvError, match=r"grid of .*t.tif is turned"):
        read_landscape(path)


def test_cells_in_feet(tmp_path: Path) -> None:
    path = write_stack(
        tmp_path / "f.tif", list(store_layers(make_landscape()).values()), LANDFIRE_NAMES, crs="EPSG:2225"
    )
    assert read_landscape(path).cell_size == pytest.approx(30.0 * 1200 / 3937)


# ---- holes


def test_cells_without_data(tmp_path: Path, notes: list[str]) -> None:
    land = make_landscape()
    bands = list(store_layers(land).values())
    bands[6][2, 3] = bands[6][2, 4] = bands[0][9, 9] = -9999
    path = write_stack(tmp_path / "lf.tif", bands, LANDFIRE_NAMES)
    said = (
        r"elevation .band 1. of lf.tif has no data in 1 cell .first in row 9, column 9.*--holes nonburnable"
    )
    with pytest.raises(EnvError, match=said):
        read_landscape(path)
    found = read_landscape(path, "nonburnable", notes.append)
    holes = np.zeros(land.shape, dtype=bool)
    holes[2, 3] = holes[2, 4] = holes[9, 9] = True
    np.testing.assert_array_equal(found.fuel_model, np.where(holes, 99, land.fuel_model))
    np.testing.assert_array_equal(found.slope, np.where(holes, 0, land.slope))
    assert not found.burnable[holes].any()
    assert land.elevation.min() <= found.elevation[9, 9] <= land.elevation.max()
    assert notes == [f"{path}: 3 cells without data become bare ground, fuel model 99."]
    bands[3][:] = -9999
    with pytest.raises(EnvError, match="does not have a cell where all layers have data"):
        read_landscape(write_stack(path, bands, LANDFIRE_NAMES), "nonburnable")


def test_the_file_of_another_format(tmp_path: Path) -> None:
    path = tmp_path / "lf.tif"
    path.write_bytes(b"ncols 3\nnrows 3\n")
    with pytest.raises(EnvError, match=r"lf.tif cannot be read as a GeoTIFF"):
        read_landscape(path)


def test_half_a_fuel_model_is_named_with_its_cell(tmp_path: Path) -> None:
    bands = [np.array(band, dtype=np.float32) for band in store_layers(make_landscape()).values()]
    bands[3][4, 7] += 0.5
    with pytest.raises(EnvError, match=r"whole numbers of fuel models, and is [0-9.]+\.5 in row 4, column 7"):
        read_landscape(write_stack(tmp_path / "half.tif", bands, LANDFIRE_NAMES))


@pytest.mark.parametrize("ending", ["tif", "lcp"])
def test_an_empty_file_is_called_empty(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"land.{ending}"
    path.write_bytes(b"")
    with pytest.raises(EnvError, match=r"cannot be read as an? .*: it is empty"):
        read_landscape(path)


def test_a_folder_without_a_layer_is_no_list_of_layers(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="holds no layer of a landscape"):
        read_landscape(tmp_path)
