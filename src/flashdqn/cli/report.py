"""`flashdqn report`: one run on a page, or several beside each other."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.cli.latest import choose_run
from flashdqn.core.errors import CheckpointError, ConfigError, UntrustedError
from flashdqn.core.files import check_writable_file
from flashdqn.core.text import clean_name
from flashdqn.show.terminal import SteadyConsole

DEFAULT_COMPARISON = Path("comparison.html")


@dataclass(frozen=True)
class ReportArguments:
    """Write the report of a run again, or compare several runs.

    With one run, and with several:
      flashdqn report runs/snake-flood-20261115-120000
      flashdqn report runs/snake-* --out comparison.html

    Runs with the same settings and different seeds are grouped.
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN …")]
    """Run folders; without one, the latest run in runs."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where to write; by default report.html in the run's folder, or comparison.html here for several."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn report`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    parsed = parse("report", ReportArguments, arguments, ["out", "trust"])
    runs = [choose_run(run, "report") for run in parsed.runs or (None,)]
    from flashdqn.runs.folder import RunFolder
    from flashdqn.runs.records import CONFIG_FILE
    from flashdqn.show.compare import write_comparison
    from flashdqn.show.report import write_report

    register_gymnasium_envs()
    folders = list(dict.fromkeys(RunFolder.open(path).path.resolve() for path in runs))
    check_writable_file(
        parsed.out or (folders[0] / "report.html" if len(folders) == 1 else DEFAULT_COMPARISON)
    )
    console = SteadyConsole(soft_wrap=True)
    if len(folders) == 1:
        written = write_report(folders[0], parsed.out, permission)
        show_problems(folders, console)
        with contextlib.suppress(CheckpointError):  # a damaged config.json: the page shows what there is
            try:
                RunFolder(folders[0]).config(permission)
            except ConfigError as error:  # the page is written: it needs neither the code nor the settings
                why = "" if isinstance(error, UntrustedError) else f"{CONFIG_FILE} cannot be used: "
                said = f"No game is recorded: {why}{error}"
                console.print(clean_name(said), highlight=False, markup=False)
        console.print(clean_name(f"Report  {written}"), highlight=False, markup=False)
        return 0
    out = parsed.out or DEFAULT_COMPARISON
    written = write_comparison(folders, out)
    show_problems(folders, console)
    said = f"Comparison of {len(folders)} runs  {written}"
    console.print(clean_name(said), highlight=False, markup=False)
    return 0


def show_problems(folders: list[Path], console: SteadyConsole) -> None:
    """Print what was changed or damaged in the runs: the page shows only the rest."""
    from flashdqn.runs.health import find_problems

    for folder in folders:
        for problem in find_problems(folder):
            name = f"{folder.name}: " if len(folders) > 1 else ""
            console.print(clean_name(f"Note    {name}{problem}"), highlight=False, markup=False)
