"""Somebody's plan on the landscape's grid: lines or polygons of a vector file, or a raster of breaks.

Every cell that a line touches is a break, and every cell whose center lies in a polygon. A polygon that is narrower
than a cell may hold no center: there, every cell that it covers a part of is a break.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio
from flashdqn.envs.fuelbreaks.landscape import Landscape, shorten_error
from flashdqn.envs.fuelbreaks.maps.raster_map import is_raster_map, read_raster_map
from flashdqn.envs.fuelbreaks.maps.vector_map import (
    ENDINGS,
    import_vector_tools,
    is_vector_map,
    move_shapes,
    read_vector_bytes,
)
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.planning.frame import GridFrame, make_frame
from flashdqn.planning.plan import Plan

#: The layer of our own GeoPackage, which has two others beside it.
OWN_LAYER = "breaks"
LINES, AREAS = ("LineString", "LinearRing"), ("Polygon",)
#: A narrow polygon is drawn on cells that are this many times finer.
FINER = 5


def read_given_plan(path: Path, landscape: Landscape, tell: TellNote) -> Plan:
    """The breaks of a file; a raster's numbers, or else rows and columns, are their order."""
    if is_raster_map(path):
        drawn = np.nan_to_num(read_raster_map(path, landscape, "nearest", tell), nan=0.0).reshape(-1)
        cells = np.flatnonzero(drawn > 0)
        order = cells[np.argsort(drawn[cells], kind="stable")]
    elif is_vector_map(path):
        shapes, frame = read_plan_shapes(path, landscape), make_frame(landscape)
        order = np.flatnonzero(burn_shapes(shapes, frame, landscape.cell_size).reshape(-1))
    else:
        raise EnvError(
            f"{path} is not a plan: give a GeoTIFF or .asc raster of breaks, or lines or polygons as "
            f"{', '.join(ENDINGS)}."
        )
    if not len(order):
        raise EnvError(f"No break of {path} lies in {landscape.name}: do both cover the same area?")
    return Plan("given", order.astype(np.int64), 0.0)


def read_plan_shapes(path: Path, landscape: Landscape) -> list[Any]:
    """The lines and polygons of a vector file, in the landscape's coordinates."""
    pyogrio, shapely = import_vector_tools()
    try:
        data = read_vector_bytes(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GDAL's, about the quirks of a stranger's file
            layer = choose_plan_layer(path, pyogrio.list_layers(data))
            about, _, found, _ = pyogrio.raw.read(data, layer=layer, columns=[], force_2d=True)
        shapes = shapely.from_wkb(found)
    except FlashDQNError:
        raise
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a plan: {error.strerror or 'it is damaged'}.") from None
    except Exception as error:  # GDAL, pyogrio and shapely raise errors of many kinds
        raise EnvError(f"{path} cannot be read as a plan: {shorten_error(error)}.") from None
    parts = shapely.get_parts(shapely.get_parts(shapes[~shapely.is_missing(shapes)]))
    for part in parts:
        if part.geom_type not in (*LINES, *AREAS):
            raise EnvError(f"{path} holds a {part.geom_type}: a plan has lines or polygons.")
    if is_in_plain_meters(about["crs"], landscape):
        return list(parts)
    return list(move_shapes(path, parts, about["crs"], landscape)) if len(parts) else []


def is_in_plain_meters(crs: str | None, landscape: Landscape) -> bool:
    """Whether neither the plan nor the landscape says where it lies: both count meters from a corner."""
    is_placed = make_frame(landscape).is_placed
    return not is_placed and (not crs or crs.startswith(("LOCAL_CS", "ENGCRS")))


def choose_plan_layer(path: Path, layers: Iterable[Any]) -> int:
    """The number of the layer to read: the only one with shapes, or the one that is called breaks. GDAL gives a
    layer without a name another one each time, so names do not find it again."""
    found = {k: str(name) for k, (name, kind) in enumerate(layers) if kind is not None}
    names = list(found.values())
    if len(names) == 1 or OWN_LAYER in names:
        return next(k for k, name in found.items() if len(names) == 1 or name == OWN_LAYER)
    raise EnvError(
        f"{path} has {len(names)} layers of shapes ({', '.join(names[:6])}): call the one with the plan "
        f"{OWN_LAYER!r}."
    )


def burn_shapes(shapes: list[Any], frame: GridFrame, cell_size: float) -> NDArray[np.bool_]:
    """The cells of the grid that shapes turn into breaks, [H, W]."""
    lines = [shape for shape in shapes if shape.geom_type in LINES]
    areas = [shape for shape in shapes if shape.geom_type in AREAS and shape.area > 0]
    narrow = [shape for shape in areas if 2.0 * shape.area / shape.length < cell_size]  # mean width
    drawn = draw_shapes(lines, frame, 1, all_touched=True) | draw_shapes(areas, frame, 1)
    if narrow:
        rows, columns = frame.shape
        fine = draw_shapes(narrow, frame, FINER)
        drawn |= fine.reshape(rows, FINER, columns, FINER).any(axis=(1, 3))
    return drawn


def draw_shapes(
    shapes: list[Any], frame: GridFrame, finer: int, all_touched: bool = False
) -> NDArray[np.bool_]:
    """Draw shapes on the grid, or on one that is `finer` times finer."""
    rasterio = import_rasterio()
    from rasterio import features

    size = (frame.shape[0] * finer, frame.shape[1] * finer)
    if not shapes:
        return np.zeros(size, dtype=np.bool_)
    a, b, c, d, e, f = frame.transform
    transform = rasterio.Affine(a / finer, b / finer, c, d / finer, e / finer, f)
    drawn = features.rasterize(shapes, size, transform=transform, all_touched=all_touched, dtype="uint8")
    return np.asarray(drawn > 0)
