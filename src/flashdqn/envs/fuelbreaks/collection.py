"""The landscapes of a training: first those to learn on, then those held out for evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import MOST_CELLS, Landscape
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape

#: A window with a smaller burnable share than this is not a task: another one is drawn.
LEAST_BURNABLE, TRIES = 0.25, 200


def collect_landscapes(config: FuelBreaksConfig) -> tuple[list[Landscape], int]:
    """All landscapes, and how many of them are to learn on. If none is held out, evaluation uses these too."""
    if not config.rasters:
        count = config.landscapes + config.held_out
        seeds = range(config.landscape_seed, config.landscape_seed + count)
        return [generate_landscape(seed, config.size) for seed in seeds], config.landscapes
    rasters = read_rasters(Path(config.rasters), config.size)
    check_same_cell_size(rasters)
    if config.crop == "center":
        middles = [crop_center(raster, config.size) for raster in rasters]
        learn = max(1, len(middles) - config.held_out)
        return middles, learn
    random = np.random.Generator(np.random.PCG64([config.landscape_seed % 2**64, config.size]))
    count = config.landscapes + config.held_out
    return [crop_random_window(random, rasters, config.size) for _ in range(count)], config.landscapes


def read_rasters(folder: Path, size: int) -> list[Landscape]:
    """All landscapes of a folder, each at least `size` cells wide; together they must fit into memory."""
    rasters: list[Landscape] = []
    for path in find_landscapes(folder):
        rasters.append(require_raster_size(read_landscape(path), size))
        if sum(raster.fuel_model.size for raster in rasters) > 4 * MOST_CELLS:
            raise EnvError(
                f"The landscapes in {folder} have more than {4 * MOST_CELLS:,} cells together: crop them, or use "
                "fewer."
            )
    return rasters


def require_raster_size(raster: Landscape, size: int) -> Landscape:
    """Refuse a raster that is smaller than the grid."""
    rows, columns = raster.shape
    if min(rows, columns) < size:
        raise EnvError(
            f"The landscape {raster.name} has {rows} x {columns} cells, fewer than env.size {size}: use a "
            "larger raster, "
            f"or --env.size {min(rows, columns)}."
        )
    return raster


def check_same_cell_size(rasters: list[Landscape]) -> None:
    """Refuse rasters whose cells differ in size."""
    for raster in rasters:
        if raster.cell_size != rasters[0].cell_size:
            raise EnvError(
                f"All landscapes of a training have cells of one size: those of {raster.name} are "
                f"{raster.cell_size:g} m, and those of {rasters[0].name} {rasters[0].cell_size:g} m."
            )


def crop_center(raster: Landscape, size: int) -> Landscape:
    """The middle of a raster."""
    rows, columns = raster.shape
    return raster.window((rows - size) // 2, (columns - size) // 2, size, raster.name)


def crop_random_window(random: np.random.Generator, rasters: list[Landscape], size: int) -> Landscape:
    """A random window of the rasters with enough to burn; every position has the same probability."""
    places = np.array([(r.shape[0] - size + 1) * (r.shape[1] - size + 1) for r in rasters])
    for _ in range(TRIES):
        raster = rasters[int(random.choice(len(rasters), p=places / places.sum()))]
        row, column = (int(random.integers(0, side - size + 1)) for side in raster.shape)
        window = raster.window(row, column, size)
        if window.burnable.mean() >= LEAST_BURNABLE:
            return window
    names = ", ".join(raster.name for raster in rasters[:3])
    raise EnvError(
        f"{TRIES} random windows of {size} x {size} cells had less than {LEAST_BURNABLE:.0%} to burn in "
        f"{names}: there "
        "is nothing to protect here."
    )
