"""FARSITE's .lcp files, written by GDAL with every unit that it knows; damage; and the .prj file beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from landscape_files import CRS, TRANSFORM, make_landscape, rasterio, store_layers, write_lcp

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape

ELEVATION, SLOPE, ASPECT, FUEL, COVER, HEIGHT, BASE, DENSITY = range(8)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    land = make_landscape()
    path = write_lcp(tmp_path / "ridge.lcp", list(store_layers(land).values()))
    found = read_landscape(path)
    assert found == land
    assert found.name == "ridge"
    assert found.place is not None
    assert found.place.transform == tuple(TRANSFORM)[:6]
    assert rasterio.crs.CRS.from_wkt(found.place.crs) == rasterio.crs.CRS.from_string(CRS)
    assert find_landscapes(tmp_path) == [path]
    (tmp_path / "ridge.prj").unlink()
    alone = read_landscape(path)
    assert alone == land
    assert alone.place is not None
    assert alone.place.crs == ""


def read_constant(folder: Path, band: int, value: int, **options: str) -> Landscape:
    """A landscape with one number everywhere in one band."""
    bands = list(store_layers(make_landscape(4)).values())
    bands[band] = np.full((4, 4), value, dtype=np.int16)
    return read_landscape(write_lcp(folder / "a.lcp", bands, **options))


@pytest.mark.parametrize(
    ("band", "stored", "options", "layer", "expected"),
    [
        (ELEVATION, 1000, {"ELEVATION_UNIT": "METERS"}, "elevation", 1000.0),
        (ELEVATION, 1000, {"ELEVATION_UNIT": "FEET"}, "elevation", 304.8),
        (SLOPE, 45, {"SLOPE_UNIT": "DEGREES"}, "slope", 45.0),
        (SLOPE, 100, {"SLOPE_UNIT": "PERCENT"}, "slope", 45.0),
        (ASPECT, 90, {"ASPECT_UNIT": "AZIMUTH_DEGREES"}, "aspect", 90.0),
        (ASPECT, -1, {"ASPECT_UNIT": "AZIMUTH_DEGREES"}, "aspect", 0.0),
        (ASPECT, 90, {"ASPECT_UNIT": "GRASS_DEGREES"}, "aspect", 0.0),  # north
        (ASPECT, 180, {"ASPECT_UNIT": "GRASS_DEGREES"}, "aspect", 270.0),  # west
        (ASPECT, 1, {"ASPECT_UNIT": "GRASS_CATEGORIES"}, "aspect", 90.0),  # east
        (ASPECT, 7, {"ASPECT_UNIT": "GRASS_CATEGORIES"}, "aspect", 0.0),
        (ASPECT, 13, {"ASPECT_UNIT": "GRASS_CATEGORIES"}, "aspect", 270.0),
        (ASPECT, 19, {"ASPECT_UNIT": "GRASS_CATEGORIES"}, "aspect", 180.0),
        (ASPECT, 25, {"ASPECT_UNIT": "GRASS_CATEGORIES"}, "aspect", 0.0),  # flat
        (COVER, 60, {"CANOPY_COV_UNIT": "PERCENT"}, "canopy_cover", 0.6),
        (COVER, 3, {"CANOPY_COV_UNIT": "CATEGORIES"}, "canopy_cover", 0.6),
        (COVER, 99, {"CANOPY_COV_UNIT": "CATEGORIES"}, "canopy_cover", 0.0),
        (HEIGHT, 20, {"CANOPY_HT_UNIT": "METERS"}, "canopy_height", 20.0),
        (HEIGHT, 20, {"CANOPY_HT_UNIT": "FEET"}, "canopy_height", 6.096),
        (HEIGHT, 200, {"CANOPY_HT_UNIT": "METERS_X_10"}, "canopy_height", 20.0),
        (HEIGHT, 200, {"CANOPY_HT_UNIT": "FEET_X_10"}, "canopy_height", 6.096),
        (BASE, 3, {"CBH_UNIT": "METERS"}, "canopy_base_height", 3.0),
        (BASE, 10, {"CBH_UNIT": "FEET"}, "canopy_base_height", 3.048),
        (BASE, 30, {"CBH_UNIT": "METERS_X_10"}, "canopy_base_height", 3.0),
        (BASE, 100, {"CBH_UNIT": "FEET_X_10"}, "canopy_base_height", 3.048),
        (DENSITY, 1, {"CBD_UNIT": "KG_PER_CUBIC_METER"}, "canopy_bulk_density", 1.0),
        (DENSITY, 15, {"CBD_UNIT": "KG_PER_CUBIC_METER_X_100"}, "canopy_bulk_density", 0.15),
        (DENSITY, 10, {"CBD_UNIT": "POUND_PER_CUBIC_FOOT_X_1000"}, "canopy_bulk_density", 0.1601846),
    ],
)
def test_units(
    band: int, stored: int, options: dict[str, str], layer: str, expected: float, tmp_path: Path
) -> None:
    found = read_constant(tmp_path, band, stored, **options)
    np.testing.assert_allclose(getattr(found, layer), expected, rtol=1e-6, atol=1e-9)


def test_numbers_that_are_not_categories(tmp_path: Path) -> None:
    with pytest.raises(
        EnvError, match=r"'Categories .0-4.', and 95 in row 0, column 0 is not one of its categories"
    ):
        read_constant(tmp_path, COVER, 95, CANOPY_COV_UNIT="CATEGORIES")
    with pytest.raises(EnvError, match=r"'Grass categories', and 40 in row 0, column 0"):
        read_constant(tmp_path, ASPECT, 40, ASPECT_UNIT="GRASS_CATEGORIES")


def test_units_survive_a_conversion_to_geotiff(tmp_path: Path) -> None:
    land = make_landscape()
    bands = list(store_layers(land).values())
    bands[ELEVATION] = np.round(land.elevation).astype(np.int16)
    path = write_lcp(tmp_path / "a.lcp", bands, ELEVATION_UNIT="FEET", CBH_UNIT="FEET_X_10")
    rasterio.shutil.copy(str(path), str(tmp_path / "a.tif"), driver="GTiff")
    assert read_landscape(tmp_path / "a.tif") == read_landscape(path)
    np.testing.assert_allclose(read_landscape(path).elevation, 0.3048 * np.round(land.elevation), rtol=1e-6)


def test_cells_in_feet_without_a_prj_file(tmp_path: Path) -> None:
    path = write_lcp(tmp_path / "a.lcp", list(store_layers(make_landscape()).values()), LINEAR_UNIT="FOOT")
    (tmp_path / "a.prj").unlink()
    assert read_landscape(path).cell_size == pytest.approx(9.144)
    path = write_lcp(
        tmp_path / "b.lcp", list(store_layers(make_landscape()).values()), LINEAR_UNIT="KILOMETER"
    )
    (tmp_path / "b.prj").unlink()
    with pytest.raises(EnvError, match="in meters or feet"):
        read_landscape(path)


def test_a_file_without_crown_fuels(tmp_path: Path) -> None:
    land = make_landscape()
    path = write_lcp(tmp_path / "a.lcp", list(store_layers(land).values())[:5])
    notes: list[str] = []
    found = read_landscape(path, tell=notes.append)
    np.testing.assert_array_equal(found.fuel_model, land.fuel_model)
    np.testing.assert_array_equal(found.canopy_cover, land.canopy_cover)
    assert not found.canopy_height.any()
    assert not found.canopy_bulk_density.any()
    assert len(notes) == 1
    assert "no crown fuels" in notes[0]


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    path = write_lcp(tmp_path / "a.lcp", list(store_layers(make_landscape()).values()))
    whole = path.read_bytes()
    for length in [0, 10, 100, 4000, 7316, *range(7400, len(whole), 311), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(EnvError, match=r"a\.lcp"):
            read_landscape(path)


def describe_refusal(path: Path) -> str:
    """What is wrong with a file; empty if nothing is."""
    try:
        read_landscape(path, tell=lambda text: None)
    except EnvError as error:
        return str(error)
    return ""


def test_damaged_headers_are_a_sentence_or_harmless(tmp_path: Path) -> None:
    """Bytes of the header that say a size, a unit or a place, changed."""
    land = make_landscape()
    path = write_lcp(tmp_path / "a.lcp", list(store_layers(land).values()))
    whole = path.read_bytes()
    for at in [0, 4, 8, *range(4164, 4244, 3)]:
        for value in (0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            said = describe_refusal(path)
            assert not said or ("a.lcp" in said and "\n" not in said)


def test_another_format_under_this_name(tmp_path: Path) -> None:
    path = tmp_path / "a.lcp"
    path.write_text('<VRTDataset rasterXSize="12" rasterYSize="12"></VRTDataset>')
    with pytest.raises(EnvError, match=r"a.lcp cannot be read as an .lcp file"):
        read_landscape(path)
