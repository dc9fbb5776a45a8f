"""A report for reading, on a terminal or in a pipe: 80 columns are enough, and colours are not needed."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from flashdqn.doctor.report import CountedLine, Finding, HotLine, Phase, Report
from flashdqn.doctor.report_series import Course, Growing, beginning, courses, growing
from flashdqn.doctor.report_words import (
    CHANGES_LEARNING,
    calm,
    command,
    cost,
    figures,
    machine,
    overhead,
    place,
    plain,
    short,
    speed,
    verdict,
    watched,
)
from flashdqn.doctor.terminal_sheet import Sheet, highlighted
from flashdqn.show.bars import bar, sparkline
from flashdqn.show.numbers import duration, percent

BAR, SPARK = 36, 34
HOTTEST = 10
COLOURS = {
    "environment": "green",
    "acting": "yellow",
    "replay": "magenta",
    "forward": "cyan",
    "backward": "blue",
    "optimizer": "bright_cyan",
    "data movement": "red",
    "printing": "bright_magenta",
    "logging": "bright_magenta",
    "compilation": "bright_yellow",
}


def show_report(report: Report, console: Console) -> None:
    """Everything, the script's own traceback first."""
    sheet = Sheet(console)
    if report.ended == "failed" and report.error:
        sheet.verbatim(report.error)
    _head(sheet, report)
    _verdict(sheet, report)
    _phases(sheet, report.phases)
    _findings(sheet, report)
    _hottest(sheet, report.lines)
    _counted(sheet, "Values taken out of tensors, and tensors moved", report.copies)
    _counted(sheet, "Operations of torch", report.operations)
    _over_time(sheet, report)
    _growth(sheet, growing(report))
    _end(sheet, report)


def _head(sheet: Sheet, report: Report) -> None:
    sheet.blank()
    sheet.say(Text.assemble(("flashdqn doctor  ", "dim"), (plain(command(report)), "bold")))
    sheet.say(watched(report))
    sheet.say(plain(machine(report)), style="dim")
    sheet.blank()
    cells = [
        Text.assemble(f"{name:<13}", (f"{value:>9}", "bold"), (f"  {unit}", "dim"))
        for name, value, unit in figures(report)
    ]
    for left, right in zip(cells[::2], cells[1::2], strict=True):
        left.pad_right(max(0, 43 - left.cell_len))
        sheet.line(Text.assemble(left, right))


def _verdict(sheet: Sheet, report: Report) -> None:
    words = Text(verdict(report), style="bold")
    because = plain(report.bound_because).strip()
    sheet.blank()
    sheet.say(Text.assemble(words, f": {because}") if because else Text.assemble(words, "."))


def _phases(sheet: Sheet, phases: tuple[Phase, ...]) -> None:
    if not phases:
        return
    sheet.title("Where the time goes")
    for phase in sorted(phases, key=lambda phase: -phase.share if phase.share == phase.share else 0.0):
        words = f"  {plain(phase.name)[:16]:<17}{duration(phase.seconds):>13}{percent(phase.share):>6}  "
        sheet.line(Text.assemble(words, (bar(phase.share, BAR), COLOURS.get(phase.name, "white"))))


def _findings(sheet: Sheet, report: Report) -> None:
    if not report.findings:
        sheet.title("Findings: none")
        sheet.say(calm(report), indent=2)
        return
    sheet.title("Findings, the largest gain first")
    for number, finding in enumerate(report.findings, 1):
        if number > 1:
            sheet.blank()
        _finding(sheet, number, finding)


def _finding(sheet: Sheet, number: int, finding: Finding) -> None:
    gain = speed(finding)
    style = "bold green" if gain.endswith("faster") else "bold yellow"
    name = f"{number:>2}  {plain(finding.name)}"
    room = max(2, sheet.width - len(name) - len(gain))
    sheet.line(Text.assemble((name, "bold"), " " * room, (gain, style)))
    sheet.say(plain(finding.title), indent=4)
    where = ", ".join(part for part in (plain(place(finding)), cost(finding)) if part)
    sheet.say(where, indent=4, style="cyan")
    for sentence in finding.evidence:
        sheet.say(plain(sentence), indent=4, bullet="• ")
    if finding.advice:
        sheet.say(Text.assemble(("What to do: ", "bold"), plain(finding.advice)), indent=4)
    if finding.changes_learning:
        sheet.say(CHANGES_LEARNING, indent=4, bullet="! ", style="bold yellow")
    sheet.code(finding.example, indent=8)


def _hottest(sheet: Sheet, lines: tuple[HotLine, ...]) -> None:
    if not lines:
        return
    sheet.title("Hottest lines")
    for line in lines[:HOTTEST]:
        words = f"{place(line)}  {line.function}".rstrip()
        phase = f"  ({line.phase})" if line.phase else ""
        sheet.line(
            Text.assemble(f"{percent(line.share):>6}  ", (plain(words), "cyan"), (plain(phase), "dim"))
        )
        if line.source:
            sheet.line(Text.assemble(" " * 10, highlighted(plain(line.source))))
    if len(lines) > HOTTEST:
        sheet.say(f"and {len(lines) - HOTTEST} more, in the page and the JSON", indent=8, style="dim")


def _counted(sheet: Sheet, title: str, lines: tuple[CountedLine, ...]) -> None:
    if not lines:
        return
    sheet.title(title)
    for line in lines[:HOTTEST]:
        each = 1e6 * line.seconds / max(line.count, 1)
        figures = f"{line.count:>9,}x {line.per_step:>5.3g}/step {each:>7,.1f} µs  "
        sheet.line(
            Text.assemble(
                f"{percent(line.share):>6}  ",
                (plain(f"{line.what:<12} "), "bold"),
                (figures, "dim"),
                (plain(f"{Path(line.file).name}:{line.line}"), "cyan"),
                (f"  {line.waits:,} wait" if line.waits else "", "dim"),
            )
        )
    if len(lines) > HOTTEST:
        sheet.say(f"and {len(lines) - HOTTEST} more, in the page and the JSON", indent=8, style="dim")


def _over_time(sheet: Sheet, report: Report) -> None:
    found = courses(report.windows)
    if not found:
        return
    first = beginning(report.windows)
    seconds = sum(window.seconds for window in report.windows[:first])
    sheet.title("Over time")
    sheet.line(Text(f"{'first ' + duration(seconds):>{SPARK + 32}}{'the rest':>12}", style="dim"))
    for course in found:
        sheet.line(_course(course))


def _course(course: Course) -> Text:
    line = sparkline(course.values, SPARK)
    numbers = f"{course.text(course.first):>14}{course.text(course.rest):>12}"
    return Text.assemble(f"  {course.name:<16}", (f"{line:<{SPARK}}", "cyan"), numbers)


def _growth(sheet: Sheet, found: list[Growing]) -> None:
    if not found:
        return
    sheet.title("What grows")
    for one in found:
        kind = f" ({one.kind})" if one.kind else ""
        sheet.say(
            Text.assemble((plain(one.name), "bold"), plain(kind), "  ", (plain(short(one.where)), "cyan")),
            indent=2,
        )
        if one.sizes:
            sheet.line(Text.assemble("    ", (sparkline(one.sizes, SPARK), "cyan"), f"  {one.extent}"))


def _end(sheet: Sheet, report: Report) -> None:
    sheet.title("Notes")
    for note in report.notes:
        sheet.say(plain(note), indent=2, bullet="• ")
    sheet.say(overhead(report), indent=2, bullet="• ")
