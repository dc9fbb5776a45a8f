"""The weight behind every cell, summed over many single fires, kept up to date while breaks are placed.

    sums = DownstreamSums(tables, duration=240.0, table=table, ignition=ignition, weight=weight)
    sums.total                        # [L, cells]: by table, summed over its fires
    sums.place(cells)                 # more breaks
    sums.total

A break changes only the fires that came near it: what they had added is taken away, and they are burned again with
it. Each fire remembers the tiles of the landscape that it reached, and its cells with what it added there. A fire
too large for that is burned once more without the break. `single_fires.SingleFires.add_up_downstream` counts all
fires from scratch, and gives the same sums within the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.layout import COLUMNS, Fires
from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables
from flashdqn.envs.fuelbreaks.fire.trees import burn_tree, clear_tree, weigh_behind

#: A landscape has at most this many tiles along its longer side.
TILES = 32
#: Sums that are kept for all lanes together; a lane is a thread.
MOST_SUMS = 100_000_000
#: Memory for what fires remember of their cells.
KEPT_BYTES = 400_000_000
#: The moves that a break ends begin and end at most this many rows and columns from it.
NEAR = 2
# numbers: how many fires and lanes there are, cells a side of a tile, tiles in a row, and near the new breaks
FIRES, LANES, SIDE, TILE_COLUMNS, NEAR_TILES = range(5)


@inner
def add_fire_up(
    lane: Scalar, f: Scalar, sign: Scalar, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, total: Array, fires: Fires,
) -> Scalar:  # fmt: skip
    """Burn a fire, and add the weight behind each of its cells, or take it away; return their number. The cells are
    in the lane's tree, and the weights in `behind`, until the fire is cleared."""
    count = burn_tree(lane, table[f], ignition[f], ways, blocked, tree, fires)
    weigh_behind(lane, count, tree, weight, behind, fires)
    for i in range(count):
        cell = tree[lane, i]
        total[lane, table[f], cell] += sign * np.float64(np.float32(behind[lane, cell]))
    return count


@inner
def passes_near(
    f: Scalar, numbers: Array, reached: Array, near_tiles: Array, size: Array, kept_cell: Array, near: Array
) -> Scalar:
    """Whether a fire burns a cell near a new break; if it does not remember its cells, it is enough that it reaches
    a tile there."""
    found, i = False, 0
    while not found and i < numbers[NEAR_TILES]:
        found = reached[f, near_tiles[i]]
        i += 1
    if found and size[f] <= kept_cell.shape[1]:
        found, i = False, 0
        while not found and i < size[f]:
            found = near[kept_cell[f, i]]
            i += 1
    return found


@inner
def take_changed_fires(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, changed: Array, reached: Array, size: Array, kept_cell: Array,
    kept_behind: Array, near: Array, near_tiles: Array, total: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Find the fires of a lane that a new break changes, and take away what they had added."""
    fires = Fires(*arrays)
    for f in range(lane, numbers[FIRES], numbers[LANES]):
        changed[f] = passes_near(f, numbers, reached, near_tiles, size, kept_cell, near)
        if not changed[f]:
            continue
        if size[f] <= kept_cell.shape[1]:
            for i in range(size[f]):
                total[lane, table[f], kept_cell[f, i]] -= np.float64(kept_behind[f, i])
        else:
            count = add_fire_up(
                lane, f, -1, table, ignition, ways, blocked, tree, weight, behind, total, fires
            )
            clear_tree(lane, count, tree, fires)


@inner
def add_changed_fires(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, changed: Array, reached: Array, size: Array, kept_cell: Array,
    kept_behind: Array, near: Array, near_tiles: Array, total: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Burn the changed fires of a lane, add the weight behind each cell, and remember what was added."""
    fires = Fires(*arrays)
    columns, side = fires.params[COLUMNS], numbers[SIDE]
    for f in range(lane, numbers[FIRES], numbers[LANES]):
        if not changed[f]:
            continue
        count = add_fire_up(lane, f, 1, table, ignition, ways, blocked, tree, weight, behind, total, fires)
        size[f] = count
        for tile in range(reached.shape[1]):
            reached[f, tile] = False
        for i in range(count):
            cell = tree[lane, i]
            reached[f, cell // columns // side * numbers[TILE_COLUMNS] + cell % columns // side] = True
            if count <= kept_cell.shape[1]:
                kept_cell[f, i], kept_behind[f, i] = cell, behind[lane, cell]
        clear_tree(lane, count, tree, fires)


class DownstreamSums:
    """Fires on one landscape, in the weather of their tables; see the module's docstring."""

    def __init__(
        self,
        tables: SpreadTables,
        duration: float,
        table: NDArray[np.int64],
        ignition: NDArray[np.int64],
        weight: NDArray[np.float64],
    ) -> None:
        """A fire has a table and a cell where it starts, [F] each; `weight` [cells]: what each cell counts."""
        rows, columns = tables.shape
        scenes, cells, count = len(tables.open), rows * columns, len(table)
        self._fires = fires = SingleFires(tables, duration, max(1, MOST_SUMS // (scenes * cells)))
        self._side = -(-max(rows, columns) // TILES)
        self._tile_columns = -(-columns // self._side)
        tiles = -(-rows // self._side) * self._tile_columns
        kept = min(cells, KEPT_BYTES // (8 * max(1, count)))
        self._near = torch.zeros(cells, dtype=torch.bool)
        self._near_tiles = torch.zeros(tiles, dtype=torch.int64)
        self._numbers = torch.tensor([count, fires.lanes, self._side, self._tile_columns, 0])
        self._total = torch.zeros(fires.lanes, scenes, cells, dtype=torch.float64)
        room = (
            self._numbers,
            torch.tensor(table),
            torch.tensor(ignition),
            fires.ways,
            fires.breaks,
            fires.tree,
            torch.tensor(weight),
            torch.zeros(fires.lanes, cells, dtype=torch.float64),
            torch.ones(count, dtype=torch.bool),
            torch.zeros(count, tiles, dtype=torch.bool),
            torch.zeros(count, dtype=torch.int32),
            torch.zeros(count, kept, dtype=torch.int32),
            torch.zeros(count, kept),
            self._near,
            self._near_tiles,
            self._total,
            *fires.arrays,
        )
        self._room = room  # the kernels below read and write it
        self._take_away = Kernel(take_changed_fires, 2).bind(fires.lanes, *room)
        self._add = Kernel(add_changed_fires, 2).bind(fires.lanes, *room)
        self._add()

    @property
    def total(self) -> NDArray[np.float64]:
        """For each cell the weight of all cells behind it, itself included, summed over the fires of a table,
        [L, cells]."""
        summed: NDArray[np.float64] = self._total.sum(0).numpy()
        return summed

    def place(self, cells: Sequence[int] | NDArray[np.int64]) -> None:
        """Add breaks."""
        added = np.asarray(cells, dtype=np.int64)
        if not len(added):
            return
        near, tiles = self._find_near(added)
        self._near[near] = True
        self._near_tiles[: len(tiles)] = tiles
        self._numbers[NEAR_TILES] = len(tiles)
        self._take_away()
        self._fires.place(added)
        self._add()
        self._near[near] = False

    def _find_near(self, cells: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """The cells near one of these, and the tiles that hold them."""
        rows, columns = self._fires.tables.shape
        row, column = np.divmod(cells, columns)
        around = np.arange(-NEAR, NEAR + 1)
        near_rows = np.clip(row[:, None] + around, 0, rows - 1)[:, :, None]
        near_columns = np.clip(column[:, None] + around, 0, columns - 1)[:, None, :]
        tiles = near_rows // self._side * self._tile_columns + near_columns // self._side
        near = near_rows * columns + near_columns
        return torch.from_numpy(np.unique(near)), torch.from_numpy(np.unique(tiles))
