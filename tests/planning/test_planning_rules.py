"""Rules on a problem: the scores of the training environment's experts, masks, costs, and limits of time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import make_problem

from flashdqn.envs.fuelbreaks.experts.domirank import build_spread_graph, domirank_scores, sigma_bound
from flashdqn.envs.fuelbreaks.fire import BURN, Spread
from flashdqn.planning import rules
from flashdqn.planning.ground import Ground, build_ground
from flashdqn.planning.purse import Purse
from flashdqn.planning.rules import RULES, RuleWork, choose_batch, plan_by_rule
from flashdqn.planning.sparse_domirank import find_sigma_bound, make_graph, rank_cells

PLAIN = build_ground(make_problem())
MAPS = build_ground(make_problem(maps=True))


def make_work(ground: Ground, budget: float = 20.0) -> RuleWork:
    return RuleWork(ground, Purse(ground, budget), np.random.default_rng(0))


def walk_down(spread: Spread, cell: int, weight: np.ndarray) -> float:
    """The weight of a cell and of all that burn from it, by recursion."""
    parent, step = spread.parent[0, 0].numpy(), spread.step.numpy()
    children = [c for c in range(len(parent)) if parent[c] >= 0 and c - step[parent[c]] == cell]
    return float(weight[cell]) + sum(walk_down(spread, child, weight) for child in children)


@pytest.mark.parametrize("scene", [0, 1])
def test_domirank_equals_the_dense_solution(scene: int) -> None:
    ways = build_spread_graph(PLAIN.tables, scene)
    adjacency = ways + ways.T
    adjacency /= adjacency.max()
    bound = sigma_bound(adjacency)
    assert find_sigma_bound(make_graph(PLAIN.tables, scene)) == pytest.approx(bound, rel=1e-4)
    dense = domirank_scores(adjacency, 0.9 * bound)
    ranks, exact = rank_cells(PLAIN.tables, scene)
    assert exact
    assert torch.allclose(ranks, dense, rtol=1e-3, atol=1e-4)


def test_domirank_without_time_is_told() -> None:
    assert not rank_cells(PLAIN.tables, 0, seconds=0.0)[1]
    assert "stopped before its end" in plan_by_rule("domirank", PLAIN, 5.0, seconds=0.0).note


def test_the_graph_applies_as_its_matrix() -> None:
    ways = build_spread_graph(PLAIN.tables, 0)
    adjacency = ways + ways.T
    adjacency /= adjacency.max()
    vector = torch.randn(PLAIN.cells, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(make_graph(PLAIN.tables, 0).apply(vector), adjacency @ vector, rtol=1e-5)


def test_downstream_value_is_that_of_the_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "FEWEST_FIRES", 12)
    monkeypatch.setattr(rules, "MOST_FIRES", 12)
    work = make_work(MAPS)
    score = rules.make_downstream_value(work)(work.make_fires())
    table, ignition = MAPS.draw_fires(12, np.random.default_rng(0), evenly=True)
    spread = Spread(MAPS.tables, 1, 1, MAPS.problem.duration)
    twin = np.zeros(MAPS.cells)
    for s, start in zip(table, ignition, strict=True):
        spread.table[0], spread.ignition[0, 0] = int(s), int(start)
        spread.command.fill_(BURN)
        spread.launch()
        for cell in spread.arrival[0, 0].isfinite().nonzero().squeeze(1).tolist():
            twin[cell] += walk_down(spread, cell, MAPS.weight) / 12
    assert np.allclose(score, twin)
    assert twin.max() > 0
    assert work.notes == ["fires from 12 sampled cells"]


def test_betweenness_counts_all_paths_of_both_scenarios() -> None:
    work = make_work(PLAIN)
    score = rules.make_betweenness(work)(work.make_fires())
    twin = np.zeros(PLAIN.cells)
    ones = np.ones(PLAIN.cells)
    spread = Spread(PLAIN.tables, 1, 1, PLAIN.problem.duration)
    random = np.random.default_rng(1)
    watched = random.choice(np.flatnonzero(score > 0), 4, replace=False)
    for s, share in enumerate((0.75, 0.25)):
        for start in np.flatnonzero(PLAIN.burnable[s]):
            spread.table[0], spread.ignition[0, 0] = s, int(start)
            spread.command.fill_(BURN)
            spread.launch()
            for cell in watched:
                if cell != start and spread.arrival[0, 0, cell].isfinite():
                    twin[cell] += share * (walk_down(spread, int(cell), ones) - 1)
    assert np.allclose(score[watched], twin[watched])


def test_lookahead_takes_what_saves_most() -> None:
    work = make_work(MAPS)
    score = rules.make_lookahead(work)(work.make_fires())
    table, ignition = MAPS.draw_fires(rules.LOOKAHEAD_FIRES, np.random.default_rng(0), evenly=True)
    fires = work.make_fires()
    before = fires.measure(table, ignition, MAPS.weight)[1].sum()
    best = int(score.argmax())
    fires.place(np.array([best]))
    assert before - fires.measure(table, ignition, MAPS.weight)[1].sum() == pytest.approx(score[best])
    assert score[~MAPS.allowed].max() == 0


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=4, deadline=None)
@given(st.floats(4.0, 60.0), st.integers(0, 1000))
def test_every_rule_keeps_to_masks_budget_and_costs(name: str, budget: float, seed: int) -> None:
    plan = plan_by_rule(name, MAPS, budget, seed)
    costs = MAPS.cost[plan.order]
    assert plan.policy == name
    assert MAPS.allowed[plan.order].all()
    assert len(np.unique(plan.order)) == len(plan.order)
    assert costs.sum() <= budget * (1 + 1e-6)
    rest = MAPS.allowed.copy()
    rest[plan.order] = False
    assert MAPS.cost[rest].min() > budget - costs.sum() - 1e-6  # nothing more could be paid


@pytest.mark.parametrize("name", RULES)
def test_the_same_seed_gives_the_same_plan(name: str) -> None:
    first, second = (plan_by_rule(name, PLAIN, 12.0, seed=4) for _ in range(2))
    assert first.order.tolist() == second.order.tolist()


def test_counting_again_saves_more_than_counting_once() -> None:
    table, ignition = PLAIN.draw_fires(400, np.random.default_rng(9))
    fires = make_work(PLAIN).make_fires()
    lost = {}
    for name in ("dpv", "dpv-once", "random"):
        fires.replace_breaks(plan_by_rule(name, PLAIN, 30.0).order)
        lost[name] = fires.measure(table, ignition, PLAIN.weight)[1].mean()
    assert lost["dpv"] < lost["dpv-once"] < lost["random"]


def test_without_time_all_breaks_come_from_one_count_and_the_note_says_so() -> None:
    plan = plan_by_rule("dpv", PLAIN, 40.0, seconds=0.0)
    assert plan.note.startswith("counted ")
    assert "up to 40 breaks each" in plan.note
    assert len(plan.order) == 40


def test_batches_fit_into_the_time() -> None:
    purse = Purse(PLAIN, 40.0)
    assert choose_batch(purse, each=1.0, left=100.0) == 1
    assert choose_batch(purse, each=1.0, left=9.5) == 4  # this one and nine more
    assert choose_batch(purse, each=1.0, left=0.5) == 40


def test_a_large_landscape_is_sampled_and_the_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_TRIED", 50)
    monkeypatch.setattr(rules, "MOST_FIRES", 300)
    assert "tries the 50 cells" in plan_by_rule("lookahead", PLAIN, 5.0).note
    assert "paths from 300 sampled cells" in plan_by_rule("betweenness-once", PLAIN, 5.0).note
