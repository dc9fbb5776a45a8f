"""Cells, headings and rows of bits, as scalar kernel code.

     col 0 1 2 3 4 5 6
row 0    # # # # # # #      The board lies inside a wall, so rows and columns count from 1.
row 1    # . . . . . #      A heading is 0 up, 1 right, 2 down, 3 left: a right turn adds one.
row 2    # . o o . . #      A cell is row · 64 + column: no division is needed.
row 3    # . . o @ . #      The body is a ring of cells, from the tail to the head.
row 4    # . * . . . #      `bits[i, row]` is a word whose bit `col` is set where a move kills:
row 5    # . . . . . #      in the wall and in the body, but not in the tail, which leaves
row 6    # # # # # # #      its cell in the same step.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner

SHIFT, MASK = 6, 63  # of a cell's row and column

_ONES_1, _ONES_2, _ONES_4 = (
    np.uint64(0x5555555555555555),
    np.uint64(0x3333333333333333),
    np.uint64(0x0F0F0F0F0F0F0F0F),
)
_SUM, _1, _2, _4, _56 = np.uint64(0x0101010101010101), np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@inner
def cell_at(row: Scalar, col: Scalar) -> Scalar:
    """The cell of a row and a column."""
    return (row << SHIFT) | col


@inner
def cell_ahead(cell: Scalar, heading: Scalar) -> Scalar:
    """The next cell in a heading. Without branches, because headings are unpredictable."""
    down = int(heading == 2) - int(heading == 0)
    right = int(heading == 1) - int(heading == 3)
    return cell + (down << SHIFT) + right


@inner
def has_bit(i: Scalar, cell: Scalar, first_row: Scalar, bits: Array) -> Scalar:
    """Whether a cell's bit is set in the rows from `first_row` on."""
    return (bits[i, first_row + (cell >> SHIFT)] >> (cell & MASK)) & 1 != 0


@inner
def is_deadly(i: Scalar, cell: Scalar, bits: Array) -> Scalar:
    """Whether moving to this cell is death."""
    return has_bit(i, cell, 0, bits)


@inner
def set_bit(i: Scalar, cell: Scalar, bits: Array) -> None:
    """Make a cell deadly."""
    bits[i, cell >> SHIFT] |= 1 << (cell & MASK)


@inner
def clear_bit(i: Scalar, cell: Scalar, bits: Array) -> None:
    """Make a cell safe."""
    bits[i, cell >> SHIFT] &= ~(1 << (cell & MASK))


@inner
def is_wall(cell: Scalar, size: Scalar) -> Scalar:
    """Whether a cell lies in the wall around the board."""
    row, col = cell >> SHIFT, cell & MASK
    return row == 0 or row > size or col == 0 or col > size


@inner
def manhattan_distance(a: Scalar, b: Scalar) -> Scalar:
    """Manhattan distance of two cells."""
    return abs((a >> SHIFT) - (b >> SHIFT)) + abs((a & MASK) - (b & MASK))


@inner
def count_set_bits(word: Scalar) -> Scalar:
    """The number of set bits; the compiler turns this pattern into one instruction."""
    x = np.uint64(word)
    x = x - ((x >> _1) & _ONES_1)
    x = (x & _ONES_2) + ((x >> _2) & _ONES_2)
    x = (x + (x >> _4)) & _ONES_4
    return np.int64((x * _SUM) >> _56)
