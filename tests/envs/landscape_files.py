"""Landscapes and maps as files, written by rasterio or by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.read.layer_names import FARSITE_ORDER
from flashdqn.envs.fuelbreaks.read.units import SCALES

#: As LANDFIRE writes them.
LANDFIRE_NAMES = (
    "US_ELEV2020",
    "US_SLPD2020",
    "US_ASP2020",
    "US_240FBFM40",
    "US_240CC",
    "US_240CH",
    "US_240CBH",
    "US_240CBD",
)
CORNER = (-2_000_000.0, 1_800_000.0)
TRANSFORM = rasterio.Affine(30.0, 0.0, CORNER[0], 0.0, -30.0, CORNER[1])
CRS = "EPSG:5070"


def make_landscape(size: int = 12) -> Landscape:
    """A landscape of whole numbers in LANDFIRE's units."""
    return generate_landscape(3, size)


def store_layers(land: Landscape) -> dict[str, NDArray[np.int16]]:
    """The layers as LANDFIRE stores them, in FARSITE's order."""
    return {
        layer: np.round(getattr(land, layer).astype(np.float64) * SCALES.get(layer, 1.0)).astype(np.int16)
        for layer in FARSITE_ORDER
    }


def write_stack(
    path: Path,
    bands: Sequence[NDArray[Any]],
    names: Sequence[str] = (),
    units: Mapping[int, str] | None = None,
    tags: Mapping[int, Mapping[str, str]] | None = None,
    **profile: Any,
) -> Path:
    """A GeoTIFF with several bands."""
    rows, columns = bands[0].shape
    settings = {
        "driver": "GTiff",
        "height": rows,
        "width": columns,
        "count": len(bands),
        "dtype": bands[0].dtype,
        "crs": CRS,
        "transform": TRANSFORM,
        "nodata": -9999,
    }
    with rasterio.open(path, "w", **(settings | profile)) as file:
        for number, band in enumerate(bands, start=1):
            file.write(band, number)
            if names:
                file.set_band_description(number, names[number - 1])
            if units and number in units:
                file.set_band_unit(number, units[number])
            if tags and number in tags:
                file.update_tags(number, **tags[number])
    return path


def write_raster(path: Path, values: NDArray[Any], **profile: Any) -> Path:
    """A GeoTIFF with one band of 8-byte numbers."""
    return write_stack(path, [values.astype(np.float64)], **profile)


def write_lcp(path: Path, bands: Sequence[NDArray[np.int16]], **options: str) -> Path:
    """An .lcp file, by GDAL; it writes a .prj file too."""
    stack = write_stack(path.with_suffix(".source.tif"), bands)
    rasterio.shutil.copy(str(stack), str(path), driver="LCP", LATITUDE="40", **options)
    stack.unlink()
    return path


def write_grid(
    path: Path, values: NDArray[Any], cell: float = 30.0, corner: tuple[float, float] = (0.0, 0.0)
) -> Path:
    """An ESRI ASCII grid; the corner is its south-west."""
    header = (
        f"ncols {values.shape[1]}\nnrows {values.shape[0]}\nxllcorner {corner[0]}\nyllcorner {corner[1]}\n"
    )
    header += f"cellsize {cell}\nNODATA_value -9999\n"
    path.write_text(header + "\n".join(" ".join(f"{value:.9g}" for value in row) for row in values) + "\n")
    return path
