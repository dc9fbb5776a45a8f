"""`flashdqn report`: one run on a page, or several beside each other."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.cli.arguments import parse
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class ReportArguments:
    """Write the report of a run anew, or compare several runs.

    With one run, and with several:
      flashdqn report runs/snake-flood-20261115-120000
      flashdqn report runs/snake-* --out comparison.html

    Runs of the same settings and different seeds are taken together.
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN …")]
    """Run folders."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where to write; by default report.html in the run's folder, or comparison.html here for several."""


def run_command(arguments: list[str]) -> int:
    """The command."""
    from flashdqn.runs.folder import RunFolder
    from flashdqn.show.compare import write_comparison
    from flashdqn.show.report import write_report

    sys.path.append(str(Path.cwd()))  # a module of the user's may lie here
    parsed = parse("report", ReportArguments, arguments, ["out"])
    if not parsed.runs:
        raise ConfigError("Which run? For example: flashdqn report runs/snake-flood-20261115-120000")
    folders = list(dict.fromkeys(RunFolder.open(path).path.resolve() for path in parsed.runs))
    if parsed.out is not None:
        check_writable_file(parsed.out)
    console = SteadyConsole(soft_wrap=True)
    if len(folders) == 1:
        written = write_report(folders[0], parsed.out)
        console.print(f"Report  {written}", highlight=False, markup=False)
        return 0
    out = parsed.out or Path("comparison.html")
    check_writable_file(out)
    written = write_comparison(folders, out)
    console.print(f"Comparison of {len(folders)} runs  {written}", highlight=False, markup=False)
    return 0
