"""plan.json and score.json: every number of a plan, for other programs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from flashdqn.planning.break_worth import BreakWorth
from flashdqn.planning.estimates import Estimate, estimate_difference, estimate_mean, share_saved
from flashdqn.planning.frame import make_frame
from flashdqn.planning.groups import BreakGroup
from flashdqn.planning.plan import Losses
from flashdqn.planning.report import PlanReport
from flashdqn.planning.write.words import describe_headline, list_limits

#: Raised whenever a name in the file changes its meaning.
FORMAT = 1


def make_plan_numbers(report: PlanReport) -> dict[str, Any]:
    """All numbers, as JSON can hold them."""
    problem, judgement, frame = report.problem, report.judgement, make_frame(report.problem.landscape)
    return {
        "format": FORMAT,
        "headline": describe_headline(report),
        "landscape": {
            "name": problem.landscape.name,
            "rows": frame.shape[0],
            "columns": frame.shape[1],
            "cell_size_m": problem.landscape.cell_size,
            "crs": frame.crs or None,
            "transform": list(frame.transform),
        },
        "budget": {
            "text": report.budget.text,
            "amount": report.budget.amount,
            "meaning": report.budget.meaning,
        },
        "unit": report.unit,
        "duration_minutes": problem.duration,
        "fires": judgement.fires,
        "seed": report.seed,
        "scenarios": [_describe_scenario(report, k) for k in range(len(problem.scenarios))],
        "chosen": report.chosen,
        "plan": {
            "cells": report.written_plan.order.tolist(),
            "hectares": report.hectares,
            "cost": report.cost,
            "breaks": [_describe_group(group) for group in report.groups],
            "gaps": [_describe_gap(gap) for gap in report.gaps],
        },
        "budgets": list(judgement.budgets),
        "before": _describe_losses(judgement.before),
        "policies": {name: _describe_policy(report, name) for name in judgement.after},
        "assumptions": list_limits(report),
        "notes": list(report.notes),
        "command": report.command,
        "versions": report.versions,
    }


def _describe_scenario(report: PlanReport, number: int) -> dict[str, Any]:
    scenario = report.problem.scenarios[number]
    return {
        "name": scenario.name,
        "weight": scenario.weight,
        "weather": dataclasses.asdict(scenario.weather),
    }


def _describe_group(group: BreakGroup) -> dict[str, Any]:
    return {
        "id": group.number,
        "cells": group.cells.tolist(),
        "first_order": group.first_order,
        "last_order": group.last_order,
        "saves": None if group.worth is None else _describe_estimate(group.worth),
        "rank": group.rank or None,
    }


def _describe_gap(gap: BreakWorth) -> dict[str, Any]:
    costs = _describe_estimate(Estimate(gap.saved.mean, gap.saved.error))
    return {"cell": gap.cell, "order": gap.place + 1, "costs": costs}


def _describe_policy(report: PlanReport, name: str) -> dict[str, Any]:
    judgement = report.judgement
    full = judgement.after[name][-1]
    return {
        "seconds": report.plans[name].seconds,
        "note": report.plans[name].note,
        "placed": list(judgement.placed[name]),
        "after": [_describe_losses(losses) for losses in judgement.after[name]],
        "saved_share": [share_saved(judgement, name, k) for k in range(len(judgement.budgets))],
        "more_than_chosen": _describe_estimate(estimate_difference(full, report.after)),
    }


def _describe_losses(losses: Losses) -> dict[str, Any]:
    value = None if losses.value is None else _describe_estimate(estimate_mean(losses.value))
    return {"hectares": _describe_estimate(estimate_mean(losses.area)), "value": value}


def _describe_estimate(estimate: Estimate) -> dict[str, float | None]:
    """JSON has no NaN: an unknown interval is null."""
    known = math.isfinite(estimate.half)
    return {
        "mean": estimate.mean,
        "low": estimate.low if known else None,
        "high": estimate.high if known else None,
    }
