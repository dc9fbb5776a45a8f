"""`flashdqn sweep show`, and what a sweep says when it ends."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import Between
from flashdqn.core.suggestions import suggest_close
from flashdqn.show.terminal import SteadyConsole, format_program_call

if TYPE_CHECKING:
    from flashdqn.sweep.conduct import SweepEnd


@dataclass(frozen=True)
class SweepShowArguments:
    """Show a sweep, and write out one of its trials as a settings file for `flashdqn train --config`.

    For example:
      flashdqn sweep show runs/sweep-snake-20261115-120000
      flashdqn sweep show runs/sweep-snake-20261115-120000 --trial 17 --out mine.toml
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    trial: Annotated[int | None, tyro.conf.arg(metavar="N"), Between(0, 10**9)] = None
    """The trial; by default the best one."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the trial's settings to this file, as TOML or JSON by its name."""
    trust: Trust = False


def show_end(console: SteadyConsole, end: SweepEnd) -> None:
    """Print what was found, where it is, and what to do next."""
    from flashdqn.sweep.display import make_best_table
    from flashdqn.sweep.folder import REPORT_FILE
    from flashdqn.sweep.page import describe_claim
    from flashdqn.sweep.results import FAILED, LOST

    path = shlex.quote(str(end.folder.shown))
    say = print_line
    failed = [one for one in end.results if one.state == FAILED and one.reason != LOST]
    console.print()
    console.print(make_best_table(end.results), highlight=False)
    for one in failed:
        say(f"Failed  trial {one.number}: {one.reason}")
    if not end.finished:
        say("Stopped; everything that has ended is kept. Go on with:")
        say(f"  {format_program_call('flashdqn')} sweep --resume {path}")
        return
    for line in describe_claim(end.claim, end.winner, end.plan):
        say(line)
    say(f"Report  {end.folder.shown / REPORT_FILE}")
    if end.winner is not None:
        say("\nWhat next:")
        number = end.winner.number
        say(f"  {format_program_call('flashdqn')} sweep show {path} --trial {number} --out mine.toml")
        say(f"  {format_program_call('flashdqn')} train --config mine.toml")


def show_sweep(arguments: list[str]) -> int:
    """Run `flashdqn sweep show`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    asked = parse("sweep show", SweepShowArguments, arguments, ["trial", "out", "trust"])
    check_sweep_exists(asked.folder)
    from flashdqn.sweep.confirm import read_claim
    from flashdqn.sweep.display import describe_result, make_best_table
    from flashdqn.sweep.export import find_trial, write_trial
    from flashdqn.sweep.folder import SweepFolder, read_plan
    from flashdqn.sweep.page import describe_claim, write_sweep_report
    from flashdqn.sweep.results import choose_winner, list_results
    from flashdqn.sweep.study import read_study

    plan = read_plan(asked.folder, permission)
    results = list_results(read_study(asked.folder), plan.space)
    winner = choose_winner(results)
    if asked.trial is not None or asked.out is not None:
        trial = winner if asked.trial is None else find_trial(results, asked.trial)
        if trial is None:
            raise ConfigError("No trial has ended with a score yet: name one with --trial.")
        print_line(f"Trial {trial.number}: {describe_result(trial)}")
        if trial.run:
            print_line(f"Run     {trial.run}")
        if asked.out is not None:
            write_trial(plan, trial, asked.out)
            print_line(
                f"Written to {asked.out}; train with: flashdqn train --config {shlex.quote(str(asked.out))}"
            )
        return 0
    SteadyConsole().print(make_best_table(results), highlight=False)
    confirmed = SweepFolder(asked.folder).read_confirmations()
    same = winner is not None and confirmed.get("trial") == winner.number
    for line in describe_claim(read_claim(confirmed) if same else None, winner, plan):
        print_line(line)
    print_line(f"Report  {write_sweep_report(asked.folder, plan)}")
    return 0


def check_sweep_exists(folder: Path) -> None:
    """Refuse a folder that is not there, and suggest one that is."""
    if not folder.exists():
        known = [str(path) for path in sorted(Path("runs").glob("sweep-*/"))]
        raise ConfigError(f"{folder} does not exist{suggest_close(str(folder), known)}")


def print_line(text: str) -> None:
    """Print a line as it is."""
    SteadyConsole(soft_wrap=True).print(text, markup=False, highlight=False)
