"""Rasters of value, ignition, forbidden ground and cost: on the landscape's grid, on others, and wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from landscape_files import CORNER, CRS, TRANSFORM, make_landscape, rasterio, write_grid, write_raster
from rasterio.warp import transform_bounds

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.cost import read_cost
from flashdqn.envs.fuelbreaks.maps.forbidden import read_forbidden
from flashdqn.envs.fuelbreaks.maps.ignition import read_ignition
from flashdqn.envs.fuelbreaks.maps.read_stakes import read_stakes
from flashdqn.envs.fuelbreaks.maps.value import read_value

SIZE = 12
WKT = rasterio.crs.CRS.from_string(CRS).to_wkt()


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def land() -> Landscape:
    """A landscape that burns everywhere except in a corner, and knows its place."""
    land = make_landscape(SIZE)
    fuels = np.full(land.shape, 102, dtype=np.int16)
    fuels[0, :2] = 98
    return replace(land, fuel_model=fuels, place=Georeference(WKT, tuple(TRANSFORM)[:6]))


def make_numbers(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).random((size, size))


def test_all_maps_on_the_same_grid(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    numbers = make_numbers()
    value = write_raster(tmp_path / "houses.tif", numbers)
    ignition = write_raster(tmp_path / "ignition.tif", numbers[::-1])
    forbidden = write_raster(tmp_path / "reserve.tif", numbers > 0.5)
    stakes = read_stakes(land, value, ignition, forbidden, tell=notes.append)
    assert stakes.value is not None
    assert stakes.ignition is not None
    np.testing.assert_allclose(stakes.value, numbers, rtol=1e-6)
    np.testing.assert_allclose(stakes.ignition, np.where(land.burnable, numbers[::-1], 0.0), rtol=1e-6)
    np.testing.assert_array_equal(stakes.forbidden, numbers > 0.5)
    stakes.check_shape(land.shape)
    assert notes == [f"{ignition} has ignitions in 2 cells that cannot burn: they are left out."]
    np.testing.assert_allclose(read_cost(value, land, notes.append), numbers, rtol=1e-6)
    assert read_stakes(land).value is None


def test_an_ascii_map(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    numbers = make_numbers()
    south = CORNER[1] - SIZE * 30.0
    path = write_grid(tmp_path / "houses.asc", numbers, corner=(CORNER[0], south))
    np.testing.assert_allclose(read_value(path, land, tell=notes.append), numbers, rtol=1e-6)
    assert notes == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cell=st.sampled_from([7.5, 15.0, 45.0, 90.0]), east=st.integers(0, 29), south=st.integers(0, 29))
def test_the_sum_of_values_is_kept(
    land: Landscape, tmp_path: Path, cell: float, east: int, south: int
) -> None:
    """Values that lie well inside the landscape, on a grid of other cells, anywhere between its own."""
    count = round(720.0 / cell)
    numbers = np.zeros((count, count))
    middle = slice(round(240 / cell) + 1, round(480 / cell) - 1) if cell < 90 else slice(3, 5)
    numbers[middle, middle] = np.random.default_rng(1).random(numbers[middle, middle].shape) + 1
    place = rasterio.Affine(cell, 0.0, CORNER[0] - 180 + east, 0.0, -cell, CORNER[1] + 180 - south)
    path = write_raster(tmp_path / "houses.tif", numbers, transform=place)
    notes: list[str] = []
    found = read_value(path, land, tell=notes.append)
    assert found.sum(dtype=np.float64) == pytest.approx(numbers.sum(), rel=1e-5)
    assert "their sum is kept" in notes[0]


def write_in_degrees(path: Path, land: Landscape, numbers: np.ndarray) -> Path:
    """A map in longitudes and latitudes around a landscape, three times as wide."""
    rows, columns = land.shape
    bounds = (CORNER[0], CORNER[1] - 30.0 * rows, CORNER[0] + 30.0 * columns, CORNER[1])
    west, south, east, north = transform_bounds(CRS, "EPSG:4326", *bounds)
    wide, high = east - west, north - south
    step = (3 * wide / numbers.shape[1], 3 * high / numbers.shape[0])
    place = rasterio.Affine(step[0], 0.0, west - wide, 0.0, -step[1], north + high)
    return write_raster(path, numbers, crs="EPSG:4326", transform=place)


def test_maps_in_another_projection(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    constant = write_in_degrees(tmp_path / "a.tif", land, np.full((90, 90), 0.25))
    np.testing.assert_allclose(read_cost(constant, land, notes.append), 0.25, rtol=1e-6)
    ignition = read_ignition(constant, land, tell=notes.append)
    np.testing.assert_allclose(ignition[land.burnable], 0.25, rtol=1e-6)
    assert "EPSG:4326" in notes[0]
    assert "average" in notes[0]
    halves = np.zeros((90, 90))
    halves[:, 45:] = 1
    forbidden = read_forbidden(write_in_degrees(tmp_path / "b.tif", land, halves), land, tell=notes.append)
    west, east = forbidden[:, :4].mean(), forbidden[:, -4:].mean()
    assert west == 0.0
    assert east == 1.0


def test_a_mask_of_finer_cells_takes_the_nearest(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    """Nine cells of the map in each of the landscape's: the one in the middle decides."""
    fine = np.zeros((3 * SIZE, 3 * SIZE))
    fine[3 * 2 + 1, 3 * 5 + 1] = 1
    fine[3 * 7, 3 * 4] = 1
    place = rasterio.Affine(10.0, 0.0, CORNER[0], 0.0, -10.0, CORNER[1])
    found = read_forbidden(write_raster(tmp_path / "a.tif", fine, transform=place), land, tell=notes.append)
    np.testing.assert_array_equal(np.argwhere(found), [(2, 5)])
    assert "nearest" in notes[0]


def test_a_map_that_does_not_cover_the_landscape(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    shifted = rasterio.Affine(30.0, 0.0, CORNER[0] + 90.0, 0.0, -30.0, CORNER[1])
    path = write_raster(tmp_path / "a.tif", make_numbers(), transform=shifted)
    for read in (read_value, read_ignition, read_forbidden, read_cost):
        with pytest.raises(EnvError, match=r"a.tif covers 75% of the landscape .*, and not row 0, column 0"):
            read(path, land, tell=notes.append)
    far = rasterio.Affine(30.0, 0.0, 0.0, 0.0, -30.0, 0.0)
    with pytest.raises(EnvError, match=r"covers 0% of the landscape"):
        read_value(write_raster(tmp_path / "b.tif", make_numbers(), transform=far), land)


def test_maps_without_a_place(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    nowhere = replace(land, place=None)
    path = write_raster(tmp_path / "a.tif", make_numbers())
    np.testing.assert_allclose(read_value(path, nowhere, tell=notes.append), make_numbers(), rtol=1e-6)
    assert "taken cell by cell" in notes[0]
    path = write_raster(tmp_path / "b.tif", make_numbers(9))
    with pytest.raises(
        EnvError, match=r"does not say where it lies, so b.tif must have the landscape's 12 x 12 cells"
    ):
        read_value(path, nowhere)


def test_cells_without_data(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    numbers = make_numbers()
    numbers[4, 5] = -9999
    path = write_raster(tmp_path / "a.tif", numbers)
    assert read_value(path, land, tell=notes.append)[4, 5] == 0
    assert read_ignition(path, land, tell=notes.append)[4, 5] == 0
    assert not read_forbidden(path, land, tell=notes.append)[4, 5]
    assert notes[0] == f"{path} has no data in 1 cell of the landscape: taken as 0."
    with pytest.raises(
        EnvError, match=r"a.tif has no data in 1 cell that can burn .first in row 4, column 5"
    ):
        read_cost(path, land)
    numbers = make_numbers()
    numbers[0, 0] = -9999  # water
    costs = read_cost(write_raster(path, numbers), land)
    assert costs[0, 0] == costs.max()


def test_numbers_that_cannot_be(land: Landscape, tmp_path: Path) -> None:
    numbers = make_numbers()
    numbers[3, 7] = -2.0
    path = write_raster(tmp_path / "a.tif", numbers)
    with pytest.raises(EnvError, match=r"a.tif must hold numbers from 0 up, and holds -2 in row 3, column 7"):
        read_value(path, land)
    with pytest.raises(EnvError, match=r"must hold numbers from 0 up"):
        read_ignition(path, land)
    numbers[3, 7] = 0.0
    with pytest.raises(EnvError, match=r"a.tif must hold numbers above 0, and holds 0 in row 3, column 7"):
        read_cost(write_raster(path, numbers), land)


def test_maps_that_leave_nothing_to_do(land: Landscape, tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="nothing is at risk"):
        read_value(write_raster(tmp_path / "a.tif", np.zeros((SIZE, SIZE))), land)
    only_water = np.zeros((SIZE, SIZE))
    only_water[0, 0] = 1
    with pytest.raises(EnvError, match=r"b.tif lets no fire start"):
        read_ignition(write_raster(tmp_path / "b.tif", only_water), land)
    with pytest.raises(EnvError, match=r"c.tif forbids every cell of the landscape"):
        read_forbidden(write_raster(tmp_path / "c.tif", np.ones((SIZE, SIZE))), land)


def test_ignitions_from_a_list_of_cells(land: Landscape, tmp_path: Path) -> None:
    path = tmp_path / "Ignitions.csv"
    path.write_text("Year,Ncell\n1,14\n2,14\n3,144\n")
    found = read_ignition(path, land)
    assert (found[1, 1], found[11, 11], found.sum()) == (2.0, 1.0, 3.0)


def test_files_that_are_not_maps(land: Landscape, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(EnvError, match=r"a.txt is not a map: give a GeoTIFF or an .asc file"):
        read_value(tmp_path / "a.txt", land)
    (tmp_path / "a.tif").write_text("1")
    with pytest.raises(EnvError, match=r"a.tif cannot be read as a GeoTIFF"):
        read_value(tmp_path / "a.tif", land)
    with pytest.raises(EnvError, match=r"none.tif cannot be read as a GeoTIFF"):
        read_value(tmp_path / "none.tif", land)
