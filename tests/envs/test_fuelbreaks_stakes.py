"""Maps of value, ignition and forbidden cells; and the rule that reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import EXPERTS, DownstreamValue
from flashdqn.envs.fuelbreaks.fire import DRY
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.generate_stakes import generate_stakes
from flashdqn.envs.fuelbreaks.scenes import build_scenes
from flashdqn.envs.fuelbreaks.stakes import MOST_WORTH, Stakes

ENV = FuelBreaksConfig(
    size=9, landscapes=6, held_out=2, weathers=("dry@0", "dry@90"), budget=6, fires=4, maps="random"
)


def test_without_maps_every_cell_counts_one_and_burnable_cells_take_fire_alike() -> None:
    burnable = np.array([True, False, True, True])
    assert Stakes().worth((2, 2)).tolist() == [1, 1, 1, 1]
    assert Stakes().ignition_cells(burnable).tolist() == [0, 2, 3]
    assert Stakes().ignition_density(burnable).tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])


@pytest.mark.parametrize("stakes", [Stakes(), Stakes(ignition=np.ones((2, 2)))])
def test_where_nothing_burns_nothing_is_lit_and_the_budget_is_what_is_refused(stakes: Stakes) -> None:
    nothing = np.zeros(4, dtype=np.bool_)
    assert stakes.ignition_density(nothing).tolist() == [0, 0, 0, 0]
    assert stakes.ignition_cells(nothing).tolist() == []
    lake = replace(generate_landscape(3, 9), fuel_model=np.full((9, 9), 98))
    scenes = build_scenes([lake], [DRY], 1, torch.device("cpu"))
    with pytest.raises(EnvError, match="has 0 cells where a break may lie"):
        FuelBreaks(ENV, 1, scenes=scenes)


def test_whole_numbers_keep_their_worth_and_others_are_scaled() -> None:
    assert Stakes(value=np.array([[0, 7], [1000, 2]])).worth((2, 2)).tolist() == [0, 7, 1000, 2]
    assert Stakes(value=np.array([[0.0, 0.25], [0.5, 1.0]])).worth((2, 2)).tolist() == [
        0,
        250,
        500,
        MOST_WORTH,
    ]
    assert Stakes(value=np.array([[0, 4000]])).worth((1, 2)).tolist() == [0, MOST_WORTH]


@given(st.integers(0, 2**32), st.integers(4, 40))
def test_ignitions_are_drawn_as_often_as_their_map_says(seed: int, cells: int) -> None:
    random = np.random.default_rng(seed)
    burnable = random.random(cells) < 0.7
    burnable[0] = True
    stakes = Stakes(ignition=random.random((1, cells)).astype(np.float32) + 0.01)
    listed = np.bincount(stakes.ignition_cells(burnable), minlength=cells) / cells
    assert not listed[~burnable].any()
    np.testing.assert_allclose(listed, stakes.ignition_density(burnable), atol=1.0 / cells + 1e-9)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda: Stakes(value=np.array([[1.0, -2.0]])), "value must hold .* -2 in row 0, column 1"),
        (lambda: Stakes(ignition=np.array([[np.nan]])), "ignition must hold .* nan in row 0, column 0"),
        (lambda: Stakes(value=np.zeros((2, 2))).worth((2, 2)), "0 everywhere"),
        (
            lambda: Stakes(ignition=np.array([[1.0, 0.0]])).ignition_density(np.array([False, True])),
            "no fire can start",
        ),
        (lambda: Stakes(forbidden=np.zeros((2, 3), bool)).check_shape((3, 3)), "2 x 3 cells, .* 3 x 3"),
    ],
)
def test_maps_that_make_no_sense_are_refused(given, says: str) -> None:
    with pytest.raises(EnvError, match=says):
        given()


def test_generated_maps_are_those_of_their_seed_and_each_is_sometimes_missing() -> None:
    land = generate_landscape(3, 20)
    maps = [generate_stakes(seed, land) for seed in range(40)]
    again = generate_stakes(1, land)
    for name in ("value", "ignition", "forbidden"):
        missing = sum(getattr(stakes, name) is None for stakes in maps)
        assert 0 < missing < 40, name
        mine, theirs = getattr(maps[1], name), getattr(again, name)
        assert (mine is None and theirs is None) or np.array_equal(mine, theirs)


def test_no_break_lies_where_it_is_forbidden() -> None:
    env = FuelBreaks(ENV, 12)
    env.reset(0)
    which = env.spread.table.long() // 2
    for i, stakes in enumerate(env.scenes.stakes[int(k)] for k in which):
        if stakes.forbidden is not None:
            forbidden = torch.from_numpy(stakes.forbidden.copy()).flatten()
            assert not (env.mask[i] & forbidden).any()
            assert (env.scenes.burnable[env.spread.table[i]] & forbidden & ~env.mask[i]).any()
    assert torch.equal(env.decoder.legal(env.reset(0)), env.mask)


def downstream_value_by_walking(spread, worth: list[int], board: int) -> list[int]:
    """For every burned cell, walk back to the ignition, and give its worth to all cells on the way."""
    total, step = [0] * len(worth), spread.step.tolist()
    for fire in range(spread.fires):
        arrival, parent = spread.arrival[board, fire].tolist(), spread.parent[board, fire].tolist()
        for burned in (c for c, time in enumerate(arrival) if time != float("inf")):
            cell = burned
            total[cell] += worth[burned]
            while parent[cell] >= 0:
                cell -= step[parent[cell]]
                total[cell] += worth[burned]
    return total


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_the_value_downstream_is_what_lies_behind_a_cell(seed: int) -> None:
    env = FuelBreaks(ENV, 4)
    env.reset(seed)
    rule = DownstreamValue(env, seed, fires=5)
    for _ in range(2):
        scores = rule.scores()
        for board in range(4):
            worth = env.scenes.spread.worth[int(env.spread.table[board])].tolist()
            assert scores[board].tolist() == downstream_value_by_walking(rule.spread, worth, board)
        env.step(scores.masked_fill(~env.mask, -1.0).argmax(1))


def test_values_counted_once_stay_and_counted_again_change() -> None:
    env = FuelBreaks(replace(ENV, maps="none"), 3)
    env.reset(1)
    once, again = DownstreamValue(env, 0, once=True), DownstreamValue(env, 0)
    first = once.scores().clone(), again.scores().clone()
    assert torch.equal(*first)
    env.step(first[0].masked_fill(~env.mask, -1.0).argmax(1))
    assert torch.equal(once.scores(), first[0])
    assert not torch.equal(again.scores(), first[1])


def test_domirank_takes_its_sigma_from_the_settings() -> None:
    experts = [EXPERTS["domirank"](FuelBreaks(replace(ENV, sigma=share), 2), 0) for share in (0.1, 0.9)]
    assert [expert.judge.sigma for expert in experts] == [0.1, 0.9]
