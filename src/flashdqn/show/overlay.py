"""Several curves on the same axes, with bands: for example the scores of several runs over transitions."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from flashdqn.show.chart_axis import (
    Axis,
    Scale,
    choose_ticks,
    choose_value_range,
    draw_value_axis,
    format_tick,
    make_horizontal_scale,
)
from flashdqn.show.charts import FOOT, TITLE, Span, draw_hover_areas, draw_legend_patch, make_chart_figure
from flashdqn.show.page import escape

TALL = 190
COLUMNS = 60  # positions with values under the pointer


@dataclass(frozen=True)
class Curve:
    """Points from left to right; `low` and `high` are a band around them."""

    name: str
    color: str
    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float] = field(default=())
    high: Sequence[float] = field(default=())
    dots: bool = False
    faint: bool = False

    def at(self, x: float) -> float:
        """The value of the line at a position; NaN beyond its ends."""
        points = [(a, b) for a, b in zip(self.xs, self.ys, strict=True) if math.isfinite(b)]
        if not points or not points[0][0] <= x <= points[-1][0]:
            return math.nan
        k = bisect_left(points, (x, -math.inf))
        if points[k][0] == x or k == 0:
            return points[k][1]
        (x0, y0), (x1, y1) = points[k - 1], points[k]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

    def over(self, span: Span) -> float:
        """The value for a span: the line in its middle or, for a curve with dots, the mean of the points in it."""
        if not self.dots:
            return self.at((span.start + span.end) / 2)
        inside = [y for x, y in zip(self.xs, self.ys, strict=True) if span.start < x <= span.end]
        return sum(inside) / len(inside) if inside else math.nan


def draw_overlay_chart(
    title: str, name: str, curves: Sequence[Curve], axis: Axis, text: Callable[[float], str]
) -> str:
    """Draw all curves in one panel; `name` says what they measure."""
    right = max((x for curve in curves for x in curve.xs), default=1.0)
    scale, bottom = make_horizontal_scale(0.0, max(right, 1e-9)), TITLE + TALL
    low, high = choose_value_range([v for curve in curves for v in (*curve.ys, *curve.low, *curve.high)], 6)
    heights, marks = Scale(low, high, bottom, TITLE), choose_ticks(low, high, 6)
    drawn = [f'<text class="name" x="{scale.start}" y="{TITLE - 8}">{escape(name)}</text>']
    drawn += [
        axis.draw(scale, TITLE, bottom),
        draw_value_axis(heights, marks, [format_tick(mark) for mark in marks]),
    ]
    drawn += [_draw_curve_band(curve, scale, heights) for curve in curves if curve.low]
    drawn += [_draw_curve_line(curve, scale, heights) for curve in curves]
    edges = [right * k / COLUMNS for k in range(COLUMNS + 1)]
    spans = [Span(a, b) for a, b in pairwise(edges)]
    values = [[curve.over(span) for curve in curves] for span in spans]
    rows = [[text(value) for value in row] for row in values]
    whens = [axis.between(span.start, span.end) for span in spans]
    names = [curve.name for curve in curves]
    drawn.append(draw_hover_areas(spans, whens, scale, TITLE, bottom, names, rows))
    known = [k for k, row in enumerate(values) if any(math.isfinite(value) for value in row)]
    body = make_chart_figure(
        title,
        bottom + FOOT,
        "".join(drawn),
        axis.name,
        [whens[k] for k in known],
        names,
        [rows[k] for k in known],
    )
    keys = "".join(f"<li>{draw_legend_patch(curve.color)}{escape(curve.name)}</li>" for curve in curves)
    return body.replace("</svg>", f'</svg><ul class="keys">{keys}</ul>', 1)


def _draw_curve_line(curve: Curve, scale: Scale, heights: Scale) -> str:
    places = [
        (scale.at(x), heights.at(y)) for x, y in zip(curve.xs, curve.ys, strict=True) if math.isfinite(y)
    ]
    if not places:
        return ""
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    style = ' stroke-opacity="0.45" style="stroke-width:1.2"' if curve.faint else ""
    line = f'<path class="course" stroke="{curve.color}"{style} d="{path}"/>'
    dots = places if curve.dots or len(places) == 1 else []
    return line + "".join(f'<circle cx="{x}" cy="{y}" r="2.6" fill="{curve.color}"/>' for x, y in dots)


def _draw_curve_band(curve: Curve, scale: Scale, heights: Scale) -> str:
    known = [
        (scale.at(x), heights.at(a), heights.at(b))
        for x, a, b in zip(curve.xs, curve.low, curve.high, strict=True)
        if math.isfinite(a) and math.isfinite(b)
    ]
    if len(known) < 2:
        return ""
    over = [f"{x} {b}" for x, _, b in known]
    under = [f"{x} {a}" for x, a, _ in reversed(known)]
    return f'<path d="M{"L".join(over + under)}Z" fill="{curve.color}" fill-opacity="0.16"/>'
