"""`flashdqn fuelbreaks score`: what somebody's own plan saves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.cli.arguments import parse
from flashdqn.cli.fuelbreaks_common import (
    RULES,
    WRITING,
    ProblemArguments,
    check_first_words,
    list_known_flags,
    make_consoles,
    make_request,
    name_value,
    show_report,
    write_command,
)
from flashdqn.show.work_progress import WorkProgress


@dataclass(frozen=True)
class BreakScoreArguments(ProblemArguments):
    """Judge a plan of your own by fires, beside random breaks of the same number. No agent is needed.

    A plan is a GeoPackage, GeoJSON or Shapefile of lines or polygons, or a GeoTIFF of breaks. Every cell that a
    line touches is a break, and every cell whose center lies in a polygon.

    flashdqn fuelbreaks score my-landfire breaks.gpkg

    flashdqn fuelbreaks score my-landfire breaks.gpkg --rules --out score
    """

    landscape: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LANDSCAPE")]
    """A GeoTIFF or .lcp file with all layers, a folder of GeoTIFF or .asc layers, a Cell2Fire folder, or an .npz
    file."""
    breaks: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="BREAKS")]
    """The plan to judge."""
    rules: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Plan with every rule too, with the same budget."""
    out: Annotated[Path | None, name_value("FOLDER")] = None
    """The folder to write the page, the numbers and the maps to; without it, only the summary is printed."""


def score_breaks(arguments: list[str]) -> int:
    """Run `flashdqn fuelbreaks score`."""
    check_first_words("score", arguments, ("LANDSCAPE", "BREAKS"))
    asked: BreakScoreArguments = parse(
        "fuelbreaks score", BreakScoreArguments, arguments, list_known_flags(BreakScoreArguments)
    )
    out, err = make_consoles()
    notes: list[str] = []
    with WorkProgress(err, f"Reading {asked.landscape}") as progress:
        from flashdqn.planning.carry_out import WorkOrder, measure_given, scale_progress, score_report
        from flashdqn.planning.given_plan import read_given_plan
        from flashdqn.planning.read_problem import read_problem
        from flashdqn.planning.write.files import check_folder, note_missing_packages, write_plan_files

        problem = read_problem(make_request(asked.landscape, asked), notes.append)
        given = read_given_plan(asked.breaks, problem.landscape, notes.append)
        budget, more = measure_given(problem, given)
        order = WorkOrder(
            budget=budget,
            budgets=(budget.amount,),
            policies=RULES if asked.rules else RULES[:1],
            fires=asked.fires,
            seed=asked.seed,
            command=write_command("score", arguments),
        )
        if asked.out is not None:
            check_folder(asked.out)
        report = score_report(
            problem, given, order, scale_progress(progress.tell, 0.0, WRITING), (*notes, *more)
        )
        paths = []
        if asked.out is not None:
            report = note_missing_packages(report)
            paths = write_plan_files(report, asked.out, scale_progress(progress.tell, WRITING, 1.0))
    show_report(out, report, paths)
    return 0
