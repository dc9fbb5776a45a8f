"""What burns behind each cell while a plan is made: few scouts first, all of them once fires are small."""

from __future__ import annotations

import numpy as np
import pytest
from planning_problems import make_problem

from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.planning.flow import COARSE, FEWEST, FlowMap
from flashdqn.planning.ground import build_ground
from flashdqn.planning.tiles import lay_windows

GROUND = build_ground(make_problem(rows=36, columns=40))


def count_from_scratch(flow: FlowMap, breaks: list[int]) -> np.ndarray:
    fires = SingleFires(GROUND.tables, GROUND.problem.duration)
    fires.replace_breaks(np.array(breaks, dtype=np.int64))
    return np.stack(
        [
            fires.add_up_downstream(np.full(flow.count, s), flow.ignition[s], GROUND.weight)
            for s in range(len(flow.ignition))
        ]
    )


def test_few_scouts_burn_first_and_one_for_each_cell_once_fires_are_small() -> None:
    flow, breaks = FlowMap(GROUND), []
    assert flow.count == GROUND.cells // COARSE > FEWEST
    counts = []
    order = np.random.default_rng(0).permutation(np.flatnonzero(GROUND.allowed))
    for part in np.array_split(order, 8)[:7]:
        flow.place(part.tolist())
        breaks += part.tolist()
        counts.append(flow.count)
        assert flow.total == pytest.approx(count_from_scratch(flow, breaks), abs=1e-3)
    assert counts[-1] == GROUND.cells
    assert counts == sorted(counts)


def test_scouts_start_where_fires_start() -> None:
    ground = build_ground(make_problem(maps=True))
    flow = FlowMap(ground)
    for s in range(len(flow.ignition)):
        assert ground.ignition_weight(s)[flow.ignition[s]].min() > 0


def test_what_still_burns_in_a_window_is_the_mean_over_the_fires_that_start_in_it() -> None:
    flow, breaks = FlowMap(GROUND), np.flatnonzero(GROUND.allowed)[::9].tolist()
    flow.place(breaks)
    fires = SingleFires(GROUND.tables, GROUND.problem.duration)
    fires.replace_breaks(np.array(breaks, dtype=np.int64))
    for window in lay_windows(GROUND.problem.landscape.shape, 20, 4):
        inside = np.zeros((36, 40), dtype=bool)
        inside[window.rows, window.columns] = True
        for s, still in enumerate(flow.remaining(window)):
            mine = flow.ignition[s][inside.reshape(-1)[flow.ignition[s]]]
            burned = fires.measure(np.full(len(mine), s), mine, GROUND.weight)[1]
            share = (GROUND.ignition_weight(s) * inside.reshape(-1)).sum() / GROUND.ignition_totals[s]
            expected = burned.sum() / (flow.count * share) / GROUND.weight[inside.reshape(-1)].sum()
            assert still == pytest.approx(expected, rel=1e-5)
            assert still > 0
