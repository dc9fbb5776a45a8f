"""Values at risk: what is lost if a cell burns, such as houses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.burn_shapes import add_up_shapes
from flashdqn.envs.fuelbreaks.maps.raster_map import fill_gaps, read_raster_map, refuse_below
from flashdqn.envs.fuelbreaks.maps.vector_map import is_vector_map, read_shapes
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note


def read_value(
    path: Path, landscape: Landscape, attribute: str = "", layer: str = "", tell: TellNote = log_note
) -> NDArray[np.float32]:
    """Value lost with each cell, [H, W], from a raster, or from points or polygons.

    A raster holds the value in each of its cells; on another grid its sum is kept, and cells without data hold
    none. A point counts 1, or its `attribute`; so does a polygon, shared out evenly over its cells.
    """
    if is_vector_map(path):
        values = add_up_shapes(read_shapes(path, landscape, attribute, layer), landscape, tell)
    else:
        values = fill_gaps(path, read_raster_map(path, landscape, "sum", tell), 0.0, tell)
    refuse_below(path, values, 0.0)
    if not values.any():
        raise EnvError(f"{path} has no value above 0 on the landscape {landscape.name}: nothing is at risk.")
    return values.astype(np.float32)
