"""A profile for reading, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashdqn.profile.compare import TRIMMED
from flashdqn.profile.result import (
    Advice,
    Arithmetic,
    Aside,
    Outcome,
    Profile,
    RoundSpread,
    Spent,
    Suggestion,
    TimedPhase,
)
from flashdqn.show.bars import draw_text_bar

BAR = 20  # characters of a whole
COLORS = {"faster": "green", "slower": "red", "no difference": "dim", "baseline": "bold"}


def show_profile(console: Console, profile: Profile) -> None:
    """Print everything, from where the time goes to what to do about it."""
    say = _make_line_printer(console)
    for line in (*describe_setup(profile), *describe_speeds(profile.spent)):
        say(line)
    say()
    console.print(phase_table(profile.spent.phases, "Where the time goes, per transition"), highlight=False)
    for sentence in profile.spent.fused:
        say(f"  {sentence}", "dim")
    show_graph_parts(console, profile.spent)
    console.print(aside_table(profile.spent.asides), highlight=False)
    if profile.outcomes:
        show_outcomes(console, profile)
    for one in profile.left_out:
        say(f"  left out: {one.name}: {one.reason}", "dim")
    if profile.outcomes or profile.interrupted:
        show_advice(console, profile)


def describe_setup(profile: Profile) -> Iterable[str]:
    """What was measured, and on what."""
    config, hardware = profile.config, profile.hardware
    pqn = ", PQN" if config["learn"]["method"] == "pqn" else ""
    yield f"{profile.preset}: {config['envs']:,} boards, batch {profile.spent.batch:,}{pqn}, mode {profile.mode}"
    compute, games = profile.threads
    yield (
        f"{profile.device}: {hardware['device']}, {hardware['cores']} cores; threads: {compute} for the network, "
        f"{games} for the games; torch {hardware['torch']}; {profile.date}"
    )


def describe_speeds(spent: Spent) -> Iterable[str]:
    """The rates of the user's own configuration, and what they come from."""
    yield (
        f"{spent.transitions_per_second:,.0f} transitions/s   {spent.updates_per_second:,.0f} updates/s   "
        f"train ratio {spent.ratio_done:.5f}, wanted {spent.ratio_asked:.5g}   reuse {spent.reuse:.3g}   "
        f"over {spent.seconds:.1f} s"
    )
    times = {phase.name: phase.microseconds for phase in spent.phases}
    learning = sum(times.get(name, 0.0) for name in ("sample", "update", "learn"))
    whole = sum(times.values())
    if spent.updates and whole:
        yield (
            f"Learning takes {learning / whole:.0%} of the time: {learning / spent.ratio_done:,.0f} µs per update, "
            f"{learning:,.2f} µs per transition; the rest {whole - learning:,.2f} µs per transition"
        )
    if spent.arithmetic is not None:
        yield describe_arithmetic(spent.arithmetic)


def describe_arithmetic(found: Arithmetic) -> str:
    """How fast the products of an update are done, and how fast they could be."""
    return (
        f"An update is {format_flops(found.flops)} ({found.passes} forward passes' worth) in "
        f"{found.seconds * 1e6:,.0f} µs: {format_flops(found.flops_per_second)}/s, {found.share:.0%} of the "
        f"{format_flops(found.product_flops_per_second)}/s of a large {found.product} product here"
    )


def format_flops(count: float) -> str:
    """A number of operations with a unit: 1.18 TFLOP."""
    for unit, size in (("T", 1e12), ("G", 1e9)):
        if count >= size:
            return f"{count / size:.3g} {unit}FLOP"
    return f"{count / 1e6:.3g} MFLOP"


def phase_table(phases: Iterable[TimedPhase], title: str) -> Table:
    """A row and a bar for each phase."""
    table = Table(title=title, title_justify="left")
    for name in ("phase", "µs", "share"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    table.add_column("", no_wrap=True)
    table.add_column("what it is")
    for phase in phases:
        table.add_row(
            phase.name,
            f"{phase.microseconds:,.3f}",
            f"{phase.share:.0%}",
            draw_text_bar(phase.share, BAR),
            phase.about,
        )
    return table


def show_graph_parts(console: Console, spent: Spent) -> None:
    """The parts of each graph, and their sum beside the graph itself."""
    say = _make_line_printer(console)
    for apart in spent.apart:
        console.print(
            phase_table(apart.parts, f"Measured apart: the parts of {apart.whole}"), highlight=False
        )
        total, whole = apart.sum_microseconds, apart.whole_microseconds
        say(
            f"  together {total:,.3f} µs, and {whole:,.3f} µs as one graph in training: {total / whole:.2f} times"
        )
    if spent.not_apart:
        say(f"  Not measured apart: {spent.not_apart}", "dim")


def aside_table(asides: Iterable[Aside]) -> Table:
    """What happens now and then."""
    table = Table(title="Now and then, measured by itself: not training time", title_justify="left")
    table.add_column("what")
    for name in ("ms each", "every", "µs per transition"):
        table.add_column(name, justify="right")
    table.add_column("what it is")
    for one in asides:
        every = f"{one.every:,}" if one.every else "once"
        cost = f"{one.microseconds:,.3f}" if one.microseconds is not None else "–"
        table.add_row(one.name, f"{one.seconds * 1e3:,.1f}", every, cost, one.about)
    return table


def show_outcomes(console: Console, profile: Profile) -> None:
    """Print the experiments, and how they were measured."""
    console.print(outcome_table(profile.outcomes), highlight=False)
    say = _make_line_printer(console)
    trimmed = ", without the best and the worst" if profile.rounds_done >= TRIMMED else ""
    unfinished = f" of {profile.rounds_asked}" if profile.rounds_done < profile.rounds_asked else ""
    say(
        f"  Each changes one setting. {profile.rounds_done}{unfinished} rounds, {profile.turn_seconds:.2g} s for "
        f"each, in turns; median (lowest … highest) of the rounds{trimmed}.",
        "dim",
    )
    say(
        "  no difference: within its own spread, or within that of the baseline against itself (again).",
        "dim",
    )
    for one in profile.outcomes:
        if one.remark:
            say(f"  {one.name}: {one.remark}.", "dim")


def outcome_table(outcomes: Iterable[Outcome]) -> Table:
    """The speed-up of each experiment, and what it does to learning."""
    table = Table(title="Experiments", title_justify="left")
    table.add_column("experiment", no_wrap=True)
    for name in ("transitions/s", "speed-up", "updates/transition"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("learning")
    for one in outcomes:
        rate = f"{one.transitions_per_second.median:,.0f}"
        style = COLORS.get(one.verdict, "")
        speed = Text(format_outcome_speed(one), style=style)
        table.add_row(one.name, rate, speed, f"× {one.relative_ratio:.3g}", one.learning)
    return table


def format_outcome_speed(one: Outcome) -> str:
    """The speed-up, or the verdict where there is no difference."""
    if one.name == "baseline":
        return "1"
    if one.verdict in ("no difference", "too few rounds"):
        found = "" if one.speed_up is None else f" ({format_spread(one.speed_up)})"
        return f"{one.verdict}{found}"
    return "" if one.speed_up is None else f"{one.speed_up.median:.2f} ({format_spread(one.speed_up)})"


def format_spread(spread: RoundSpread) -> str:
    """From the lowest to the highest."""
    return f"{spread.low:.2f} … {spread.high:.2f}"


def show_advice(console: Console, profile: Profile) -> None:
    """Print what to do about it, if an experiment was measured."""
    say = _make_line_printer(console)
    if profile.outcomes:
        say("\nWhat would make it faster", "bold")
        print_advice(console, profile.advice)
    else:
        say("\nStopped before any experiment was measured.")


def print_advice(console: Console, advice: Advice) -> None:
    """Print sentences first, then the flags, by what they do to learning."""
    for sentence in advice.words:
        _make_line_printer(console)(f"  {sentence}")
    _print_suggestions(console, "Changes nothing about learning:", advice.same)
    _print_suggestions(
        console, "TRADES LEARNING FOR SPEED, judge by the score and not by the clock:", advice.trades
    )
    _print_suggestions(console, "Learns from more, and costs little:", advice.bargains)


def _print_suggestions(console: Console, title: str, suggestions: Iterable[Suggestion]) -> None:
    grid = Table.grid(padding=(0, 2))
    for one in suggestions:
        grid.add_row(
            f"    {one.flags}", f"{one.speed_up.median:.2f} ({format_spread(one.speed_up)})", one.learning
        )
    if grid.row_count:
        _make_line_printer(console)(f"  {title}")
        console.print(grid, highlight=False, markup=False)


def _make_line_printer(console: Console) -> Callable[..., None]:
    """A function that prints lines of plain text, of any length."""

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style=style), highlight=False, soft_wrap=True)

    return say
