"""Breaks as groups of touching cells, against a naive twin; center lines through them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.planning.groups import Cell, group_cells, thin_cells, trace_chains

SIDE = 7
orders = st.lists(st.integers(0, SIDE * SIDE - 1), unique=True, max_size=30)


def touch(a: Cell, b: Cell) -> bool:
    return max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1


def naive_groups(cells: set[Cell]) -> set[frozenset[Cell]]:
    """Join groups that touch, until nothing changes."""
    groups = [{cell} for cell in cells]
    while True:
        pair = next(
            (
                (one, two)
                for one in groups
                for two in groups
                if one is not two and any(touch(a, b) for a in one for b in two)
            ),
            None,
        )
        if pair is None:
            return {frozenset(group) for group in groups}
        groups.remove(pair[1])
        pair[0].update(pair[1])


def to_cells(flat: list[int]) -> set[Cell]:
    return {divmod(cell, SIDE) for cell in flat}


@given(orders)
def test_groups_equal_the_twins(order: list[int]) -> None:
    groups = group_cells(np.array(order, dtype=np.int64), SIDE)
    assert {frozenset(to_cells(group.cells.tolist())) for group in groups} == naive_groups(to_cells(order))
    assert [group.number for group in groups] == list(range(1, len(groups) + 1))
    assert sorted(group.first_order for group in groups) == [group.first_order for group in groups]
    for group in groups:
        assert [order[place - 1] for place in group.orders] == group.cells.tolist()
        assert group.last_order == max(group.orders)


@given(orders)
def test_thinning_keeps_what_touches_together(order: list[int]) -> None:
    cells = to_cells(order)
    left = thin_cells(cells)
    assert left <= cells
    whole, thin = naive_groups(cells), naive_groups(left)
    assert len(whole) == len(thin)
    assert all(any(part <= group for group in whole) for part in thin)


@given(orders)
def test_chains_pass_every_thin_cell_and_no_step_twice(order: list[int]) -> None:
    left = thin_cells(to_cells(order))
    chains = trace_chains(order, SIDE)
    steps = [frozenset(pair) for chain in chains for pair in pairwise(chain)]
    assert len(steps) == len(set(steps))
    assert all(touch(*tuple(step)) for step in steps)
    alone = {cell for cell in left if not any(touch(cell, other) for other in left)}
    assert {cell for chain in chains for cell in chain} == left - alone


def test_known_shapes() -> None:
    line = [1 * SIDE + k for k in range(5)]
    assert trace_chains(line, SIDE) == [[(1, k) for k in range(5)]]
    cross = [3 * SIDE + k for k in range(5)] + [row * SIDE + 2 for row in (1, 2, 4, 5)]
    chains = trace_chains(cross, SIDE)
    assert sorted(len(chain) for chain in chains) == [3, 3, 3, 3]
    ring = [(1, 2), (2, 1), (2, 3), (3, 2)]
    closed = trace_chains([row * SIDE + column for row, column in ring], SIDE)
    assert len(closed) == 1
    assert closed[0][0] == closed[0][-1]
    assert len(closed[0]) == 5
    thick = [row * SIDE + column for row in (2, 3, 4) for column in range(SIDE)]
    assert {row for chain in trace_chains(thick, SIDE) for row, _ in chain} == {3}
