"""Betweenness, brought up to date break by break, against a count of all fires in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fire_twin import random_tables

from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Betweenness
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread


def make_env() -> FuelBreaks:
    config = FuelBreaksConfig(
        size=12, landscapes=3, held_out=0, fires=2, budget=20.0, weathers=("dry@90", "mild")
    )
    env = FuelBreaks(config, 3)
    env.reset(5)
    return env


def count_in_python(env: FuelBreaks, board: int) -> list[int]:
    """The cells behind each cell, over the trees of all fires, by walking up from every burned cell."""
    tables, table = env.scenes.spread, int(env.spread.table[board])
    cells, duration = env.num_actions, env.config.duration
    spread = Spread(tables, 1, cells, duration)
    spread.table.fill_(table)
    spread.breaks.copy_(env.spread.breaks[board : board + 1])
    spread.ignition.copy_(torch.arange(cells))
    spread.command.fill_(BURN)
    spread.launch()
    passable, into = spread._arrays.passable[0].tolist(), tables.into[table].numpy()
    outside, step = spread._arrays.outside.numpy(), spread.step.tolist()
    total = [0] * cells
    for fire in range(cells):
        arrival = spread.arrival[0, fire].numpy()
        came_from = {}
        for cell in np.flatnonzero(np.isfinite(arrival)).tolist():
            for k in range(len(step)):
                source = cell + step[k]
                if cell == fire or not (passable[cell] >> k) & 1:
                    continue
                way = into[cell, k ^ 1]
                if (way * outside[k ^ 1] if source == fire else arrival[source] + way) == arrival[cell]:
                    came_from[cell] = source
                    break
        for cell in came_from:
            above = came_from[cell]
            while above != fire:
                total[above] += 1
                above = came_from[above]
    return total


def test_scores_after_each_break_equal_a_count_of_all_fires() -> None:
    env = make_env()
    judge = Betweenness(env)
    for step in range(6):
        scores = judge.scores()
        for board in range(env.num_envs):
            assert scores[board].tolist() == count_in_python(env, board)
        assert torch.equal(Betweenness(env).scores(), scores)
        action = scores.masked_fill(~env.mask, -1.0).argmax(1)
        if step == 3:
            action[1] = (
                int((~env.mask[1]).nonzero()[0]) if (~env.mask[1]).any() else action[1]
            )  # places nothing
        env.step(action)


@pytest.mark.parametrize("how", ["another landscape", "two breaks", "a break is gone", "nothing"])
def test_whatever_happened_between_two_calls_the_scores_are_those_of_a_new_judge(how: str) -> None:
    env = make_env()
    judge = Betweenness(env)
    env.spread.breaks[:, 40] = True
    judge.scores()
    if how == "another landscape":
        env.spread.table.copy_((env.spread.table + 1) % 6)
    elif how == "two breaks":
        env.spread.breaks[:, 60:62] = True
    elif how == "a break is gone":
        env.spread.breaks[:, 40] = False
        env.spread.breaks[:, 41] = True
    assert torch.equal(judge.scores(), Betweenness(env).scores())


class TiedBoard:
    """Boards on tables of whole minutes, where many paths are equally fast."""

    def __init__(self) -> None:
        tables = random_tables(np.random.default_rng(3), 9, 8, whole=True)
        self.num_envs, self.num_actions, self.device = 1, 72, torch.device("cpu")
        self.scenes = type("Scenes", (), {"spread": tables})
        self.config = type("Config", (), {"duration": 9.0})
        self.spread = Spread(tables, 1, 1, 9.0)


def test_ties_do_not_make_the_scores_depend_on_the_order_of_breaks() -> None:
    board = TiedBoard()
    judge = Betweenness(board)  # type: ignore[arg-type]
    random = np.random.default_rng(4)
    for cell in random.permutation(72)[:30].tolist():
        board.spread.breaks[0, cell] = True
        assert torch.equal(judge.scores(), Betweenness(board).scores())  # type: ignore[arg-type]
