"""The pictures of a sweep's report: history, front, importance, parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from flashdqn.show.chart_axis import (
    LEFT,
    RIGHT,
    WIDTH,
    Scale,
    choose_axis_top,
    choose_ticks,
    choose_value_range,
    draw_step_axis,
    draw_time_axis,
    draw_value_axis,
    format_tick,
    make_horizontal_scale,
)
from flashdqn.show.charts import FOOT, TITLE, make_chart_figure
from flashdqn.show.numbers import format_rate
from flashdqn.show.page import escape, make_table
from flashdqn.sweep.results import DONE, PRUNED, TrialPoint, TrialResult, find_front, list_points
from flashdqn.sweep.space import ChoiceList, Dimension, SearchSpace, format_option

TALL = 190
#: Colors of all pages: a trial, the best so far or the front, the preset.
DOT, LINE, OTHER = "var(--soft)", "var(--accent)", "var(--warm)"
#: Parallel coordinates: width, height, and the room beside and above the axes.
WIDE, HIGH, SIDE, HEAD = 980, 300, 70, 46
#: Bars of the importance.
BAR, NAME_WIDTH = 24, 150

STYLE = """
.wide svg { min-width: 44rem; } .wide { overflow-x: auto; margin-top: 1.6rem; }
.way { fill: none; stroke-width: 1.3; stroke-opacity: .55; } .way.top { stroke-width: 2.6; stroke-opacity: 1; }
.way:hover { stroke-width: 4; stroke-opacity: 1; } .coordinate { stroke: var(--line); stroke-width: 1.5; }
"""


def draw_history(results: Sequence[TrialResult]) -> str:
    """The score of every trial in their order, and the best so far."""
    known = [one for one in results if one.state in (DONE, PRUNED) and math.isfinite(one.score)]
    if not known:
        return ""
    scale, bottom = make_horizontal_scale(0.0, max(1, known[-1].number)), TITLE + TALL
    heights, drawn = _draw_score_axis([one.score for one in known], bottom)
    drawn += draw_step_axis(scale, TITLE, bottom)
    best, path = -math.inf, ""
    for one in known:
        x = scale.at(one.number)
        if one.state == DONE and one.score > best:
            y = heights.at(one.score)
            path += f"L{x} {heights.at(best)}L{x} {y}" if path else f"M{x} {y}"
            best = one.score
    if path:
        path += f"L{scale.end} {heights.at(best)}"
    drawn += f'<path class="course" stroke="{LINE}" d="{path}"/>'
    drawn += "".join(_draw_dot(scale.at(one.number), heights.at(one.score), one) for one in known)
    rows = [[one.state, format_rate(one.score)] for one in known]
    numbers = [str(one.number) for one in known]
    return make_chart_figure(
        "Trials in their order", bottom + FOOT, drawn, "trial", numbers, ("end", "score"), rows
    )


def draw_front(results: Sequence[TrialResult]) -> str:
    """Every evaluation of every trial, score over seconds of training; and those that no other one beats."""
    points = list_points(results)
    if not points:
        return ""
    front = find_front(points)
    scale, bottom = make_horizontal_scale(0.0, max(1e-9, *(one.seconds for one in points))), TITLE + TALL
    heights, drawn = _draw_score_axis([one.score for one in points], bottom)
    drawn += draw_time_axis(scale, TITLE, bottom)
    for point in points:
        drawn += (
            f'<circle cx="{scale.at(point.seconds)}" cy="{heights.at(point.score)}" r="1.6" fill="{DOT}"/>'
        )
    places = [(scale.at(point.seconds), heights.at(point.score)) for point in front]
    path = _make_steps(places)
    drawn += f'<path class="course" stroke="{LINE}" d="{path}"/>'
    drawn += "".join(_draw_front_dot(x, y, point) for (x, y), point in zip(places, front, strict=True))
    rows = [[format_rate(point.score), str(point.trial)] for point in front]
    whens = [f"{point.seconds:.1f} s" for point in front]
    title = "Score over seconds: the Pareto front of all evaluations"
    return make_chart_figure(title, bottom + FOOT, drawn, "time", whens, ("score", "trial"), rows)


def _make_steps(places: Sequence[tuple[float, float]]) -> str:
    """A line that rises only where a point is."""
    path, height = "", 0.0
    for x, y in places:
        path += f"L{x} {height}L{x} {y}" if path else f"M{x} {y}"
        height = y
    return path


def _draw_score_axis(scores: Sequence[float], bottom: float) -> tuple[Scale, str]:
    low, high = choose_value_range(list(scores), 6)
    heights, marks = Scale(low, high, bottom, TITLE), choose_ticks(low, high, 6)
    title = f'<text class="name" x="{LEFT}" y="{TITLE - 8}">score</text>'
    return heights, title + draw_value_axis(heights, marks, [format_tick(mark) for mark in marks])


def _draw_dot(x: float, y: float, one: TrialResult) -> str:
    color = OTHER if one.label else LINE if one.state == DONE else DOT
    words = f"trial {one.number}{' (preset)' if one.label else ''}, {one.state}: {format_rate(one.score)}"
    dot = f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'
    return f'{dot}<circle class="hit" cx="{x}" cy="{y}" r="8"><title>{escape(words)}</title></circle>'


def _draw_front_dot(x: float, y: float, point: TrialPoint) -> str:
    words = f"trial {point.trial}: {format_rate(point.score)} after {point.seconds:.1f} s"
    dot = f'<circle cx="{x}" cy="{y}" r="3.2" fill="{LINE}"/>'
    return f'{dot}<circle class="hit" cx="{x}" cy="{y}" r="8"><title>{escape(words)}</title></circle>'


def draw_importance(shares: Mapping[str, float]) -> str:
    """A bar for each setting: how much it decides about the score."""
    if not shares:
        return ""
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    top = choose_axis_top([share for _, share in ordered])
    scale = Scale(0.0, top, NAME_WIDTH, WIDTH - RIGHT - 34)
    drawn = ""
    for k, (name, share) in enumerate(ordered):
        y = TITLE + k * BAR
        end = scale.at(share)
        drawn += (
            f'<text class="name" x="{NAME_WIDTH - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{NAME_WIDTH}" y="{y + 3}" width="{max(1.0, end - NAME_WIDTH)}" height="{BAR - 8}" '
            f'fill="{LINE}"/>'
            f'<text class="tick" x="{end + 6}" y="{y + 15}">{share:.0%}</text>'
        )
    height = TITLE + len(ordered) * BAR + 6
    rows = [[f"{share:.1%}"] for _, share in ordered]
    names = [name for name, _ in ordered]
    return make_chart_figure(
        "What decides about the score", height, drawn, "setting", names, ("share",), rows
    )


def draw_parallel_coordinates(results: Sequence[TrialResult], space: SearchSpace) -> str:
    """A line for each trial through its values, colored by its score; the best ones are on top and thick."""
    known = sorted(
        (one for one in results if one.state in (DONE, PRUNED) and math.isfinite(one.score)),
        key=lambda one: one.score,
    )
    if not known:
        return ""
    axes = [_make_coordinate(one) for one in space.dimensions]
    low, high = choose_value_range([one.score for one in known])
    heights = Scale(low, high, HEAD + HIGH, HEAD)
    count = len(axes) + 1
    xs = [SIDE + k * (WIDE - 2 * SIDE) / max(1, count - 1) for k in range(count)]
    drawn = "".join(_draw_coordinate(axis, x) for axis, x in zip(axes, xs, strict=False))
    marks = choose_ticks(low, high, 5)
    drawn += _draw_axis_line("score", xs[-1], [(heights.at(m), format_tick(m)) for m in marks])
    for rank, one in enumerate(known):
        places = [(x, axis.find_height(one.values.get(axis.name))) for axis, x in zip(axes, xs, strict=False)]
        places = [*places, (xs[-1], heights.at(one.score))]
        drawn += _draw_way(one, places, rank / max(1, len(known) - 1), rank >= len(known) - 3)
    svg = f'<svg viewBox="0 0 {WIDE} {HEAD + HIGH + 24}" role="img" aria-label="Parallel coordinates">{drawn}</svg>'
    head = ("trial", *space.names, "score")
    rows = [
        (
            str(one.number),
            *(format_option(one.values.get(n, "–")) for n in space.names),
            format_rate(one.score),
        )
        for one in reversed(known)
    ]
    table = f'<details class="values"><summary>As a table</summary>{make_table(head, rows)}</details>'
    caption = "<figcaption>Parallel coordinates: a line is a trial, from its values to its score</figcaption>"
    return f'<figure class="wide">{caption}{svg}{table}</figure>'


def _draw_way(one: TrialResult, places: Sequence[tuple[float, float]], share: float, top: bool) -> str:
    # from gray over the accent: the worst trials stay in the background
    color = f"color-mix(in oklab, {LINE} {round(100 * share)}%, {DOT})"
    path = "M" + "L".join(f"{round(x, 1)} {y}" for x, y in places)
    words = f"trial {one.number}: {format_rate(one.score)}"
    kind = "way top" if top else "way"
    return f'<path class="{kind}" style="stroke:{color}" d="{path}"><title>{escape(words)}</title></path>'


class Coordinate:
    """One vertical axis of the parallel coordinates."""

    def __init__(
        self, name: str, scale: Scale, log: bool, options: Mapping[str, int], marks: Sequence[float]
    ) -> None:
        self.name, self.scale, self.log, self.options, self.marks = name, scale, log, options, marks

    def find_height(self, value: object) -> float:
        """Where a value lies."""
        if self.options:
            return self.scale.at(self.options.get(format_option(value), 0))
        number = float(value) if isinstance(value, int | float) else self.scale.low
        return self.scale.at(math.log10(number) if self.log and number > 0 else number)

    def list_ticks(self) -> list[tuple[float, str]]:
        """Heights and texts."""
        if self.options:
            return [(self.scale.at(k), text[:18]) for text, k in self.options.items()]
        return [(self.find_height(mark), f"{mark:.3g}") for mark in self.marks]


def _make_coordinate(one: Dimension) -> Coordinate:
    if isinstance(one, ChoiceList):
        options = {format_option(option): k for k, option in enumerate(one.options)}
        return Coordinate(one.name, Scale(0, len(options) - 1, HEAD + HIGH, HEAD), False, options, ())
    if one.log:
        low, high = math.log10(one.low), math.log10(one.high)
        inner = [10.0**k for k in range(math.ceil(low + 1e-9), math.floor(high - 1e-9) + 1)]
        return Coordinate(
            one.name, Scale(low, high, HEAD + HIGH, HEAD), True, {}, (one.low, *inner, one.high)
        )
    marks = choose_ticks(one.low, one.high, 5)
    return Coordinate(one.name, Scale(one.low, one.high, HEAD + HIGH, HEAD), False, {}, marks)


def _draw_coordinate(axis: Coordinate, x: float) -> str:
    return _draw_axis_line(axis.name, x, axis.list_ticks())


def _draw_axis_line(name: str, x: float, ticks: Sequence[tuple[float, str]]) -> str:
    drawn = f'<line class="coordinate" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD}" y2="{HEAD + HIGH}"/>'
    drawn += f'<text class="name" x="{x:.1f}" y="{HEAD - 16}" text-anchor="middle">{escape(name)}</text>'
    for y, text in ticks:
        drawn += f'<text class="tick" x="{x + 5:.1f}" y="{y + 4}">{escape(text)}</text>'
    return drawn
