"""A plan in sentences: what is lost before and after, what it costs, and what nobody computed."""

from __future__ import annotations

import math

from flashdqn.planning.engine import AGENT
from flashdqn.planning.estimates import (
    Estimate,
    estimate_difference,
    estimate_loss,
    format_signed,
    share_saved,
)
from flashdqn.planning.frame import make_frame
from flashdqn.planning.report import PlanReport, name_policy
from flashdqn.show.numbers import format_rate

#: From this share of the fires on, those that start in a break are worth a warning.
SMOTHERED = 0.1


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


def describe_agent(report: PlanReport) -> str:
    """How the agent does beside the plan that is written, in one sentence; empty where it is that plan, or is not
    there."""
    if AGENT not in report.judgement.after or report.chosen == AGENT:
        return ""
    own = name_policy(report.chosen)
    gap = estimate_difference(report.judgement.after[AGENT][-1], report.after)
    if gap.low > 0:
        return f"The agent does worse here than {own}: {format_signed(gap)} {report.loss_name} by a fire."
    if gap.high < 0:
        return f"The agent does better here than {own}: {format_signed(gap)} {report.loss_name} by a fire."
    return f"The agent and {own} cannot be told apart by these fires."


def describe_standing(report: PlanReport) -> list[str]:
    """How the policies compare on this landscape, in sentences; none is said twice."""
    rivals, agent = describe_rivals(report), describe_agent(report)
    agent_is_rival = name_policy(AGENT) in rivals
    return [words for words in (rivals, "" if agent_is_rival else agent) if words]


def count_smothered(report: PlanReport) -> int:
    """How many of the fires that judge start in a break of the chosen plan, and so burn nothing."""
    return int(((report.judgement.before.area > 0) & (report.after.area == 0)).sum())


def describe_smothered(report: PlanReport) -> str:
    """A warning where the map of ignitions decides the plan: far more fires start in breaks than breaks cover."""
    count, fires = count_smothered(report), report.judgement.fires
    covered = len(report.written_plan.order) / max(1, int(report.problem.landscape.burnable.sum()))
    if report.problem.stakes.ignition is None or count / fires < max(SMOTHERED, 3.0 * covered):
        return ""
    return (
        f"{count:,} of the {fires:,} fires start in a break, and burn nothing: the breaks lie on the ignitions of "
        "the map. Fires that start elsewhere are not stopped so; a smoother map of ignitions says more."
    )


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
        f"A fire that starts in a break burns nothing: {count_smothered(report):,} of the "
        f"{report.judgement.fires:,} fires do.",
        f"The intervals are about the choice of the {report.judgement.fires:,} fires, not about errors of the fire "
        "model, the weather or the map of fuels.",
        "Fires that come from outside the landscape are not counted, and none burns beyond its edge.",
    ]
    if not make_frame(problem.landscape).is_placed:
        limits.append(
            "The landscape does not say where it lies: coordinates are plain meters from its south-west corner."
        )
    return limits
