"""What every break of a plan is worth: how much more the same fires would cost if it were left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flashdqn.planning.estimates import estimate_difference
from flashdqn.planning.groups import BreakGroup, group_cells
from flashdqn.planning.plan import Judgement, Losses, Plan
from flashdqn.planning.problem import Problem

#: The most breaks that are judged one by one: the largest, which are worth the look.
MOST_JUDGED = 24
#: Plans are judged together as long as their maps of chances have no more cells than this.
CELLS_TOGETHER = 40_000_000

#: The judge of plans, with its fires and its seed already given.
PlanJudge = Callable[[Problem, Mapping[str, Plan], Sequence[float]], Judgement]


def rank_groups(
    problem: Problem,
    order: NDArray[np.int64],
    whole: Losses,
    budget: float,
    judge: PlanJudge,
    progress: Callable[[float, str], None] | None = None,
) -> tuple[BreakGroup, ...]:
    """The groups of a plan, with the worth of the largest, by number; `whole` is what is lost with all of them."""
    groups = group_cells(order, problem.landscape.shape[1])
    asked = sorted(groups, key=lambda group: (-len(group.cells), group.first_order))[:MOST_JUDGED]
    together = max(1, CELLS_TOGETHER // problem.landscape.fuel_model.size)
    valued: dict[int, BreakGroup] = {}
    for start in range(0, len(asked), together):
        some = asked[start : start + together]
        plans = {str(group.number): _leave_out(order, group) for group in some}
        judged = judge(problem, plans, (budget,))
        for group in some:
            without = judged.after[str(group.number)][-1]
            valued[group.number] = replace(group, worth=estimate_difference(without, whole))
        if progress is not None:
            progress((start + len(some)) / len(asked), "worth of each break")
    ranks = {group.number: k for k, group in enumerate(sorted(valued.values(), key=_by_worth), 1)}
    return tuple(
        replace(valued.get(group.number, group), rank=ranks.get(group.number, 0)) for group in groups
    )


def find_most_valuable(groups: Sequence[BreakGroup], most: int = 10) -> list[BreakGroup]:
    """The groups of the highest worth, best first; those that save nothing alone are left out."""
    useful = [group for group in groups if group.worth is not None and group.worth.mean > 0]
    return sorted(useful, key=lambda group: group.rank)[:most]


def _leave_out(order: NDArray[np.int64], group: BreakGroup) -> Plan:
    return Plan("given", order[~np.isin(order, group.cells)], 0.0)


def _by_worth(group: BreakGroup) -> tuple[float, int]:
    return (-group.worth.mean if group.worth is not None else 0.0), group.number
