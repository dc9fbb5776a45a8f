"""Small pictures made of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
ZERO = "│"


def draw_text_bar(share: float, width: int) -> str:
    """A bar of `share` of `width` characters, to an eighth; never empty for a share above 0."""
    if not math.isfinite(share) or share <= 0:
        return ""
    eighths = max(1, round(min(1.0, share) * width * 8))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def draw_signed_bar(value: float, low: float, high: float, width: int) -> str:
    """A bar from zero to a value on an axis from `low` (0 or less) to `high` (0 or more), with a line at zero.
    It is `width` characters wide; negative values go to the left, to half a character."""
    span = high - low
    left = min(width - 1, max(0, round(-low / span * (width - 1)))) if span > 0 else 0
    right = width - 1 - left
    if not math.isfinite(value):
        return " " * left + ZERO + " " * right
    if value >= 0:
        bar = draw_text_bar(value / high, right) if high > 0 and right else ""
        return " " * left + ZERO + bar.ljust(right)
    halves = max(1, round(min(1.0, value / low) * left * 2)) if low < 0 and left else 0
    return ("▐" * (halves % 2) + "█" * (halves // 2)).rjust(left) + ZERO + " " * right


def draw_sparkline(values: Sequence[float], width: int) -> str:
    """Values over time, from zero upward, in at most `width` characters; a gap for NaN."""
    means = downsample_values(values, width)
    largest = max((value for value in means if math.isfinite(value)), default=0.0)
    return "".join(_choose_block(value, largest) for value in means)


def downsample_values(values: Sequence[float], most: int) -> list[float]:
    """At most `most` values, each the mean of neighbors that are finite."""
    return [mean_of_finite(values[piece]) for piece in split_into_slices(len(values), most)]


def split_into_slices(length: int, most: int) -> list[slice]:
    """Cut a row into at most `most` pieces of about the same length."""
    number = min(length, most)
    edges = [round(k * length / number) for k in range(number + 1)] if number else []
    return [slice(start, end) for start, end in pairwise(edges)]


def mean_of_finite(values: Sequence[float]) -> float:
    """The mean of the finite values; NaN if there are none."""
    numbers = [value for value in values if math.isfinite(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _choose_block(value: float, largest: float) -> str:
    if not math.isfinite(value):
        return " "
    level = value / largest if largest > 0 else 0.0
    return BLOCKS[max(0, min(7, math.ceil(level * 8) - 1))]
