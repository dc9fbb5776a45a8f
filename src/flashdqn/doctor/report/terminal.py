"""A report for reading, on a terminal or in a pipe: 80 columns are enough, and colors are not needed."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from flashdqn.doctor.report.contents import (
    CountedLine,
    Finding,
    GrowingContainer,
    HotLine,
    PhaseShare,
    Report,
)
from flashdqn.doctor.report.series import (
    Course,
    build_courses,
    count_first_windows,
    drop_start_up,
    drop_unfinished_window,
)
from flashdqn.doctor.report.sheet import Sheet, highlight_for_terminal
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
    strip_controls,
)
from flashdqn.doctor.watch.kinds import Ending, Phase
from flashdqn.show.bars import draw_sparkline, draw_text_bar
from flashdqn.show.numbers import format_duration, format_percent

BAR, SPARK = 36, 34
HOTTEST = 10
COLORS = {
    Phase.ENVIRONMENT: "green",
    Phase.ACTING: "yellow",
    Phase.REPLAY: "magenta",
    Phase.LOADING: "magenta",
    Phase.FORWARD: "cyan",
    Phase.BACKWARD: "blue",
    Phase.OPTIMIZER: "bright_cyan",
    Phase.DATA_MOVEMENT: "red",
    Phase.PRINTING: "bright_magenta",
    Phase.LOGGING: "bright_magenta",
    Phase.COMPILATION: "bright_yellow",
}


def show_report(report: Report, console: Console) -> None:
    """Print the whole report, the script's own traceback first."""
    sheet = Sheet(console)
    if report.ended is Ending.FAILED and report.error:
        sheet.verbatim(report.error)
    _print_head(sheet, report)
    _print_verdict(sheet, report)
    _print_phases(sheet, report.phases)
    _print_findings(sheet, report)
    _print_health(sheet, report)
    _print_workers(sheet, report)
    _print_hot_lines(sheet, report.lines)
    _print_counted_lines(sheet, "Values taken out of tensors, and tensors moved", report.copies)
    _print_counted_lines(sheet, "Operations of torch", report.operations)
    _print_over_time(sheet, report)
    _print_growth(sheet, report.growth)
    _print_notes(sheet, report)


def _print_head(sheet: Sheet, report: Report) -> None:
    sheet.blank()
    sheet.say(Text.assemble(("flashdqn doctor  ", "dim"), (strip_controls(format_command(report)), "bold")))
    sheet.say(describe_watch_time(report))
    sheet.say(strip_controls(describe_machine(report)), style="dim")
    sheet.blank()
    cells = [
        Text.assemble(f"{name:<13}", (f"{value:>9}", "bold"), (f"  {unit}", "dim"))
        for name, value, unit in list_head_figures(report)
    ]
    for left, right in zip(cells[::2], cells[1::2], strict=True):
        left.pad_right(max(0, 43 - left.cell_len))
        sheet.line(Text.assemble(left, right))


def _print_verdict(sheet: Sheet, report: Report) -> None:
    words = Text(describe_bottleneck(report), style="bold")
    because = strip_controls(report.bound_because).strip()
    sheet.blank()
    sheet.say(Text.assemble(words, f": {because}") if because else Text.assemble(words, "."))


def _print_phases(sheet: Sheet, phases: tuple[PhaseShare, ...]) -> None:
    if not phases:
        return
    sheet.title("Where the time goes")
    for phase in sorted(phases, key=lambda phase: -phase.share if phase.share == phase.share else 0.0):
        figures = f"{format_duration(phase.seconds):>13}{format_percent(phase.share):>6}"
        words = f"  {phase.name:<17}{figures}  "
        sheet.line(Text.assemble(words, (draw_text_bar(phase.share, BAR), COLORS.get(phase.name, "white"))))


def _print_findings(sheet: Sheet, report: Report) -> None:
    if not report.findings:
        sheet.title("Findings: none")
        sheet.say(describe_no_findings(report), indent=2)
        return
    sheet.title("Findings, the largest gain first")
    for number, finding in enumerate(report.findings, 1):
        if number > 1:
            sheet.blank()
        _print_finding(sheet, number, finding)


def _print_finding(sheet: Sheet, number: int, finding: Finding) -> None:
    gain = format_gain(finding)
    style = "bold green" if gain.endswith("faster") else "bold yellow"
    name = f"{number:>2}  {strip_controls(finding.name)}"
    room = max(2, sheet.width - len(name) - len(gain))
    sheet.line(Text.assemble((name, "bold"), " " * room, (gain, style)))
    sheet.say(strip_controls(finding.title), indent=4)
    where = ", ".join(part for part in (strip_controls(format_place(finding)), format_cost(finding)) if part)
    sheet.say(where, indent=4, style="cyan")
    for sentence in finding.evidence:
        sheet.say(strip_controls(sentence), indent=4, bullet="• ")
    if finding.advice:
        sheet.say(Text.assemble(("What to do: ", "bold"), strip_controls(finding.advice)), indent=4)
    if finding.changes_learning:
        sheet.say(CHANGES_LEARNING, indent=4, bullet="! ", style="bold yellow")
    sheet.code(finding.example, indent=8)


def _print_health(sheet: Sheet, report: Report) -> None:
    if report.health is None:
        return
    sheet.title("Learning health" if report.health else "Learning health: nothing was seen that is wrong")
    for number, finding in enumerate(report.health, 1):
        if number > 1:
            sheet.blank()
        _print_finding(sheet, number, finding)


def _print_workers(sheet: Sheet, report: Report) -> None:
    if not report.workers:
        return
    sheet.title("Other processes")
    for one in report.workers:
        sheet.line(
            Text.assemble(
                f"  {one.number:>3} {one.name:<21}",
                (f"work {format_percent(one.working)}, wait {format_percent(one.waiting)}, ", "dim"),
                (f"messages {format_percent(one.messages)}", "dim"),
            )
        )
        if one.place:
            sheet.line(Text.assemble(" " * 6, (strip_controls(f"most at {shorten_path(one.place)}"), "cyan")))


def _print_hot_lines(sheet: Sheet, lines: tuple[HotLine, ...]) -> None:
    if not lines:
        return
    sheet.title("Hottest lines")
    for line in lines[:HOTTEST]:
        words = f"{format_place(line)}  {line.function}".rstrip()
        sheet.line(
            Text.assemble(
                f"{format_percent(line.share):>6}  ",
                (strip_controls(words), "cyan"),
                (f"  ({line.phase})", "dim"),
            )
        )
        if line.source:
            sheet.line(Text.assemble(" " * 10, highlight_for_terminal(strip_controls(line.source))))
    if len(lines) > HOTTEST:
        sheet.say(f"and {len(lines) - HOTTEST} more, in the page and the JSON", indent=8, style="dim")


def _print_counted_lines(sheet: Sheet, title: str, lines: tuple[CountedLine, ...]) -> None:
    if not lines:
        return
    sheet.title(title)
    for line in lines[:HOTTEST]:
        each = 1e6 * line.seconds / max(line.count, 1)
        figures = f"{line.count:>9,}x {line.per_step:>5.3g}/step {each:>7,.1f} µs  "
        sheet.line(
            Text.assemble(
                f"{format_percent(line.share):>6}  ",
                (strip_controls(f"{line.what:<12} "), "bold"),
                (figures, "dim"),
                (strip_controls(f"{Path(line.file).name}:{line.line}"), "cyan"),
                (f"  {line.waits:,} wait" if line.waits else "", "dim"),
            )
        )
    if len(lines) > HOTTEST:
        sheet.say(f"and {len(lines) - HOTTEST} more, in the page and the JSON", indent=8, style="dim")


def _print_over_time(sheet: Sheet, report: Report) -> None:
    windows = drop_unfinished_window(drop_start_up(report.windows))
    found = build_courses(windows)
    if not found:
        return
    first = count_first_windows(windows)
    seconds = sum(window.seconds for window in windows[:first])
    sheet.title("Over time")
    sheet.line(Text(f"{'first ' + format_duration(seconds):>{SPARK + 32}}{'the rest':>12}", style="dim"))
    for course in found:
        sheet.line(_format_course(course))


def _format_course(course: Course) -> Text:
    line = draw_sparkline(course.values, SPARK)
    numbers = f"{course.text(course.first):>14}{course.text(course.rest):>12}"
    return Text.assemble(f"  {course.name:<16}", (f"{line:<{SPARK}}", "cyan"), numbers)


def _print_growth(sheet: Sheet, found: tuple[GrowingContainer, ...]) -> None:
    if not found:
        return
    sheet.title("What grows")
    for one in found:
        sheet.say(
            Text.assemble(
                (strip_controls(one.name), "bold"),
                strip_controls(f" ({one.type})"),
                "  ",
                (strip_controls(shorten_path(one.where)), "cyan"),
            ),
            indent=2,
        )
        sheet.line(Text.assemble("    ", (draw_sparkline(one.counts, SPARK), "cyan"), f"  {one.extent}"))


def _print_notes(sheet: Sheet, report: Report) -> None:
    sheet.title("Notes")
    for note in report.notes:
        sheet.say(strip_controls(note), indent=2, bullet="• ")
    sheet.say(describe_overhead(report), indent=2, bullet="• ")
