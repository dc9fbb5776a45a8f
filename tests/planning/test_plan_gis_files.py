"""GeoTIFF and GeoPackage files of a plan, read back as a GIS would."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_report_data import PLACE, area_report, make_problem, small_report

from flashdqn.planning.frame import make_frame
from flashdqn.planning.groups import group_cells
from flashdqn.planning.report import PlanReport
from flashdqn.planning.write.rasters import draw_break_order, write_geotiff, write_rasters
from flashdqn.planning.write.vectors import outline_groups, write_geopackage


def read_layer(path: Path, layer: str) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    about, _, shapes, columns = pyogrio.raw.read(path, layer=layer)
    return about, shapely.from_wkb(shapes), dict(zip(about["fields"], columns, strict=True))


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("placed")
    write_rasters(small_report(), folder)
    write_geopackage(small_report(), folder / "plan.gpkg")
    return folder


def test_rasters_lie_where_the_landscape_lies(placed: Path) -> None:
    report = small_report()
    with rasterio.open(placed / "breaks.tif") as file:
        assert file.crs.to_epsg() == 32610
        assert tuple(file.transform)[:6] == PLACE.transform
        assert (file.nodata, file.dtypes[0], file.compression.value) == (0, "int32", "DEFLATE")
        assert file.descriptions == ("order of breaks, from 1",)
        drawn = file.read(1)
    for place, cell in enumerate(report.written_plan.order, 1):
        assert drawn.reshape(-1)[cell] == place
    assert (drawn > 0).sum() == len(report.written_plan.order)
    for name, losses in (("before", report.judgement.before), ("after", report.after)):
        with rasterio.open(placed / f"burn_probability_{name}.tif") as file:
            assert np.array_equal(file.read(1), losses.burn_probability)
            assert file.dtypes == ("float32",)
            assert tuple(file.transform)[:6] == PLACE.transform
            assert file.read_masks(1).min() != 0, "a chance of 0 is not missing data"


def test_breaks_are_valid_polygons_of_the_right_size(placed: Path) -> None:
    report = small_report()
    about, shapes, columns = read_layer(placed / "plan.gpkg", "breaks")
    assert about["crs"] == "EPSG:32610"
    assert shapely.is_valid(shapes).all()
    assert shapely.area(shapes) == pytest.approx(columns["cells"] * 900.0)
    assert columns["hectares"] == pytest.approx(columns["cells"] * 0.09)
    assert columns["cells"].sum() == len(report.written_plan.order)
    assert columns["id"].tolist() == [group.number for group in report.groups]
    assert columns["first_order"].tolist() == [group.first_order for group in report.groups]
    assert columns["last_order"].tolist() == [group.last_order for group in report.groups]
    assert columns["rank"].tolist() == [group.rank for group in report.groups]
    worths = [group.worth.mean for group in report.groups if group.worth is not None]
    assert columns["saves"].tolist() == pytest.approx(worths)
    assert set(columns["saves_unit"]) == {"houses"}


def test_cells_and_lines_fit_the_breaks(placed: Path) -> None:
    report, frame = small_report(), make_frame(small_report().problem.landscape)
    breaks = shapely.union_all(read_layer(placed / "plan.gpkg", "breaks")[1])
    _, cells, columns = read_layer(placed / "plan.gpkg", "cells")
    assert columns["order"].tolist() == list(range(1, len(report.written_plan.order) + 1))
    assert (columns["row"] * 20 + columns["column"]).tolist() == report.written_plan.order.tolist()
    centers = shapely.get_coordinates(shapely.centroid(cells))
    assert np.allclose(centers, frame.locate_centers(report.written_plan.order))
    assert shapely.equals(shapely.union_all(cells), breaks)
    _, lines, columns = read_layer(placed / "plan.gpkg", "lines")
    assert len(lines) > 0
    assert shapely.is_valid(lines).all()
    assert (shapely.length(lines) / 1000.0).tolist() == pytest.approx(columns["kilometers"].tolist())
    assert shapely.covers(shapely.buffer(breaks, 1e-6), lines).all()


def test_a_landscape_without_a_place_is_written_in_plain_meters(tmp_path: Path) -> None:
    write_geopackage(area_report(), tmp_path / "plan.gpkg")
    about, shapes, _ = read_layer(tmp_path / "plan.gpkg", "breaks")
    assert "Undefined Cartesian SRS" in about["crs"]
    west, south, east, north = shapely.total_bounds(shapes)
    assert 0 <= west < east <= 600
    assert 0 <= south < north <= 600
    paths = write_rasters(area_report(), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rasterio.open(paths[0]) as file:
            assert file.crs is None
            assert tuple(file.transform)[:6] == (30.0, 0.0, 0.0, 0.0, -30.0, 600.0)


def test_a_large_raster_has_overviews_that_keep_thin_lines(tmp_path: Path) -> None:
    frame = dataclasses.replace(make_frame(make_problem().landscape), shape=(1500, 1100))
    order = np.arange(1100, dtype=np.int64) + 700 * 1100  # one row
    write_geotiff(tmp_path / "line.tif", draw_break_order(order, frame.shape), frame, 0, "a line")
    with rasterio.open(tmp_path / "line.tif") as file:
        assert file.overviews(1) == [2, 4]
        assert file.block_shapes == [(256, 256)]
    with rasterio.open(tmp_path / "line.tif", overview_level=1) as file:
        assert (file.read(1) > 0).any(axis=0).all()


def test_a_map_of_costs_is_in_the_cells(tmp_path: Path) -> None:
    report = small_report()
    cost = np.arange(400, dtype=np.float32).reshape(20, 20) + 1
    priced = dataclasses.replace(report, problem=dataclasses.replace(report.problem, cost=cost))
    write_geopackage(priced, tmp_path / "plan.gpkg")
    columns = read_layer(tmp_path / "plan.gpkg", "cells")[2]
    assert columns["cost"].tolist() == (report.written_plan.order + 1).tolist()
    assert priced.cost == (report.written_plan.order + 1).sum()


def test_writing_again_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "plan.gpkg"
    for report in (area_report(), small_report()):
        write_geopackage(report, path)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.gpkg"]
    assert {name for name, _ in pyogrio.list_layers(path)} == {"breaks", "lines", "cells"}
    assert len(read_layer(path, "cells")[1]) == len(small_report().written_plan.order)


def test_a_failure_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flashdqn.planning.write.vectors.write_layer", fail)
    with pytest.raises(KeyboardInterrupt):
        write_geopackage(area_report(), tmp_path / "plan.gpkg")
    assert list(tmp_path.iterdir()) == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 63), unique=True, min_size=1, max_size=40))
def test_any_group_is_a_valid_multipolygon(cells: list[int]) -> None:
    frame = dataclasses.replace(make_frame(make_problem().landscape), shape=(8, 8))
    groups = group_cells(np.array(cells, dtype=np.int64), 8)
    shapes = shapely.from_wkb(np.array(outline_groups(groups, frame), dtype=object))
    assert shapely.is_valid(shapes).all()
    assert shapely.area(shapes) == pytest.approx([len(group.cells) * 900.0 for group in groups])
    for group, shape in zip(groups, shapes, strict=True):
        points = shapely.points(frame.locate_centers(group.cells))
        assert shapely.contains(shape, points).all()


def test_a_report_without_breaks_of_several_cells(tmp_path: Path) -> None:
    """Then there is no line, and the layer is empty but there."""
    report = area_report()
    order = np.array([0, 45, 399], dtype=np.int64)
    plans = {"dpv": dataclasses.replace(report.plans["dpv"], order=order)}
    placed = dict.fromkeys(report.judgement.placed, (3,) * len(report.judgement.budgets))
    judgement = dataclasses.replace(report.judgement, placed=placed)
    lonely: PlanReport = dataclasses.replace(
        report, plans=plans, judgement=judgement, groups=tuple(group_cells(order, 20))
    )
    write_geopackage(lonely, tmp_path / "plan.gpkg")
    assert len(read_layer(tmp_path / "plan.gpkg", "lines")[1]) == 0
    _, _, columns = read_layer(tmp_path / "plan.gpkg", "breaks")
    assert np.isnan(columns["saves"]).all()
