"""The directions in which fire goes from cell to cell, and the cells that each of them passes through.

Direction k leads from the middle of a cell straight to the middle of another; k ^ 1 leads back. Besides
the eight neighbors there are knight's moves and longer ones, so fires grow round and not eight-cornered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import ConfigError

# Halves of the compass, as (rows down, columns right); the other half is opposite.
_AXES = ((-1, 0), (0, 1))
_DIAGONALS = ((-1, 1), (1, 1))
_KNIGHTS = ((-2, 1), (-1, 2), (1, 2), (2, 1))
_LONG_KNIGHTS = ((-3, 1), (-1, 3), (1, 3), (3, 1))
_BETWEEN = ((-3, 2), (-2, 3), (2, 3), (3, 2))

_SETS = {
    8: _AXES + _DIAGONALS,
    16: _AXES + _DIAGONALS + _KNIGHTS,
    24: _AXES + _DIAGONALS + _KNIGHTS + _LONG_KNIGHTS,
    32: _AXES + _DIAGONALS + _KNIGHTS + _LONG_KNIGHTS + _BETWEEN,
}

Offset = tuple[int, int]


@dataclass(frozen=True)
class Direction:
    """A move by (rows, columns): the cells passed through, with the share of the path in each, and touched."""

    offset: Offset
    passed: tuple[tuple[Offset, float], ...]
    touched: tuple[Offset, ...]  # at a corner, where the path passes between two of them

    @property
    def azimuth(self) -> float:
        """Degrees clockwise from north."""
        return float(np.degrees(np.arctan2(self.offset[1], -self.offset[0])) % 360.0)

    @property
    def outside(self) -> float:
        """The share of the move that remains after half a cell."""
        return 1.0 - 0.5 / self.length

    @property
    def length(self) -> float:
        """Length in cells, on the map."""
        return float(np.hypot(*self.offset))


@cache
def fire_directions(count: int) -> tuple[Direction, ...]:
    """A set of 8, 16, 24 or 32 directions; opposite ones are neighbors in it."""
    if count not in _SETS:
        raise ConfigError(f"Fire spreads in 8, 16, 24 or 32 directions; {count} were asked for.")
    offsets = [signed for r, c in _SETS[count] for signed in ((r, c), (-r, -c))]
    return tuple(Direction(offset, *_cells_along(offset)) for offset in offsets)


def moves_ended_by_break(count: int) -> NDArray[np.int32]:
    """All moves that a break in a cell ends, [T, 3]: rows and columns from the cell to where they start, direction.

    A move ends when any cell that it passes or touches is a break: a wall of breaks holds along a diagonal too.
    """
    moves = []
    for k, direction in enumerate(fire_directions(count)):
        for row, column in {cell for cell, _ in direction.passed} | set(direction.touched):
            moves.append((-row, -column, k))
    return np.array(sorted(moves), dtype=np.int32)


def _cells_along(offset: Offset) -> tuple[tuple[tuple[Offset, float], ...], tuple[Offset, ...]]:
    """Cells along the straight line, by cutting it at every border between rows and columns."""
    rows, columns = offset
    cuts = {Fraction(0), Fraction(1)}
    for span in (abs(rows), abs(columns)):
        cuts |= {Fraction(2 * i + 1, 2 * span) for i in range(span)}
    ordered = sorted(cuts)
    passed = []
    for start, end in pairwise(ordered):
        middle = (start + end) / 2
        passed.append(((round(middle * rows), round(middle * columns)), float(end - start)))
    touched = []
    for (first, _), (second, _) in pairwise(passed):
        if first[0] != second[0] and first[1] != second[1]:
            touched += [(first[0], second[1]), (second[0], first[1])]
    return tuple(passed), tuple(touched)
