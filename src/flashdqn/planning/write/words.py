"""A plan in sentences: what is lost before and after, what it costs, and what nobody computed."""

from __future__ import annotations

import math

from flashdqn.planning.estimates import Estimate, estimate_difference, estimate_loss, share_saved
from flashdqn.planning.frame import make_frame
from flashdqn.planning.report import PlanReport, name_policy
from flashdqn.show.numbers import format_rate


def describe_amount(estimate: Estimate, unit: str) -> str:
    """412 ha (95 % interval 380 to 444)."""
    words = f"{format_rate(estimate.mean)} {unit}"
    if not math.isfinite(estimate.half):
        return words
    low, high = format_rate(max(0.0, estimate.low)), format_rate(estimate.high)
    return f"{words} (95 % interval {low} to {high})"


def describe_headline(report: PlanReport) -> str:
    """What the plan does, in two sentences."""
    does = "burns" if report.judgement.before.value is None else "reaches"
    before = describe_amount(estimate_loss(report.judgement.before), report.unit)
    after = describe_amount(estimate_loss(report.after), report.unit)
    count = len(report.written_plan.order)
    cells = f"{count:,} cell{'' if count == 1 else 's'} of breaks ({format_rate(report.hectares)} ha)"
    change = _describe_change(report)
    return f"Without breaks, a fire {does} {before} on average. With {cells}, it {does} {after}{change}."


def _describe_change(report: PlanReport) -> str:
    saved = share_saved(report.judgement, report.chosen)
    if not report.judgement.before.counted().any():
        return ""
    return f": {abs(saved):.0%} {'less' if saved >= 0 else 'more'}"


def describe_rivals(report: PlanReport) -> str:
    """Whether another policy is better on this landscape, in one sentence; empty where there is none."""
    judged = {name: losses[-1] for name, losses in report.judgement.after.items() if name != report.chosen}
    if not judged:
        return ""
    own = name_policy(report.chosen)
    best = min(judged, key=lambda name: float(judged[name].counted().mean()))
    gap = estimate_difference(judged[best], report.after)
    if gap.low > 0:
        return f"On this landscape, {own} is better than every other policy, beyond the interval of the difference."
    if gap.high < 0:
        return f"On this landscape, {name_policy(best)} is better than {own}: look at the table."
    return f"On this landscape, {own} and {name_policy(best)} cannot be told apart by these fires."


def list_limits(report: PlanReport) -> list[str]:
    """What the figures assume, and what they leave out."""
    problem = report.problem
    hours = f"{problem.duration / 60:g} hours" if problem.duration >= 120 else f"{problem.duration:g} minutes"
    starts = (
        "where the map of ignitions says" if problem.stakes.ignition is not None else "anywhere that burns"
    )
    limits = [
        f"A fire starts {starts}, burns for {hours}, and nobody fights it.",
        "Wind and moisture stay the same during a fire, and everywhere in the landscape.",
        "Fire spreads over the ground and through crowns. Embers do not fly ahead (no spotting): in strong wind, "
        "real fires cross breaks that stop these.",
        "A break fills its whole cell, and nothing burns there. A narrower break, or one that has grown over, "
        "holds less.",
        f"The intervals are about the choice of the {report.judgement.fires:,} fires, not about errors of the fire "
        "model, the weather or the map of fuels.",
        "Fires that come from outside the landscape are not counted, and none burns beyond its edge.",
    ]
    if not make_frame(problem.landscape).is_placed:
        limits.append(
            "The landscape does not say where it lies: coordinates are plain meters from its south-west corner."
        )
    return limits
