"""Flood-fill on bits, as scalar kernel code: a row of the board is one word, a run of free cells one operation.

Rows 0 … S+1 of `bits[i]` hold the obstacles, as in board.py; the S+2 rows after them hold the component that
was filled last.
"""

from __future__ import annotations

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.snake.board import MASK, SHIFT, count_set_bits, has_bit


@inner
def fill_runs(seeds: Scalar, free: Scalar) -> Scalar:
    """The runs of set bits in `free` that hold a bit of `seeds`, which must be a part of `free`."""
    # Upwards by carry: adding a seed ripples through its run; a second seed of the run stays as it is.
    filled = (((free + seeds) ^ free) | seeds) & free
    # A carry never goes downwards, so by doubling steps: 1, 2, 4, 8, 16.
    filled |= free & (filled >> 1)
    free &= free >> 1
    filled |= free & (filled >> 2)
    free &= free >> 2
    filled |= free & (filled >> 4)
    free &= free >> 4
    filled |= free & (filled >> 8)
    free &= free >> 8
    return filled | (free & (filled >> 16))


@inner
def sweep_rows(i: Scalar, first: Scalar, last: Scalar, by: Scalar, size: Scalar, bits: Array) -> Scalar:
    """Spread the fill from each row to the next, from row `first` to row `last`; return whether it grew."""
    scratch = size + 2
    grew = False
    source = bits[i, scratch + first]
    row = first
    while row != last:
        row += by
        free = ~bits[i, row]
        filled = bits[i, scratch + row]
        new = source & free & ~filled
        if new != 0:
            filled |= fill_runs(new, free)
            bits[i, scratch + row] = filled
            grew = True
        source = filled
    return grew


@inner
def component_size(i: Scalar, cell: Scalar, size: Scalar, bits: Array) -> Scalar:
    """Fill the component of a free cell into the scratch rows; returns the number of its cells."""
    scratch = size + 2
    start = cell >> SHIFT
    for row in range(1, size + 1):
        bits[i, scratch + row] = 0
    bits[i, scratch + start] = fill_runs(1 << (cell & MASK), ~bits[i, start])
    sweep_rows(i, start, size, 1, size, bits)
    while sweep_rows(i, size, 1, -1, size, bits):
        if not sweep_rows(i, 1, size, 1, size, bits):
            break
    count = 0
    for row in range(1, size + 1):
        count += count_set_bits(bits[i, scratch + row])
    return count


@inner
def in_component(i: Scalar, cell: Scalar, size: Scalar, bits: Array) -> Scalar:
    """Whether the component filled last holds a cell."""
    return has_bit(i, cell, size + 2, bits)
