"""Where everything lies: the tensors of all boards and fires, as the kernels see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flashdqn.compute.kernels import Array

KEEP, BURN = -2, -1
NO_PARENT = -1
NOBODY, SETTLED = -1, -2
BUCKETS = 1024  # of the queue: with more they would be mostly empty, with fewer too full

INFINITE = np.float32(np.inf)
ONE = np.int64(1)

# params
BOARDS, FIRES, LANES, TRIERS, ROWS, COLUMNS, PARAMS = range(7)
# limits
DURATION, PER_MINUTE, LIMITS = range(3)
# work: lists of cells
AFTER, BEFORE, CUT, OLD_PARENT, WORK = range(5)
# columns of touching: where a move starts, its direction, where it ends
FROM_ROW, FROM_COLUMN, MOVE, TO_ROW, TO_COLUMN, TOUCHING = range(6)


class Fires(NamedTuple):
    """All arrays of B boards with F fires each, N = B · F.

    A lane is a thread with its own workspace; a lane that tries breaks is called a trier.
    """

    table: Array  # [B] int32
    command: Array  # [B] int32
    breaks: Array  # [B, H·W] bool
    passable: Array  # [B, H·W] int64: bits of the directions that are open, breaks considered
    ignition: Array  # [N] int32
    arrival: Array  # [N, H·W] float32
    parent: Array  # [N, H·W] int8
    burned: Array  # [N] int32: the worth of all cells that burn
    saved: Array  # [B, H·W] int32
    times: Array  # [L, H·W, K] float32: minutes of the move out of a cell
    into: Array  # [L, H·W, K] float32: minutes of the move into a cell
    open: Array  # [L, H·W] int64
    burnable: Array  # [L, H·W] bool
    worth: Array  # [L, H·W] int32: what is lost if a cell burns
    step: Array  # [K] int32: what each direction adds to a cell's number
    outside: Array  # [K] float32: the share of each move that remains after half a cell
    touching: Array  # [T, TOUCHING] int32: the moves that a break ends
    work: Array  # [lanes, WORK, H·W] int32
    old: Array  # [lanes, H·W] float32: times before a cut
    trial: Array  # [lanes, H·W] int64: open directions with a break on trial
    head: Array  # [lanes, BUCKETS] int32: the first cell of each bucket
    params: Array  # [PARAMS] int32
    limits: Array  # [LIMITS] float32
