"""The pictures of a report: its phases as one bar, and everything that was counted over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flashdqn.doctor.report import Report, Window
from flashdqn.doctor.report_series import merged, per_second, phase_names, shares
from flashdqn.doctor.report_words import PHASES
from flashdqn.show.charts import Layer, Panel, Span, key, line_chart, stacked_bar, stacked_chart
from flashdqn.show.numbers import duration, percent, rate, size, size_unit
from flashdqn.show.page import escape

MOST = 120  # windows in a chart: more cannot be told apart
BLUE, RUST, GREEN, OCHRE = "#2f8fb0", "#c8553d", "#4c9a6a", "#c9922e"
COLOURS = {
    "environment": GREEN,
    "acting": "#dcae4a",
    "replay": "#8a6bb8",
    "forward": BLUE,
    "backward": "#2f5f9e",
    "optimizer": "#7cc0cf",
    "data movement": RUST,
    "learning (rest)": "#7f8fd1",
    "printing": "#d1678f",
    "logging": "#a8527a",
    "compilation": "#8c6d46",
    "waiting": "#9aa7b5",
    "start-up": "#b9b3a3",
    "python (rest)": "#6b7683",
}


def colour(phase: str) -> str:
    """The same in every picture."""
    return COLOURS.get(phase, "#8d8d8d")


def phase_bar(report: Report) -> str:
    """Where the time goes: a bar, and the same in numbers."""
    names = phase_names(report)
    if not names:
        return "<p>Too little was seen to tell.</p>"
    phases = {phase.name: phase for phase in report.phases}
    layers = [Layer(name, [_number(phases[name].share)], colour(name)) for name in names]
    rows = "".join(
        f'<tr><td>{key(colour(name))}{escape(name)}</td><td class="time">{duration(phases[name].seconds)}</td>'
        f'<td>{escape(percent(phases[name].share))}</td><td class="about">{escape(PHASES.get(name, ""))}</td></tr>'
        for name in names
    )
    head = '<tr><th>phase</th><th>time</th><th>share</th><th class="about">what it is</th></tr>'
    return stacked_bar("Time by phase", layers) + f"<table>{head}{rows}</table>"


def time_charts(report: Report) -> str:
    """Throughput, phases, episodes and memory, side by side."""
    windows = [w for w in report.windows if math.isfinite(w.start) and w.seconds > 0]
    windows = merged(windows, MOST)
    if not windows:
        return "<p>Nothing was counted over time.</p>"
    spans = [Span(w.start, w.start + w.seconds) for w in windows]
    charts = [_throughput(windows, spans), _phases(report, windows, spans)]
    charts += [_episodes(windows, spans), _memory(windows, spans)]
    return f'<div class="charts">{"".join(charts)}</div>'


def _throughput(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    panels = [
        Panel("transitions/s", [per_second(w.transitions, w.seconds) for w in windows], BLUE, rate),
        Panel("updates/s", [per_second(w.updates, w.seconds) for w in windows], RUST, rate),
    ]
    return line_chart("Throughput", spans, panels)


def _phases(report: Report, windows: Sequence[Window], spans: Sequence[Span]) -> str:
    names = phase_names(report)
    table = [shares(window, names) for window in windows]
    layers = [Layer(name, [row[k] for row in table], colour(name)) for k, name in enumerate(names)]
    seen = [layer for layer in layers if any(share > 0 for share in layer.shares)]
    return stacked_chart("Time by phase", spans, seen) if seen else ""


def _episodes(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    if not any(w.episodes for w in windows):
        return ""
    lengths = [w.episode_length if w.episodes else math.nan for w in windows]
    panels = [
        Panel("episodes/s", [per_second(w.episodes, w.seconds) for w in windows], GREEN, rate),
        Panel("mean episode length, steps", lengths, OCHRE, rate),
    ]
    return line_chart("Episodes and their length", spans, panels)


def _memory(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    sizes = {"host": [w.memory for w in windows], "device": [w.device_memory for w in windows]}
    panels = []
    for name, hue in (("host", BLUE), ("device", RUST)):
        largest = max((value for value in sizes[name] if math.isfinite(value)), default=0)
        if largest > 0:
            unit, unit_name = size_unit(largest)
            panels.append(Panel(f"{name}, {unit_name}", sizes[name], hue, size, unit))
    return line_chart("Memory", spans, panels) if panels else ""


def _number(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0
