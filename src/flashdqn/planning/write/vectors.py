"""Breaks as a GeoPackage: polygons of breaks that touch, center lines, and single cells in their order."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.core.files import replace_file
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio
from flashdqn.planning.budgets import cell_hectares
from flashdqn.planning.frame import PLAIN_METERS, GridFrame, make_frame
from flashdqn.planning.groups import BreakGroup, trace_chains
from flashdqn.planning.report import PlanReport
from flashdqn.planning.write.geometry import encode_line, encode_multipolygon, encode_polygon


@dataclass(frozen=True)
class VectorLayer:
    """A layer of a GeoPackage: one geometry and one row of fields for each feature."""

    name: str
    kind: str  # of its geometries, as OGR calls it
    shapes: Sequence[bytes]
    fields: dict[str, NDArray[Any]]


def import_pyogrio() -> Any:
    """pyogrio's plain functions, or one sentence that says how to get it."""
    try:
        import pyogrio
        import pyogrio.raw
    except ImportError:
        raise EnvError(
            "GeoPackage files need pyogrio, which is not installed: pip install 'flashdqn[landscapes]'."
        ) from None
    return pyogrio


def write_geopackage(report: PlanReport, path: Path) -> None:
    """Write the layers `breaks`, `lines` and `cells`."""
    pyogrio = import_pyogrio()
    frame = make_frame(report.problem.landscape)
    layers = (make_break_layer(report, frame), make_line_layer(report, frame), make_cell_layer(report, frame))
    with replace_file(path) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the coordinate system is not known
        temporary.unlink()  # GDAL refuses an empty file
        for layer in layers:
            write_layer(pyogrio, temporary, layer, frame.crs or PLAIN_METERS)


def write_layer(pyogrio: Any, path: Path, layer: VectorLayer, crs: str) -> None:
    """Add a layer to a GeoPackage."""
    pyogrio.raw.write(
        path,
        geometry=np.array(layer.shapes, dtype=object),
        field_data=list(layer.fields.values()),
        fields=list(layer.fields),
        layer=layer.name,
        driver="GPKG",
        geometry_type=layer.kind,
        crs=crs,
    )


def make_break_layer(report: PlanReport, frame: GridFrame) -> VectorLayer:
    """A multipolygon for every break."""
    groups, area = report.groups, cell_hectares(report.problem)
    worths = [group.worth for group in groups]
    fields: dict[str, NDArray[Any]] = {
        "id": np.array([group.number for group in groups], dtype=np.int32),
        "cells": np.array([len(group.cells) for group in groups], dtype=np.int32),
        "hectares": np.array([len(group.cells) * area for group in groups]),
        "first_order": np.array([group.first_order for group in groups], dtype=np.int32),
        "last_order": np.array([group.last_order for group in groups], dtype=np.int32),
        "saves": np.array([np.nan if worth is None else worth.mean for worth in worths]),
        "saves_low": np.array([np.nan if worth is None else worth.low for worth in worths]),
        "saves_high": np.array([np.nan if worth is None else worth.high for worth in worths]),
        "saves_unit": np.array([report.unit] * len(groups), dtype=object),
        "rank": np.array([group.rank for group in groups], dtype=np.int32),
    }
    return VectorLayer("breaks", "MultiPolygon", outline_groups(groups, frame), fields)


def outline_groups(groups: Sequence[BreakGroup], frame: GridFrame) -> list[bytes]:
    """The outlines of groups, with their holes. Cells that touch by a corner alone are polygons of their own."""
    rasterio = import_rasterio()
    from rasterio import features

    numbers = np.zeros(frame.shape[0] * frame.shape[1], dtype=np.int32)
    for group in groups:
        numbers[group.cells] = group.number
    drawn = numbers.reshape(frame.shape)
    parts: dict[int, list[list[NDArray[np.float64]]]] = {group.number: [] for group in groups}
    found = features.shapes(drawn, drawn > 0, connectivity=4, transform=rasterio.Affine(*frame.transform))
    for shape, number in found:
        parts[int(number)].append([np.array(ring, dtype=np.float64) for ring in shape["coordinates"]])
    return [encode_multipolygon(parts[group.number]) for group in groups]


def make_line_layer(report: PlanReport, frame: GridFrame) -> VectorLayer:
    """Center lines of the breaks; a break of a single cell has none."""
    shapes, ids, lengths = [], [], []
    for group in report.groups:
        for chain in trace_chains(group.cells, frame.shape[1]):
            places = np.array(chain, dtype=np.float64) + 0.5
            shapes.append(encode_line(frame.locate(places[:, 0], places[:, 1])))
            ids.append(group.number)
            lengths.append(measure_chain(places, report.problem.landscape.cell_size))
    fields: dict[str, NDArray[Any]] = {
        "break_id": np.array(ids, dtype=np.int32),
        "kilometers": np.array(lengths, dtype=np.float64),
    }
    return VectorLayer("lines", "LineString", shapes, fields)


def measure_chain(places: NDArray[np.float64], cell_size: float) -> float:
    """The length of a line through places in the grid, in km."""
    return float(np.hypot(*np.diff(places, axis=0).T).sum()) * cell_size / 1000.0


def make_cell_layer(report: PlanReport, frame: GridFrame) -> VectorLayer:
    """A square for every cell, with its place in the order."""
    order, columns = report.written_plan.order, frame.shape[1]
    numbers = {int(cell): group.number for group in report.groups for cell in group.cells}
    fields: dict[str, NDArray[Any]] = {
        "order": np.arange(1, len(order) + 1, dtype=np.int32),
        "break_id": np.array([numbers[int(cell)] for cell in order], dtype=np.int32),
        "row": (order // columns).astype(np.int32),
        "column": (order % columns).astype(np.int32),
    }
    if report.problem.cost is not None:
        fields["cost"] = report.problem.cost.reshape(-1)[order].astype(np.float64)
    return VectorLayer(
        "cells", "Polygon", [outline_cell(int(cell), columns, frame) for cell in order], fields
    )


def outline_cell(cell: int, columns: int, frame: GridFrame) -> bytes:
    """The square of a cell."""
    row, column = divmod(cell, columns)
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], dtype=np.float64)
    return encode_polygon([frame.locate(corners[:, 0] + row, corners[:, 1] + column)])
