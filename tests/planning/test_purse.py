"""Spending a budget: never beyond it, never where no break may lie, and as a plain sort would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import make_problem

from flashdqn.planning.ground import build_ground
from flashdqn.planning.purse import Purse, divide_by_cost, take_best

GROUND = build_ground(make_problem(maps=True))
COLUMNS = 24


def take_plainly(score: np.ndarray, budget: float, count: int, apart: int, least: float) -> list[int]:
    """The same by one sort and a look at every cell taken before."""
    ratio = np.where(score > 0, score / GROUND.cost, score * GROUND.cost)
    left, taken = budget, []
    for cell in sorted(range(GROUND.cells), key=lambda c: (-ratio[c], c)):
        far = all(
            max(abs(cell // COLUMNS - other // COLUMNS), abs(cell % COLUMNS - other % COLUMNS)) >= apart
            for other in taken
        )
        if GROUND.allowed[cell] and score[cell] > least and GROUND.cost[cell] <= left and far:
            if len(taken) == count:
                break
            taken.append(cell)
            left -= GROUND.cost[cell]
    return taken


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(3.1, 80.0),
    st.integers(1, 40),
    st.integers(1, 6),
    st.sampled_from([-np.inf, 0.0]),
)
def test_the_best_are_taken(seed: int, budget: float, count: int, apart: int, least: float) -> None:
    score = np.random.default_rng(seed).normal(size=GROUND.cells).round(1)
    purse = Purse(GROUND, budget)
    assert take_best(purse, score, count, apart, least) == take_plainly(score, budget, count, apart, least)
    assert GROUND.cost[purse.order].sum() <= budget * (1 + 1e-6)
    assert GROUND.allowed[purse.order].all()
    assert len(set(purse.order)) == len(purse.order)


def test_almost_as_good_as_the_best() -> None:
    score = np.zeros(GROUND.cells)
    some = np.flatnonzero(GROUND.allowed)[:4]
    score[some] = GROUND.cost[some] * [1.0, 0.85, 0.79, 0.95]
    taken = take_best(Purse(GROUND, 50.0), score, 10, almost=0.8)
    assert taken == [int(some[0]), int(some[3]), int(some[1])]


@pytest.mark.parametrize("score", [-1.0, 1.0])
def test_what_costs_more_is_worth_less(score: float) -> None:
    ratio = divide_by_cost(np.full(3, score), np.array([0.5, 1.0, 2.0]))
    assert (np.diff(ratio) < 0).all()


def test_a_break_is_placed_once_and_only_if_it_can_be_paid() -> None:
    cell = int(np.flatnonzero(GROUND.allowed)[0])
    purse = Purse(GROUND, float(GROUND.cost[GROUND.allowed].min()) + float(GROUND.cost[cell]))
    assert purse.place(cell)
    assert not purse.place(cell)
    forbidden = int(np.flatnonzero(~GROUND.allowed)[0])
    assert not purse.place(forbidden)
    assert purse.order == [cell]
