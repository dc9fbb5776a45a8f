"""A map as a raster: read from GeoTIFF or .asc, and laid onto a landscape's grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio, is_geotiff_name
from flashdqn.envs.fuelbreaks.landscape import Landscape, name_cells, shorten_error
from flashdqn.envs.fuelbreaks.read.ascii_grid import is_ascii_grid_name, read_ascii_grid
from flashdqn.envs.fuelbreaks.read.assemble import NOWHERE
from flashdqn.envs.fuelbreaks.read.gdal_bands import read_single_band
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import SLACK, RasterBand, find_crs, name_crs, same_crs

#: How a cell of the landscape takes its number from several of the map, or from a part of one.
Resampling = Literal["nearest", "average", "sum"]
WORDS = {
    "nearest": "each cell takes the nearest value",
    "average": "each cell takes the average over its ground",
    "sum": "values are shared out by area, and their sum is kept",
}
Numbers = NDArray[np.float64]


def is_raster_map(path: Path) -> bool:
    """Whether a file's name is that of a raster."""
    return is_geotiff_name(path) or is_ascii_grid_name(path)


def read_raster_map(path: Path, landscape: Landscape, way: Resampling, tell: TellNote) -> Numbers:
    """A map on the landscape's grid, [H, W]; NaN where it has no data. One that does not cover it is refused."""
    if is_geotiff_name(path):
        band = read_single_band(path)
    elif is_ascii_grid_name(path):
        band = read_ascii_grid(path, tell, measured=False)
    else:
        raise EnvError(f"{path} is not a map: give a GeoTIFF or an .asc file.")
    values = np.where(band.empty, np.nan, band.values)
    if lies_on_grid(path, band, landscape, tell):
        return values
    return warp_map(path, values, band.place, landscape, way, tell)


def lies_on_grid(path: Path, band: RasterBand, landscape: Landscape, tell: TellNote) -> bool:
    """Whether a map has the landscape's cells. If one of them does not say where it lies, the shapes decide."""
    same_shape = band.values.shape == landscape.shape
    if landscape.place is None or is_nowhere(band.place):
        if not same_shape:
            who = path if is_nowhere(band.place) else f"The landscape {landscape.name}"
            raise EnvError(
                f"{who} does not say where it lies, so {path.name} must have the landscape's "
                f"{describe_shape(landscape.shape)} "
                f"cells, and has {describe_shape(band.values.shape)}."
            )
        tell(f"{path}: it is not known where it or the landscape lies; taken cell by cell.")
        return True
    apart = np.abs(np.subtract(band.place.transform, landscape.place.transform))
    cell = abs(landscape.place.transform[0])
    steps = np.array([max(landscape.shape)] * 2 + [1] + [max(landscape.shape)] * 2 + [1])
    return (
        same_shape and bool((apart * steps <= SLACK * cell).all()) and same_crs(band.place, landscape.place)
    )


def is_nowhere(place: Georeference) -> bool:
    """Whether a file does not say where it lies."""
    return place.transform == NOWHERE


def describe_shape(shape: tuple[int, ...]) -> str:
    """Rows and columns in words."""
    return " x ".join(map(str, shape))


def warp_map(
    path: Path, values: Numbers, place: Georeference, landscape: Landscape, way: Resampling, tell: TellNote
) -> Numbers:
    """A map of another grid or projection on the landscape's grid."""
    assert landscape.place is not None
    try:
        covered = warp_array(np.ones(values.shape), place, landscape, "nearest")
        found = warp_array(values, place, landscape, way)
    except Exception as error:  # GDAL, PROJ and rasterio raise errors of many kinds
        raise EnvError(
            f"{path} cannot be moved into the landscape's coordinates: {shorten_error(error)}."
        ) from None
    refuse_uncovered(path, covered, landscape)
    tell(
        f"{path} lies on another grid ({describe_shape(values.shape)} cells of {place.transform[0]:g}, "
        f"{name_crs(place.crs or landscape.place.crs)}): {WORDS[way]}."
    )
    return found


def warp_array(values: Numbers, place: Georeference, landscape: Landscape, way: Resampling) -> Numbers:
    """An array on the landscape's grid; NaN where nothing falls on a cell."""
    rasterio = import_rasterio()
    from rasterio import warp

    assert landscape.place is not None
    theirs, ours = choose_systems(place, landscape.place)
    found = np.full(landscape.shape, np.nan)
    warp.reproject(
        values,
        found,
        src_transform=rasterio.Affine(*place.transform),
        src_crs=theirs,
        src_nodata=np.nan,
        dst_transform=rasterio.Affine(*landscape.place.transform),
        dst_crs=ours,
        dst_nodata=np.nan,
        resampling=warp.Resampling[way],
        tolerance=0.0,
    )
    return found


def choose_systems(place: Georeference, own: Georeference) -> tuple[Any, Any]:
    """Both coordinate systems. One that is unknown is taken as the other; if both are, any flat one serves."""
    theirs, ours = find_crs(place.crs), find_crs(own.crs)
    any_flat = "EPSG:5070"
    return theirs or ours or any_flat, ours or theirs or any_flat


def refuse_uncovered(path: Path, covered: Numbers, landscape: Landscape) -> None:
    """Refuse a map that leaves out cells of the landscape."""
    bare = np.isnan(covered)
    if bare.any():
        row, column = np.argwhere(bare)[0]
        raise EnvError(
            f"{path} covers {1 - bare.mean():.0%} of the landscape {landscape.name}, and not row {row}, "
            f"column {column}: "
            "give a map of its whole area, and check both coordinate systems."
        )


def fill_gaps(path: Path, values: Numbers, fill: float, tell: TellNote) -> Numbers:
    """A map whose cells without data hold a number."""
    gaps = np.isnan(values)
    if gaps.any():
        tell(f"{path} has no data in {name_cells(int(gaps.sum()))} of the landscape: taken as {fill:g}.")
    return np.where(gaps, fill, values)


def refuse_below(path: Path, values: Numbers, least: float, above: bool = False) -> None:
    """Refuse a map with a number that is too small or infinite."""
    good = np.isfinite(values) & ((values > least) if above else (values >= least))
    if not good.all():
        row, column = np.argwhere(~good)[0]
        bound = f"above {least:g}" if above else f"from {least:g} up"
        raise EnvError(
            f"{path} must hold numbers {bound}, and holds {values[row, column]:g} in row {row}, column "
            f"{column} of the "
            "landscape."
        )
