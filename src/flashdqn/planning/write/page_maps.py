"""The maps of the page: pictures inside the page, with a scale bar, an arrow and numbers that can be pointed at."""

from __future__ import annotations

import base64
from string import ascii_uppercase

from flashdqn.planning.report import PlanReport
from flashdqn.planning.worth import find_most_valuable
from flashdqn.planning.write.paint import (
    CHANCE_COLORS,
    ORDER_COLORS,
    Pixels,
    choose_shrink,
    encode_png,
    list_color_stops,
    paint_breaks,
    paint_chance,
)
from flashdqn.planning.write.scale_bar import choose_scale_bar
from flashdqn.show.numbers import format_percent, format_rate
from flashdqn.show.page import escape

#: The width of a map, and the size of a number on it, in the units of the page's charts.
WIDTH, PIN = 380.0, 9.5


def draw_page_maps(report: PlanReport) -> str:
    """The breaks, and the chance to burn before and after."""
    landscape, judgement = report.problem.landscape, report.judgement
    shrink = choose_shrink(landscape.shape)
    before, after = judgement.before.burn_probability, report.after.burn_probability
    top = max(0.01, float(before.max()))
    chance = make_legend("0 % of the fires", format_percent(top), CHANCE_COLORS)
    order = make_legend("first break", "last break", ORDER_COLORS)
    parts = (
        (
            "The breaks in their order",
            paint_breaks(landscape, report.written_plan.order, shrink),
            order,
            draw_markers(report),
        ),
        ("Chance to burn, without breaks", paint_chance(before, landscape, top, shrink), chance, ""),
        (
            "Chance to burn, with the breaks",
            paint_chance(after, landscape, top, shrink),
            chance,
            draw_gaps(report),
        ),
    )
    return f'<div class="charts maps">{"".join(draw_page_map(report, *part) for part in parts)}</div>'


def draw_page_map(report: PlanReport, title: str, pixels: Pixels, legend: str, markers: str) -> str:
    """One map with its caption and legend."""
    height = compute_height(report)
    data = base64.b64encode(encode_png(pixels)).decode()
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg class="map" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(title)}">'
        f'<image href="data:image/png;base64,{data}" width="{WIDTH:g}" height="{height:g}" '
        f'preserveAspectRatio="none"/>{draw_scale(report, height)}{draw_north()}{markers}</svg>{legend}</figure>'
    )


def compute_height(report: PlanReport) -> float:
    """The height of a map in the page's units."""
    rows, columns = report.problem.landscape.shape
    return round(WIDTH * rows / columns, 1)


def draw_scale(report: PlanReport, height: float) -> str:
    """A scale bar at the lower left."""
    landscape = report.problem.landscape
    cells, words = choose_scale_bar(landscape.shape[1], landscape.cell_size)
    length = round(cells * WIDTH / landscape.shape[1], 1)
    y = height - 12
    return (
        f'<path class="halo" d="M12 {y}h{length}"/><path class="bar" d="M12 {y}h{length}"/>'
        f'<text class="onmap" x="12" y="{y - 6}">{escape(words)}</text>'
    )


def draw_north() -> str:
    """An arrow to the north, which is up."""
    x = WIDTH - 18
    return (
        f'<path class="arrow" d="M{x} 8l6 16l-6 -4l-6 4z"/><text class="onmap" x="{x}" y="37" '
        'text-anchor="middle">N</text>'
    )


def draw_markers(report: PlanReport) -> str:
    """Numbers at the most valuable breaks, with what they save under the pointer."""
    rows, columns = report.problem.landscape.shape
    height, parts = compute_height(report), []
    for group in reversed(find_most_valuable(report.groups)):
        row, column = divmod(int(group.cells[len(group.cells) // 2]), columns)
        x = min(WIDTH - PIN, max(PIN, (column + 0.5) * WIDTH / columns))
        y = min(height - PIN, max(PIN, (row + 0.5) * height / rows))
        worth = "–" if group.worth is None else format_rate(group.worth.mean)
        words = (
            f"break {group.number}, rank {group.rank}\n{len(group.cells)} cells\nsaves {worth} {report.unit}"
        )
        parts.append(
            f'<circle class="pin" cx="{x:.1f}" cy="{y:.1f}" r="{PIN - 1}"/>'
            f'<text class="pinned" x="{x:.1f}" y="{y + 3.6:.1f}" text-anchor="middle">{group.rank}</text>'
            f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="{PIN}"><title>{escape(words)}</title></circle>'
        )
    return "".join(parts)


def draw_gaps(report: PlanReport) -> str:
    """Letters at the cells whose loss alone costs most."""
    rows, columns = report.problem.landscape.shape
    height, parts = compute_height(report), []
    for letter, gap in reversed(list(zip(ascii_uppercase, report.gaps, strict=False))):
        row, column = divmod(gap.cell, columns)
        x = min(WIDTH - PIN, max(PIN, (column + 0.5) * WIDTH / columns))
        y = min(height - PIN, max(PIN, (row + 0.5) * height / rows))
        costs = f"{format_rate(gap.saved.mean)} {report.unit}"
        words = f"cell {letter}, number {gap.place + 1} in order\nwithout it: {costs} more"
        parts.append(
            f'<rect class="pin gap" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
            f'<text class="pinned" x="{x:.1f}" y="{y + 3.6:.1f}" text-anchor="middle">{letter}</text>'
            f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="{PIN}"><title>{escape(words)}</title></circle>'
        )
    return "".join(parts)


def make_legend(low: str, high: str, colors: str) -> str:
    """A bar of colors with words at its ends."""
    stops = ", ".join(list_color_stops(colors))
    return (
        f'<p class="scale"><span>{escape(low)}</span><i style="background:linear-gradient(90deg, {stops})"></i>'
        f"<span>{escape(high)}</span></p>"
    )
