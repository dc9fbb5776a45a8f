"""A folder with a file for each layer, as LANDFIRE publishes them, or one file with all of them as bands.

The layer is in a file's name (`LC22_CBH_220.tif`, `elevation.asc`) or in a band's description. LANDFIRE's units
hold where a file does not say its own: canopy cover in percent, canopy height and base height in m · 10, bulk
density in kg/m³ · 100, slope and aspect in degrees (aspect −1: flat ground).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import is_geotiff_name, open_raster
from flashdqn.envs.fuelbreaks.read.ascii_grid import is_ascii_grid_name, read_ascii_grid
from flashdqn.envs.fuelbreaks.read.gdal_bands import is_lcp_name, number_bands, read_band, read_stack
from flashdqn.envs.fuelbreaks.read.layer_names import imply_unit, match_layer_name
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand


def is_layer_name(path: Path) -> bool:
    """Whether a file's name is that of a raster which may be a layer."""
    return is_geotiff_name(path) or is_ascii_grid_name(path)


def read_layer_folder(folder: Path, tell: TellNote) -> dict[str, RasterBand]:
    """All layers in a folder, by name."""
    bands: dict[str, RasterBand] = {}
    places: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        for layer, band in read_layer_file(path, tell).items():
            if layer in bands:
                raise EnvError(
                    f"The landscape {folder} has {layer} twice, in {places[layer]} and in {path.name}: keep one."
                )
            bands[layer], places[layer] = band, path.name
    return bands


def read_layer_file(path: Path, tell: TellNote) -> dict[str, RasterBand]:
    """The layers of one file in a folder; none if it is something else."""
    if is_ascii_grid_name(path):
        layer = match_layer_name(path.stem)
        if layer is None:
            return {}
        return {layer: replace(read_ascii_grid(path, tell), unit=imply_unit(path.stem))}
    if not is_geotiff_name(path):
        return {}
    with open_raster(path, "GTiff") as file:
        if file.count > 1:
            numbers = number_bands(path, file, tell)
        else:
            layer = match_layer_name(path.stem) or match_layer_name(file.descriptions[0] or "")
            numbers = {} if layer is None else {layer: 1}
        return {layer: read_band(path, file, band, layer) for layer, band in numbers.items()}


def read_layer_stack(path: Path, tell: TellNote) -> dict[str, RasterBand]:
    """All layers in one file with several bands."""
    bands = read_stack(path, tell)
    if not bands:
        kind = "an .lcp file" if is_lcp_name(path) else "a GeoTIFF"
        raise EnvError(
            f"{path} is {kind} whose bands do not name a layer: name them, or give a folder of files."
        )
    return bands
