"""Bands of GeoTIFF and .lcp files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.geotiff import is_geotiff_name, open_raster, refuse_side_files
from flashdqn.envs.fuelbreaks.landscape import LAYERS
from flashdqn.envs.fuelbreaks.read.coordinate_system import read_prj
from flashdqn.envs.fuelbreaks.read.layer_names import FARSITE_ORDER, imply_unit, is_nameless, match_layer_name
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand, find_crs, find_empty_cells, measure_cell
from flashdqn.envs.fuelbreaks.read.units import FOOT, PLAIN_UNITS

#: Layers that an .lcp file may lack: those of crown fires.
CROWN_LAYERS = ("canopy_height", "canopy_base_height", "canopy_bulk_density")
#: An .lcp file begins with a header of this many bytes; a cell takes two bytes in each band.
LCP_HEADER, LCP_CELL = 7316, 2


def is_lcp_name(path: Path) -> bool:
    """Whether a file's name is that of a FARSITE landscape."""
    return path.suffix.lower() == ".lcp"


def read_stack(path: Path, tell: TellNote) -> dict[str, RasterBand]:
    """The layers of one file with several bands, by name."""
    if is_geotiff_name(path):
        with open_raster(path, "GTiff") as file:
            numbers = number_bands(path, file, tell)
            return {layer: read_band(path, file, band, layer) for layer, band in numbers.items()}
    with open_raster(path, "LCP") as file:
        refuse_short_file(path, file)
        crs = read_prj(path, tell)
        numbers = number_bands(path, file, tell)
        bands = {layer: read_band(path, file, band, layer, crs) for layer, band in numbers.items()}
    return add_crown_layers(path, bands, tell)


def number_bands(path: Path, file: Any, tell: TellNote) -> dict[str, int]:
    """The number of every layer's band: by the descriptions, or else in FARSITE's order."""
    if file.count == len(FARSITE_ORDER) and all(map(is_nameless, file.descriptions)):
        tell(f"{path} does not name its bands: taken as FARSITE's order, {', '.join(FARSITE_ORDER)}.")
        return {layer: band for band, layer in enumerate(FARSITE_ORDER, start=1)}
    numbers: dict[str, int] = {}
    for band, words in enumerate(file.descriptions, start=1):
        layer = match_layer_name(words or "")
        if layer is None:
            continue
        if layer in numbers:
            raise EnvError(f"{path} has {layer} twice, in bands {numbers[layer]} and {band}: keep one.")
        numbers[layer] = band
    return numbers


def read_single_band(path: Path, layer: str = "") -> RasterBand:
    """The only band of a GeoTIFF. Without a layer it is a map, which may lie on any grid: its cells are not
    measured."""
    with open_raster(path, "GTiff") as file:
        if file.count != 1:
            raise EnvError(f"{path} has {file.count} bands, and must have one.")
        return read_band(path, file, 1, layer)


def read_band(path: Path, file: Any, band: int, layer: str, side_crs: str = "") -> RasterBand:
    """One band of an open file, with its place and the unit that the file says."""
    if np.dtype(file.dtypes[band - 1]).kind not in "iuf":
        raise EnvError(f"{path} holds {file.dtypes[band - 1]}: a layer must hold plain numbers.")
    raw = file.read(band).astype(np.float64)
    empty = find_empty_cells(raw, file.nodatavals[band - 1])
    scale, offset, unit = file.scales[band - 1], file.offsets[band - 1], find_unit(path, file, band)
    if (scale, offset) != (1.0, 0.0):
        raw, unit = raw * scale + offset, unit or PLAIN_UNITS.get(layer, "")
    if file.transform.is_identity:
        refuse_side_files(path)
    place = Georeference(file.crs.to_wkt() if file.crs else side_crs, tuple(file.transform)[:6])
    size = measure_file_cell(path, file, place, side_crs) if layer else 0.0
    source = path.name if file.count == 1 else f"{layer} (band {band}) of {path.name}"
    return RasterBand(source, raw, empty, place, size, unit)


def measure_file_cell(path: Path, file: Any, place: Georeference, side_crs: str) -> float:
    """The side of a cell in meters; an .lcp file without a .prj file beside it says feet or meters
    itself."""
    if file.transform.is_identity:  # no place at all, and no file beside it that knows one
        return 1.0
    known = file.crs or find_crs(side_crs)
    said = file.tags().get("LINEAR_UNIT", "").lower()
    if known is None and is_lcp_name(path) and not said:  # kilometers, or a number that means nothing
        raise EnvError(
            f"The header of {path} does not say that its cells are in meters or feet, and there is no .prj file "
            "beside it that says so: give it one."
        )
    in_feet = known is None and said.startswith("f")
    return measure_cell(str(path), place.transform, known) * (FOOT if in_feet else 1.0)


def find_unit(path: Path, file: Any, band: int) -> str:
    """The unit that a file says for a band: GDAL's tag of .lcp files and of what is made from them, or the
    band's."""
    tags: dict[str, str] = file.tags(band)
    for key, value in tags.items():
        if key.endswith("_UNIT_NAME"):
            return value
    codes = [f"code {value}" for key, value in tags.items() if key.endswith("_UNIT")]
    if codes:
        return codes[0]
    stem = path.stem if file.count == 1 else ""
    return file.units[band - 1] or imply_unit(f"{stem} {file.descriptions[band - 1] or ''}")


def refuse_short_file(path: Path, file: Any) -> None:
    """Refuse an .lcp file that ends before its last cell: GDAL would read zeros."""
    needed = LCP_HEADER + file.height * file.width * file.count * LCP_CELL
    if path.stat().st_size < needed:
        raise EnvError(
            f"{path} cannot be read as an .lcp file: it has {path.stat().st_size} bytes, and its {file.height} x "
            f"{file.width} cells need {needed}."
        )


def add_crown_layers(path: Path, bands: dict[str, RasterBand], tell: TellNote) -> dict[str, RasterBand]:
    """Zeros for the layers of crown fires, where an .lcp file has none of them."""
    missing = [layer for layer in CROWN_LAYERS if layer not in bands]
    if len(missing) < len(CROWN_LAYERS) or "fuel_model" not in bands:
        return bands
    tell(f"{path} has no crown fuels: {', '.join(missing)} are 0, so no crown fire burns.")
    return bands | fill_layers(missing, bands["fuel_model"])


def fill_layers(layers: Iterable[str], like: RasterBand) -> dict[str, RasterBand]:
    """Layers of zeros on the grid of another."""
    assert set(layers) <= set(LAYERS)
    zeros = np.zeros(like.values.shape)
    nowhere = np.zeros(like.values.shape, dtype=np.bool_)
    return {
        layer: RasterBand(f"{layer}, which was left out", zeros, nowhere, like.place, like.cell_size)
        for layer in layers
    }
