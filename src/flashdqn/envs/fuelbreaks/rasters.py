"""Landscapes on disk: a folder of GeoTIFF files as LANDFIRE publishes them, or one .npz file.

A folder holds a file for each layer, with the layer in its name (`LC22_CBH_220.tif`, `elevation.tif`), or one file
with eight bands whose descriptions name them. LANDFIRE's units: canopy cover in percent, canopy height and base
height in m · 10, bulk density in kg/m³ · 100, slope and aspect in whole degrees (aspect −1: flat ground).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape

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

SUFFIXES = (".tif", ".tiff")


def read_landscape(path: Path) -> Landscape:
    """A landscape from a folder of GeoTIFF files, or from an .npz file."""
    if path.is_dir():
        return read_folder(path)
    if path.suffix == ".npz":
        return read_npz(path)
    if not path.exists():
        raise EnvError(f"There is no landscape at {path}: give a folder of GeoTIFF layers, or an .npz file.")
    raise EnvError(f"{path} is not a landscape: give a folder of GeoTIFF layers, or an .npz file.")


def is_landscape(path: Path) -> bool:
    """Whether a path looks like a landscape: an .npz file, or a folder that holds GeoTIFF files."""
    if path.is_dir():
        return any(file.suffix.lower() in SUFFIXES for file in path.iterdir())
    return path.suffix == ".npz"


def find_landscapes(folder: Path) -> list[Path]:
    """All landscapes at a path: the path itself, or those directly in it, by name."""
    if is_landscape(folder):
        return [folder]
    found = sorted(path for path in folder.iterdir() if is_landscape(path)) if folder.is_dir() else []
    if not found:
        raise EnvError(
            f"There is no landscape in {folder}: it must be a folder of GeoTIFF layers, an .npz file, or a "
            "folder of "
            "these. `flashdqn landscapes make` makes some."
        )
    return found


def read_folder(folder: Path) -> Landscape:
    """Read the layers of a folder, and check that they match."""
    bands = find_bands(folder)
    if missing := [layer for layer in LAYERS if layer not in bands]:
        words = ", ".join(f"{layer} (a file with '{WORDS[layer][-1]}' in its name)" for layer in missing)
        raise EnvError(f"The landscape {folder} lacks {words}.")
    layers: dict[str, NDArray[Any]] = {}
    first: dict[str, Any] = {}
    for layer in LAYERS:
        array, about = read_band(*bands[layer], layer)
        check_same_grid(folder, layer, about, first or about)
        first = first or about | {"layer": layer}
        layers[layer] = array
    return Landscape(**layers, cell_size=first["cell size"], name=folder.name)


def find_bands(folder: Path) -> dict[str, tuple[Path, int]]:
    """The file and the band of every layer in a folder."""
    rasterio = import_rasterio()
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
        if path.suffix.lower() not in SUFFIXES:
            continue
        try:
            with rasterio.open(path) as file:
                count, descriptions = file.count, file.descriptions
        except rasterio.errors.RasterioIOError as error:
            raise EnvError(f"{path} cannot be read as a GeoTIFF: {error}.") from None
        if count == 1:
            take(match_layer_name(path.stem), path, 1)
        else:
            for band, words in enumerate(descriptions, start=1):
                take(match_layer_name(words or ""), path, band)
    return bands


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
    rasterio = import_rasterio()
    with rasterio.open(path) as file:
        raw = file.read(band)
        tagged, crs, (width, height) = file.nodatavals[band - 1], file.crs, file.res
        about = {
            "shape": raw.shape,
            "crs": str(crs) if crs else "none",
            "corner": tuple(file.transform)[2:6:3],
        }
    if abs(width - height) > 1e-6 * max(width, height):
        raise EnvError(f"The cells of {path} are {width:g} x {height:g}: they must be squares.")
    values = raw.astype(np.float64)
    empty = np.isnan(values) | np.isin(values, NO_DATA)
    if tagged is not None and not np.isnan(tagged):
        empty |= values == tagged
    if empty.any():
        where = np.argwhere(empty)[0]
        raise EnvError(
            f"{path.name} has no data in {int(empty.sum())} cells (first in row {where[0]}, column "
            f"{where[1]}): crop "
            "the landscape to where all layers have data."
        )
    values = values / SCALES.get(layer, 1.0)
    if layer == "aspect":
        values = np.where(values < 0, 0.0, values)
    return values, about | {"cell size": float(width)}


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
        with rasterio.open(
            folder / f"{layer}.tif",
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
        ) as file:
            file.write(stored, 1)


def read_npz(path: Path) -> Landscape:
    """Read the layers in their own units, and the cell size."""
    try:
        with np.load(path, allow_pickle=False) as file:
            data = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise EnvError(f"{path} cannot be read as a landscape: {error}.") from None
    if missing := [layer for layer in LAYERS if layer not in data]:
        raise EnvError(f"The landscape {path} lacks {', '.join(missing)}.")
    cell_size = float(data.get("cell_size", 30.0))
    return Landscape(**{layer: data[layer] for layer in LAYERS}, cell_size=cell_size, name=path.stem)


def write_npz(landscape: Landscape, path: Path) -> None:
    """Write all layers to one file, in their own units."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layers: dict[str, Any] = {**landscape.layers()}
    np.savez_compressed(path, **layers, cell_size=np.float64(landscape.cell_size))


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
