"""Charts over time as SVG in a page: axes, units, values under the pointer, and the values as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashdqn.show.chart_axis import (
    LEFT,
    TIME,
    WIDTH,
    Axis,
    Scale,
    choose_ticks,
    choose_value_range,
    draw_value_axis,
    format_tick,
    make_horizontal_scale,
)
from flashdqn.show.page import escape, make_table

HEIGHT, TITLE, FOOT = 84, 28, 22  # of one panel, the title above it, and the axis under all panels

STYLE = """
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1.6rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg.whole { height: 28px; margin: .6rem 0; border-radius: 6px; overflow: hidden; }
.part { stroke: var(--ground); stroke-width: 1; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .name { fill: var(--ink); font-size: 12px; }
.grid { stroke: var(--line); stroke-width: 1; } .course { fill: none; stroke-width: 2; stroke-linejoin: round; }
.hit { fill: transparent; } .hit:hover { fill: var(--ink); fill-opacity: .12; }
.keys { display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: 0; margin: .4rem 0; list-style: none;
  font-size: .85rem; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em; }
details.values { font-size: .85rem; color: var(--soft); margin-top: .3rem; }
details.values table { max-height: 18rem; overflow: auto; } summary { cursor: pointer; }
.tip { position: fixed; z-index: 9; pointer-events: none; white-space: pre; font-size: .8rem; line-height: 1.35;
  padding: .35rem .55rem; border-radius: 6px; background: var(--ink); color: var(--ground);
  font-variant-numeric: tabular-nums; }
"""

SCRIPT = """
const tip = document.createElement('div'); tip.className = 'tip'; tip.hidden = true; document.body.append(tip);
for (const hit of document.querySelectorAll('.hit')) {
  const title = hit.querySelector('title'), words = title.textContent; title.remove();
  const show = event => { tip.textContent = words; tip.hidden = false;
    const x = event.clientX + 14, y = event.clientY + 14;
    tip.style.left = Math.max(4, x + tip.offsetWidth > innerWidth ? x - 28 - tip.offsetWidth : x) + 'px';
    tip.style.top = Math.max(4, y + tip.offsetHeight > innerHeight ? y - 28 - tip.offsetHeight : y) + 'px'; };
  hit.addEventListener('pointermove', show); hit.addEventListener('pointerdown', show);
  hit.addEventListener('pointerleave', () => { tip.hidden = true; });
}
addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
"""


@dataclass(frozen=True)
class Span:
    """The range that one value stands for, in the units of the axis."""

    start: float
    end: float


@dataclass(frozen=True)
class Panel:
    """One line of values, with its own axis that includes zero."""

    name: str
    """The name with its unit: transitions/s."""
    values: Sequence[float]
    """One for each span; NaN if there is none."""
    color: str
    text: Callable[[float], str]
    """How a value is written."""
    unit: float = 1.0
    """The unit of the axis: 2**30 for GiB."""


@dataclass(frozen=True)
class Layer:
    """One part of a whole."""

    name: str
    shares: Sequence[float]
    color: str


def draw_line_chart(title: str, spans: Sequence[Span], panels: Sequence[Panel], axis: Axis = TIME) -> str:
    """Draw lines one below the other, over the same time or transitions."""
    scale = make_horizontal_scale(spans[0].start, spans[-1].end)
    bottom = len(panels) * (TITLE + HEIGHT)
    tops = [TITLE + k * (TITLE + HEIGHT) for k in range(len(panels))]
    drawn = [axis.draw(scale, TITLE, bottom)]
    drawn += [_draw_panel(panel, spans, scale, top) for panel, top in zip(panels, tops, strict=True)]
    rows = [[panel.text(panel.values[k]) for panel in panels] for k in range(len(spans))]
    names = [panel.name for panel in panels]
    whens = [axis.between(span.start, span.end) for span in spans]
    drawn.append(draw_hover_areas(spans, whens, scale, TITLE, bottom, names, rows))
    return make_chart_figure(title, bottom + FOOT, "".join(drawn), axis.name, whens, names, rows)


def draw_stacked_chart(
    title: str,
    spans: Sequence[Span],
    layers: Sequence[Layer],
    axis: Axis = TIME,
    whole: str = "share of the time",
) -> str:
    """Draw parts of a whole over time, on top of each other."""
    scale, bottom = make_horizontal_scale(spans[0].start, spans[-1].end), TITLE + 2 * HEIGHT
    heights = Scale(0.0, 1.0, bottom, TITLE)
    drawn, base = [_draw_panel_title(whole, TITLE)], [0.0] * len(spans)
    for layer in layers:
        top = [low + share for low, share in zip(base, layer.shares, strict=True)]
        drawn.append(_draw_layer(spans, base, top, scale, heights, layer.color))
        base = top
    marks = [0.0, 0.25, 0.5, 0.75, 1.0]
    drawn.append(draw_value_axis(heights, marks, [f"{mark:.0%}" for mark in marks]))
    drawn.append(axis.draw(scale, TITLE, bottom))
    rows = [[f"{layer.shares[k]:.0%}" for layer in layers] for k in range(len(spans))]
    names = [layer.name for layer in layers]
    whens = [axis.between(span.start, span.end) for span in spans]
    drawn.append(draw_hover_areas(spans, whens, scale, TITLE, bottom, names, rows))
    keys = "".join(f"<li>{draw_legend_patch(layer.color)}{escape(layer.name)}</li>" for layer in layers)
    body = make_chart_figure(title, bottom + FOOT, "".join(drawn), axis.name, whens, names, rows)
    return body.replace("</svg>", f'</svg><ul class="keys">{keys}</ul>', 1)


def draw_stacked_bar(title: str, layers: Sequence[Layer]) -> str:
    """Draw a whole and its parts, from left to right; each layer's `shares` holds one number."""
    total, x, parts = sum(layer.shares[0] for layer in layers), 0.0, []
    for layer in layers:
        share = layer.shares[0] / total if total > 0 else 0.0
        parts.append(
            f'<rect class="part" x="{x * 100:.2f}%" width="{share * 100:.2f}%" height="28" fill="{layer.color}">'
            f"<title>{escape(layer.name)}: {share:.1%}</title></rect>"
        )
        x += share
    return f'<svg class="whole" role="img" aria-label="{escape(title)}" height="28">{"".join(parts)}</svg>'


def draw_legend_patch(color: str) -> str:
    """A patch of color for a legend."""
    return f'<span class="key" style="background:{color}"></span>'


def _draw_panel(panel: Panel, spans: Sequence[Span], scale: Scale, top: float) -> str:
    values = [value / panel.unit for value in panel.values]
    low, high = choose_value_range(values)
    heights = Scale(low, high, top + HEIGHT, top)
    marks = choose_ticks(low, high, 4)
    return (
        _draw_panel_title(panel.name, top)
        + draw_value_axis(heights, marks, [format_tick(mark) for mark in marks])
        + _draw_panel_line(spans, values, scale, heights, panel.color)
    )


def _draw_panel_title(text: str, top: float) -> str:
    return f'<text class="name" x="{LEFT}" y="{top - 8}">{escape(text)}</text>'


def _draw_panel_line(
    spans: Sequence[Span], values: Sequence[float], scale: Scale, heights: Scale, color: str
) -> str:
    """A line through the middles of the spans, with gaps at NaN; a dot for a value without neighbors."""
    path, dots, pen = [], [], False
    known = [math.isfinite(value) for value in values]
    for k, (span, value) in enumerate(zip(spans, values, strict=True)):
        if not known[k]:
            pen = False
            continue
        x, y = scale.at((span.start + span.end) / 2), heights.at(value)
        if not (k and known[k - 1]) and not (k + 1 < len(values) and known[k + 1]):
            dots.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>')
        else:
            path.append(f"{'L' if pen else 'M'}{x} {y}")
        pen = True
    line = f'<path class="course" stroke="{color}" d="{"".join(path)}"/>' if path else ""
    return line + "".join(dots)


def _draw_layer(
    spans: Sequence[Span],
    base: Sequence[float],
    top: Sequence[float],
    scale: Scale,
    heights: Scale,
    color: str,
) -> str:
    over, under = [], []
    for span, low, high in zip(spans, base, top, strict=True):
        left, right = scale.at(span.start), scale.at(span.end)
        over += [f"{left} {heights.at(high)}", f"{right} {heights.at(high)}"]
        under += [f"{left} {heights.at(low)}", f"{right} {heights.at(low)}"]
    return f'<path d="M{"L".join(over + under[::-1])}Z" fill="{color}"/>'


def draw_hover_areas(
    spans: Sequence[Span],
    whens: Sequence[str],
    scale: Scale,
    top: float,
    bottom: float,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """Draw an invisible column for each span; its title shows the values under the pointer."""
    parts = []
    for span, when, row in zip(spans, whens, rows, strict=True):
        left, right = scale.at(span.start), scale.at(span.end)
        some = [f"{name}: {text}" for name, text in zip(names, row, strict=True) if text != "0%"]
        words = "\n".join([when, *some])
        parts.append(
            f'<rect class="hit" x="{left}" y="{top}" width="{max(0.1, round(right - left, 1))}" '
            f'height="{bottom - top}"><title>{escape(words)}</title></rect>'
        )
    return "".join(parts)


def make_chart_figure(
    title: str,
    height: float,
    drawn: str,
    head: str,
    whens: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """A drawing with its caption and a table of its values."""
    values = make_table([head, *names], ([when, *row] for when, row in zip(whens, rows, strict=True)))
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{drawn}</svg>'
        f'<details class="values"><summary>As a table</summary>{values}</details></figure>'
    )
