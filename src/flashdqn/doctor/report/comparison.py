"""Two reports beside each other, on a terminal and as a page."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashdqn.core.files import write_output
from flashdqn.doctor.compare import Comparison, FindingChange
from flashdqn.doctor.report.sheet import Sheet
from flashdqn.doctor.report.words import strip_controls
from flashdqn.show.numbers import format_rate
from flashdqn.show.page import escape, make_page, make_section

PHASES = 8
CAVEAT = (
    "Chance is judged by how much each run varied within itself. What the machine did differently between the two "
    "runs is not known: when in doubt, run both again, or use `flashdqn doctor --try`."
)


def show_comparison(comparison: Comparison, names: tuple[str, str], console: Console) -> None:
    """Print the comparison."""
    sheet = Sheet(console)
    style = ""
    if comparison.speed is not None and (comparison.speed.is_faster or comparison.speed.is_slower):
        style = "bold green" if comparison.speed.is_faster else "bold yellow"
    sheet.blank()
    sheet.say(Text.assemble(("flashdqn doctor compare  ", "dim"), strip_controls(" → ".join(names))))
    sheet.say(Text(comparison.verdict, style=style))
    sheet.say(describe_rates(comparison))
    for warning in comparison.warnings:
        sheet.say(strip_controls(f"Not the same: {warning}."), bullet="! ", style="yellow")
    show_phases(comparison, sheet, console)
    sheet.title("Findings")
    if not comparison.findings:
        sheet.say("None, before and after.", indent=2)
    for change in comparison.findings:
        state, words = describe_finding(change)
        color = {"gone": "green", "new": "yellow"}.get(state, "dim")
        sheet.say(Text.assemble((f"{state:<6}", color), strip_controls(words)), indent=2)
    sheet.blank()
    sheet.say(CAVEAT, style="dim")


def describe_rates(comparison: Comparison) -> str:
    """Both speeds, and the interval of their quotient."""
    before, after = (format_rate(rate) for rate in comparison.rates)
    words = f"{comparison.unit.capitalize()} per second of training: {before} before, {after} after"
    if comparison.speed is not None:
        speed = comparison.speed
        words += f"; {speed.middle:.2f} times as fast (95%: {speed.low:.2f} to {speed.high:.2f})"
    return f"{words}."


def show_phases(comparison: Comparison, sheet: Sheet, console: Console) -> None:
    """The phases that changed most."""
    rows = [change for change in comparison.phases if math.isfinite(change.before + change.after)][:PHASES]
    if not rows:
        return
    sheet.title(f"µs for each {comparison.unit.removesuffix('s')}, the largest change first")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  phase")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for change in rows:
        table.add_row(
            f"  {strip_controls(change.name)}",
            f"{change.before:,.1f}",
            f"{change.after:,.1f}",
            f"{change.after - change.before:+,.1f}",
        )
    console.print(table)


def describe_finding(change: FindingChange) -> tuple[str, str]:
    """`gone`, `new` or `still`, and the finding in words."""
    state = "gone" if change.after is None else "new" if change.before is None else "still"
    finding = change.after or change.before or {}
    gains = [
        f"{report['speedup']:.2f}x" if isinstance(report.get("speedup"), float | int) else "unknown"
        for report in (change.before, change.after)
        if report is not None
    ]
    return state, f"{change.name}: {finding.get('title', '')} (predicted gain {' → '.join(gains)})"


def write_comparison_page(comparison: Comparison, names: tuple[str, str], path: Path) -> Path:
    """Write the page."""
    write_output(path, render_comparison(comparison, names))
    return path


def render_comparison(comparison: Comparison, names: tuple[str, str]) -> str:
    """The page itself."""
    warnings = "".join(f"<li>Not the same: {escape(warning)}.</li>" for warning in comparison.warnings)
    phases = "".join(
        f"<tr><td>{escape(c.name)}</td><td>{c.before:,.1f}</td><td>{c.after:,.1f}</td>"
        f"<td>{c.after - c.before:+,.1f}</td></tr>"
        for c in comparison.phases
        if math.isfinite(c.before + c.after)
    )
    findings = "".join(
        f"<tr><td><b>{state}</b></td><td>{escape(words)}</td></tr>"
        for state, words in map(describe_finding, comparison.findings)
    )
    head = "<tr><th>phase</th><th>before</th><th>after</th><th>change</th></tr>"
    unit = comparison.unit.removesuffix("s")
    body = [
        f"<header><p>flashdqn doctor</p><h1>{escape(' → '.join(names))}</h1>"
        f"<p><b>{escape(comparison.verdict)}</b></p><p>{escape(describe_rates(comparison))}</p></header>",
        f"<ul>{warnings}</ul>" if warnings else "",
        make_section(f"µs for each {unit}", f"<table>{head}{phases}</table>"),
        make_section(
            "Findings", f"<table>{findings}</table>" if findings else "<p>None, before and after.</p>"
        ),
        f"<p>{escape(CAVEAT)}</p>",
    ]
    return make_page(f"{' → '.join(names)}: flashdqn doctor", body)
