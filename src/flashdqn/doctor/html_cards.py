"""The parts of a report's page that are made of words: its head, its findings, its hottest lines."""

from __future__ import annotations

from flashdqn.doctor.html_charts import get_phase_color
from flashdqn.doctor.html_code import render_code_block, render_listing
from flashdqn.doctor.report import CountedLine, Finding, HotLine, Report
from flashdqn.doctor.report_series import list_growing_containers
from flashdqn.doctor.report_words import (
    CHANGES_LEARNING,
    describe_bottleneck,
    describe_machine,
    describe_no_findings,
    describe_overhead,
    describe_watch_time,
    format_command,
    format_cost,
    format_gain,
    format_place,
    list_head_figures,
    shorten_path,
)
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.show.bars import draw_sparkline
from flashdqn.show.charts import draw_legend_patch
from flashdqn.show.numbers import format_percent
from flashdqn.show.page import escape, make_section

OPEN = 3  # hottest lines that are shown with what is around them at once


def render_head(report: Report) -> str:
    """What was run, for how long, and what came of it."""
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for name, value, unit in list_head_figures(report)
    )
    return (
        f'<header><p class="brand">flashdqn doctor</p><h1>{escape(format_command(report))}</h1>'
        f"<p>{escape(describe_watch_time(report))}</p>"
        f'<p class="soft">{escape(describe_machine(report))}</p></header>'
        + (render_traceback(report) if report.ended is Ending.FAILED and report.error else "")
        + f'<div class="tiles">{tiles}</div>'
        f'<div class="verdict"><b>{escape(describe_bottleneck(report))}</b>{escape(report.bound_because)}</div>'
    )


def render_traceback(report: Report) -> str:
    """The script's own words."""
    return make_section("It failed with", f'<pre class="trace">{escape(report.error.rstrip())}</pre>')


def render_findings(report: Report) -> str:
    """A card for each, or a calm word."""
    if not report.findings:
        return make_section("Findings: none", f"<p>{escape(describe_no_findings(report))}</p>")
    cards = "".join(render_finding_card(number, finding) for number, finding in enumerate(report.findings, 1))
    return make_section("Findings, the largest gain first", cards)


def render_finding_card(number: int, finding: Finding) -> str:
    """One finding."""
    where = ", ".join(part for part in (format_place(finding), format_cost(finding)) if part)
    evidence = "".join(f"<li>{escape(sentence)}</li>" for sentence in finding.evidence)
    return (
        f'<article class="card"><header><h3>{number}. {escape(finding.name)}</h3>'
        f'<span class="gain{_gain_class(finding)}">{escape(format_gain(finding))}</span></header>'
        f'<p>{escape(finding.title)}</p><p class="soft">{escape(where)}</p>'
        + (f"<ul>{evidence}</ul>" if evidence else "")
        + (f"<p><b>What to do:</b> {escape(finding.advice)}</p>" if finding.advice else "")
        + (f'<p class="less">{escape(CHANGES_LEARNING)}</p>' if finding.changes_learning else "")
        + (render_code_block(finding.example) if finding.example.strip() else "")
        + "</article>"
    )


def _gain_class(finding: Finding) -> str:
    if finding.changes_learning:
        return " from-less"
    return "" if format_gain(finding).endswith("faster") else " no-time"


def render_hot_lines(report: Report) -> str:
    """Lines on which much time went by, with what is around them."""
    if not report.lines:
        return ""
    lines = "".join(_render_hot_line(line, number < OPEN) for number, line in enumerate(report.lines))
    return make_section("Hottest lines", lines)


def _render_hot_line(line: HotLine, wide: bool) -> str:
    function = f" in {line.function}" if line.function else ""
    words = (
        f'<span class="share">{escape(format_percent(line.share))}</span> '
        f"<b>{escape(format_place(line))}</b>{escape(function)} "
        f'<span class="soft">{draw_legend_patch(get_phase_color(line.phase))}{escape(line.phase)}</span>'
        f'<code class="one">{escape(line.source)}</code>'
    )
    around = line.context or (((line.line, line.source),) if line.source else ())
    if not around:
        return f'<div class="line">{words}</div>'
    state = " open" if wide else ""
    return f'<details class="line"{state}><summary>{words}</summary>{render_listing(around, line.line)}</details>'


def render_counted_lines(title: str, lines: tuple[CountedLine, ...]) -> str:
    """What lines did again and again, with count and cost."""
    rows = "".join(
        f"<tr><td>{format_percent(line.share)}</td><td><b>{escape(line.what)}</b></td><td>{escape(format_place(line))}</td>"
        f"<td>{line.count:,}</td><td>{line.per_step:.3g}</td>"
        f"<td>{1e6 * line.seconds / max(line.count, 1):,.1f} µs</td><td>{line.waits or ''}</td></tr>"
        for line in lines
    )
    head = (
        "<tr><th>share</th><th>what</th><th>line</th><th>times</th><th>a step</th><th>each</th>"
        "<th>to or from the GPU</th></tr>"
    )
    return make_section(title, f"<table>{head}{rows}</table>") if rows else ""


def render_growth(report: Report) -> str:
    """Containers that get longer and longer."""
    rows = "".join(
        f"<tr><td><b>{escape(one.name)}</b> {escape(one.kind)}</td><td>{escape(shorten_path(one.where))}</td>"
        f'<td><span class="spark" aria-hidden="true">{draw_sparkline(one.sizes, 24)}</span></td>'
        f"<td>{one.extent}</td></tr>"
        for one in list_growing_containers(report)
    )
    head = "<tr><th>name</th><th>where</th><th>over time</th><th>size</th></tr>"
    return make_section("What grows", f"<table>{head}{rows}</table>") if rows else ""


def render_notes(report: Report) -> str:
    """What else a reader should know, and what the doctor cost."""
    items = "".join(f"<li>{escape(note)}</li>" for note in (*report.notes, describe_overhead(report)))
    return make_section("Notes", f'<ul class="notes">{items}</ul>')
