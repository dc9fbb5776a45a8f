"""Single fires burn what `Spread` burns; their trees are counted as a plain recursion counts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.envs.fuelbreaks.fire import BURN, DRY, EXTREME, Spread, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.envs.fuelbreaks.generate import generate_landscape

SIZE, FIRES = 20, 6
DURATION = 120.0
LAND = generate_landscape(5, SIZE)
TABLES = spread_tables([fire_behavior(LAND, DRY), fire_behavior(LAND, EXTREME)])


def burn_whole(table: np.ndarray, ignition: np.ndarray, breaks: np.ndarray) -> Spread:
    spread = Spread(TABLES, len(table), 1, DURATION)
    spread.table.copy_(torch.from_numpy(table))
    spread.ignition[:, 0] = torch.from_numpy(ignition)
    spread.breaks[:] = torch.from_numpy(breaks)
    spread.command.fill_(BURN)
    spread.launch()
    return spread


def draw_case(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    table = random.integers(0, 2, FIRES)
    ignition = random.integers(0, SIZE * SIZE, FIRES)
    breaks = random.random(SIZE * SIZE) < random.choice([0.0, 0.05, 0.2])
    return table, ignition, breaks, random.integers(0, 10, SIZE * SIZE).astype(float)


def downstream(spread: Spread, fire: int, cell: int, weight: np.ndarray) -> float:
    """The weight behind a cell, by plain recursion over its children."""
    parent = spread.parent[fire, 0].numpy()
    step = spread.step.numpy()
    children = [c for c in range(len(parent)) if parent[c] >= 0 and c - step[parent[c]] == cell]
    return float(weight[cell]) + sum(downstream(spread, fire, child, weight) for child in children)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_they_burn_what_spread_burns(seed: int) -> None:
    table, ignition, breaks, weight = draw_case(seed)
    fires = SingleFires(TABLES, DURATION)
    fires.replace_breaks(np.flatnonzero(breaks))
    burned, lost, hits = fires.measure(table, ignition, weight)
    reached = burn_whole(table, ignition, breaks).arrival[:, 0].isfinite().numpy()
    assert burned.tolist() == reached.sum(1).tolist()
    assert lost.tolist() == (reached * weight).sum(1).tolist()
    assert hits.tolist() == reached.sum(0).tolist()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_weight_behind_a_cell_is_that_of_its_branch(seed: int) -> None:
    table, ignition, breaks, weight = draw_case(seed)
    fires = SingleFires(TABLES, DURATION)
    fires.replace_breaks(np.flatnonzero(breaks))
    spread = burn_whole(table, ignition, breaks)
    reached = spread.arrival[:, 0].isfinite().numpy()
    twin, without_own = np.zeros(SIZE * SIZE), np.zeros(SIZE * SIZE)
    for fire, start in enumerate(ignition):
        for cell in np.flatnonzero(reached[fire]):
            behind = downstream(spread, fire, int(cell), weight)
            twin[cell] += behind
            without_own[cell] += 0.0 if cell == start else behind - weight[cell]
    assert np.array_equal(fires.add_up_downstream(table, ignition, weight), twin)
    assert np.array_equal(fires.add_up_downstream(table, ignition, weight, inclusive=False), without_own)


@pytest.mark.parametrize("seed", range(8))
def test_savings_are_those_of_spread_where_it_burns(seed: int) -> None:
    table, ignition, breaks, _ = draw_case(seed)
    fires = SingleFires(TABLES, DURATION)
    fires.replace_breaks(np.flatnonzero(breaks))
    spread = burn_whole(table, ignition, breaks)
    reached = spread.arrival[:, 0].isfinite().numpy()
    tried = spread.savings().numpy()
    ones, every = np.ones(SIZE * SIZE), np.ones(SIZE * SIZE, dtype=bool)
    saved = fires.add_up_savings(table, ignition, ones, every)
    assert saved.tolist() == np.where(reached, tried, 0).sum(0).tolist()
    again = fires.measure(table, ignition, ones)[0]
    assert again.tolist() == reached.sum(1).tolist()  # nothing of the trials is left


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_breaks_can_be_taken_away_again(seed: int) -> None:
    table, ignition, breaks, weight = draw_case(seed)
    cells = np.flatnonzero(breaks)
    fires = SingleFires(TABLES, DURATION)
    fires.place(cells)
    fires.remove(cells[::2])
    left = breaks.copy()
    left[cells[::2]] = False
    reached = burn_whole(table, ignition, left).arrival[:, 0].isfinite().numpy()
    assert fires.measure(table, ignition, weight)[0].tolist() == reached.sum(1).tolist()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_a_fire_that_is_not_near_a_break_does_not_notice_it(seed: int) -> None:
    table, ignition, breaks, weight = draw_case(seed)
    cells = np.flatnonzero(breaks)
    fires = SingleFires(TABLES, DURATION)
    fires.replace_breaks(cells)
    near = fires.mark_near(table, ignition, cells)
    before = fires.measure(table, ignition, weight)[0]
    for i, cell in enumerate(cells[:20]):
        fires.remove(cells[i : i + 1])
        after = fires.measure(table, ignition, weight)[0]
        assert not ((before != after) & ~near[:, i]).any(), cell
        fires.place(cells[i : i + 1])
