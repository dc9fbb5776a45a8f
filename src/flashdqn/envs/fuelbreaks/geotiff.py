"""GeoTIFF and FARSITE's .lcp files through GDAL. A file may come from a stranger.

GDAL reads from memory, with one driver alone. So a file cannot make it open other files or addresses, as a virtual
raster would: files beside it (`.aux.xml`, `.ovr`, `.tfw`) are not read.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.core.files import read_limited_file, replace_file
from flashdqn.envs.fuelbreaks.landscape import Landscape, check_cell_count, shorten_error
from flashdqn.envs.fuelbreaks.read.units import SCALES

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
#: What a driver's files are called.
KINDS = {"GTiff": "a GeoTIFF", "LCP": "an .lcp file"}


@contextmanager
def open_geotiff(path: Path) -> Iterator[Any]:
    """An open GeoTIFF; every error, also one while it is read, is an `EnvError`."""
    with open_raster(path, "GTiff") as file:
        yield file


@contextmanager
def open_raster(path: Path, driver: str) -> Iterator[Any]:
    """A file open in GDAL's driver of that name; every error, also one while it is read, is an `EnvError`."""
    rasterio = import_rasterio()
    kind = KINDS[driver]
    try:
        data = read_limited_file(path, MOST_BYTES)
        if not data:
            raise EnvError(f"{path} cannot be read as {kind}: it is empty.")
        with (
            silence_rasterio(rasterio),
            rasterio.Env(**GDAL_OPTIONS),
            rasterio.MemoryFile(data, ext=".lcp" if driver == "LCP" else "") as memory,
            memory.open(driver=driver) as file,
        ):
            check_band_count(path, file.count)
            check_cell_count(str(path), file.height, file.width)
            yield file
    except FlashDQNError:
        raise
    except OSError as error:
        raise EnvError(
            f"{path} cannot be read as {kind}: {error.strerror or 'it is damaged, or not one'}."
        ) from None
    except Exception as error:  # for a damaged file, GDAL and rasterio raise errors of many kinds
        raise EnvError(f"{path} cannot be read as {kind}: {shorten_error(error)}.") from None


def check_band_count(path: Path, count: int) -> None:
    """Refuse a file with more bands than any landscape has."""
    if count > MOST_BANDS:
        raise EnvError(f"{path} has {count} bands, and {MOST_BANDS} are the most.")


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


def is_geotiff_name(path: Path) -> bool:
    """Whether a file's name is that of a GeoTIFF."""
    return path.suffix.lower() in (".tif", ".tiff")


def refuse_side_files(path: Path) -> None:
    """Refuse a raster whose cell size may lie in a file beside it, instead of taking 1 m for it."""
    for ending in SIDE_FILES:
        if path.with_suffix(ending).exists():
            raise EnvError(
                f"{path} does not say where it lies; {path.with_suffix(ending).name} may, but files beside "
                "a raster are not read: write its place into the file itself (gdal_translate IN.tif OUT.tif)."
            )


def write_folder(landscape: Landscape, folder: Path) -> None:
    """Write a GeoTIFF file for each layer, in LANDFIRE's units, as whole numbers."""
    rasterio = import_rasterio()
    folder.mkdir(parents=True, exist_ok=True)
    crs, transform = choose_place(landscape)
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
                crs=crs,
                transform=rasterio.Affine(*transform),
                nodata=-9999,
                compress="deflate",
            ) as file,
        ):
            file.write(stored, 1)


def choose_place(landscape: Landscape) -> tuple[str, tuple[float, ...]]:
    """Where to write a landscape: its own place; for a generated one, an equal-area grid as LANDFIRE's own."""
    if landscape.place is not None:
        return landscape.place.crs, landscape.place.transform
    side = landscape.cell_size
    return "EPSG:5070", (side, 0.0, 0.0, 0.0, -side, 0.0)


def import_rasterio() -> Any:
    """rasterio, or one sentence that says how to get it."""
    try:
        import rasterio
        import rasterio.errors
    except ImportError:
        raise EnvError(
            "GeoTIFF and .lcp files need rasterio, which is not installed: pip install "
            "'flashdqn[landscapes]', or use "
            ".npz or .asc files."
        ) from None
    return rasterio
