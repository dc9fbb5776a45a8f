"""The weight behind every cell, summed over many single fires, kept up to date while breaks are placed.

    sums = DownstreamSums(tables, duration=240.0, table=table, ignition=ignition, weight=weight)
    sums.total                        # [L, cells]: by table, summed over its fires
    sums.place(cells)                 # more breaks
    sums.total

Each fire remembers its cells, in an order in which every cell comes after the cell that its fire came from, with
their times and what they added. New breaks cut off the cells whose paths led through them; only those are reached
again, from the cells around them. A fire whose paths meet no new break stays as it is. A fire too large to be
remembered is burned twice, without the breaks and with them. `single_fires.SingleFires.add_up_downstream` counts
all fires from scratch: the same cells burn at the same times, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.cuts import cut_off_cell, reconnect_cells
from flashdqn.envs.fuelbreaks.fire.layout import (
    COLUMNS,
    CUT,
    INFINITE,
    MOVE,
    OLD_PARENT,
    ONE,
    TO_COLUMN,
    TO_ROW,
    Fires,
)
from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables
from flashdqn.envs.fuelbreaks.fire.trees import burn_tree, clear_tree, weigh_behind

#: A landscape has at most this many tiles along its longer side.
TILES = 32
#: Sums that are kept for all lanes together; a lane is a thread.
MOST_SUMS = 100_000_000
#: Memory for what fires remember of their cells.
KEPT_BYTES = 600_000_000
#: The moves that a break ends end at most this many rows and columns from it.
NEAR = 2
# numbers: how many fires and lanes there are, cells a side of a tile, tiles in a row, and near the new breaks
FIRES, LANES, SIDE, TILE_COLUMNS, NEAR_TILES = range(5)


class Kept(NamedTuple):
    """What F fires remember, M cells of each at most."""

    size: Array  # [F] int32: cells of a fire; it is not remembered if they are more than M
    cell: Array  # [F, M] int32
    parent: Array  # [F, M] int8: the direction by which the fire entered
    arrival: Array  # [F, M] float32
    behind: Array  # [F, M] float32: what was added there; of the first cell, where it was lit, of every fire


KEPT = len(Kept._fields)
#: Bytes of a remembered cell.
CELL_BYTES = 13


@inner
def add_weights_behind(
    lane: Scalar, sign: Scalar, count: Scalar, table: Scalar, tree: Array, weight: Array, behind: Array,
    total: Array, fires: Fires,
) -> None:  # fmt: skip
    """Add the weight behind each cell of the lane's fire, or take it away; the weights are in `behind`."""
    weigh_behind(lane, count, tree, weight, behind, fires)
    for i in range(count):
        cell = tree[lane, i]
        total[lane, table, cell] += sign * np.float64(np.float32(behind[lane, cell]))


@inner
def add_fire_up(
    lane: Scalar, f: Scalar, sign: Scalar, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, total: Array, fires: Fires,
) -> Scalar:  # fmt: skip
    """Burn a fire, and add the weight behind each of its cells, or take it away; return their number. The cells are
    in the lane's tree, and the weights in `behind`, until the fire is cleared."""
    count = burn_tree(lane, table[f], ignition[f], ways, blocked, tree, fires)
    add_weights_behind(lane, sign, count, table[f], tree, weight, behind, total, fires)
    return count


@inner
def reaches_tile(f: Scalar, numbers: Array, reached: Array, near_tiles: Array) -> Scalar:
    """Whether a fire burns in a tile where a new break ends moves."""
    found, i = False, 0
    while not found and i < numbers[NEAR_TILES]:
        found = reached[f, near_tiles[i]]
        i += 1
    return found


@inner
def forget_large_fires(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, waiting: Array, changed: Array, reached: Array, ended: Array,
    near_tiles: Array, total: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Before breaks are placed: take away what fires near them had added, where it is not remembered."""
    kept, fires = Kept(*arrays[:KEPT]), Fires(*arrays[KEPT:])
    for f in range(lane, numbers[FIRES], numbers[LANES]):
        if kept.size[f] > kept.cell.shape[1]:
            changed[f] = reaches_tile(f, numbers, reached, near_tiles)
            if changed[f]:
                count = add_fire_up(
                    lane, f, -1, table, ignition, ways, blocked, tree, weight, behind, total, fires
                )
                clear_tree(lane, count, tree, fires)


@inner
def find_first_cut(f: Scalar, ended: Array, blocked: Array, kept: Kept) -> Scalar:
    """The first of a fire's cells that a new break cuts off: it was lit there, or its last move is ended; their
    number if there is none."""
    i, count = 0, kept.size[f]
    found = count > 0 and blocked[kept.cell[f, 0]]
    while not found and i + 1 < count:
        i += 1
        found = (ended[kept.cell[f, i]] >> kept.parent[f, i]) & 1 != 0
    return i if found else count


@inner
def recall_fire(lane: Scalar, f: Scalar, table: Scalar, total: Array, kept: Kept, fires: Fires) -> None:
    """Write a fire's times and paths into the lane, and take away what it had added."""
    fires.ignition[lane] = kept.cell[f, 0]
    for i in range(kept.size[f]):
        cell = kept.cell[f, i]
        fires.arrival[lane, cell], fires.parent[lane, cell] = kept.arrival[f, i], kept.parent[f, i]
        total[lane, table, cell] -= np.float64(kept.behind[f, i])


@inner
def cut_off_cells(
    lane: Scalar, f: Scalar, first: Scalar, ended: Array, tree: Array, kept: Kept, fires: Fires
) -> Scalar:
    """Cut off the first cell of a fire that a break cuts, and all whose paths led through such a cell; list the
    others in `tree`; return how many were cut."""
    count = 0
    for i in range(first):
        tree[lane, i] = kept.cell[f, i]
    for i in range(first, kept.size[f]):
        cell, parent = kept.cell[f, i], kept.parent[f, i]
        cut = i == first
        if not cut:
            cut = (ended[cell] >> parent) & 1 != 0
            cut = cut or fires.arrival[lane, cell - fires.step[parent]] == INFINITE
        if cut:
            count = cut_off_cell(lane, lane, cell, count, fires)
        else:
            tree[lane, i - count] = cell
    return count


@inner
def list_reconnected(
    lane: Scalar, listed: Scalar, count: Scalar, tree: Array, waiting: Array, fires: Fires
) -> Scalar:
    """List the cells that were cut off and reached again behind the `listed` ones, each after the cell that its
    fire comes from; return the number of all."""
    for j in range(count):
        cell = fires.work[lane, CUT, j]
        waiting[lane, cell] = fires.arrival[lane, cell] != INFINITE
    for j in range(count):
        cell, depth = fires.work[lane, CUT, j], 0
        while waiting[lane, cell]:
            fires.work[lane, OLD_PARENT, depth] = cell
            depth += 1
            waiting[lane, cell] = False
            cell -= fires.step[fires.parent[lane, cell]]
        while depth > 0:
            depth -= 1
            tree[lane, listed] = fires.work[lane, OLD_PARENT, depth]
            listed += 1
    return listed


@inner
def remember_fire(
    lane: Scalar, f: Scalar, count: Scalar, tree: Array, behind: Array, kept: Kept, fires: Fires
) -> None:
    """Remember the lane's fire, if there is room."""
    kept.size[f] = count
    kept.behind[f, 0] = behind[lane, tree[lane, 0]] if count > 0 else 0.0
    if count <= kept.cell.shape[1]:
        for i in range(count):
            cell = tree[lane, i]
            kept.cell[f, i], kept.behind[f, i] = cell, behind[lane, cell]
            kept.arrival[f, i], kept.parent[f, i] = fires.arrival[lane, cell], fires.parent[lane, cell]


@inner
def renew_fires(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, waiting: Array, changed: Array, reached: Array, ended: Array,
    near_tiles: Array, total: Array, *arrays: Array,
) -> None:  # fmt: skip
    """After breaks were placed: burn the changed fires of a lane, reach what the breaks cut off of the others, and
    remember what was added."""
    kept, fires = Kept(*arrays[:KEPT]), Fires(*arrays[KEPT:])
    columns, side = fires.params[COLUMNS], numbers[SIDE]
    for f in range(lane, numbers[FIRES], numbers[LANES]):
        if changed[f]:
            changed[f] = False
            count = add_fire_up(
                lane, f, 1, table, ignition, ways, blocked, tree, weight, behind, total, fires
            )
            for tile in range(reached.shape[1]):
                reached[f, tile] = False
            for i in range(count):
                row, column = tree[lane, i] // columns, tree[lane, i] % columns
                reached[f, row // side * numbers[TILE_COLUMNS] + column // side] = True
            remember_fire(lane, f, count, tree, behind, kept, fires)
            clear_tree(lane, count, tree, fires)
        elif kept.size[f] <= kept.cell.shape[1] and reaches_tile(f, numbers, reached, near_tiles):
            first = find_first_cut(f, ended, blocked, kept)
            if first < kept.size[f]:
                recall_fire(lane, f, table[f], total, kept, fires)
                cut = cut_off_cells(lane, f, first, ended, tree, kept, fires)
                reconnect_cells(lane, table[f], lane, ways, table[f], cut, fires)
                count = list_reconnected(lane, kept.size[f] - cut, cut, tree, waiting, fires)
                add_weights_behind(lane, 1, count, table[f], tree, weight, behind, total, fires)
                remember_fire(lane, f, count, tree, behind, kept, fires)
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
        breaks: Sequence[int] = (),
    ) -> None:
        """A fire has a table and a cell where it starts, [F] each; `weight` [cells]: what each cell counts;
        `breaks`: the cells of those that are there already."""
        rows, columns = tables.shape
        scenes, cells, count = len(tables.open), rows * columns, len(table)
        self._fires = fires = SingleFires(tables, duration, max(1, MOST_SUMS // (scenes * cells)))
        self._side = -(-max(rows, columns) // TILES)
        self._tile_columns = -(-columns // self._side)
        tiles = -(-rows // self._side) * self._tile_columns
        most = max(1, min(cells, KEPT_BYTES // (CELL_BYTES * max(1, count))))
        # by cell the moves into it that new breaks end, as bits
        self._ended = torch.zeros(cells, dtype=torch.int64)
        self._near_tiles = torch.zeros(tiles, dtype=torch.int64)
        self._numbers = torch.tensor([count, fires.lanes, self._side, self._tile_columns, 0])
        self._total = torch.zeros(fires.lanes, scenes, cells, dtype=torch.float64)
        kept = Kept(
            size=torch.zeros(count, dtype=torch.int32),
            # only what `size` counts is ever read: what no fire needs never becomes memory
            cell=torch.empty(count, most, dtype=torch.int32),
            parent=torch.empty(count, most, dtype=torch.int8),
            arrival=torch.empty(count, most),
            behind=torch.empty(count, most),
        )
        room = (
            self._numbers,
            torch.tensor(table),
            torch.tensor(ignition),
            fires.ways,
            fires.breaks,
            fires.tree,
            torch.tensor(weight),
            torch.zeros(fires.lanes, cells, dtype=torch.float64),
            torch.zeros(fires.lanes, cells, dtype=torch.bool),
            torch.ones(count, dtype=torch.bool),
            torch.zeros(count, tiles, dtype=torch.bool),
            self._ended,
            self._near_tiles,
            self._total,
            *kept,
            *fires.arrays,
        )
        self._kept, self._room = kept, room  # the kernels below read and write it
        self._touching = fires.arrays.touching.numpy()
        self._forget = Kernel(forget_large_fires, 2).bind(fires.lanes, *room)
        self._renew = Kernel(renew_fires, 2).bind(fires.lanes, *room)
        if len(breaks):
            fires.replace_breaks(np.asarray(breaks, dtype=np.int64))
        self._renew()

    @property
    def total(self) -> NDArray[np.float64]:
        """For each cell the weight of all cells behind it, itself included, summed over the fires of a table,
        [L, cells]."""
        summed: NDArray[np.float64] = self._total.sum(0).numpy()
        return summed

    @property
    def burned(self) -> NDArray[np.float64]:
        """The weight of all cells that each fire burns, [F]."""
        whole: NDArray[np.float64] = self._kept.behind[:, 0].double().numpy()
        return whole

    def place(self, cells: Sequence[int] | NDArray[np.int64]) -> None:
        """Add breaks."""
        added = np.asarray(cells, dtype=np.int64)
        if not len(added):
            return
        row, column = np.divmod(added, self._fires.tables.shape[1])
        tiles = self._find_tiles(row, column)
        self._near_tiles[: len(tiles)] = tiles
        self._numbers[NEAR_TILES] = len(tiles)
        targets = self._end_moves(row, column)
        self._forget()
        self._fires.place(added)
        self._renew()
        self._ended[targets] = 0

    def _end_moves(self, row: NDArray[np.int64], column: NDArray[np.int64]) -> torch.Tensor:
        """Note the moves that breaks in these cells end; return the cells that they lead to."""
        rows, columns = self._fires.tables.shape
        to_row = row[:, None] + self._touching[:, TO_ROW]
        to_column = column[:, None] + self._touching[:, TO_COLUMN]
        inside = (to_row >= 0) & (to_row < rows) & (to_column >= 0) & (to_column < columns)
        targets = (to_row * columns + to_column)[inside]
        moves = np.broadcast_to(self._touching[:, MOVE], inside.shape)[inside]
        np.bitwise_or.at(self._ended.numpy(), targets, ONE << moves.astype(np.int64))
        return torch.from_numpy(targets)

    def _find_tiles(self, row: NDArray[np.int64], column: NDArray[np.int64]) -> torch.Tensor:
        """The tiles that hold cells near these."""
        rows, columns = self._fires.tables.shape
        around = np.arange(-NEAR, NEAR + 1)
        near_rows = np.clip(row[:, None] + around, 0, rows - 1)[:, :, None]
        near_columns = np.clip(column[:, None] + around, 0, columns - 1)[:, None, :]
        tiles = near_rows // self._side * self._tile_columns + near_columns // self._side
        return torch.from_numpy(np.unique(tiles))
