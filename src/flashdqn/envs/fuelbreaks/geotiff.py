"""GeoTIFF files as LANDFIRE publishes them. A file may come from a stranger.

A folder holds a file for each layer, with the layer in its name (`LC22_CBH_220.tif`, `elevation.tif`), or one file
with eight bands whose descriptions name them. LANDFIRE's units: canopy cover in percent, canopy height and base
height in m · 10, bulk density in kg/m³ · 100, slope and aspect in whole degrees (aspect −1: flat ground).

GDAL reads from memory, with the GeoTIFF driver alone. So a file cannot make it open other files or addresses, as a
virtual raster would: files beside it (`.aux.xml`, `.ovr`, `.tfw`) are not read.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.core.files import read_limited_file, replace_file
from flashdqn.envs.fuelbreaks.landscape import Landscape, check_cell_count, shorten_error

#: Words in file names and band descriptions that mean a layer, including the usual abbreviations.
WORDS = {
    "elevation": ("elevation", "elev", "dem"),
    "slope": ("slope", "slp", "slpd"),
    "aspect": ("aspect", "asp"),
    "canopy_cover": ("canopycover", "cc"),
    "canopy_height": ("canopyheight", "ch"),
    "canopy_base_height": ("canopybaseheight", "cbh"),
    "canopy_bulk_density": ("canopybulkdensity", "cbd"),
    "fuel_model": ("fuelmodel", "fuel", "fbfm", "fbfm40", "fbfm13", "f40", "f13"),
}

#: What a stored number is divided by to give a layer's unit.
SCALES = {
    "canopy_cover": 100.0,
    "canopy_height": 10.0,
    "canopy_base_height": 10.0,
    "canopy_bulk_density": 100.0,
}

#: LANDFIRE writes no data as −9999 or 32767, even if a file's own tag differs.
NO_DATA = (-9999.0, 32767.0)

#: The largest file, in bytes: as many cells as a landscape may have, in eight bands of eight bytes, fit.
MOST_BYTES = 2**31
#: More bands than this are not a landscape.
MOST_BANDS = 1000
#: What GDAL must not do with a stranger's file: look for others beside it, or draw on the network.
GDAL_OPTIONS = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".none",
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "GDAL_HTTP_MAX_RETRY": "0",
}
#: Files that may hold a raster's place on the map, by their endings.
SIDE_FILES = (".tfw", ".tifw", ".tiffw", ".wld", ".tif.aux.xml", ".tiff.aux.xml", ".tab")


@contextmanager
def open_geotiff(path: Path) -> Iterator[Any]:
    """An open GeoTIFF; every error, also one while it is read, is an `EnvError`."""
    rasterio = import_rasterio()
    try:
        data = read_limited_file(path, MOST_BYTES)
        with (
            silence_rasterio(rasterio),
            rasterio.Env(**GDAL_OPTIONS),
            rasterio.MemoryFile(data) as memory,
            memory.open(driver="GTiff") as file,
        ):
            yield file
    except FlashDQNError:
        raise
    except OSError as error:
        raise EnvError(
            f"{path} cannot be read as a GeoTIFF: {error.strerror or 'it is damaged, or not one'}."
        ) from None
    except Exception as error:  # for a damaged file, GDAL and rasterio raise errors of many kinds
        raise EnvError(f"{path} cannot be read as a GeoTIFF: {shorten_error(error)}.") from None


@contextmanager
def silence_rasterio(rasterio: Any) -> Iterator[None]:
    """Keep GDAL's warnings about a damaged file from the terminal: one sentence says what is wrong."""
    logger = logging.getLogger("rasterio")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            yield
    finally:
        logger.setLevel(before)


def find_bands(folder: Path) -> dict[str, tuple[Path, int]]:
    """The file and the band of every layer in a folder."""
    bands: dict[str, tuple[Path, int]] = {}

    def take(layer: str | None, path: Path, band: int) -> None:
        if layer is None:
            return
        if layer in bands:
            raise EnvError(
                f"The landscape {folder} has {layer} twice, in {bands[layer][0].name} and in {path.name}: keep one."
            )
        bands[layer] = (path, band)

    for path in sorted(folder.iterdir()):
        if not is_geotiff_name(path):
            continue
        with open_geotiff(path) as file:
            count = file.count
            if count > MOST_BANDS:
                raise EnvError(f"{path} has {count} bands, and {MOST_BANDS} are the most.")
            descriptions = file.descriptions
        if count == 1:
            take(match_layer_name(path.stem), path, 1)
        else:
            for band, words in enumerate(descriptions, start=1):
                take(match_layer_name(words or ""), path, band)
    return bands


def is_geotiff_name(path: Path) -> bool:
    """Whether a file's name is that of a GeoTIFF."""
    return path.suffix.lower() in (".tif", ".tiff")


def match_layer_name(text: str) -> str | None:
    """The layer that a file name or a description names."""
    words = [word for word in re.split(r"[^a-z0-9]+", text.lower()) if word]
    pairs = ["".join(words[k : k + n]) for n in (3, 2, 1) for k in range(len(words) - n + 1)]
    for word in pairs:  # three words before one: canopy_base_height is not a height
        for layer, names in WORDS.items():
            if word in names:
                return layer
    return None


def read_band(path: Path, band: int, layer: str) -> tuple[NDArray[Any], dict[str, Any]]:
    """Read one layer in its unit, and its grid."""
    with open_geotiff(path) as file:
        check_cell_count(str(path), file.height, file.width)
        if np.dtype(file.dtypes[band - 1]).kind not in "iuf":
            raise EnvError(f"{path} holds {file.dtypes[band - 1]}: a layer must hold plain numbers.")
        raw = file.read(band)
        tagged, crs, (width, height) = file.nodatavals[band - 1], file.crs, file.res
        about = {
            "shape": raw.shape,
            "crs": str(crs) if crs else "none",
            "corner": tuple(file.transform)[2:6:3],
        }
        if file.transform.is_identity:
            refuse_side_files(path)
    if not abs(width - height) <= 1e-6 * max(width, height):
        raise EnvError(f"The cells of {path} are {width:g} x {height:g}: they must be squares.")
    return convert_band(path, raw, tagged, layer), about | {"cell size": float(width)}


def convert_band(path: Path, raw: NDArray[Any], tagged: float | None, layer: str) -> NDArray[np.float64]:
    """Stored numbers in the layer's unit; cells without data are refused."""
    values = raw.astype(np.float64)
    empty = np.isnan(values) | np.isin(values, NO_DATA)
    if tagged is not None and not np.isnan(tagged):
        empty |= values == tagged
    if empty.any():
        where = np.argwhere(empty)[0]
        raise EnvError(
            f"{path.name} has no data in {int(empty.sum())} cells (first in row {where[0]}, column "
            f"{where[1]}): crop the landscape to where all layers have data."
        )
    values = values / SCALES.get(layer, 1.0)
    return np.where(values < 0, 0.0, values) if layer == "aspect" else values


def refuse_side_files(path: Path) -> None:
    """Refuse a raster whose cell size may lie in a file beside it, instead of taking 1 m for it."""
    for ending in SIDE_FILES:
        if path.with_suffix(ending).exists():
            raise EnvError(
                f"{path} does not say where it lies; {path.with_suffix(ending).name} may, but files beside "
                "a raster are not read: write its place into the file itself (gdal_translate IN.tif OUT.tif)."
            )


def check_same_grid(folder: Path, layer: str, about: dict[str, Any], first: dict[str, Any]) -> None:
    """Refuse layers that do not lie on the grid of the first."""
    for what in ("shape", "cell size", "crs", "corner"):
        if about[what] != first[what]:
            raise EnvError(
                f"The layers of {folder} do not match: the {what} of {layer} is {about[what]}, and that of "
                f"{first['layer']} is {first[what]}. Export them all for one area and one grid."
            )


def write_folder(landscape: Landscape, folder: Path) -> None:
    """Write a GeoTIFF file for each layer, in LANDFIRE's units, as whole numbers."""
    rasterio = import_rasterio()
    folder.mkdir(parents=True, exist_ok=True)
    # An equal-area grid, as LANDFIRE's own; a generated landscape does not have a real place.
    side = landscape.cell_size
    transform = rasterio.Affine(side, 0.0, 0.0, 0.0, -side, 0.0)
    rows, columns = landscape.shape
    for layer, array in landscape.layers().items():
        stored = np.round(array.astype(np.float64) * SCALES.get(layer, 1.0)).astype(np.int16)
        with (
            replace_file(folder / f"{layer}.tif") as path,
            rasterio.open(
                path,
                "w",
                driver="GTiff",
                height=rows,
                width=columns,
                count=1,
                dtype="int16",
                crs="EPSG:5070",
                transform=transform,
                nodata=-9999,
                compress="deflate",
            ) as file,
        ):
            file.write(stored, 1)


def import_rasterio() -> Any:
    """rasterio, or one sentence that says how to get it."""
    try:
        import rasterio
        import rasterio.errors
    except ImportError:
        raise EnvError(
            "GeoTIFF files need rasterio, which is not installed: pip install 'flashdqn[landscapes]', or use "
            ".npz files."
        ) from None
    return rasterio
