"""Where no break may lie: reserves, private ground, roads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.burn_shapes import mark_touched_cells
from flashdqn.envs.fuelbreaks.maps.raster_map import fill_gaps, read_raster_map
from flashdqn.envs.fuelbreaks.maps.vector_map import is_vector_map, read_shapes
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note


def read_forbidden(
    path: Path, landscape: Landscape, layer: str = "", tell: TellNote = log_note
) -> NDArray[np.bool_]:
    """Cells where no break may lie, [H, W].

    From a raster: every number but 0 (the nearest one on another grid; no data is allowed ground). From shapes:
    every cell that one touches.
    """
    if is_vector_map(path):
        forbidden = mark_touched_cells(read_shapes(path, landscape, layer=layer), landscape)
    else:
        forbidden = fill_gaps(path, read_raster_map(path, landscape, "nearest", tell), 0.0, tell) != 0
    if (forbidden | ~landscape.burnable).all():
        raise EnvError(
            f"{path} forbids every cell of the landscape {landscape.name} that can burn: no break may lie anywhere."
        )
    return forbidden
