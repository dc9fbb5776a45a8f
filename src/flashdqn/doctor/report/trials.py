"""Cures that were tried, and patches that were tested: predicted and measured side by side."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashdqn.doctor.cures.same_work import measure_noise
from flashdqn.doctor.cures.trial_process import TrialSetup
from flashdqn.doctor.cures.turns import TrialTurns, count_cores
from flashdqn.doctor.report.cure_result import CureResult
from flashdqn.doctor.report.sheet import Sheet
from flashdqn.doctor.report.words import strip_controls
from flashdqn.show.page import escape, make_section


def show_trials(
    title: str, trials: tuple[CureResult, ...], setup: TrialSetup, turns: TrialTurns, console: Console
) -> None:
    """Print the table, and what a reader must know about it."""
    sheet = Sheet(console)
    sheet.title(title)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("finding", "changed", "predicted", "measured", "95%", "numbers"):
        table.add_column(name, overflow="fold")
    for trial in trials:
        style = "green" if trial.is_faster else ""
        table.add_row(
            strip_controls(trial.finding),
            strip_controls(trial.what),
            format_factor(trial.predicted) if trial.predicted != 1.0 else "not speed",
            Text(format_factor(trial.measured), style=f"bold {style}"),
            format_interval(trial),
            trial.numbers,
        )
    console.print(table)
    for trial in trials:
        kept = "kept, " if trial.kept else ""
        words = f"{trial.cure}: {kept}{trial.verdict[0].lower()}{trial.verdict[1:]}"
        if trial.changes:
            words += f" It may change: {trial.changes}."
        sheet.say(strip_controls(words), indent=2, bullet="• ")
    sheet.say(describe_conditions(setup, turns, trials), indent=2, bullet="• ", style="dim")


def format_factor(value: float) -> str:
    """A gain: 1.31x."""
    return f"{value:.2f}x" if math.isfinite(value) else "–"


def format_interval(trial: CureResult) -> str:
    """The interval, or a dash where there is none."""
    return f"{trial.low:.2f}–{trial.high:.2f}" if trial.pairs > 1 else "–"


def describe_conditions(setup: TrialSetup, turns: TrialTurns, trials: tuple[CureResult, ...]) -> str:
    """How it was measured, how busy the machine was, and what chance alone did."""
    cores = count_cores()
    load = max((trial.load for trial in trials if math.isfinite(trial.load)), default=math.nan)
    noise = measure_noise(turns.untouched)
    words = (
        f"Seconds for the same work, runs of {setup.seconds:.0f} s; seeds are set where the script sets none."
    )
    if noise:
        spread = max(abs(math.log(factor)) for factor in noise)
        words += f" Two untouched runs differed by up to {math.expm1(spread):.0%}."
    if math.isfinite(load):
        words += f" The machine's load was up to {load:.1f} on {cores} cores"
        words += ": others were at work, too." if any(trial.busy for trial in trials) else "."
    return words


def render_trials(trials: tuple[CureResult, ...]) -> str:
    """The same for the page; patches with their diffs."""
    if not trials:
        return ""
    names = ("finding", "changed", "predicted", "measured", "95%", "numbers")
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    rows = "".join(
        f"<tr><td>{escape(trial.finding)}</td><td><code>{escape(trial.what)}</code></td>"
        f"<td>{format_factor(trial.predicted) if trial.predicted != 1.0 else 'not speed'}</td>"
        f"<td><b>{format_factor(trial.measured)}</b></td><td>{format_interval(trial)}</td>"
        f"<td>{escape(trial.numbers_because)}{'; kept' if trial.kept else ''}</td></tr>"
        for trial in trials
    )
    diffs = "".join(
        f"<h3>{escape(trial.cure)}: {escape(trial.verdict)}</h3><pre><code>{escape(trial.patch)}</code></pre>"
        for trial in trials
        if trial.patch
    )
    return make_section("Tried: predicted and measured", f"<table>{head}{rows}</table>{diffs}")
