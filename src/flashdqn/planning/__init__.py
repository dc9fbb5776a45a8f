"""Fuel-break plans for somebody's own landscape: docs/planning.md.

    problem = Problem(landscape, (Scenario("dry", DRY, 1.0),), Stakes())
    plans = make_plans(problem, budget=40.0)
    judgement = judge_plans(problem, plans, spread_budgets(40.0))

A budget is counted in units of cost: in cells, if there is no map of costs.
"""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later

if TYPE_CHECKING:
    from flashdqn.planning.agent_plan import AgentSettings
    from flashdqn.planning.break_worth import BestBreaks, BreakWorth, find_best_breaks
    from flashdqn.planning.engine import POLICIES, make_plans
    from flashdqn.planning.judge import (
        Difference,
        compare_losses,
        judge_given,
        judge_plans,
        spread_budgets,
        summarize,
    )
    from flashdqn.planning.plan import Judgement, Losses, Plan
    from flashdqn.planning.problem import Problem, Scenario
    from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent
else:
    _NAMES = {
        "agent_plan": ("AgentSettings",),
        "break_worth": ("BestBreaks", "BreakWorth", "find_best_breaks"),
        "engine": ("POLICIES", "make_plans"),
        "judge": (
            "Difference",
            "compare_losses",
            "judge_given",
            "judge_plans",
            "spread_budgets",
            "summarize",
        ),
        "plan": ("Judgement", "Losses", "Plan"),
        "problem": ("Problem", "Scenario"),
        "shipped": ("load_planning_agent", "load_shipped_agent"),
    }
    __getattr__ = import_later(
        __name__, {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}
    )

__all__ = [
    "POLICIES",
    "AgentSettings",
    "BestBreaks",
    "BreakWorth",
    "Difference",
    "Judgement",
    "Losses",
    "Plan",
    "Problem",
    "Scenario",
    "compare_losses",
    "find_best_breaks",
    "judge_given",
    "judge_plans",
    "load_planning_agent",
    "load_shipped_agent",
    "make_plans",
    "spread_budgets",
    "summarize",
]
