"""What `flashdqn fuelbreaks plan` and `score` share: the flags of a problem, and the summary in the end."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import SEEDS, Between
from flashdqn.show.terminal import SteadyConsole

if TYPE_CHECKING:
    from flashdqn.planning.read_problem import ProblemRequest
    from flashdqn.planning.report import PlanReport

#: Rules that need no agent.
RULES = ("random", "domirank", "betweenness-once", "dpv-once", "lookahead", "betweenness", "dpv")

#: The share of the progress from which on files are written.
WRITING = 0.95


def name_value(metavar: str) -> Any:
    """What the help calls the value of a flag that may be left out: it has no default worth showing."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True, kw_only=True)  # those of a command may come first without a value of their own
class ProblemArguments:
    """The flags of a problem, in the order of the help."""

    weather: Annotated[tuple[str, ...], name_value("NAME[@FROM][/KMH][=SHARE]")] = ()
    """Kinds of weather, with their shares of the fires: dry@90 extreme@225/60=0.3. Each is mild, dry or extreme,
    and may add where the wind blows from in degrees, and its speed in km/h. Without any: the weather of a
    Cell2Fire folder; else dry, wind from four sides."""
    scenarios: Annotated[Path | None, name_value("FILE")] = None
    """A table of kinds of weather (.csv or .toml), or a Cell2Fire folder or Weather.csv, instead of --weather."""
    duration: Annotated[str, tyro.conf.arg(metavar="TIME")] = "4h"
    """How long a fire burns: 4h, or 90min."""
    ignition_map: Annotated[Path | None, name_value("FILE")] = None
    """How likely a fire starts in each cell: a raster in any unit, points, or Cell2Fire's Ignitions.csv; without
    it, the map of a Cell2Fire folder; else all burnable cells alike."""
    value_map: Annotated[Path | None, name_value("FILE")] = None
    """What is lost if a cell burns, such as houses: a raster, points or polygons; without it, area is
    protected."""
    value_unit: Annotated[str, name_value("WORD")] = ""
    """What --value-map counts, such as houses."""
    value_attribute: Annotated[str, name_value("NAME")] = ""
    """The attribute of the shapes in --value-map that holds their value; without it, each counts 1."""
    forbidden: Annotated[Path | None, name_value("FILE")] = None
    """Where no break may lie: cells of a raster that are not 0, or cells that a shape touches."""
    cost_map: Annotated[Path | None, name_value("FILE")] = None
    """What a break costs in each cell; the budget is then in its units."""
    holes: Literal["refuse", "nonburnable"] = "refuse"
    """Cells without data: refuse the landscape, or take them for ground that cannot burn."""
    window: Annotated[str, name_value("ROW,COLUMN,ROWS,COLUMNS")] = ""
    """Cut a rectangle out of the landscape; rows and columns count from 0, from the north-west."""
    fires: Annotated[int, Between(2, 100_000)] = 200
    """Number of fires that judge: more make the intervals narrower."""
    seed: Annotated[int, Between(0, SEEDS[1] // 2)] = 0
    """Seed of the fires and of all that is random."""


def check_first_words(command: str, arguments: list[str], names: tuple[str, ...]) -> None:
    """Refuse a command line that does not begin with its words: a list of values would swallow them later."""
    if {"-h", "--help"} & set(arguments):
        return
    for k, name in enumerate(names):
        if k >= len(arguments) or arguments[k].startswith("-"):
            first = " ".join(names)
            raise ConfigError(
                f"{name} is missing: `flashdqn fuelbreaks {command} {first} …`, before any flag."
            )


def list_known_flags(kind: type) -> list[str]:
    """The flags of a command."""
    words = ("landscape", "breaks")
    return [field.name.replace("_", "-") for field in dataclasses.fields(kind) if field.name not in words]


def make_request(landscape: Path, asked: ProblemArguments) -> ProblemRequest:
    """The part of the arguments that describes the problem."""
    from flashdqn.planning.read_problem import ProblemRequest

    names = [field.name for field in dataclasses.fields(ProblemRequest) if field.name != "landscape"]
    return ProblemRequest(landscape, **{name: getattr(asked, name) for name in names})


def write_command(command: str, arguments: list[str]) -> str:
    """The command line as it can be typed again."""
    return shlex.join(["flashdqn", "fuelbreaks", command, *arguments])


def make_consoles() -> tuple[SteadyConsole, SteadyConsole]:
    """Where results are printed, and where progress is shown: standard error, so a pipe gets only the results."""
    return SteadyConsole(soft_wrap=True), SteadyConsole(stderr=True, soft_wrap=True)


def show_report(console: SteadyConsole, report: PlanReport, paths: list[Path]) -> None:
    """Print the headline, a short table and the paths."""
    from rich.table import Table

    from flashdqn.planning.estimates import (
        estimate_difference,
        estimate_loss,
        format_interval,
        format_signed,
        share_saved,
    )
    from flashdqn.planning.report import name_policy
    from flashdqn.planning.write.curve import sort_policies
    from flashdqn.planning.write.words import describe_headline, describe_standing

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    judgement = report.judgement
    say(describe_headline(report))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    more = f"more than {name_policy(report.chosen)}"
    for head in ("policy", "cells", f"{report.loss_name} (95 %)", "saved", more):
        table.add_column(head, justify="left" if head == "policy" else "right")
    table.add_row("no breaks", "0", format_interval(estimate_loss(judgement.before)), "0%",
                  format_signed(estimate_difference(judgement.before, report.after)))  # fmt: skip
    for name in sort_policies(report):
        after = judgement.after[name][-1]
        gap = "–" if name == report.chosen else format_signed(estimate_difference(after, report.after))
        loss, saved = format_interval(estimate_loss(after)), f"{share_saved(judgement, name):.0%}"
        table.add_row(name_policy(name), f"{judgement.placed[name][-1]:,}", loss, saved, gap)
    console.print(table, highlight=False, soft_wrap=False)
    for line in (*describe_standing(report), *(f"Note: {note}" for note in report.notes)):
        say(line)
    for path in paths:
        say(f"  {path}")
