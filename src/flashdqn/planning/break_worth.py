"""The most valuable breaks of a plan: what each of them saves, given all the others.

A break is taken away, and the fires burn again: the mean of what they burn more is its worth. Breaks of one line
are worth little each if a fire that passes one gap is stopped by the next line, and much if the gap lets all fires
through. The sum of all worths is not what the plan saves.

It is exact: only fires that come near a break can burn differently without it, and all of these are burned again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.planning.ground import Progress, prepare_ground
from flashdqn.planning.judge import FIRES, Difference, FireJudge, summarize
from flashdqn.planning.problem import Problem

#: Breaks whose nearby fires are looked up together.
AT_ONCE = 4096


@dataclass(frozen=True)
class BreakWorth:
    """A break, and what it saves per fire in hectares, or in value where there is a map of it."""

    cell: int
    place: int  # in the plan's order, from 0
    saved: Difference


@dataclass(frozen=True)
class BestBreaks:
    """The most valuable breaks, best first."""

    breaks: tuple[BreakWorth, ...]
    tried: int  # breaks that were taken away
    total: int  # breaks that some fire comes near; all others save nothing


def find_best_breaks(
    problem: Problem,
    cells: NDArray[np.int64],
    count: int = 10,
    fires: int = FIRES,
    seed: int = 0,
    seconds: float = 30.0,
    progress: Progress | None = None,
) -> BestBreaks:
    """The `count` breaks that save most over the judging fires. If time runs out, those with the most fires nearby
    were tried, and `tried` is less than `total`."""
    judge = FireJudge(prepare_ground(problem, progress), fires, seed)
    judge.fires.replace_breaks(cells)
    weight = _choose_weight(judge)
    base = judge.fires.measure(judge.table, judge.ignition, weight)[1]
    near = _find_near(judge, cells)  # [F, N]
    busiest = np.argsort(-near.sum(0), kind="stable")[: int(near.any(0).sum())]
    found: list[BreakWorth] = []
    end = time.monotonic() + seconds
    for k, i in enumerate(busiest):
        if time.monotonic() > end and k >= count:
            break
        if progress is not None and k % 100 == 0:
            progress(k / len(busiest), "what each break saves")
        some = np.flatnonzero(near[:, i])
        judge.fires.remove(cells[i : i + 1])
        extra = np.zeros(len(base))
        extra[some] = judge.fires.measure(judge.table[some], judge.ignition[some], weight)[1] - base[some]
        judge.fires.place(cells[i : i + 1])
        found.append(BreakWorth(int(cells[i]), int(i), summarize(extra)))
    best = sorted(found, key=lambda one: (-one.saved.mean, one.place))[:count]
    return BestBreaks(tuple(best), len(found), len(busiest))


def _choose_weight(judge: FireJudge) -> NDArray[np.float64]:
    """What is counted: value, or hectares."""
    problem = judge.ground.problem
    if problem.stakes.value is not None:
        return judge.ground.weight
    return np.full(judge.ground.cells, problem.landscape.cell_size**2 / 10_000.0)


def _find_near(judge: FireJudge, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    parts = [
        judge.fires.mark_near(judge.table, judge.ignition, cells[start : start + AT_ONCE])
        for start in range(0, len(cells), AT_ONCE)
    ]
    return np.concatenate(parts, axis=1)
