"""Where fires start: a map of chances, points of past fires, or a list of cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.landscape import Landscape, name_cells
from flashdqn.envs.fuelbreaks.maps.burn_shapes import add_up_shapes
from flashdqn.envs.fuelbreaks.maps.raster_map import fill_gaps, read_raster_map, refuse_below
from flashdqn.envs.fuelbreaks.maps.vector_map import is_vector_map, read_shapes
from flashdqn.envs.fuelbreaks.read.cell2fire import read_ignition_cells
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note


def read_ignition(
    path: Path, landscape: Landscape, attribute: str = "", layer: str = "", tell: TellNote = log_note
) -> NDArray[np.float32]:
    """How likely a fire starts in each cell, [H, W], in any unit.

    From a raster (averaged on another grid; no chance where it has no data), from points or polygons (counted,
    or by an `attribute`), or from Cell2Fire's `Ignitions.csv` (each line counts 1). Cells that cannot burn get
    no chance."""
    if path.suffix.lower() == ".csv":
        chances = count_cells(read_ignition_cells(path, landscape.shape), landscape.shape)
    elif is_vector_map(path):
        chances = add_up_shapes(read_shapes(path, landscape, attribute, layer), landscape, tell)
    else:
        chances = fill_gaps(path, read_raster_map(path, landscape, "average", tell), 0.0, tell)
    refuse_below(path, chances, 0.0)
    return keep_burnable(path, chances, landscape, tell).astype(np.float32)


def count_cells(cells: list[tuple[int, int]], shape: tuple[int, int]) -> NDArray[np.float64]:
    """How often each cell is in a list."""
    counts = np.zeros(shape)
    for cell in cells:
        counts[cell] += 1.0
    return counts


def keep_burnable(
    path: Path, chances: NDArray[np.float64], landscape: Landscape, tell: TellNote
) -> NDArray[np.float64]:
    """No chance in cells that cannot burn; refused if no other cell has one."""
    kept = np.where(landscape.burnable, chances, 0.0)
    if not kept.any():
        raise EnvError(
            f"{path} lets no fire start: no cell of the landscape {landscape.name} that can burn has a "
            "chance above 0."
        )
    lost = int(((chances > 0) & ~landscape.burnable).sum())
    if lost:
        tell(f"{path} has ignitions in {name_cells(lost)} that cannot burn: they are left out.")
    return kept
