"""A profile as a page: time by phase, the experiments as bars with their spread, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.profile.result import Advice, Apart, Aside, Outcome, Profile, Suggestion, TimedPhase
from flashdqn.profile.terminal import describe_setup, describe_speeds, format_outcome_speed, format_spread
from flashdqn.show import charts
from flashdqn.show.charts import Layer, draw_legend_patch, draw_stacked_bar
from flashdqn.show.numbers import format_percent
from flashdqn.show.page import escape, make_page, make_section, make_table

COLORS = ("#2f8fb3", "#8a63b8", "#d9a63a", "#4a9a5c", "#c8553d", "#7bbccf", "#667085", "#b84a7d")
STYLE = """
.speed { position: relative; width: 16rem; max-width: 100%; height: 1rem; background: var(--card); }
.speed i { position: absolute; top: .2rem; bottom: .2rem; background: var(--accent); }
.speed b { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--ink); }
.speed u { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--soft); }
.lines { white-space: pre-wrap; margin: .3rem 0; }
.trade { color: var(--warm); } .dim { color: var(--soft); }
"""

SPEED_UP = "speed-up, logarithmic (the line: 1)"


def write_profile_page(profile: Profile, path: Path) -> None:
    """Write the page to a file."""
    write_output(path, render_profile_page(profile))


def render_profile_page(profile: Profile) -> str:
    """The page itself."""
    lines = (*describe_setup(profile), *describe_speeds(profile.spent))
    head = "".join(f'<p class="lines">{escape(line)}</p>' for line in lines)
    body = [
        f"<h1>{escape(f'flashdqn profile {profile.preset}')}</h1>{head}",
        make_section(
            "Where the time goes, per transition", render_phases("Time by phase", profile.spent.phases)
        ),
        *(render_graph_parts(apart) for apart in profile.spent.apart),
        make_section(
            "Now and then, measured by itself: not training time", render_asides(profile.spent.asides)
        ),
        make_section("Experiments", render_experiments(profile)) if profile.outcomes else "",
        make_section("What would make it faster", render_advice(profile.advice)) if profile.outcomes else "",
    ]
    return make_page(f"flashdqn profile {profile.preset}", body, charts.STYLE + STYLE, charts.SCRIPT)


def render_phases(title: str, parts: Iterable[TimedPhase]) -> str:
    """A bar, and the same in numbers."""
    parts = tuple(parts)
    colors = {part.name: COLORS[i % len(COLORS)] for i, part in enumerate(parts)}
    layers = [Layer(part.name, [part.share], colors[part.name]) for part in parts]
    rows = "".join(
        f"<tr><td>{draw_legend_patch(colors[part.name])}{escape(part.name)}</td>"
        f"<td>{part.microseconds:,.3f} µs</td>"
        f"<td>{escape(format_percent(part.share))}</td><td>{escape(part.about)}</td></tr>"
        for part in parts
    )
    head = "<tr><th>phase</th><th>per transition</th><th>share</th><th>what it is</th></tr>"
    return draw_stacked_bar(title, layers) + f"<table>{head}{rows}</table>"


def render_graph_parts(apart: Apart) -> str:
    """The parts of a graph, and their sum beside the graph itself."""
    total, whole = apart.sum_microseconds, apart.whole_microseconds
    words = (
        f"Together {total:,.3f} µs, and {whole:,.3f} µs as one graph in training: {total / whole:.2f} times."
    )
    return make_section(
        f"Measured apart: the parts of {apart.whole}",
        render_phases(apart.whole, apart.parts) + f"<p>{words}</p>",
    )


def render_asides(found: Iterable[Aside]) -> str:
    """What happens now and then."""
    rows = (
        (
            one.name,
            f"{one.seconds * 1e3:,.1f} ms",
            f"{one.every:,}" if one.every else "once",
            f"{one.microseconds:,.3f} µs" if one.microseconds is not None else "–",
            one.about,
        )
        for one in found
    )
    return make_table(("what", "each", "every", "per transition", "what it is"), rows)


def render_experiments(profile: Profile) -> str:
    """Each experiment's speed-up as a bar from its lowest to its highest, and what it does to learning."""
    speeds_up = [one.speed_up for one in profile.outcomes if one.speed_up is not None]
    scale = SpeedScale(
        min((s.low for s in speeds_up), default=0.5), max((s.high for s in speeds_up), default=2.0)
    )
    names = ("experiment", "transitions/s", SPEED_UP, "", "updates per transition", "learning")
    rows = "".join(
        f"<tr><td><b>{escape(one.name)}</b></td>"
        f'<td data-name="{names[1]}">{one.transitions_per_second.median:,.0f}</td>'
        f'<td data-name="{names[2]}">{draw_speed_bar(one, scale)}</td>'
        f'<td data-name="speed-up">{escape(format_outcome_speed(one))}</td>'
        f'<td data-name="{names[4]}">× {one.relative_ratio:.3g}</td>'
        f'<td data-name="{names[5]}" class="{"trade" if one.role == "trade" else ""}">'
        f"{escape(one.learning)}</td></tr>"
        for one in profile.outcomes
    )
    head = f'<tr class="head">{"".join(f"<th>{name}</th>" for name in names)}</tr>'
    left = "".join(
        f'<p class="dim">Left out: {escape(o.name)}: {escape(o.reason)}</p>' for o in profile.left_out
    )
    how = f"Each changes one setting. {profile.rounds_done} rounds in turns, {profile.turn_seconds:.2g} s for each."
    return f'<table class="stacked">{head}{rows}</table><p class="dim">{how}</p>{left}'


class SpeedScale:
    """Speed-ups as places on a bar: twice as fast is as far to the right as half as fast is to the left."""

    def __init__(self, least: float, most: float) -> None:
        self.low = math.log(max(min(least, 0.5), 1e-3))
        self.high = math.log(max(most, 2.0))

    def place(self, speed_up: float) -> float:
        """The place in percent of the bar."""
        return 100 * (math.log(max(speed_up, 1e-3)) - self.low) / (self.high - self.low)


def draw_speed_bar(one: Outcome, scale: SpeedScale) -> str:
    """A bar from the lowest to the highest, with the median as a mark."""
    if one.speed_up is None:
        return ""
    low, high, middle = (scale.place(v) for v in (one.speed_up.low, one.speed_up.high, one.speed_up.median))
    return (
        f'<div class="speed" title="{escape(format_spread(one.speed_up))}">'
        f'<i style="left:{low:.1f}%;width:{max(high - low, 0.5):.1f}%"></i><b style="left:{middle:.1f}%"></b>'
        f'<u style="left:{scale.place(1.0):.1f}%"></u></div>'
    )


def render_advice(found: Advice) -> str:
    """Sentences first, then the flags, by what they do to learning."""
    words = "".join(f"<p>{escape(sentence)}</p>" for sentence in found.words)
    return (
        words
        + render_suggestions("Changes nothing about learning", found.same)
        + render_suggestions(
            "Trades learning for speed: judge by the score, and not by the clock", found.trades
        )
        + render_suggestions("Learns from more, and costs little", found.bargains)
    )


def render_suggestions(title: str, found: Iterable[Suggestion]) -> str:
    """Flags and their speed-ups."""
    rows = [
        (one.flags, f"{one.speed_up.median:.2f} ({format_spread(one.speed_up)})", one.learning)
        for one in found
    ]
    return f"<h3>{escape(title)}</h3>" + make_table(("flags", "speed-up", "learning"), rows) if rows else ""
