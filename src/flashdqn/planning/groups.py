"""Cells of a plan that touch each other are one break: groups, and the chains of cells through them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.planning.estimates import Estimate

Cell = tuple[int, int]

#: The eight neighbors of a cell, clockwise from the north.
AROUND: tuple[Cell, ...] = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


@dataclass(frozen=True, eq=False)
class BreakGroup:
    """Cells that touch by a side or a corner: no fire passes between them."""

    number: int  # from 1, by the first cell in the plan's order
    cells: NDArray[np.int64]  # flat cells, in the plan's order
    orders: NDArray[np.int64]  # their places in that order, from 1
    worth: Estimate | None = None  # what fires would cost more without it
    rank: int = 0  # from 1, by worth; 0 where it is not known

    @property
    def first_order(self) -> int:
        """The place of its first cell in the plan's order."""
        return int(self.orders[0])

    @property
    def last_order(self) -> int:
        """The place of its last cell."""
        return int(self.orders[-1])


def group_cells(order: NDArray[np.int64], columns: int) -> list[BreakGroup]:
    """The groups of a plan, in the order of their first cells."""
    place = {int(cell): k + 1 for k, cell in enumerate(order)}
    seen: set[int] = set()
    groups: list[BreakGroup] = []
    for cell in place:
        if cell in seen:
            continue
        found = _collect_touching(cell, place, columns)
        seen |= found
        cells = sorted(found, key=place.__getitem__)
        orders = np.array([place[one] for one in cells], dtype=np.int64)
        groups.append(BreakGroup(len(groups) + 1, np.array(cells, dtype=np.int64), orders))
    return groups


def _collect_touching(start: int, place: dict[int, int], columns: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        row, column = divmod(waiting.pop(), columns)
        for down, right in AROUND:
            near = (row + down) * columns + column + right
            if 0 <= column + right < columns and near in place and near not in found:
                found.add(near)
                waiting.append(near)
    return found


def trace_chains(cells: Iterable[int], columns: int) -> list[list[Cell]]:
    """Center lines through a group: chains of touching cells, thick parts made thin first. A chain ends where it
    branches; a closed one returns to its first cell; a single cell has none."""
    left = thin_cells({divmod(int(cell), columns) for cell in cells})
    links = {cell: set(_linked_cells(cell, left)) for cell in left}
    chains: list[list[Cell]] = []
    ends = sorted(cell for cell, near in links.items() if len(near) != 2)
    stops = set(ends)
    for start in itertools.chain(ends, sorted(links)):  # what is left after the ends are closed rings
        while links[start]:
            chains.append(_follow_chain(start, links, stops))
    return chains


def _follow_chain(start: Cell, links: dict[Cell, set[Cell]], stops: set[Cell]) -> list[Cell]:
    """Follow links, and remove them, up to an end or a branching."""
    chain, here = [start], start
    while links[here]:
        after = min(links[here])
        links[here].discard(after)
        links[after].discard(here)
        chain.append(after)
        here = after
        if here in stops:
            break
    return chain


def _linked_cells(cell: Cell, among: set[Cell]) -> Iterator[Cell]:
    """Neighbors by a side; by a corner only where no cell lies between, so three cells never form a triangle."""
    row, column = cell
    for down, right in AROUND:
        near = (row + down, column + right)
        if near not in among:
            continue
        between = ((row + down, column), (row, column + right))
        if not (down and right) or not any(one in among for one in between):
            yield near


def thin_cells(cells: set[Cell]) -> set[Cell]:
    """Zhang and Suen's thinning (1984), cell by cell: what touches stays together, and no group vanishes."""
    left, changed = set(cells), True
    while changed:
        changed = False
        for half in (0, 1):
            for cell in sorted(cell for cell in left if _may_go(cell, left, half)):
                if _may_go(cell, left, half):  # others may have gone since
                    left.discard(cell)
                    changed = True
    return left


def _may_go(cell: Cell, left: set[Cell], half: int) -> bool:
    row, column = cell
    near = [(row + down, column + right) in left for down, right in AROUND]
    turns = sum(not a and b for a, b in zip(near, [*near[1:], near[0]], strict=True))
    north, east, south, west = near[0], near[2], near[4], near[6]
    if not 2 <= sum(near) <= 6 or turns != 1:
        return False
    if half == 0:
        return not (north and east and south) and not (east and south and west)
    return not (north and east and west) and not (north and south and west)
