"""A large landscape in windows of the size that a network was trained on.

A window has a core, whose values count, and a halo around it, which the network only sees. Cores cover the
landscape without overlap. All windows have one size: at an edge of the landscape they move inward, so that the
network sees the edge as it does in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class MapWindow:
    """Rows and columns that the network sees, and those of the core."""

    rows: slice
    columns: slice
    core_rows: slice
    core_columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns that the network sees."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def inner_core(self) -> tuple[slice, slice]:
        """The core, counted from the window's own corner."""
        top, left = self.rows.start, self.columns.start
        return (
            slice(self.core_rows.start - top, self.core_rows.stop - top),
            slice(self.core_columns.start - left, self.core_columns.stop - left),
        )


def lay_windows(shape: tuple[int, int], size: int, halo: int) -> list[MapWindow]:
    """Windows of `size` cells a side, or as many as there are, with a halo of at least `halo` inside the
    landscape."""
    return [
        MapWindow(rows, columns, core_rows, core_columns)
        for rows, core_rows in _cut_axis(shape[0], size, halo)
        for columns, core_columns in _cut_axis(shape[1], size, halo)
    ]


def _cut_axis(length: int, size: int, halo: int) -> list[tuple[slice, slice]]:
    """What is seen and what counts, along one axis: cores of about equal length."""
    if length <= size:
        return [(slice(0, length), slice(0, length))]
    if size <= 2 * halo:
        raise ValueError(f"a window of {size} cells leaves no core inside a halo of {halo}")
    count = -(-length // (size - 2 * halo))
    edges = [round(k * length / count) for k in range(count + 1)]
    cut = []
    for start, end in pairwise(edges):
        first = min(max(0, (start + end - size) // 2), length - size)
        cut.append((slice(first, first + size), slice(start, end)))
    return cut
