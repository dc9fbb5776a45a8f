"""What a break costs in each cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape, name_cells
from flashdqn.envs.fuelbreaks.maps.raster_map import read_raster_map, refuse_below
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note


def read_cost(path: Path, landscape: Landscape, tell: TellNote = log_note) -> NDArray[np.float32]:
    """The cost of a break in each cell of the landscape, [H, W], above 0, from a raster; averaged on another grid.

    Every cell that can burn must have a cost; the others cost what the dearest one does.
    """
    values = read_raster_map(path, landscape, "average", tell)
    bare = np.isnan(values)
    if (bare & landscape.burnable).any():
        row, column = np.argwhere(bare & landscape.burnable)[0]
        raise EnvError(
            f"{path} has no data in {name_cells(int((bare & landscape.burnable).sum()))} that can burn (first in "
            f"row {row}, "
            f"column {column} of the landscape): give every one a cost, or forbid breaks there."
        )
    if bare.all():
        raise EnvError(f"{path} has no data on the landscape {landscape.name}.")
    values = np.where(bare, np.nanmax(values), values)
    refuse_below(path, values, 0.0, above=True)
    return values.astype(np.float32)
