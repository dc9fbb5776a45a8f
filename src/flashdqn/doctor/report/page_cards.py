"""The text parts of a report's page: its head, its findings, its hottest lines."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from flashdqn.doctor.report.contents import CountedLine, Finding, HotLine, Report
from flashdqn.doctor.report.page_charts import get_phase_color
from flashdqn.doctor.report.words import (
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

OPEN = 3  # hottest lines whose surrounding lines are shown at once
#: Comments, strings, numbers and words of Python: a small reader that never fails, on any input.
_TOKEN = re.compile(
    r"(?P<c>#[^\n]*)"
    r"|(?P<s>[rbfuRBFU]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"))"
    r"|(?P<n>\b\d[\w.]*)"
    r"|(?P<w>[^\W\d]\w*)",
    re.DOTALL,
)


def render_head(report: Report) -> str:
    """What was run, for how long, and the result."""
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
        f'<div class="verdict"><b>{escape(describe_bottleneck(report))}</b>'
        f"{render_text(report.bound_because)}</div>"
    )


def render_text(text: str) -> str:
    """HTML for a sentence; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def render_traceback(report: Report) -> str:
    """The script's own traceback."""
    return make_section("It failed with", f'<pre class="trace">{escape(report.error.rstrip())}</pre>')


def render_findings(report: Report) -> str:
    """A card for each finding, or a sentence if there is none."""
    if not report.findings:
        return make_section("Findings: none", f"<p>{render_text(describe_no_findings(report))}</p>")
    cards = "".join(render_finding_card(number, finding) for number, finding in enumerate(report.findings, 1))
    return make_section("Findings, the largest gain first", cards)


def render_health(report: Report) -> str:
    """The findings about learning, in a section of their own."""
    if report.health is None:
        return ""
    if not report.health:
        return make_section("Learning health", "<p>Nothing was seen that is wrong.</p>")
    cards = "".join(render_finding_card(number, finding) for number, finding in enumerate(report.health, 1))
    return make_section("Learning health", cards)


def render_workers(report: Report) -> str:
    """What the script's other processes did."""
    rows = "".join(
        f"<tr><td><b>{one.number}</b> {escape(one.name)}</td><td>{format_percent(one.working)}</td>"
        f"<td>{format_percent(one.waiting)}</td><td>{format_percent(one.messages)}</td>"
        f"<td>{escape(shorten_path(one.place))}</td></tr>"
        for one in report.workers
    )
    head = "<tr><th>processes</th><th>work</th><th>wait</th><th>messages</th><th>most of the work</th></tr>"
    return make_section("Other processes", f"<table>{head}{rows}</table>") if rows else ""


def render_finding_card(number: int, finding: Finding) -> str:
    """One finding."""
    where = ", ".join(part for part in (format_place(finding), format_cost(finding)) if part)
    evidence = "".join(f"<li>{render_text(sentence)}</li>" for sentence in finding.evidence)
    return (
        f'<article class="card"><header><h3>{number}. {escape(finding.name)}</h3>'
        f'<span class="gain{_gain_class(finding)}">{escape(format_gain(finding))}</span></header>'
        f'<p>{render_text(finding.title)}</p><p class="soft">{escape(where)}</p>'
        + (f"<ul>{evidence}</ul>" if evidence else "")
        + (f"<p><b>What to do:</b> {render_text(finding.advice)}</p>" if finding.advice else "")
        + (f'<p class="less">{escape(CHANGES_LEARNING)}</p>' if finding.changes_learning else "")
        + (render_code_block(finding.example) if finding.example.strip() else "")
        + "</article>"
    )


def _gain_class(finding: Finding) -> str:
    if finding.changes_learning:
        return " from-less"
    return "" if format_gain(finding).endswith("faster") else " no-time"


def render_hot_lines(report: Report) -> str:
    """Lines that took much time, with the lines around them."""
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
    """Containers that keep growing."""
    rows = "".join(
        f"<tr><td><b>{escape(one.name)}</b> {escape(one.type)}</td><td>{escape(shorten_path(one.where))}</td>"
        f'<td><span class="spark" aria-hidden="true">{draw_sparkline(one.counts, 24)}</span></td>'
        f"<td>{one.extent}</td></tr>"
        for one in report.growth
    )
    head = "<tr><th>name</th><th>where</th><th>over time</th><th>size</th></tr>"
    return make_section("What grows", f"<table>{head}{rows}</table>") if rows else ""


def render_notes(report: Report) -> str:
    """What else a reader should know, and what the doctor cost."""
    items = "".join(f"<li>{render_text(note)}</li>" for note in (*report.notes, describe_overhead(report)))
    return make_section("Notes", f'<ul class="notes">{items}</ul>')


def highlight_as_html(source: str) -> str:
    """HTML for some Python: comments, strings, numbers and keywords."""
    parts, end = [], 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "w":
            kind = "k" if keyword.iskeyword(token[0]) else None
        if kind:
            parts.append(escape(source[end : token.start()]))
            parts.append(f'<span class="{kind}">{escape(token[0])}</span>')
            end = token.end()
    return "".join(parts) + escape(source[end:])


def render_code_block(source: str) -> str:
    """A few lines to copy."""
    return f"<pre><code>{highlight_as_html(source.strip(chr(10)))}</code></pre>"


def render_listing(lines: Iterable[tuple[int, str]], hot: int) -> str:
    """Numbered lines, with one of them marked."""
    rows = "".join(
        f'<span class="row{" hot" if number == hot else ""}"><span class="number">{number}</span>'
        f"{highlight_as_html(text.rstrip())}</span>"
        for number, text in lines
    )
    return f"<pre><code>{rows}</code></pre>"
