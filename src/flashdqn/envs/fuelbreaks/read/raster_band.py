"""One layer as a file holds it: numbers, cells without data, place on the map, unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference

#: LANDFIRE and FARSITE write no data as −9999 or 32767, even if a file's own tag differs.
NO_DATA = (-9999.0, 32767.0)
#: A coordinate system by its number in a list, such as EPSG:5070 or ESRI:102008.
CODE = re.compile(r"[A-Za-z]+:[A-Za-z0-9]+")
#: Corners of one grid differ by less than this share of a cell.
SLACK = 0.01
#: A cell that is smaller than this, without a coordinate system, is most likely given in degrees.
LEAST_CELL = 0.1


@dataclass(frozen=True, eq=False)
class RasterBand:
    """A raster [H, W] of plain numbers, before its unit is applied."""

    source: str  # the file, and the band in it
    values: NDArray[np.float64]
    empty: NDArray[np.bool_]  # cells without data
    place: Georeference
    cell_size: float  # m
    unit: str = ""  # as the file writes it; empty if it does not


def find_empty_cells(values: NDArray[np.float64], tagged: float | None) -> NDArray[np.bool_]:
    """Cells without data: the file's own mark, the usual ones, and what is not a number."""
    empty = np.isnan(values) | np.isin(values, NO_DATA)
    if tagged is not None and not np.isnan(tagged):
        empty |= values == tagged
    return empty


def measure_cell(source: str, transform: Sequence[float], crs: Any) -> float:
    """The side of a cell in meters; cells must be squares with the north on top, in a flat coordinate system."""
    width, turned, _, turned_back, height, _ = transform
    if turned or turned_back or not width > 0 or not height < 0:
        raise EnvError(
            f"The grid of {source} is turned: rows must run from west to east and follow from north to south. "
            "Warp it first (gdalwarp IN OUT)."
        )
    if (crs is not None and crs.is_geographic) or (crs is None and width < LEAST_CELL):
        raise EnvError(
            f"The cells of {source} are {width:g} wide, in degrees: a landscape needs a projected coordinate "
            "system "
            "in meters. Warp it first (gdalwarp -t_srs EPSG:… IN OUT)."
        )
    if not abs(width + height) <= 1e-6 * width:
        raise EnvError(f"The cells of {source} are {width:g} x {-height:g}: they must be squares.")
    return float(width) * (crs.linear_units_factor[1] if crs is not None else 1.0)


def check_same_grid(whole: str, layer: str, band: RasterBand, first: str, other: RasterBand) -> None:
    """Refuse layers that do not lie on the grid of the first."""
    for what, mine, theirs in list_differences(band, other):
        raise EnvError(
            f"The layers of {whole} do not match: the {what} of {layer} is {mine}, and that of {first} is "
            f"{theirs}. "
            "Export them all for one area and one grid."
        )


def list_differences(band: RasterBand, other: RasterBand) -> list[tuple[str, Any, Any]]:
    """What differs between two grids: the word for it, and both values."""
    corners = [shown.place.transform[2:6:3] for shown in (band, other)]
    apart = max(abs(a - b) for a, b in zip(*corners, strict=True))
    pairs = [
        ("shape", band.values.shape, other.values.shape, band.values.shape == other.values.shape),
        (
            "cell size",
            band.cell_size,
            other.cell_size,
            bool(np.isclose(band.cell_size, other.cell_size, rtol=1e-6)),
        ),
        ("crs", name_crs(band.place.crs), name_crs(other.place.crs), same_crs(band.place, other.place)),
        ("corner", corners[0], corners[1], apart <= SLACK * abs(band.place.transform[0])),
    ]
    return [(what, mine, theirs) for what, mine, theirs, same in pairs if not same]


def same_crs(one: Georeference, other: Georeference) -> bool:
    """Whether two coordinate systems are one; a file that does not know its own matches every other."""
    if not one.crs or not other.crs or one.crs == other.crs:
        return True
    known = find_crs(one.crs)
    return known is not None and known == find_crs(other.crs)


def find_crs(text: str) -> Any:
    """rasterio's coordinate system of a text, without looking anything up; None if there is none."""
    if not text:
        return None
    try:
        from rasterio.crs import CRS
    except ImportError:
        return None
    try:
        return CRS.from_string(text) if CODE.fullmatch(text) else CRS.from_wkt(text)
    except Exception:  # PROJ and rasterio raise errors of many kinds
        return None


def name_crs(text: str) -> str:
    """A coordinate system in a few words."""
    short = str(find_crs(text) or text) or "none"
    return short if len(short) <= 60 else f"{short[:59]}…"
