"""What is lost at several budgets, for all policies: a chart for the page, with values under the pointer."""

from __future__ import annotations

from itertools import pairwise

from flashdqn.planning.estimates import Estimate, estimate_loss, format_interval
from flashdqn.planning.report import PlanReport, name_policy
from flashdqn.show.chart_axis import (
    LEFT,
    Scale,
    choose_ticks,
    choose_value_range,
    draw_step_axis,
    draw_value_axis,
    format_tick,
    make_horizontal_scale,
)
from flashdqn.show.charts import Span, draw_hover_areas, draw_legend_patch, make_chart_figure
from flashdqn.show.page import escape

TOP, HEIGHT, FOOT = 24, 190, 36
#: The color of the plan that is written, and those of the others in their order.
CHOSEN_COLOR = "#c8553d"
OTHER_COLORS = ("#4f86b8", "#5f9e7a", "#b08d3a", "#8c7fb8", "#b5739a", "#7a8794", "#3f9aa3")

Course = list[tuple[float, Estimate]]  # budgets and losses, from no breaks on


def draw_budget_curve(report: PlanReport) -> str:
    """The chart as HTML."""
    courses = {name: list_course(report, name) for name in sort_policies(report)}
    colors = choose_colors(list(courses))
    across = make_horizontal_scale(0.0, report.judgement.budgets[-1])
    ends = [estimate.mean for course in courses.values() for _, estimate in course]
    ends += [estimate.high for _, estimate in courses[report.chosen]]
    low, high = choose_value_range(ends)
    up = Scale(low, high, TOP + HEIGHT, TOP)
    marks = choose_ticks(low, high, 5)
    bottom = TOP + HEIGHT
    drawn = [
        f'<text class="name" x="{LEFT}" y="{TOP - 10}">{escape(report.loss_name)} in a fire</text>',
        draw_value_axis(up, marks, [format_tick(mark) for mark in marks]),
        draw_step_axis(across, TOP, bottom),
        f'<text class="tick" x="{across.end}" y="{bottom + 30}" text-anchor="end">{name_axis(report)}</text>',
        draw_band(courses[report.chosen], across, up),
        *(draw_course(course, across, up, colors[name]) for name, course in reversed(courses.items())),
    ]
    budgets = [0.0, *report.judgement.budgets]
    whens = [f"{budget:,.6g} {name_axis(report)}" for budget in budgets]
    names = [name_policy(name) for name in courses]
    rows = [[format_interval(course[k][1]) for course in courses.values()] for k in range(len(budgets))]
    drawn.append(draw_hover_areas(split_spans(budgets), whens, across, TOP, bottom, names, rows))
    body = make_chart_figure(
        "Expected loss by budget", bottom + FOOT, "".join(drawn), "budget", whens, names, rows
    )
    keys = "".join(f"<li>{draw_legend_patch(colors[k])}{escape(name_policy(k))}</li>" for k in courses)
    return body.replace("</svg>", f'</svg><ul class="keys">{keys}</ul>', 1)


def name_axis(report: PlanReport) -> str:
    """What budgets are counted in."""
    return "cells" if report.problem.cost is None else "units of cost"


def sort_policies(report: PlanReport) -> list[str]:
    """The chosen policy first, then the others from the best to the worst at the full budget."""
    after = report.judgement.after
    others = sorted(
        (name for name in after if name != report.chosen), key=lambda name: after[name][-1].counted().mean()
    )
    return [report.chosen, *others]


def choose_colors(policies: list[str]) -> dict[str, str]:
    """A color for every policy; the first one is the chosen."""
    others = {name: OTHER_COLORS[k % len(OTHER_COLORS)] for k, name in enumerate(policies[1:])}
    return {policies[0]: CHOSEN_COLOR, **others}


def list_course(report: PlanReport, policy: str) -> Course:
    """The losses of a policy at every budget, from no breaks on."""
    judgement = report.judgement
    losses = (judgement.before, *judgement.after[policy])
    return list(zip((0.0, *judgement.budgets), map(estimate_loss, losses), strict=True))


def draw_course(course: Course, across: Scale, up: Scale, color: str) -> str:
    """A line through the means, with dots."""
    points = [(across.at(budget), up.at(estimate.mean)) for budget, estimate in course]
    path = "L".join(f"{x} {y}" for x, y in points)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>' for x, y in points[1:])
    return f'<path class="course" stroke="{color}" d="M{path}"/>{dots}'


def draw_band(course: Course, across: Scale, up: Scale) -> str:
    """The 95 % interval of the chosen policy."""
    over = [f"{across.at(budget)} {up.at(estimate.high)}" for budget, estimate in course]
    under = [f"{across.at(budget)} {up.at(max(up.low, estimate.low))}" for budget, estimate in course]
    return f'<path class="band" fill="{CHOSEN_COLOR}" d="M{"L".join(over + under[::-1])}Z"/>'


def split_spans(budgets: list[float]) -> list[Span]:
    """Cut the axis half-way between budgets: where the pointer finds each."""
    middles = [(a + b) / 2 for a, b in pairwise(budgets)]
    edges = [budgets[0], *middles, budgets[-1]]
    return [Span(a, b) for a, b in pairwise(edges)]
