"""A landscape from its layers, as any file format gives them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape, name_cells
from flashdqn.envs.fuelbreaks.read.layer_names import WORDS
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand, check_same_grid
from flashdqn.envs.fuelbreaks.read.units import convert_unit

#: What becomes of cells without data: the landscape is refused, or they become bare ground.
Holes = Literal["refuse", "nonburnable"]
#: The affine map of a file that does not say where it lies.
NOWHERE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
#: Fuel model of a cell without data, where that is allowed.
BARE_GROUND = 99


def build_landscape(bands: dict[str, RasterBand], source: Path, holes: Holes, tell: TellNote) -> Landscape:
    """Check that the layers match, apply their units, and put them together. `bands` is emptied on the way, because
    a large landscape should not be in memory twice."""
    if not bands:
        raise EnvError(
            f"{source} holds no layer of a landscape: a GeoTIFF or .asc file has its layer in its name, such as "
            "elevation or US_240FBFM40."
        )
    if missing := [layer for layer in LAYERS if layer not in bands]:
        kind = "file" if source.is_dir() else "band"
        words = ", ".join(f"{layer} (a {kind} with '{WORDS[layer][-1]}' in its name)" for layer in missing)
        raise EnvError(f"The landscape {source} lacks {words}.")
    first = LAYERS[0]
    for layer in LAYERS:
        check_same_grid(str(source), layer, bands[layer], first, bands[first])
    place, cell_size = find_place(bands), bands[first].cell_size
    empty = find_holes(bands, source, holes, tell)
    layers: dict[str, Any] = {}
    for layer in LAYERS:
        layers[layer] = fill_holes(layer, convert_unit(layer, bands.pop(layer)), empty)
    return Landscape(**layers, cell_size=cell_size, name=name_landscape(source), place=place)


def name_landscape(source: Path) -> str:
    """A landscape's name: its folder's, or its file's without the ending."""
    return source.name if source.is_dir() else source.stem


def find_place(bands: Mapping[str, RasterBand]) -> Georeference | None:
    """Where the layers lie: as the first says that knows its coordinate system; None if no file knows anything."""
    places = [band.place for band in bands.values()]
    place = next((place for place in places if place.crs), places[0])
    return None if place.transform == NOWHERE and not place.crs else place


def find_holes(
    bands: Mapping[str, RasterBand], source: Path, holes: Holes, tell: TellNote
) -> NDArray[np.bool_]:
    """Cells where any layer has no data; refused unless they may become bare ground."""
    empty = np.zeros(bands["fuel_model"].values.shape, dtype=np.bool_)
    for layer in LAYERS:
        band = bands[layer]
        if holes == "refuse" and band.empty.any():
            row, column = np.argwhere(band.empty)[0]
            raise EnvError(
                f"{band.source} has no data in {name_cells(int(band.empty.sum()))} (first in row {row}, column "
                f"{column}): "
                "crop the landscape to where all layers have data, or let such cells be bare ground "
                "(--holes nonburnable)."
            )
        empty |= band.empty
    if empty.all():
        raise EnvError(f"The landscape {source} does not have a cell where all layers have data.")
    if empty.any():
        tell(
            f"{source}: {name_cells(int(empty.sum()))} without data become bare ground, fuel model {BARE_GROUND}."
        )
    return empty


def fill_holes(layer: str, values: NDArray[np.float64], empty: NDArray[np.bool_]) -> NDArray[Any]:
    """A layer with bare, flat ground where there is no data, at the median height of the rest."""
    if empty.any():
        fill = BARE_GROUND if layer == "fuel_model" else 0.0
        if layer == "elevation":
            fill = float(np.median(values[~empty]))
        values = np.where(empty, fill, values)
    if layer == "fuel_model":
        return values
    with np.errstate(over="ignore"):  # a number that is too large becomes infinite, and is refused
        return values.astype(np.float32)
