"""Axes: round numbers between two ends, and their positions in a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

WIDTH = 380
LEFT, RIGHT = 42, 12

#: A smaller number is drawn as zero: its ticks could not be told from zero.
TINY = 1e-300


@dataclass(frozen=True)
class Scale:
    """Maps values to positions in the picture."""

    low: float
    high: float
    """The values at the two ends."""
    start: float
    end: float
    """Their positions in the picture."""

    def at(self, value: float) -> float:
        """The position of a value."""
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.0
        return round(self.start + share * (self.end - self.start), 1)


def choose_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, at most `most`: steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not math.isfinite(span) or span < TINY:
        return [low] if math.isfinite(low) else [0.0]
    rough = span / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def choose_axis_top(values: list[float], most: int = 4) -> float:
    """A round number above all values, for an axis that begins at zero."""
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    if largest < TINY:
        return 1.0
    marks = choose_ticks(0.0, largest, most)
    step = marks[1] - marks[0] if len(marks) > 1 else largest
    return math.ceil(largest / step - 1e-9) * step


def choose_round_limit(size: float) -> float:
    """The least of 1, 2, 5, 10, … (times a power of ten) that is not below a size; 0 for 0."""
    if not TINY < size < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * 0.999)


def choose_value_range(values: list[float], most: int = 4) -> tuple[float, float]:
    """Round ends of an axis that holds zero and all values."""
    known = [value for value in values if math.isfinite(value)]
    low = min(known, default=0.0)
    return (-choose_axis_top([-low], most) if low < 0 else 0.0), choose_axis_top(known, most)


def format_tick(value: float) -> str:
    """A number in short form: 0, 0.5, 20, 1.5k, 2M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def make_horizontal_scale(start: float, end: float) -> Scale:
    """The horizontal axis, over the whole width."""
    return Scale(start, end, LEFT, WIDTH - RIGHT)


def draw_time_axis(scale: Scale, top: float, bottom: float) -> str:
    """Draw round times under a chart, with thin lines through it; in minutes if there are many seconds."""
    unit, name = (60.0, "min") if scale.high > 300 else (1.0, "s")
    marks = choose_ticks(scale.low / unit, scale.high / unit, 6)
    parts = []
    for mark in marks:
        x = scale.at(mark * unit)
        text = f"{mark:g} {name}" if mark == marks[-1] else f"{mark:g}"
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{bottom + 15}" text-anchor="middle">{text}</text>')
    return "".join(parts)


def draw_step_axis(scale: Scale, top: float, bottom: float) -> str:
    """Draw round numbers of transitions under a chart, with thin lines through it."""
    parts = []
    for mark in choose_ticks(scale.low, scale.high, 6):
        x = scale.at(mark)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x}" y="{bottom + 15}" text-anchor="middle">{format_tick(mark)}</text>'
        )
    return "".join(parts)


@dataclass(frozen=True)
class Axis:
    """A chart's horizontal axis: how it is drawn, and how a range on it is named."""

    name: str
    draw: Callable[[Scale, float, float], str]
    between: Callable[[float, float], str]


TIME = Axis("time", draw_time_axis, lambda start, end: f"{start:.1f} – {end:.1f} s")
STEPS = Axis("transitions", draw_step_axis, lambda start, end: f"{start:,.0f} – {end:,.0f} transitions")


def draw_value_axis(scale: Scale, marks: list[float], texts: list[str]) -> str:
    """Draw values at the left, with thin lines across."""
    parts = []
    for mark, text in zip(marks, texts, strict=True):
        y = scale.at(mark)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>')
    return "".join(parts)
