"""Points and polygons on a landscape's grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.vector_map import MapShapes
from flashdqn.envs.fuelbreaks.read.notes import TellNote


def mark_touched_cells(found: MapShapes, landscape: Landscape) -> NDArray[np.bool_]:
    """Cells that any shape touches, [H, W]."""
    rasterio = import_rasterio()
    from rasterio import features

    transform = rasterio.Affine(*get_transform(landscape))
    touched = features.rasterize(
        list(found.shapes), landscape.shape, transform=transform, all_touched=True, dtype="uint8"
    )
    if not touched.any():
        raise EnvError(
            f"{found.path} does not touch the landscape {landscape.name}: check both coordinate systems."
        )
    return np.asarray(touched, dtype=np.bool_)


def add_up_shapes(found: MapShapes, landscape: Landscape, tell: TellNote) -> NDArray[np.float64]:
    """Amounts of points in their cells, and those of polygons shared out over theirs, [H, W]."""
    import shapely

    total = np.zeros(landscape.shape)
    outside = 0
    for shape, amount in zip(found.shapes, found.amounts, strict=True):
        if shape.geom_type not in ("Point", "MultiPoint", "Polygon", "MultiPolygon"):
            raise EnvError(f"{found.path} holds a {shape.geom_type}: give points or polygons.")
        parts = shapely.get_parts(shape) if shape.geom_type == "MultiPoint" else [shape]
        hits = [add_shape(total, part, amount / len(parts), landscape) for part in parts]
        outside += not any(hits)
    if outside == len(found.shapes):
        raise EnvError(
            f"{found.path}: none of its {outside} shapes lies on the landscape {landscape.name}: check both "
            "coordinate "
            "systems."
        )
    if outside:
        tell(
            f"{found.path}: {outside} of {len(found.shapes)} shapes lie outside the landscape, and are left out."
        )
    return total


def add_shape(total: NDArray[np.float64], shape: Any, amount: float, landscape: Landscape) -> bool:
    """Add a point or polygon; False if no part of it lies on the landscape. A polygon's part outside is left
    out."""
    if shape.geom_type == "Point":
        return add_point(total, shape.x, shape.y, amount, landscape)
    rows, columns = find_window(shape.bounds, landscape)
    if rows.stop <= rows.start or columns.stop <= columns.start:
        return False
    inside = mark_window(shape, rows, columns, landscape)
    if inside.any():
        total[rows, columns] += inside * (amount * measure_share(shape, landscape) / inside.sum())
        return True
    point = shape.representative_point()  # a shape that is smaller than a cell may hold the middle of none
    return add_point(total, point.x, point.y, amount, landscape)


def measure_share(shape: Any, landscape: Landscape) -> float:
    """The share of a polygon's area that lies on the landscape."""
    import shapely

    a, _, c, _, e, f = get_transform(landscape)
    rows, columns = landscape.shape
    ground = shapely.box(c, f + e * rows, c + a * columns, f)
    return 1.0 if ground.covers(shape) else float(shape.intersection(ground).area / shape.area)


def add_point(total: NDArray[np.float64], x: float, y: float, amount: float, landscape: Landscape) -> bool:
    """Add to the cell that holds a point."""
    if not (np.isfinite(x) and np.isfinite(y)):
        return False
    column, row = (int(np.floor(number)) for number in locate_point(x, y, landscape))
    if not (0 <= row < total.shape[0] and 0 <= column < total.shape[1]):
        return False
    total[row, column] += amount
    return True


def locate_point(x: float, y: float, landscape: Landscape) -> tuple[float, float]:
    """Column and row of a point, with their fractions; the grid's north is on top."""
    a, _, c, _, e, f = get_transform(landscape)
    return (x - c) / a, (y - f) / e


def find_window(bounds: tuple[float, ...], landscape: Landscape) -> tuple[slice, slice]:
    """Rows and columns around a shape, within the landscape."""
    if not np.isfinite(bounds).all():
        return slice(0, 0), slice(0, 0)
    west, south, east, north = bounds
    first_column, first_row = locate_point(west, north, landscape)
    last_column, last_row = locate_point(east, south, landscape)
    rows, columns = landscape.shape
    return (
        slice(max(0, int(np.floor(first_row))), min(rows, int(np.floor(last_row)) + 1)),
        slice(max(0, int(np.floor(first_column))), min(columns, int(np.floor(last_column)) + 1)),
    )


def mark_window(shape: Any, rows: slice, columns: slice, landscape: Landscape) -> NDArray[np.bool_]:
    """Cells of a window whose middle lies in a shape."""
    rasterio = import_rasterio()
    from rasterio import features

    assert landscape.place is not None
    place = landscape.place.move_corner(rows.start, columns.start)
    marked = features.rasterize(
        [shape],
        (rows.stop - rows.start, columns.stop - columns.start),
        transform=rasterio.Affine(*place.transform),
        dtype="uint8",
    )
    return np.asarray(marked, dtype=np.bool_)


def get_transform(landscape: Landscape) -> tuple[float, float, float, float, float, float]:
    """The affine map of a landscape that knows its place."""
    assert landscape.place is not None
    return landscape.place.transform
