"""The judge against plain loops over `Spread`; paired intervals; what each break is worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from planning_problems import make_problem

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import BURN, Spread
from flashdqn.planning.break_worth import find_best_breaks
from flashdqn.planning.ground import prepare_ground
from flashdqn.planning.judge import (
    FireJudge,
    compare_losses,
    judge_given,
    judge_plans,
    spread_budgets,
    summarize,
)
from flashdqn.planning.plan import Plan
from flashdqn.planning.problem import Problem

FIRES = 40


def burn_plainly(problem: Problem, cells: np.ndarray, seed: int) -> np.ndarray:
    """Which cells each judging fire burns, [F, cells], fire by fire on the whole grid."""
    ground = prepare_ground(problem)
    judge = FireJudge(ground, FIRES, seed)
    spread = Spread(ground.tables, 1, 1, problem.duration)
    spread.breaks[0, torch.from_numpy(cells)] = True
    burned = []
    for table, ignition in zip(judge.table, judge.ignition, strict=True):
        spread.table[0], spread.ignition[0, 0] = int(table), int(ignition)
        spread.command.fill_(BURN)
        spread.launch()
        burned.append(spread.arrival[0, 0].isfinite().numpy().copy())
    return np.array(burned)


def draw_plan(problem: Problem, seed: int, count: int) -> Plan:
    ground = prepare_ground(problem)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(ground.allowed))[:count]
    return Plan("random", order, 0.0)


@pytest.mark.parametrize("maps", [False, True])
def test_the_judge_counts_as_plain_loops_do(maps: bool) -> None:
    problem = make_problem(maps=maps)
    ground = prepare_ground(problem)
    plan = draw_plan(problem, 0, 60)
    budget = float(ground.cost[plan.order].sum())
    judged = judge_plans(problem, {"random": plan}, spread_budgets(budget, 3), FIRES, seed=3)
    spent = np.cumsum(ground.cost[plan.order])
    for k, level in enumerate(judged.budgets):
        count = judged.placed["random"][k]
        assert spent[count - 1] <= level * (1 + 1e-6)
        assert count == 60 or spent[count] > level
        burned = burn_plainly(problem, plan.order[:count], seed=3)
        losses = judged.after["random"][k]
        assert np.allclose(losses.area, burned.sum(1) * 0.09)
        assert np.allclose(losses.burn_probability.reshape(-1), burned.mean(0))
        if maps:
            assert problem.stakes.value is not None
            assert losses.value is not None
            assert np.allclose(losses.value, (burned * problem.stakes.value.reshape(-1)).sum(1))
            assert losses.counted() is losses.value
        else:
            assert losses.value is None
    assert judged.placed["random"][-1] == 60
    assert np.allclose(judged.before.area, burn_plainly(problem, plan.order[:0], seed=3).sum(1) * 0.09)


def test_other_seeds_are_other_fires() -> None:
    problem = make_problem()
    plan = {"random": draw_plan(problem, 0, 5)}
    first, second, again = (judge_plans(problem, plan, (5.0,), 30, seed) for seed in (0, 1, 0))
    assert not np.array_equal(first.before.area, second.before.area)
    assert np.array_equal(first.before.area, again.before.area)


def test_differences_are_paired_by_fire() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = summarize(values)
    assert found.mean == 4.0
    assert found.error == pytest.approx(1.96 * np.sqrt(38.0 / 3) / 2)
    problem = make_problem()
    judged = judge_plans(problem, {"random": draw_plan(problem, 0, 50)}, (50.0,), FIRES)
    saved = compare_losses(judged.before, judged.after["random"][0])
    paired = judged.before.area - judged.after["random"][0].area
    assert saved.mean == pytest.approx(paired.mean())
    assert saved.mean > 0


def test_anybodys_plan() -> None:
    problem = make_problem(maps=True)
    ground = prepare_ground(problem)
    cells = np.array([30, 31, 30, 200])
    judged = judge_given(problem, cells, FIRES)
    assert judged.placed == {"given": (3,)}
    assert judged.budgets[0] == pytest.approx(ground.cost[[30, 31, 200]].sum())
    assert np.allclose(judged.after["given"][0].area, burn_plainly(problem, cells, seed=0).sum(1) * 0.09)
    for bad, text in (([], "empty"), ([5, 10_000], "cell 10000"), ([-1], "cell -1")):
        with pytest.raises(EnvError, match=text):
            judge_given(problem, np.array(bad, dtype=np.int64))


@pytest.mark.parametrize("maps", [False, True])
def test_a_break_is_worth_what_burns_without_it(maps: bool) -> None:
    problem = make_problem(maps=maps)
    plan = draw_plan(problem, 1, 40)
    found = find_best_breaks(problem, plan.order, count=40, fires=FIRES, seed=2)
    assert found.tried == found.total
    weight = (
        np.full(18 * 24, 0.09)
        if problem.stakes.value is None
        else problem.stakes.value.reshape(-1).astype(float)
    )
    base = (burn_plainly(problem, plan.order, seed=2) * weight).sum(1)
    twin = {}
    for place, cell in enumerate(plan.order):
        without = (burn_plainly(problem, np.delete(plan.order, place), seed=2) * weight).sum(1)
        twin[int(cell)] = float((without - base).mean())
    for one in found.breaks:
        assert one.saved.mean == pytest.approx(twin.pop(one.cell), abs=1e-9)
    assert all(abs(rest) < 1e-9 for rest in twin.values())  # those that no fire comes near
    means = [one.saved.mean for one in found.breaks]
    assert means == sorted(means, reverse=True)
    assert means[0] > 0


def test_without_time_the_busiest_breaks_are_tried() -> None:
    problem = make_problem()
    plan = draw_plan(problem, 1, 40)
    found = find_best_breaks(problem, plan.order, count=3, fires=FIRES, seconds=0.0)
    assert found.tried == 3 < found.total


def test_equal_losses_have_no_interval() -> None:
    assert summarize(np.full(50, 0.81)).error == 0.0
