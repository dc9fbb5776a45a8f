"""Numbers as text: a few digits, a unit, and a dash for an unknown value."""

from __future__ import annotations

import math

NOTHING = "–"
KIB, MIB, GIB = 2**10, 2**20, 2**30


def format_count(value: float) -> str:
    """A whole number: 1,234."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def format_rate(value: float) -> str:
    """Three digits, or all digits of a large number: 0.0417, 8.33, 1,234."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_percent(share: float) -> str:
    """A share in percent: 37%."""
    if not math.isfinite(share):
        return NOTHING
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def format_duration(seconds: float) -> str:
    """A duration: 0.25 s, 61.4 s, 3 min 05 s, 2 h 04 min."""
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_bytes(number: float) -> str:
    """Bytes: 312 MiB, 1.87 GiB."""
    if not math.isfinite(number):
        return NOTHING
    unit, name = choose_size_unit(number)
    return f"{number / unit:,.0f} {name}" if number / unit >= 100 else f"{number / unit:.3g} {name}"


def choose_size_unit(largest: float) -> tuple[int, str]:
    """The best unit for this number of bytes."""
    if largest >= GIB:
        return GIB, "GiB"
    return (MIB, "MiB") if largest >= MIB else (KIB, "KiB")
