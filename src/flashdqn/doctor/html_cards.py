"""The parts of a report's page that are made of words: its head, its findings, its hottest lines."""

from __future__ import annotations

from flashdqn.doctor.html_charts import colour
from flashdqn.doctor.html_code import code_block, listing
from flashdqn.doctor.report import CountedLine, Finding, HotLine, Report
from flashdqn.doctor.report_series import growing
from flashdqn.doctor.report_words import (
    CHANGES_LEARNING,
    calm,
    command,
    cost,
    figures,
    machine,
    overhead,
    place,
    short,
    speed,
    verdict,
    watched,
)
from flashdqn.show.bars import sparkline
from flashdqn.show.charts import key
from flashdqn.show.numbers import percent
from flashdqn.show.page import escape, section

OPEN = 3  # hottest lines that are shown with what is around them at once


def head(report: Report) -> str:
    """What was run, for how long, and what came of it."""
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for name, value, unit in figures(report)
    )
    return (
        f'<header><p class="brand">flashdqn doctor</p><h1>{escape(command(report))}</h1>'
        f'<p>{escape(watched(report))}</p><p class="soft">{escape(machine(report))}</p></header>'
        + (traceback(report) if report.ended == "failed" and report.error else "")
        + f'<div class="tiles">{tiles}</div>'
        f'<div class="verdict"><b>{escape(verdict(report))}</b>{escape(report.bound_because)}</div>'
    )


def traceback(report: Report) -> str:
    """The script's own words."""
    return section("It failed with", f'<pre class="trace">{escape(report.error.rstrip())}</pre>')


def findings(report: Report) -> str:
    """A card for each, or a calm word."""
    if not report.findings:
        return section("Findings: none", f"<p>{escape(calm(report))}</p>")
    cards = "".join(card(number, finding) for number, finding in enumerate(report.findings, 1))
    return section("Findings, the largest gain first", cards)


def card(number: int, finding: Finding) -> str:
    """One finding."""
    where = ", ".join(part for part in (place(finding), cost(finding)) if part)
    evidence = "".join(f"<li>{escape(sentence)}</li>" for sentence in finding.evidence)
    return (
        f'<article class="card"><header><h3>{number}. {escape(finding.name)}</h3>'
        f'<span class="gain{_tone(finding)}">{escape(speed(finding))}</span></header>'
        f'<p>{escape(finding.title)}</p><p class="soft">{escape(where)}</p>'
        + (f"<ul>{evidence}</ul>" if evidence else "")
        + (f"<p><b>What to do:</b> {escape(finding.advice)}</p>" if finding.advice else "")
        + (f'<p class="less">{escape(CHANGES_LEARNING)}</p>' if finding.changes_learning else "")
        + (code_block(finding.example) if finding.example.strip() else "")
        + "</article>"
    )


def _tone(finding: Finding) -> str:
    if finding.changes_learning:
        return " from-less"
    return "" if speed(finding).endswith("faster") else " no-time"


def hottest(report: Report) -> str:
    """Lines on which much time went by, with what is around them."""
    if not report.lines:
        return ""
    lines = "".join(_line(line, number < OPEN) for number, line in enumerate(report.lines))
    return section("Hottest lines", lines)


def _line(line: HotLine, wide: bool) -> str:
    function = f" in {line.function}" if line.function else ""
    words = (
        f'<span class="share">{escape(percent(line.share))}</span> <b>{escape(place(line))}</b>{escape(function)} '
        + (f'<span class="soft">{key(colour(line.phase))}{escape(line.phase)}</span>' if line.phase else "")
        + f'<code class="one">{escape(line.source)}</code>'
    )
    around = line.context or (((line.line, line.source),) if line.source else ())
    if not around:
        return f'<div class="line">{words}</div>'
    state = " open" if wide else ""
    return f'<details class="line"{state}><summary>{words}</summary>{listing(around, line.line)}</details>'


def counted(title: str, lines: tuple[CountedLine, ...]) -> str:
    """What lines did again and again, with count and cost."""
    rows = "".join(
        f"<tr><td>{percent(line.share)}</td><td><b>{escape(line.what)}</b></td><td>{escape(place(line))}</td>"
        f"<td>{line.count:,}</td><td>{line.per_step:.3g}</td>"
        f"<td>{1e6 * line.seconds / max(line.count, 1):,.1f} µs</td><td>{line.waits or ''}</td></tr>"
        for line in lines
    )
    head = (
        "<tr><th>share</th><th>what</th><th>line</th><th>times</th><th>a step</th><th>each</th>"
        "<th>to or from the GPU</th></tr>"
    )
    return section(title, f"<table>{head}{rows}</table>") if rows else ""


def growth(report: Report) -> str:
    """Containers that get longer and longer."""
    rows = "".join(
        f"<tr><td><b>{escape(one.name)}</b> {escape(one.kind)}</td><td>{escape(short(one.where))}</td>"
        f'<td><span class="spark" aria-hidden="true">{sparkline(one.sizes, 24)}</span></td>'
        f"<td>{one.extent}</td></tr>"
        for one in growing(report)
    )
    head = "<tr><th>name</th><th>where</th><th>over time</th><th>size</th></tr>"
    return section("What grows", f"<table>{head}{rows}</table>") if rows else ""


def notes(report: Report) -> str:
    """What else a reader should know, and what the doctor cost."""
    items = "".join(f"<li>{escape(note)}</li>" for note in (*report.notes, overhead(report)))
    return section("Notes", f'<ul class="notes">{items}</ul>')
