"""The spread of fire on CUDA: a block of threads per fire, which relax all cells in parallel.

The queue of paths.py would keep one thread of a GPU busy for milliseconds. Here every thread owns some cells.
In each round the marked cells check whether they are reached sooner from a neighbor. If so, they mark their own
neighbors for the next round, until nothing changes. Times of arrival only fall, and every order of work ends with
the same times and, of equal paths, the same: those of paths.py bit by bit.

A mark is the number of a round. A neighbor may overwrite this round's mark with the next one's before its owner
has seen it. This is harmless: the owner then looks one round later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, import_numba_cuda
from flashdqn.envs.fuelbreaks.fire.layout import (
    BURN,
    COLUMNS,
    DURATION,
    FIRES,
    FROM_COLUMN,
    FROM_ROW,
    INFINITE,
    MOVE,
    NO_PARENT,
    ONE,
    ROWS,
    TO_COLUMN,
    TO_ROW,
    Fires,
)

F = TypeVar("F", bound=Callable[..., Any])

cuda = import_numba_cuda()

THREADS = 128
CUT = -1  # the mark of cells whose path is broken


def cuda_function(function: F) -> F:
    """Mark a function as code for CUDA only."""
    compiled: F = cuda.jit(device=True)(function)
    return compiled


@cuda_function
def close_moves_parallel(b: Scalar, cell: Scalar, first: Scalar, by: Scalar, fires: Fires) -> None:
    """Close moves as in cuts.py, for the entries first, first + by, … of the list; other threads do the others."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    for t in range(first, fires.touching.shape[0], by):
        r, c = row + fires.touching[t, FROM_ROW], column + fires.touching[t, FROM_COLUMN]
        if 0 <= r < rows and 0 <= c < columns:
            cuda.atomic.and_(
                fires.passable, (b, r * columns + c), ~(ONE << np.int64(fires.touching[t, MOVE]))
            )


@cuda_function
def prepare_board(b: Scalar, thread: Scalar, threads: Scalar, *arrays: Array) -> None:
    """Set the open directions of a board, after its command."""
    fires = Fires(*arrays)
    command, cells = fires.command[b], fires.passable.shape[1]
    if command == BURN:
        for cell in range(thread, cells, threads):
            fires.passable[b, cell] = fires.open[fires.table[b], cell]
        cuda.syncthreads()
        for cell in range(thread, cells, threads):
            if fires.breaks[b, cell]:
                close_moves_parallel(b, cell, 0, 1, fires)
    elif command >= 0:
        if thread == 0:
            fires.breaks[b, command] = True
        close_moves_parallel(b, command, thread, threads, fires)


@cuda_function
def start_fire(n: Scalar, b: Scalar, thread: Scalar, threads: Scalar, fires: Fires) -> None:
    """Light only the ignition, and mark its neighbors for the first round."""
    cells, cell = fires.arrival.shape[1], fires.ignition[n]
    for i in range(thread, cells, threads):
        fires.arrival[n, i] = INFINITE
        fires.parent[n, i] = NO_PARENT
        fires.work[n, 0, i] = 0
    cuda.syncthreads()
    if thread == 0 and cell >= 0 and fires.burnable[fires.table[b], cell] and not fires.breaks[b, cell]:
        fires.arrival[n, cell] = np.float32(0.0)
        for k in range(fires.step.shape[0]):
            if (fires.passable[b, cell] >> k) & 1 != 0:
                fires.work[n, 0, cell + fires.step[k]] = 1


@cuda_function
def is_cut(n: Scalar, cell: Scalar, thread: Scalar, threads: Scalar, fires: Fires) -> Scalar:
    """Whether a new break lies on a path of the fire; all threads answer the same."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = cell // columns, cell % columns
    found = 0
    if thread == 0 and fires.ignition[n] == cell and fires.arrival[n, cell] != INFINITE:
        found = 1
    for t in range(thread, fires.touching.shape[0], threads):
        r, c = row + fires.touching[t, TO_ROW], column + fires.touching[t, TO_COLUMN]
        inside = 0 <= r < rows and 0 <= c < columns
        if inside and fires.parent[n, r * columns + c] == fires.touching[t, MOVE]:
            found = 1
    return cuda.syncthreads_or(np.int32(found)) != 0


@cuda_function
def cut_paths_parallel(n: Scalar, cell: Scalar, thread: Scalar, threads: Scalar, fires: Fires) -> Scalar:
    """Reset all cells whose path led through a new break, and mark them for the first round; return whether any."""
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column, cells = cell // columns, cell % columns, fires.arrival.shape[1]
    if not is_cut(n, cell, thread, threads, fires):  # most fires: before anything is written
        return False
    for i in range(thread, cells, threads):
        fires.work[n, 0, i] = 0
    cuda.syncthreads()
    if thread == 0 and fires.ignition[n] == cell and fires.arrival[n, cell] != INFINITE:
        fires.work[n, 0, cell] = CUT
    for t in range(thread, fires.touching.shape[0], threads):
        r, c = row + fires.touching[t, TO_ROW], column + fires.touching[t, TO_COLUMN]
        inside = 0 <= r < rows and 0 <= c < columns
        if inside and fires.parent[n, r * columns + c] == fires.touching[t, MOVE]:
            fires.work[n, 0, r * columns + c] = CUT
    cuda.syncthreads()
    grew = 1
    while grew != 0:
        found = 0
        for i in range(thread, cells, threads):
            by, mark = fires.parent[n, i], fires.work[n, 0, i]
            if by != NO_PARENT and mark != CUT and fires.work[n, 0, i - fires.step[by]] == CUT:
                fires.work[n, 0, i] = CUT
                found = 1
        grew = cuda.syncthreads_or(np.int32(found))
    for i in range(thread, cells, threads):
        if fires.work[n, 0, i] == CUT:
            fires.arrival[n, i] = INFINITE
            fires.parent[n, i] = NO_PARENT
            fires.work[n, 0, i] = 1
    return True


@cuda_function
def relax_cell(n: Scalar, b: Scalar, cell: Scalar, fires: Fires) -> Scalar:
    """Reach a cell from the best of its neighbors; return whether that is sooner than before."""
    table, ways = fires.table[b], fires.passable[b, cell]
    before, best, by = fires.arrival[n, cell], INFINITE, NO_PARENT
    for move in range(fires.step.shape[0]):  # the lowest of several as fast ones counts
        if (ways >> (move ^ 1)) & 1 != 0:
            source = cell - fires.step[move]
            if source == fires.ignition[n]:
                time = fires.into[table, cell, move] * fires.outside[move]
            else:
                time = fires.arrival[n, source] + fires.into[table, cell, move]
            if time < best:
                best, by = time, move
    if best > before or best > fires.limits[DURATION]:
        return False
    fires.arrival[n, cell] = best
    fires.parent[n, cell] = by
    return best < before


@cuda_function
def run_fire(n: Scalar, thread: Scalar, threads: Scalar, *arrays: Array) -> None:
    """Run fire `n` by the command of its board."""
    fires = Fires(*arrays)
    b = n // fires.params[FIRES]
    command, cells = fires.command[b], fires.arrival.shape[1]
    if command == BURN:
        start_fire(n, b, thread, threads, fires)
    elif command < 0 or not cut_paths_parallel(n, command, thread, threads, fires):
        return
    cuda.syncthreads()
    mark, changed = 1, 1
    while changed != 0:
        improved = 0
        for cell in range(thread, cells, threads):
            if fires.work[n, 0, cell] == mark and relax_cell(n, b, cell, fires):
                ways = fires.passable[b, cell]
                for k in range(fires.step.shape[0]):
                    if (ways >> k) & 1 != 0:
                        fires.work[n, 0, cell + fires.step[k]] = mark + 1
                improved = 1
        changed = cuda.syncthreads_or(np.int32(improved))
        mark += 1
    burned, table = 0, fires.table[b]
    for cell in range(thread, cells, threads):
        if fires.arrival[n, cell] != INFINITE:
            burned += fires.worth[table, cell]
    if thread == 0:
        fires.burned[n] = 0
    cuda.syncthreads()
    cuda.atomic.add(fires.burned, n, burned)
