"""Somebody's plan, burned onto the grid."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from plan_report_data import PLACE, area_report, make_problem, small_report
from rasterio.warp import transform

from flashdqn.core.errors import EnvError
from flashdqn.planning.frame import make_frame
from flashdqn.planning.given_plan import burn_shapes, read_given_plan
from flashdqn.planning.write.rasters import write_rasters
from flashdqn.planning.write.vectors import write_geopackage

FRAME = make_frame(make_problem().landscape)
X, Y = PLACE.transform[2], PLACE.transform[5]


def refuse_note(text: str) -> None:
    raise AssertionError(text)


def write_shapes(path: Path, shapes: list[Any], crs: str | None = "EPSG:32610", **options: Any) -> Path:
    kinds = {shape.geom_type for shape in shapes}
    pyogrio.raw.write(
        path,
        geometry=np.array([shapely.to_wkb(shape) for shape in shapes], dtype=object),
        field_data=[],
        fields=[],
        geometry_type=kinds.pop() if len(kinds) == 1 else "Unknown",
        crs=crs,
        **options,
    )
    return path


def line(*places: tuple[float, float]) -> shapely.LineString:
    """Through places given as rows and columns."""
    return shapely.LineString([(X + 30 * column, Y - 30 * row) for row, column in places])


def test_our_own_files_come_back_cell_by_cell(tmp_path: Path) -> None:
    for report, name in ((small_report(), "placed"), (area_report(), "nowhere")):
        folder = tmp_path / name
        folder.mkdir()
        write_geopackage(report, folder / "plan.gpkg")
        land = report.problem.landscape
        given = read_given_plan(folder / "plan.gpkg", land, refuse_note)
        assert given.order.tolist() == sorted(report.written_plan.order.tolist())
        notes: list[str] = []
        given = read_given_plan(write_rasters(report, folder)[0], land, notes.append)
        assert given.order.tolist() == report.written_plan.order.tolist(), "a raster keeps the order"
        assert not any("no data" in note for note in notes), "that most cells have no break is no news"


@pytest.mark.parametrize("ending", [".gpkg", ".geojson", ".shp"])
def test_every_cell_that_a_line_touches(tmp_path: Path, ending: str) -> None:
    drawn = line((2.5, 1.5), (2.5, 6.5), (7.5, 6.5))
    crs = "EPSG:32610"
    if ending == ".geojson":  # which is in degrees by its standard
        points = shapely.get_coordinates(drawn)
        drawn = shapely.LineString(np.column_stack(transform(crs, "EPSG:4326", *points.T)))
        crs = "EPSG:4326"
    path = write_shapes(tmp_path / f"plan{ending}", [drawn], crs)
    given = read_given_plan(path, make_problem().landscape, refuse_note)
    expected = {2 * 20 + column for column in range(1, 7)} | {row * 20 + 6 for row in range(2, 8)}
    assert set(given.order.tolist()) == expected


def test_geojson_without_a_name(tmp_path: Path) -> None:
    points = shapely.get_coordinates(line((2.5, 1.5), (2.5, 6.5)))
    places = np.column_stack(transform("EPSG:32610", "EPSG:4326", *points.T)).tolist()
    shape = {"type": "LineString", "coordinates": places}
    feature = {"type": "Feature", "properties": {}, "geometry": shape}
    path = tmp_path / "dozer.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    given = read_given_plan(path, make_problem().landscape, refuse_note)
    assert given.order.tolist() == list(range(41, 47))


def test_polygons_take_the_cells_whose_centers_they_hold() -> None:
    box = shapely.box(X + 30 * 3.4, Y - 30 * 8.6, X + 30 * 8.6, Y - 30 * 3.4)  # centers 3.5 … 8.5
    drawn = burn_shapes([box], FRAME, 30.0)
    rows, columns = np.nonzero(drawn)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 8, 3, 8)
    assert drawn.sum() == 36


def test_a_narrow_polygon_leaves_no_gap() -> None:
    """8 m wide, across cells of 30 m, off their centers."""
    strip = shapely.box(X + 30 * 2, Y - 30 * 5 - 12, X + 30 * 15, Y - 30 * 5 - 4)
    drawn = burn_shapes([strip], FRAME, 30.0)
    assert np.argwhere(drawn).tolist() == [[5, column] for column in range(2, 15)]


@pytest.mark.parametrize(
    ("shapes", "options", "words"),
    [
        ([shapely.Point(X, Y)], {}, "holds a Point"),
        ([shapely.box(0, 0, 9, 9)], {}, "do both cover the same area"),
        ([line((1, 1), (5, 5))], {"crs": None}, "does not say its coordinate system"),
    ],
)
def test_what_cannot_be_a_plan(
    tmp_path: Path, shapes: list[Any], options: dict[str, Any], words: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pyogrio's, about a missing coordinate system
        path = write_shapes(tmp_path / "plan.gpkg", shapes, **options)
    with pytest.raises(EnvError, match=words):
        read_given_plan(path, make_problem().landscape, refuse_note)


def test_several_layers_need_one_called_breaks(tmp_path: Path) -> None:
    path = tmp_path / "plan.gpkg"
    for layer in ("roads", "ideas"):
        write_shapes(path, [line((1, 1), (5, 5))], layer=layer)
    with pytest.raises(EnvError, match="call the one with the plan 'breaks'"):
        read_given_plan(path, make_problem().landscape, refuse_note)
    write_shapes(path, [line((9.5, 1.5), (9.5, 4.5))], layer="breaks")
    given = read_given_plan(path, make_problem().landscape, refuse_note)
    assert given.order.tolist() == [181, 182, 183, 184]


def test_damaged_and_strange_files_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "plan.gpkg").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    (tmp_path / "plan.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [1]}))
    (tmp_path / "plan.txt").write_text("1 2 3")
    (tmp_path / "plan.tif").write_bytes(b"II*\0")
    for name in ("plan.gpkg", "plan.geojson", "plan.txt", "plan.tif", "missing.gpkg"):
        with pytest.raises(EnvError) as error:
            read_given_plan(tmp_path / name, make_problem().landscape, refuse_note)
        assert name in str(error.value)
        assert "\n" not in str(error.value)


def test_a_mask_of_ones_is_a_plan(tmp_path: Path) -> None:
    mask = np.zeros((20, 20), dtype=np.uint8)
    mask[4, 5:9] = 1
    with rasterio.open(
        tmp_path / "mask.tif", "w", driver="GTiff", height=20, width=20, count=1, dtype="uint8",
        crs="EPSG:32610", transform=rasterio.Affine(*PLACE.transform), nodata=255,
    ) as file:  # fmt: skip
        file.write(mask, 1)
    given = read_given_plan(tmp_path / "mask.tif", make_problem().landscape, refuse_note)
    assert given.order.tolist() == [85, 86, 87, 88]
