"""What one more break changes, as scalar kernel code for the CPU.

The cells whose path led through the break are cut off, and all others keep their times. The cells
that were cut off are reached again from neighbors that were not, and from one another.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.layout import (
    BOARDS,
    BURN,
    COLUMNS,
    CUT,
    DURATION,
    FIRES,
    FROM_COLUMN,
    FROM_ROW,
    INFINITE,
    LANES,
    MOVE,
    NO_PARENT,
    OLD_PARENT,
    ONE,
    ROWS,
    TO_COLUMN,
    TO_ROW,
    TRIERS,
    Fires,
)
from flashdqn.envs.fuelbreaks.fire.paths import add_to_bucket, burn_fire, spread_fire


@inner
def close_moves(passable: Array, b: Scalar, cell: Scalar, fires: Fires) -> None:
    """End all moves that pass or touch a cell."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    for t in range(fires.touching.shape[0]):
        r, c = row + fires.touching[t, FROM_ROW], column + fires.touching[t, FROM_COLUMN]
        if 0 <= r < rows and 0 <= c < columns:
            passable[b, r * columns + c] &= ~(ONE << np.int64(fires.touching[t, MOVE]))


@inner
def reopen_moves(b: Scalar, cell: Scalar, lane: Scalar, fires: Fires) -> None:
    """Undo `close_moves` after a break was tried."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    for t in range(fires.touching.shape[0]):
        r, c = row + fires.touching[t, FROM_ROW], column + fires.touching[t, FROM_COLUMN]
        if 0 <= r < rows and 0 <= c < columns:
            fires.trial[lane, r * columns + c] = fires.passable[b, r * columns + c]


@inner
def cut_off_cell(n: Scalar, lane: Scalar, target: Scalar, count: Scalar, fires: Fires) -> Scalar:
    """Record a cell whose path is broken, with its old values; return the number of recorded cells."""
    fires.work[lane, CUT, count] = target
    fires.work[lane, OLD_PARENT, count] = fires.parent[n, target]
    fires.old[lane, count] = fires.arrival[n, target]
    fires.arrival[n, target] = INFINITE
    fires.parent[n, target] = NO_PARENT
    return count + 1


@inner
def cut_paths(n: Scalar, cell: Scalar, lane: Scalar, passable: Array, b: Scalar, fires: Fires) -> Scalar:
    """Cut off all cells whose path led through a cell that `close_moves` has closed; return their number."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    count = 0
    if fires.ignition[n] == cell and fires.arrival[n, cell] != INFINITE:
        count = cut_off_cell(n, lane, cell, count, fires)
    for t in range(fires.touching.shape[0]):
        r, c = row + fires.touching[t, TO_ROW], column + fires.touching[t, TO_COLUMN]
        if 0 <= r < rows and 0 <= c < columns:
            target = r * columns + c
            if fires.parent[n, target] == fires.touching[t, MOVE]:
                count = cut_off_cell(n, lane, target, count, fires)
    looked_at = 0
    while looked_at < count:
        source = fires.work[lane, CUT, looked_at]
        looked_at += 1
        ways = passable[b, source]
        for k in range(fires.step.shape[0]):
            if (ways >> k) & 1 != 0:
                target = source + fires.step[k]
                if fires.parent[n, target] == k:
                    count = cut_off_cell(n, lane, target, count, fires)
    return count


@inner
def reconnect_cells(
    n: Scalar, table: Scalar, lane: Scalar, passable: Array, b: Scalar, count: Scalar, fires: Fires
) -> Scalar:
    """Reach cut-off cells from the cells around them, where there is time; return the worth of those reached."""
    waiting, reached = 0, 0
    for i in range(count):
        cell = fires.work[lane, CUT, i]
        ways = passable[b, cell]
        best, by = INFINITE, NO_PARENT
        for move in range(fires.step.shape[0]):  # the lowest of several as fast ones counts
            if (ways >> (move ^ 1)) & 1 != 0:
                source = cell - fires.step[move]
                time = fires.arrival[n, source] + fires.into[table, cell, move]
                if source == fires.ignition[n] and time < INFINITE:
                    time = fires.into[table, cell, move] * fires.outside[move]
                if time < best:
                    best, by = time, move
        if best <= fires.limits[DURATION]:
            fires.arrival[n, cell] = best
            fires.parent[n, cell] = by
            add_to_bucket(lane, cell, best, fires)
            waiting += 1
            reached += fires.worth[table, cell]
    if waiting == 0:
        return 0
    return reached + spread_fire(n, table, lane, passable, b, waiting, fires)


@inner
def worth_of_cut(table: Scalar, lane: Scalar, count: Scalar, fires: Fires) -> Scalar:
    """The worth of the cells that `cut_paths` has cut off."""
    total = 0
    for i in range(count):
        total += fires.worth[table, fires.work[lane, CUT, i]]
    return total


@inner
def prepare_board(b: Scalar, *arrays: Array) -> None:
    """Set the open directions of a board, after its command."""
    fires = Fires(*arrays)
    command = fires.command[b]
    if command == BURN:
        for cell in range(fires.passable.shape[1]):
            fires.passable[b, cell] = fires.open[fires.table[b], cell]
        for cell in range(fires.passable.shape[1]):
            if fires.breaks[b, cell]:
                close_moves(fires.passable, b, cell, fires)
    elif command >= 0:
        fires.breaks[b, command] = True
        close_moves(fires.passable, b, command, fires)


@inner
def run_fires_in_lane(lane: Scalar, *arrays: Array) -> None:
    """Run every fire of a lane by the command of its board."""
    fires = Fires(*arrays)
    per_board = fires.params[FIRES]
    n = lane
    while n < fires.params[BOARDS] * per_board:
        b = n // per_board
        command = fires.command[b]
        if command == BURN:
            burn_fire(n, b, lane, fires)
        elif command >= 0:
            count = cut_paths(n, command, lane, fires.passable, b, fires)
            if count > 0:
                lost = worth_of_cut(fires.table[b], lane, count, fires)
                reached = reconnect_cells(n, fires.table[b], lane, fires.passable, b, count, fires)
                fires.burned[n] += reached - lost
        n += fires.params[LANES]


@inner
def add_up_savings(b: Scalar, cell: Scalar, lane: Scalar, fires: Fires) -> Scalar:
    """What a break would save of all fires of a board; restores everything."""
    saved, table = 0, fires.table[b]
    for n in range(b * fires.params[FIRES], (b + 1) * fires.params[FIRES]):
        count = cut_paths(n, cell, lane, fires.trial, lane, fires)
        if count > 0:
            saved += worth_of_cut(table, lane, count, fires)
            saved -= reconnect_cells(n, table, lane, fires.trial, lane, count, fires)
            for i in range(count):
                target = fires.work[lane, CUT, i]
                fires.arrival[n, target] = fires.old[lane, i]
                fires.parent[n, target] = fires.work[lane, OLD_PARENT, i]
    return saved


@inner
def try_breaks_in_lane(lane: Scalar, *arrays: Array) -> None:
    """Add up what a break in each cell would save, for every board of a lane."""
    fires = Fires(*arrays)
    cells = fires.passable.shape[1]
    b = lane
    while b < fires.params[BOARDS]:
        for cell in range(cells):
            fires.trial[lane, cell] = fires.passable[b, cell]
        for cell in range(cells):
            fires.saved[b, cell] = 0
            if fires.burnable[fires.table[b], cell] and not fires.breaks[b, cell]:
                close_moves(fires.trial, lane, cell, fires)
                fires.saved[b, cell] = add_up_savings(b, cell, lane, fires)
                reopen_moves(b, cell, lane, fires)
        b += fires.params[TRIERS]
