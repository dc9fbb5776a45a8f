"""From a problem to a report: which plan is chosen, and what its breaks are worth."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from plan_report_data import area_report, make_problem, small_report

from flashdqn.planning import judge_plans
from flashdqn.planning.break_worth import BreakWorth
from flashdqn.planning.budgets import parse_budget
from flashdqn.planning.carry_out import WorkOrder, keep_apart, make_report, measure_given, score_report
from flashdqn.planning.estimates import (
    Estimate,
    estimate_loss,
    estimate_mean,
    format_interval,
    format_signed,
)
from flashdqn.planning.judge import Difference
from flashdqn.planning.plan import Plan
from flashdqn.planning.worth import find_most_valuable, rank_groups


def quiet(share: float, words: str) -> None:
    assert 0.0 <= share <= 1.0
    assert words


def order_for(budget: str, **changes: object) -> WorkOrder:
    full = parse_budget(budget, make_problem())
    order = WorkOrder(full, (full.amount / 2, full.amount), ("random", "dpv-once"), fires=60, seed=4)
    return dataclasses.replace(order, **changes)  # type: ignore[arg-type]


def test_the_best_plan_is_written_and_other_fires_have_chosen_it() -> None:
    problem = make_problem()
    report = make_report(problem, order_for("24"), quiet, ("A note.",))
    assert report.chosen == "dpv-once"
    assert report.notes[0] == "A note."
    assert "60 other fires" in report.notes[1]
    assert set(report.judgement.after) == {"random", "dpv-once"}
    judged = judge_plans(problem, report.plans, (24.0,), 60, 4)
    assert np.array_equal(judged.after["dpv-once"][0].area, report.after.area)
    named = make_report(problem, order_for("24", write="random"), quiet)
    assert (named.chosen, named.notes) == ("random", ())


def test_a_given_plan_is_judged_beside_random_breaks_of_the_same_number() -> None:
    problem = make_problem()
    dead = np.flatnonzero(~problem.landscape.burnable.reshape(-1))[:2]
    alive = np.flatnonzero(problem.landscape.burnable.reshape(-1))[40:50]
    given = Plan("given", np.concatenate([alive, dead]), 0.0)
    budget, notes = measure_given(problem, given)
    assert budget.amount == len(given.order)
    assert len(notes) == (1 if len(dead) else 0)
    order = WorkOrder(budget, (budget.amount,), ("random",), fires=30)
    report = score_report(problem, given, order, quiet, notes)
    assert report.is_given
    assert report.judgement.placed == {"given": (len(given.order),), "random": (len(given.order),)}


def test_a_plan_on_every_cell_can_be_scored() -> None:
    problem = make_problem()
    given = Plan("given", np.arange(400, dtype=np.int64), 0.0)
    budget, _ = measure_given(problem, given)
    report = score_report(problem, given, WorkOrder(budget, (400.0,), ("random",), fires=5), quiet)
    assert report.after.area.sum() == 0


def test_worth_equals_the_loss_without_a_break() -> None:
    report = small_report()
    groups = find_most_valuable(report.groups, 3)
    whole = report.after.counted()
    for group in groups:
        rest = np.array([cell for cell in report.written_plan.order if cell not in set(group.cells.tolist())])
        judged = judge_plans(report.problem, {"rest": Plan("given", rest, 0.0)}, (1e6,), 40, 11)
        more = judged.after["rest"][0].counted() - whole
        assert group.worth is not None
        assert group.worth.mean == pytest.approx(more.mean())
    worths = [group.worth.mean for group in groups if group.worth is not None]
    assert worths == sorted(worths, reverse=True)
    assert worths[0] > 0


def test_only_the_largest_breaks_are_valued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.planning.worth.MOST_JUDGED", 2)
    monkeypatch.setattr("flashdqn.planning.worth.CELLS_TOGETHER", 1)  # one plan at a time
    report = area_report()
    judge = functools.partial(judge_plans, fires=40, seed=11)
    groups = rank_groups(report.problem, report.written_plan.order, report.after, 24.0, judge)
    valued = [group for group in groups if group.worth is not None]
    assert sorted(group.rank for group in valued) == [1, 2]
    assert all(group.rank == 0 for group in groups if group.worth is None)
    largest = sorted((len(group.cells) for group in groups), reverse=True)[:2]
    assert sorted((len(group.cells) for group in valued), reverse=True) == largest


def test_gaps_lie_apart_and_cost_something() -> None:
    gaps = [
        BreakWorth(cell, 0, Difference(mean, 0.1))
        for cell, mean in ((45, 9.0), (46, 8.0), (47, 7.0), (48, 6.0), (105, 5.0), (399, 0.0))
    ]
    assert [gap.cell for gap in keep_apart(gaps, 20)] == [45, 48, 105]
    many = [BreakWorth(cell, 0, Difference(1.0, 0.1)) for cell in range(0, 400, 9)]
    assert len(keep_apart(many, 20)) == 10


def test_estimates_in_words() -> None:
    values = np.array([1.0, 2.0, 3.0, 6.0])
    found = estimate_mean(values)
    half = 1.96 * values.std(ddof=1) / 2
    assert (found.mean, found.half) == pytest.approx((3.0, half))
    assert (found.low, found.high) == pytest.approx((3.0 - half, 3.0 + half))
    assert format_interval(Estimate(38.9, 2.8)) == "38.9 (36.1 to 41.7)"
    assert format_interval(Estimate(0.5, 0.8)) == "0.5 (0 to 1.3)"
    assert format_interval(Estimate(38.9, float("inf"))) == "38.9"
    assert format_signed(Estimate(-3.2, 0.4)) == "−3.2 ± 0.4"
    assert format_signed(Estimate(0.0, 0.0)) == "+0 ± 0"
    losses = small_report().judgement.before
    assert losses.value is not None
    assert estimate_loss(losses).mean == pytest.approx(float(losses.value.mean()))
