"""Folders of Cell2Fire and C2F-W, with the fuels of Scott & Burgan.

`fuels` and a lookup table must be there. elevation, slope, saz, cbd, cbh, ccf and hm may be, as GeoTIFF or .asc.
The units of Cell2Fire hold: slope in degrees, saz is the downhill direction in degrees (−1: flat), cbd in kg/m³,
cbh and hm (tree height) in m, ccf is the canopy cover in percent, or as a share.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import is_geotiff_name
from flashdqn.envs.fuelbreaks.landscape import slope_and_aspect
from flashdqn.envs.fuelbreaks.read.ascii_grid import read_ascii_grid
from flashdqn.envs.fuelbreaks.read.csv_table import read_table
from flashdqn.envs.fuelbreaks.read.fuel_table import find_fuel_tables, translate_fuels
from flashdqn.envs.fuelbreaks.read.gdal_bands import fill_layers, read_single_band
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand, check_same_grid
from flashdqn.envs.fuelbreaks.read.units import PLAIN_UNITS

#: Cell2Fire's names of our layers.
FILES = {
    "fuel_model": "fuels",
    "elevation": "elevation",
    "slope": "slope",
    "aspect": "saz",
    "canopy_bulk_density": "cbd",
    "canopy_base_height": "cbh",
    "canopy_cover": "ccf",
    "canopy_height": "hm",
}
ENDINGS = (".tif", ".tiff", ".asc")
#: Trees are this many times as high as their lowest branches, where no file says it: so does C2F-W.
HEIGHT_OVER_BASE = 3.0
IGNITION_CELL = "Ncell"


class Companions(NamedTuple):
    """What else lies in a Cell2Fire folder, to be read with `read_scenarios` and `read_ignition`."""

    weather: Path | None  # the folder itself, if it has weather
    ignition: Path | None  # a map of chances, or else a list of cells


def find_companions(folder: Path) -> Companions:
    """The weather and the ignitions of a Cell2Fire folder; nothing if it is not one."""
    if not folder.is_dir() or not is_cell2fire_folder(folder):
        return Companions(None, None)
    weather = (folder / "Weather.csv").exists() or (folder / "Weathers").is_dir()
    names = [f"probabilityMap{ending}" for ending in ENDINGS] + ["Ignitions.csv"]
    ignition = next((folder / name for name in names if (folder / name).exists()), None)
    return Companions(folder if weather else None, ignition)


def is_cell2fire_folder(folder: Path) -> bool:
    """Whether a folder is Cell2Fire's: it has a file of fuels by Cell2Fire's name."""
    return find_layer_file(folder, "fuel_model") is not None


def find_layer_file(folder: Path, layer: str) -> Path | None:
    """The file of a layer; a GeoTIFF comes first, as in Cell2Fire."""
    for ending in ENDINGS:
        path = folder / f"{FILES[layer]}{ending}"
        if path.exists() or path.is_symlink():
            return path
    return None


def read_cell2fire_layers(folder: Path, tell: TellNote) -> dict[str, RasterBand]:
    """All layers of a folder in our units; what Cell2Fire does not need is filled in, and said."""
    bands: dict[str, RasterBand] = {}
    for layer in FILES:
        path = find_layer_file(folder, layer)
        if path is None or (layer == "canopy_height" and path.stat().st_size == 0):
            continue
        band = read_single_band(path, layer) if is_geotiff_name(path) else read_ascii_grid(path, tell)
        bands[layer] = replace(band, unit=band.unit or choose_unit(layer, band))
        check_same_grid(str(folder), layer, band, "fuel_model", bands["fuel_model"])
    bands["fuel_model"] = translate_fuels(bands["fuel_model"], choose_fuel_table(folder))
    return add_missing_layers(folder, bands, tell)


def choose_unit(layer: str, band: RasterBand) -> str:
    """Cell2Fire's unit of a layer. Canopy cover is called a fraction there, and is given in percent."""
    if layer == "canopy_cover" and not (band.values[~band.empty] > 1.0).any():
        return "share"
    return PLAIN_UNITS.get(layer, "")


def choose_fuel_table(folder: Path) -> Path:
    """The lookup table of a folder; there must be one."""
    tables = find_fuel_tables(folder)
    if len(tables) != 1:
        names = ", ".join(table.name for table in tables) or "none"
        raise EnvError(
            f"{folder} has {FILES['fuel_model']} as a Cell2Fire folder, and must have one lookup table for "
            "them, such "
            f"as spain_lookup_table.csv; it has {names}. If the layers are in LANDFIRE's units, name that file "
            "fuel_model instead."
        )
    return tables[0]


def add_missing_layers(folder: Path, bands: dict[str, RasterBand], tell: TellNote) -> dict[str, RasterBand]:
    """Flat ground, slopes from the elevation, no canopy, and heights of trees, where there is no file."""
    fuels = bands["fuel_model"]
    if "elevation" not in bands:
        tell(f"{folder} has no elevation: the ground is taken as flat, at 0 m.")
        bands |= fill_layers(["elevation"], fuels)
    if "slope" not in bands or "aspect" not in bands:
        bands |= derive_slopes(folder, bands["elevation"], tell)
    canopy = ("canopy_cover", "canopy_base_height", "canopy_bulk_density")
    if missing := [layer for layer in canopy if layer not in bands]:
        names = ", ".join(FILES[layer] for layer in missing)
        tell(f"{folder} has no {names}: taken as 0 ({', '.join(missing)}), so no crown fire burns.")
        bands |= fill_layers(missing, fuels)
    if "canopy_height" not in bands:
        tell(
            f"{folder} has no hm: trees are taken as {HEIGHT_OVER_BASE:g} times as high as their lowest branches."
        )
        base = bands["canopy_base_height"]
        bands["canopy_height"] = replace(base, values=HEIGHT_OVER_BASE * base.values, unit="m")
    return bands


def derive_slopes(folder: Path, elevation: RasterBand, tell: TellNote) -> dict[str, RasterBand]:
    """Slope and aspect of the elevation."""
    tell(f"{folder} lacks slope or saz: both are computed from the elevation.")
    rows, columns = elevation.values.shape
    if min(rows, columns) < 2:
        raise EnvError(f"{folder} has {rows} x {columns} cells: slopes need two of them each way.")
    slope, aspect = slope_and_aspect(extend_edges(elevation), elevation.cell_size)
    return {
        "slope": replace(elevation, values=slope.astype(np.float64), unit="degrees"),
        "aspect": replace(elevation, values=aspect.astype(np.float64), unit="degrees"),
    }


def extend_edges(band: RasterBand) -> NDArray[np.float64]:
    """A layer whose cells without data, next to others, continue these: no cliff stands at the edge of the data."""
    known = np.pad(np.where(band.empty, 0.0, band.values), 1)
    there = np.pad(~band.empty, 1).astype(np.float64)
    around = [(slice(0, -2), slice(1, -1)), (slice(2, None), slice(1, -1))]
    around += [(columns, rows) for rows, columns in around]
    total = sum((known[part] for part in around), np.zeros(band.values.shape))
    count = sum((there[part] for part in around), np.zeros(band.values.shape))
    return np.where(band.empty, total / np.maximum(count, 1.0), band.values)


def read_ignition_cells(path: Path, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Rows and columns of the ignitions in an `Ignitions.csv`. Cells count from 1, row by row from the
    north-west."""
    rows, columns = shape
    cells = []
    for row in read_table(path, (IGNITION_CELL,)):
        number = row.read_number(IGNITION_CELL)
        if number != int(number) or not 1 <= number <= rows * columns:
            raise EnvError(
                f"In {path}, line {row.line}, the ignition {number:g} lies outside the landscape: its {rows} "
                f"x {columns} "
                f"cells count from 1 to {rows * columns}."
            )
        cells.append(divmod(int(number) - 1, columns))
    if not cells:
        raise EnvError(
            f"{path} has no ignition: remove the file, or add a line such as 1,{rows * columns // 2}."
        )
    return cells
