"""The charts of a report: its phases as one bar, and everything that was counted over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flashdqn.doctor.report.contents import Report, Window
from flashdqn.doctor.report.series import (
    compute_window_shares,
    drop_unfinished_window,
    list_phase_names,
    merge_windows,
    per_second,
)
from flashdqn.doctor.report.words import PHASES
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.show.charts import (
    Layer,
    Panel,
    Span,
    draw_legend_patch,
    draw_line_chart,
    draw_stacked_bar,
    draw_stacked_chart,
)
from flashdqn.show.numbers import choose_size_unit, format_bytes, format_duration, format_percent, format_rate
from flashdqn.show.page import escape

MOST = 120  # windows in a chart: more cannot be told apart
BLUE, RUST, GREEN, OCHRE = "#2f8fb0", "#c8553d", "#4c9a6a", "#c9922e"
COLORS = {
    Phase.ENVIRONMENT: GREEN,
    Phase.ACTING: "#dcae4a",
    Phase.REPLAY: "#8a6bb8",
    Phase.LOADING: "#b08fd6",
    Phase.FORWARD: BLUE,
    Phase.BACKWARD: "#2f5f9e",
    Phase.OPTIMIZER: "#7cc0cf",
    Phase.DATA_MOVEMENT: RUST,
    Phase.LEARNING_REST: "#7f8fd1",
    Phase.PRINTING: "#d1678f",
    Phase.LOGGING: "#a8527a",
    Phase.COMPILATION: "#8c6d46",
    Phase.WAITING: "#9aa7b5",
    Phase.START_UP: "#b9b3a3",
    Phase.PYTHON_REST: "#6b7683",
}


def get_phase_color(phase: Phase) -> str:
    """A phase's color, the same in every chart."""
    return COLORS[phase]


def draw_phase_bar(report: Report) -> str:
    """Where the time goes: a bar, and the same in numbers."""
    names = list_phase_names(report)
    if not names:
        return "<p>Too little was seen to tell.</p>"
    phases = {phase.name: phase for phase in report.phases}
    layers = [Layer(name, [_positive_or_zero(phases[name].share)], get_phase_color(name)) for name in names]
    rows = "".join(
        f"<tr><td>{draw_legend_patch(get_phase_color(name))}{escape(name)}</td>"
        f'<td class="time">{format_duration(phases[name].seconds)}</td>'
        f"<td>{escape(format_percent(phases[name].share))}</td>"
        f'<td class="about">{escape(PHASES[name])}</td></tr>'
        for name in names
    )
    head = '<tr><th>phase</th><th>time</th><th>share</th><th class="about">what it is</th></tr>'
    return draw_stacked_bar("Time by phase", layers) + f"<table>{head}{rows}</table>"


def draw_time_charts(report: Report) -> str:
    """Throughput, phases, episodes and memory, side by side."""
    windows = [w for w in report.windows if math.isfinite(w.start) and w.seconds > 0]
    windows = merge_windows(drop_unfinished_window(windows), MOST)
    if not windows:
        return "<p>Nothing was counted over time.</p>"
    spans = [Span(w.start, w.start + w.seconds) for w in windows]
    charts = [_draw_throughput(windows, spans), _draw_phases(report, windows, spans)]
    charts += [_draw_episodes(windows, spans), _draw_memory(windows, spans)]
    return f'<div class="charts">{"".join(charts)}</div>'


def _draw_throughput(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    panels = [
        Panel("transitions/s", [per_second(w.transitions, w.seconds) for w in windows], BLUE, format_rate),
        Panel("updates/s", [per_second(w.updates, w.seconds) for w in windows], RUST, format_rate),
    ]
    return draw_line_chart("Throughput", spans, panels)


def _draw_phases(report: Report, windows: Sequence[Window], spans: Sequence[Span]) -> str:
    names = list_phase_names(report)
    table = [compute_window_shares(window, names) for window in windows]
    layers = [Layer(name, [row[k] for row in table], get_phase_color(name)) for k, name in enumerate(names)]
    seen = [layer for layer in layers if any(share > 0 for share in layer.shares)]
    return draw_stacked_chart("Time by phase", spans, seen) if seen else ""


def _draw_episodes(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    if not any(w.episodes for w in windows):
        return ""
    lengths = [w.episode_length if w.episodes else math.nan for w in windows]
    panels = [
        Panel("episodes/s", [per_second(w.episodes, w.seconds) for w in windows], GREEN, format_rate),
        Panel("mean episode length, steps", lengths, OCHRE, format_rate),
    ]
    return draw_line_chart("Episodes and their length", spans, panels)


def _draw_memory(windows: Sequence[Window], spans: Sequence[Span]) -> str:
    sizes = {"host": [w.memory for w in windows], "device": [w.device_memory for w in windows]}
    panels = []
    for name, hue in (("host", BLUE), ("device", RUST)):
        largest = max((value for value in sizes[name] if math.isfinite(value)), default=0)
        if largest > 0:
            unit, unit_name = choose_size_unit(largest)
            panels.append(Panel(f"{name}, {unit_name}", sizes[name], hue, format_bytes, unit))
    return draw_line_chart("Memory", spans, panels) if panels else ""


def _positive_or_zero(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0
