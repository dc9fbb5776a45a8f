"""From a problem to all that is said about it: plans, the fires that judge them, what each break is worth."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flashdqn.planning.break_worth import BreakWorth, find_best_breaks
from flashdqn.planning.budgets import BreakBudget, cell_hectares, find_allowed_cells, sum_allowed_cost
from flashdqn.planning.engine import AGENT, make_plans
from flashdqn.planning.ground import Progress
from flashdqn.planning.judge import judge_plans
from flashdqn.planning.plan import Plan
from flashdqn.planning.problem import Problem
from flashdqn.planning.report import PlanReport, name_policy
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent
from flashdqn.planning.worth import rank_groups
from flashdqn.planning.write.words import describe_smothered

#: The policy is chosen by other fires than those that judge: else the best would look better than it is.
CHOICE_SEED = 1_000_003
#: How many cells are named whose loss alone costs most, the cells that they are chosen from, the seconds to find
#: them, and how far apart they lie.
GAPS, GAPS_TRIED, GAP_SECONDS, APART = 10, 100, 20.0, 3
#: What the choice is called for which the plan that loses least is written.
BEST = "best"
#: Packages whose versions may change a plan.
PACKAGES = ("flashdqn", "torch", "numpy", "numba", "rasterio", "pyogrio")


@dataclass(frozen=True)
class WorkOrder:
    """How a problem is planned and judged."""

    budget: BreakBudget
    budgets: tuple[float, ...]  # of the curve
    policies: tuple[str, ...]
    write: str = BEST  # the policy whose plan is written
    agent: Path | None = None  # a run folder or a file; None: the one that comes with the package
    device: str = "auto"  # where the agent computes
    fires: int = 200
    seed: int = 0
    command: str = ""


def make_report(
    problem: Problem, order: WorkOrder, progress: Progress, notes: tuple[str, ...] = ()
) -> PlanReport:
    """Plan with every policy, choose one, judge all; `notes` are about the landscape."""
    plans = plan_by_order(problem, order, order.budget.amount, scale_progress(progress, 0.0, 0.5))
    chosen, more = choose_policy(problem, plans, order, scale_progress(progress, 0.5, 0.6))
    return judge_report(problem, plans, chosen, order, (*notes, *more), scale_progress(progress, 0.6, 1.0))


def score_report(
    problem: Problem, given: Plan, order: WorkOrder, progress: Progress, notes: tuple[str, ...] = ()
) -> PlanReport:
    """Judge a given plan beside random breaks, and beside rules where the order names some."""
    plans = {"given": given}
    amount = min(order.budget.amount, sum_allowed_cost(problem))
    plans |= plan_by_order(problem, order, amount, scale_progress(progress, 0.0, 0.5))
    return judge_report(problem, plans, "given", order, notes, scale_progress(progress, 0.5, 1.0))


def plan_by_order(problem: Problem, order: WorkOrder, amount: float, progress: Progress) -> dict[str, Plan]:
    """The plans of the policies that an order names."""
    agent = None
    if AGENT in order.policies:
        progress(0.0, "loading the agent")
        agent = (
            load_shipped_agent(order.device)
            if order.agent is None
            else load_planning_agent(order.agent, order.device)
        )
    return make_plans(problem, amount, order.policies, agent, order.seed, progress=progress)


def choose_policy(
    problem: Problem, plans: dict[str, Plan], order: WorkOrder, progress: Progress
) -> tuple[str, tuple[str, ...]]:
    """The policy whose plan is written, and what the reader must know about the choice."""
    if order.write != BEST:
        return order.write, ()
    if len(plans) == 1:
        return next(iter(plans)), ()
    amount, seed = (order.budget.amount,), order.seed + CHOICE_SEED
    judged = judge_plans(problem, plans, amount, order.fires, seed, progress)
    losses = {name: float(after[-1].counted().mean()) for name, after in judged.after.items()}
    best = min(losses, key=losses.__getitem__)
    words = f"it loses least over {judged.fires:,} other fires, which only choose"
    note = f"This is the plan of {name_policy(best)}: {words}."
    return best, (note,)


def judge_report(
    problem: Problem,
    plans: dict[str, Plan],
    chosen: str,
    order: WorkOrder,
    notes: tuple[str, ...],
    progress: Progress,
) -> PlanReport:
    """Judge all plans at all budgets by the same fires, and every break of the chosen one."""
    judge = functools.partial(judge_plans, fires=order.fires, seed=order.seed)
    judgement = judge(problem, plans, order.budgets, progress=scale_progress(progress, 0.0, 0.7))
    placed = judgement.placed[chosen][-1]
    groups = rank_groups(
        problem,
        plans[chosen].order[:placed],
        judgement.after[chosen][-1],
        order.budget.amount,
        judge,
        scale_progress(progress, 0.7, 0.85),
    )
    cells, gap_progress = plans[chosen].order[:placed], scale_progress(progress, 0.85, 1.0)
    gaps = find_best_breaks(problem, cells, GAPS_TRIED, order.fires, order.seed, GAP_SECONDS, gap_progress)
    report = PlanReport(
        problem=problem,
        chosen=chosen,
        plans=plans,
        judgement=judgement,
        budget=order.budget,
        groups=groups,
        gaps=keep_apart(gaps.breaks, problem.landscape.shape[1]),
        seed=order.seed,
        command=order.command,
        versions=list_versions(),
        notes=notes,
    )
    warning = describe_smothered(report)
    return dataclasses.replace(report, notes=(*notes, warning)) if warning else report


def keep_apart(gaps: Sequence[BreakWorth], columns: int) -> tuple[BreakWorth, ...]:
    """The worst gaps that cost something, none beside another: all cells of one line cost about the same."""
    kept: list[BreakWorth] = []
    for gap in gaps:
        row, column = divmod(gap.cell, columns)
        places = (divmod(other.cell, columns) for other in kept)
        is_far = all(max(abs(row - a), abs(column - b)) >= APART for a, b in places)
        if is_far and gap.saved.mean > 0 and len(kept) < GAPS:
            kept.append(gap)
    return tuple(kept)


def measure_given(problem: Problem, given: Plan) -> tuple[BreakBudget, tuple[str, ...]]:
    """What a given plan costs, as a budget for the others; and what the reader must know about its cells."""
    cost = 1.0 if problem.cost is None else problem.cost.reshape(-1)[given.order]
    amount = float(np.sum(np.broadcast_to(cost, given.order.shape), dtype=np.float64))
    cells = len(given.order)
    area = f"{cells:,} cells, {cells * cell_hectares(problem):,.1f} ha"
    burnable = problem.landscape.burnable.reshape(-1)[given.order]
    notes = []
    if not burnable.all():
        notes.append(f"{int((~burnable).sum()):,} of its cells lie where nothing burns: they change nothing.")
    outside = ~find_allowed_cells(problem).reshape(-1)[given.order] & burnable
    if outside.any():
        notes.append(f"{int(outside.sum()):,} of its cells lie where no break may lie.")
    return BreakBudget(f"{amount:,.6g}", amount, f"what the plan costs: {area}"), tuple(notes)


def list_versions() -> dict[str, str]:
    """The versions of Python and of the packages that may change a plan."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def scale_progress(progress: Progress, start: float, end: float) -> Progress:
    """Progress within a part of the whole."""
    return lambda share, words: progress(start + (end - start) * min(1.0, max(0.0, share)), words)
