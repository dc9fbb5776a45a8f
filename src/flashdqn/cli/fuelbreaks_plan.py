"""`flashdqn fuelbreaks plan`: where breaks should lie in somebody's own landscape."""

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
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.show.work_progress import WorkProgress

POLICIES = ("agent", *RULES)


@dataclass(frozen=True)
class BreakPlanArguments(ProblemArguments):
    """Place fuel breaks in your own landscape, with a trained agent and with rules, judge them all by the same
    fires, and write the best plan: GeoTIFF and GeoPackage for a GIS, a map, a page and all numbers.

    flashdqn fuelbreaks plan my-landfire --budget 40ha

    flashdqn fuelbreaks plan my-landfire --budget 5% --weather dry@90 extreme@225/60=0.3 --out plan

    flashdqn fuelbreaks plan my-landfire --budget 12km --value-map houses.tif --value-unit houses
    """

    landscape: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LANDSCAPE")]
    """A GeoTIFF or .lcp file with all layers, a folder of GeoTIFF or .asc layers, a Cell2Fire folder, or an .npz
    file."""
    budget: Annotated[str, tyro.conf.arg(metavar="BUDGET")]
    """What may be spent: 40ha, 5% of the cells, 12km of break one cell wide, or a number of cells (with --cost-map:
    of its units)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("plan")
    """The folder to write to."""
    budgets: Annotated[tuple[str, ...], name_value("BUDGET")] = ()
    """Smaller budgets for the curve, written as --budget; without any, six shares of it."""
    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = POLICIES
    """Who plans: agent, random, domirank, betweenness-once, dpv-once, lookahead, betweenness, dpv. Those after
    betweenness-once count again after every break; each has at most a minute."""
    write: Annotated[str, tyro.conf.arg(metavar="NAME")] = "best"
    """Whose plan is written; best: the one that loses least over other fires than those that judge."""
    agent: Annotated[Path | None, name_value("FILE")] = None
    """A trained agent: a run folder, a checkpoint or an agent in one file; without it, the one that comes with
    flashdqn."""
    device: Annotated[str, tyro.conf.arg(metavar="DEVICE")] = "auto"
    """Where the agent computes: auto, cpu or cuda."""


def plan_breaks(arguments: list[str]) -> int:
    """Run `flashdqn fuelbreaks plan`."""
    check_first_words("plan", arguments, ("LANDSCAPE",))
    check_budget_flag(arguments)
    asked: BreakPlanArguments = parse(
        "fuelbreaks plan", BreakPlanArguments, arguments, list_known_flags(BreakPlanArguments)
    )
    check_plan_arguments(asked)
    check_budget_words(asked)
    out, err = make_consoles()
    notes: list[str] = []
    with WorkProgress(err, f"Reading {asked.landscape}") as progress:
        from flashdqn.planning.budgets import choose_budgets, parse_budget
        from flashdqn.planning.carry_out import WorkOrder, make_report, scale_progress
        from flashdqn.planning.read_problem import read_problem
        from flashdqn.planning.write.files import check_folder, note_missing_packages, write_plan_files

        problem = read_problem(make_request(asked.landscape, asked), notes.append)
        budget = parse_budget(asked.budget, problem)
        order = WorkOrder(
            budget=budget,
            budgets=choose_budgets(budget, asked.budgets, problem),
            policies=asked.policies,
            write=asked.write,
            agent=asked.agent,
            device=asked.device,
            fires=asked.fires,
            seed=asked.seed,
            command=write_command("plan", arguments),
        )
        check_folder(asked.out)
        report = note_missing_packages(
            make_report(problem, order, scale_progress(progress.tell, 0.0, WRITING), tuple(notes))
        )
        paths = write_plan_files(report, asked.out, scale_progress(progress.tell, WRITING, 1.0))
    show_report(out, report, paths)
    return 0


def check_budget_flag(arguments: list[str]) -> None:
    """Refuse a command line without a budget, in fewer words than the parser."""
    given = {word.partition("=")[0] for word in arguments}
    if not {"--budget", "-h", "--help"} & given and not suggests_budget(given):
        raise ConfigError("--budget is missing: 40ha, 5%, 12km or a number of cells.")


def suggests_budget(words: set[str]) -> bool:
    """Whether some flag is unknown, and may mean the budget: the parser then says so."""
    known = {f"--{name}" for name in list_known_flags(BreakPlanArguments)}
    return any(word.startswith("--") and word not in known for word in words)


def check_plan_arguments(asked: BreakPlanArguments) -> None:
    """Refuse what cannot be meant, before anything is read."""
    if not asked.policies:
        raise ConfigError(f"--policies needs at least one of {', '.join(POLICIES)}.")
    for name in asked.policies:
        check_policy("--policies", name, POLICIES)
    check_policy("--write", asked.write, ("best", *asked.policies))
    for flag in ("agent", "device"):
        is_given = getattr(asked, flag) != getattr(BreakPlanArguments, flag)
        if is_given and "agent" not in asked.policies:
            raise ConfigError(f"--{flag} is about the agent, which is not one of --policies.")
    if asked.agent is not None and not asked.agent.exists():
        raise ConfigError(f"There is no agent at {asked.agent}: give a run folder, or an agent in one file.")


def check_budget_words(asked: BreakPlanArguments) -> None:
    """Refuse a budget that is not written as one."""
    from flashdqn.planning.budgets import split_budget

    for text in (asked.budget, *asked.budgets):
        split_budget(text)


def check_policy(flag: str, name: str, known: tuple[str, ...]) -> None:
    """Refuse a policy that nobody knows."""
    if name not in known:
        raise ConfigError(f"{flag} cannot be {describe_value(name)}{suggest_nearest(name, known)}")
