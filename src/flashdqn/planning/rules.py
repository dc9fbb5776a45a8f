"""Breaks by rules, under the same masks, budget and costs as the agent's.

    random            any cell where a break may lie
    domirank          cells that dominate their neighbors in the graph of fire spread, ranked once
    betweenness       cells that most of the fastest paths from cell to cell lead through (Freeman 1977), counted
                      again; `betweenness-once`: counted once. It knows neither values nor where fires start.
    dpv               Downstream Protection Value (Pais et al. 2021): the value of all cells behind a cell in the
                      tree of each fire, itself included, averaged over fires, counted again; `dpv-once`: counted
                      once
    lookahead         what one more break in a cell would save over the rule's own fires, tried one by one

A rule takes the cells with the best score per cost. Where counting again after every break would exceed its time,
it counts less often and takes several breaks that do not touch each time; where there are too many cells to try
or to start fires in, it takes a sample. The plan's note says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.planning.ground import Ground, Progress
from flashdqn.planning.judge import PLANNING, make_random
from flashdqn.planning.plan import Plan
from flashdqn.planning.purse import Purse, take_best
from flashdqn.planning.sparse_domirank import rank_cells

#: Seconds that a rule may take.
SECONDS = 60.0
#: Fires of one count: at least, and at most; in between one for each cell.
FEWEST_FIRES, MOST_FIRES = 256, 2500
#: Fires that lookahead tries its breaks on, and the most cells that it tries.
LOOKAHEAD_FIRES, MOST_TRIED = 64, 2500
#: The distance between breaks that are taken by one count.
APART = 3

Score = NDArray[np.float64]


@dataclass
class RuleWork:
    """What a rule works with."""

    ground: Ground
    purse: Purse
    random: np.random.Generator
    seconds: float = SECONDS
    progress: Progress | None = None
    notes: list[str] = field(default_factory=list)

    def make_fires(self) -> SingleFires:
        """Fires of the rule's own, without breaks yet."""
        return SingleFires(self.ground.tables, self.ground.problem.duration)

    def choose_fires(self, what: str) -> int:
        """How many fires to count over."""
        if self.ground.cells > MOST_FIRES:
            self.notes.append(f"{what} from {MOST_FIRES:,} sampled cells")
        return int(np.clip(self.ground.cells, FEWEST_FIRES, MOST_FIRES))


def plan_by_rule(
    name: str,
    ground: Ground,
    budget: float,
    seed: int = 0,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> Plan:
    """The plan of a rule."""
    started = time.perf_counter()
    random = make_random(seed, PLANNING, name)
    work = RuleWork(ground, Purse(ground, budget), random, seconds, progress)
    RULES[name](work)
    fill_at_random(work)
    order = np.array(work.purse.order, dtype=np.int64)
    return Plan(name, order, time.perf_counter() - started, "; ".join(work.notes))


def fill_at_random(work: RuleWork) -> None:
    """Spend what is left on any cells: a rule that has no opinion on them has the same budget."""
    cells = np.flatnonzero(work.purse.find_affordable())
    for cell in work.random.permutation(cells):
        work.purse.place(int(cell))


def place_by_domirank(work: RuleWork) -> None:
    """Rank every scenario; ranks are averaged by the scenarios' weights."""
    ground = work.ground
    score, exact = np.zeros(ground.cells), True
    for s, share in enumerate(ground.shares):
        ranks, ended = rank_cells(ground.tables, s, seconds=work.seconds / len(ground.shares))
        score += share * ranks.numpy()
        exact &= ended
    if not exact:
        work.notes.append("its iteration was stopped before its end")
    take_best(work.purse, score, ground.cells, least=0.0)


def make_betweenness(work: RuleWork) -> Callable[[SingleFires], Score]:
    """Counts cells behind each cell, over a fire from every cell in every scenario, or from a sample of them."""
    ground, ones = work.ground, np.ones(work.ground.cells)
    sampled = work.choose_fires("paths") < ground.cells

    def count(fires: SingleFires) -> Score:
        score = np.zeros(ground.cells)
        for s, share in enumerate(ground.shares):
            starts = np.flatnonzero(ground.burnable[s])
            if sampled and len(starts) > MOST_FIRES:
                starts = work.random.choice(starts, MOST_FIRES, replace=False)
            table = np.full(len(starts), s)
            score += share * fires.add_up_downstream(table, starts, ones, inclusive=False)
        return score

    return count


def make_downstream_value(work: RuleWork) -> Callable[[SingleFires], Score]:
    """The Downstream Protection Value over fires of its own, drawn again for every count."""
    ground, count = work.ground, work.choose_fires("fires")

    def count_value(fires: SingleFires) -> Score:
        table, ignition = ground.draw_fires(count, work.random, evenly=True)
        return fires.add_up_downstream(table, ignition, ground.weight) / count

    return count_value


def make_lookahead(work: RuleWork) -> Callable[[SingleFires], Score]:
    """What one more break would save over fires of its own, drawn again for every count."""
    ground = work.ground
    few = ground.cells > MOST_TRIED
    if few:
        work.notes.append(f"tries the {MOST_TRIED:,} cells with the most value behind them")

    def count(fires: SingleFires) -> Score:
        table, ignition = ground.draw_fires(LOOKAHEAD_FIRES, work.random, evenly=True)
        wanted = work.purse.find_affordable()
        if few:
            behind = np.where(wanted, fires.add_up_downstream(table, ignition, ground.weight), -1.0)
            best = np.argpartition(-behind, MOST_TRIED)[:MOST_TRIED]
            wanted = np.zeros_like(wanted)
            wanted[best] = behind[best] > 0
        return fires.add_up_savings(table, ignition, ground.weight, wanted)

    return count


Make = Callable[[RuleWork], Callable[[SingleFires], Score]]


def place_once(make: Make) -> Callable[[RuleWork], None]:
    """A rule that counts once, and takes the best cells in this order."""

    def place(work: RuleWork) -> None:
        score = make(work)(work.make_fires())
        take_best(work.purse, score, work.ground.cells, least=0.0)

    return place


def place_counting_again(make: Make) -> Callable[[RuleWork], None]:
    """A rule that counts again after each break, or after several if that would take too long."""

    def place(work: RuleWork) -> None:
        count_scores, fires = make(work), work.make_fires()
        compile_counting(work.ground, fires)
        end = time.monotonic() + work.seconds
        counts, most = 0, 1
        while not work.purse.empty:
            started = time.monotonic()
            score = count_scores(fires)
            counts += 1
            now = time.monotonic()
            batch = choose_batch(work.purse, now - started, end - now)
            most = max(most, batch)
            placed = take_best(work.purse, score, batch, APART if batch > 1 else 1, least=0.0)
            if not placed:
                break
            fires.place(np.array(placed, dtype=np.int64))
            if work.progress is not None:
                work.progress(1.0 - work.purse.left / work.purse.budget, f"counted {name_times(counts)}")
        if most > 1:
            work.notes.append(f"counted {name_times(counts)}, up to {most} breaks each")

    return place


def name_times(count: int) -> str:
    """How often something was done."""
    return "once" if count == 1 else f"{count:,} times"


def compile_counting(ground: Ground, fires: SingleFires) -> None:
    """Compile what counts, on no fires, before the clock starts."""
    none, nowhere = np.zeros(0, dtype=np.int64), np.zeros(ground.cells, dtype=np.bool_)
    fires.add_up_downstream(none, none, ground.weight)
    fires.add_up_savings(none, none, ground.weight, nowhere)


def choose_batch(purse: Purse, each: float, left: float) -> int:
    """How many breaks to take by this count, so that the counts to come, `each` seconds long, fit into the time
    that is `left`."""
    remaining = purse.count_remaining()
    more = int(left / max(each, 1e-6))
    return remaining if more < 1 else -(-remaining // (more + 1))


RULES: dict[str, Callable[[RuleWork], None]] = {
    "random": fill_at_random,
    "domirank": place_by_domirank,
    "betweenness": place_counting_again(make_betweenness),
    "betweenness-once": place_once(make_betweenness),
    "dpv": place_counting_again(make_downstream_value),
    "dpv-once": place_once(make_downstream_value),
    "lookahead": place_counting_again(make_lookahead),
}
