"""The judge: what fires burn without breaks, and with the breaks of each plan.

All plans meet the same fires. A scenario is drawn by its weight, and a cell by the chance that a fire starts
there. No policy knows these fires: they have a seed of their own. So the difference between two plans is a mean
of paired differences, and its interval says how sure it is over fires **on this one landscape**; it says nothing
of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.planning.ground import Ground, Progress, prepare_ground
from flashdqn.planning.plan import Judgement, Losses, Plan
from flashdqn.planning.problem import Problem
from flashdqn.planning.purse import ROUNDING

FIRES = 200
#: The number of budgets of a curve.
POINTS = 5
#: Purposes of a seed: fires that judge, and those that a policy may try its breaks on.
JUDGING, PLANNING = 1, 2

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """A mean over fires, with half the width of its 95 % interval."""

    mean: float
    error: float


def judge_plans(
    problem: Problem,
    plans: Mapping[str, Plan],
    budgets: Sequence[float],
    fires: int = FIRES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Judgement:
    """Judge the first breaks of each plan that each budget pays, by the same fires."""
    ground = prepare_ground(problem, progress)
    levels = tuple(sorted(float(budget) for budget in budgets))
    if not levels or fires < 2:
        raise EnvError(f"A judgement needs a budget and at least 2 fires; it has {len(levels)} and {fires}.")
    burn = FireJudge(ground, fires, seed)
    before = burn.judge(np.empty(0, dtype=np.int64))
    after: dict[str, tuple[Losses, ...]] = {}
    placed: dict[str, tuple[int, ...]] = {}
    for k, (name, plan) in enumerate(plans.items()):
        counts = [count_paid(ground, plan.order, budget) for budget in levels]
        losses = []
        for j, count in enumerate(counts):
            if progress is not None:
                progress((k + j / len(counts)) / len(plans), f"judging {name}")
            losses.append(burn.judge(plan.order[:count]))
        after[name], placed[name] = tuple(losses), tuple(counts)
    if progress is not None:
        progress(1.0, "judged")
    return Judgement(levels, before, after, placed, fires)


def judge_given(
    problem: Problem,
    cells: Cells,
    fires: int = FIRES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Judgement:
    """Judge anybody's breaks, flat cells, as one plan `given`; its budget is what they cost together. Breaks may
    lie anywhere: one where nothing burns changes nothing."""
    ground = prepare_ground(problem, progress)
    order = np.asarray(cells, dtype=np.int64).reshape(-1)
    _, first = np.unique(order, return_index=True)
    order = order[np.sort(first)]
    if not len(order):
        raise EnvError("There is no break to judge: the plan is empty.")
    if order.min() < 0 or order.max() >= ground.cells:
        bad = order[(order < 0) | (order >= ground.cells)][0]
        raise EnvError(
            f"A break lies in cell {bad}, and the landscape has the cells 0 to {ground.cells - 1}: give breaks "
            "inside it."
        )
    budget = float(ground.cost[order].sum())
    return judge_plans(problem, {"given": Plan("given", order, 0.0)}, (budget,), fires, seed, progress)


def count_paid(ground: Ground, order: Cells, budget: float) -> int:
    """How many of the first breaks a budget pays."""
    spent = np.cumsum(ground.cost[order])
    return int(np.searchsorted(spent, budget * (1.0 + 2 * ROUNDING), side="right"))


def spread_budgets(budget: float, points: int = POINTS) -> tuple[float, ...]:
    """Budgets of a curve, up to the whole one."""
    return tuple(budget * (k + 1) / points for k in range(points))


class FireJudge:
    """The fires that judge every plan for a problem."""

    def __init__(self, ground: Ground, fires: int = FIRES, seed: int = 0) -> None:
        self.ground = ground
        random = make_random(seed, JUDGING)
        self.table, self.ignition = ground.draw_fires(fires, random)
        self.fires = SingleFires(ground.tables, ground.problem.duration)

    def judge(self, cells: Cells) -> Losses:
        """What the fires burn if breaks lie in these cells."""
        self.fires.replace_breaks(cells)
        burned, lost, hits = self.fires.measure(self.table, self.ignition, self.ground.weight)
        problem = self.ground.problem
        hectares: NDArray[np.float64] = burned.astype(np.float64) * (
            problem.landscape.cell_size**2 / 10_000.0
        )
        share = (hits / len(self.table)).astype(np.float32).reshape(problem.landscape.shape)
        return Losses(hectares, None if problem.stakes.value is None else lost, share)


def make_random(seed: int, purpose: int, name: str = "") -> np.random.Generator:
    """A generator of its own for each purpose and policy."""
    return np.random.Generator(np.random.PCG64([seed % 2**64, purpose, *name.encode()]))


def compare_losses(first: Losses, second: Losses) -> Difference:
    """How much less is lost with the second than with the first, fire by fire, with a 95 % interval over the
    fires."""
    return summarize(first.counted() - second.counted())


def summarize(values: NDArray[np.float64]) -> Difference:
    """A mean over fires and half the width of its 95 % interval (1.96 standard errors)."""
    if len(values) < 2:
        return Difference(float(values.mean()), float("inf"))
    spread = (values - values[0]).std(ddof=1)  # so that equal values have none, not one of round-off
    return Difference(float(values.mean()), float(1.96 * spread / np.sqrt(len(values))))
