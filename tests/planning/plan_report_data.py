"""A small plan with all its figures, for tests of what is written."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from flashdqn.envs.fuelbreaks.config import parse_weather
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning import find_best_breaks, judge_plans, make_plans
from flashdqn.planning.budgets import choose_budgets, parse_budget
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.report import PlanReport
from flashdqn.planning.worth import rank_groups

#: UTM zone 10 north; an odd corner, so that nothing fits by chance
PLACE = Georeference("EPSG:32610", (30.0, 0.0, 512_345.0, 0.0, -30.0, 4_234_567.0))


def make_problem(size: int = 20, place: Georeference | None = PLACE, **changes: Any) -> Problem:
    land = dataclasses.replace(generate_landscape(7, size), place=place, name="<b>ridge</b> & $x$")
    scenarios = (
        Scenario("dry@90", parse_weather("dry@90"), 0.7),
        Scenario("extreme@225/60", parse_weather("extreme@225/60"), 0.3),
    )
    return Problem(land, scenarios, changes.pop("stakes", Stakes()), **changes)


def make_report(problem: Problem, budget: str = "24", fires: int = 40, **changes: Any) -> PlanReport:
    full = parse_budget(budget, problem)
    plans = make_plans(problem, full.amount, ("dpv", "random", "domirank"), seed=3)
    judgement = judge_plans(problem, plans, choose_budgets(full, (), problem), fires, seed=11)
    judge = functools.partial(judge_plans, fires=fires, seed=11)
    groups = rank_groups(problem, plans["dpv"].order, judgement.after["dpv"][-1], full.amount, judge)
    given: dict[str, Any] = {
        "problem": problem,
        "chosen": "dpv",
        "plans": plans,
        "judgement": judgement,
        "budget": full,
        "groups": groups,
        "gaps": find_best_breaks(problem, plans["dpv"].order, 3, fires, 11).breaks,
        "seed": 3,
        "command": "flashdqn fuelbreaks plan <ridge> --budget 24",
        "versions": {"flashdqn": "0.2.0"},
        "notes": ("A note with <tags>.",),
    }
    return PlanReport(**given | changes)


@functools.cache
def small_report() -> PlanReport:
    """Made once: tests only read it."""
    value = np.zeros((20, 20), dtype=np.float32)
    value[5:8, 5:8] = 3.0
    return make_report(make_problem(stakes=Stakes(value=value), value_unit="houses"))


@functools.cache
def area_report() -> PlanReport:
    """A plan for area, on a landscape that lies nowhere."""
    return make_report(make_problem(place=None))
