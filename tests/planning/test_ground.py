"""Tables in bands equal those of the whole; what cannot be planned is refused in one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planning_problems import make_problem

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.ground import build_ground, build_tables, prepare_ground
from flashdqn.planning.purse import Purse


@pytest.mark.parametrize("at_once", [1, 70, 200, 100_000])
def test_bands_equal_the_whole_landscape(at_once: int) -> None:
    problem = make_problem()
    whole = spread_tables(
        [fire_behavior(problem.landscape, scenario.weather) for scenario in problem.scenarios]
    )
    bands = build_tables(problem, at_once=at_once)
    assert bands.shape == whole.shape
    for name in ("times", "open", "burnable"):
        assert getattr(bands, name).equal(getattr(whole, name)), name
    inside = np.isfinite(whole.times.numpy())
    assert inside.any()


def test_breaks_may_lie_where_something_burns_and_nobody_forbids_it() -> None:
    problem = make_problem(maps=True)
    ground = build_ground(problem)
    assert problem.stakes.forbidden is not None
    burns = ground.burnable.any(0)
    assert np.array_equal(ground.allowed, burns & ~problem.stakes.forbidden.reshape(-1))


def test_fires_start_by_chance_and_only_where_it_burns() -> None:
    problem = make_problem(maps=True)
    ground = build_ground(problem)
    table, ignition = ground.draw_fires(20_000, np.random.default_rng(0))
    assert abs((table == 0).mean() - 0.75) < 0.02
    for s in range(2):
        weight = ground.ignition_weight(s)
        counts = np.bincount(ignition[table == s], minlength=ground.cells)
        assert counts[weight == 0].sum() == 0
        assert np.abs(counts / counts.sum() - weight / weight.sum()).max() < 0.01


def test_evenly_drawn_fires_start_in_every_cell_about_equally() -> None:
    problem = dataclasses.replace(make_problem(), scenarios=make_problem().scenarios[:1])
    ground = build_ground(problem)
    starts = int(ground.burnable[0].sum())
    _, ignition = ground.draw_fires(starts, np.random.default_rng(0), evenly=True)
    counts = np.bincount(ignition, minlength=ground.cells)[ground.burnable[0]]
    assert counts.max() <= 2
    assert counts.sum() == starts


def test_the_last_problem_is_remembered() -> None:
    problem = make_problem()
    assert prepare_ground(problem) is prepare_ground(problem)
    assert prepare_ground(make_problem()) is not prepare_ground(problem)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"cost": np.zeros((18, 24), dtype=np.float32)}, r"above 0, and holds 0 in row 0, column 0"),
    ({"cost": np.ones((3, 4), dtype=np.float32)}, r"map of cost has 3 x 4 cells, and the landscape 18 x 24"),
    ({"scenarios": ()}, "at least one scenario"),
    ({"stakes": Stakes(value=np.zeros((18, 24), dtype=np.float32))}, "nothing to protect"),
    ({"stakes": Stakes(value=np.ones((2, 2), dtype=np.float32))}, "2 x 2 cells, and the landscape 18 x 24"),
]


@pytest.mark.parametrize(("change", "text"), BAD)
def test_what_cannot_be_planned_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(EnvError, match=text):
        build_ground(dataclasses.replace(make_problem(), **change))


def test_no_ignition_where_it_burns() -> None:
    ground = build_ground(
        dataclasses.replace(make_problem(), stakes=Stakes(ignition=np.zeros((18, 24), dtype=np.float32)))
    )
    with pytest.raises(EnvError, match="No fire can start in the scenario dry"):
        ground.draw_fires(100, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("budget", "text"),
    [(0.0, "above 0"), (0.5, "cheapest break costs 1"), (1e6, "lower it"), (np.nan, "above 0")],
)
def test_budgets_that_nobody_can_spend(budget: float, text: str) -> None:
    with pytest.raises(EnvError, match=text):
        Purse(build_ground(make_problem()), budget)


def test_everything_forbidden() -> None:
    nowhere = Stakes(forbidden=np.ones((18, 24), dtype=np.bool_))
    with pytest.raises(EnvError, match="No break may lie anywhere"):
        Purse(build_ground(dataclasses.replace(make_problem(), stakes=nowhere)), 5.0)
