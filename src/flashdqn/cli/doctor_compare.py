"""`flashdqn doctor compare`: two reports of a script beside each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.cli.arguments import parse
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file
from flashdqn.show.terminal import SteadyConsole

SLOWER_CODE = 1


@dataclass(frozen=True)
class CompareArguments:
    """What changed between two reports, and is it more than chance?

      flashdqn doctor --json before.json train.py
      flashdqn doctor --json after.json train.py
      flashdqn doctor compare before.json after.json --fail-if-slower 10%

    Exit code 1 if --fail-if-slower says so.
    """

    reports: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="BEFORE.json AFTER.json")
    ]
    """Two reports that `flashdqn doctor --json` has written."""
    fail_if_slower: Annotated[str | None, tyro.conf.arg(metavar="SHARE")] = None
    """Exit with code 1 if it became slower by more than this share (10%), and by more than chance."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write the comparison as a page."""


def run_comparison(arguments: list[str]) -> int:
    """Run `flashdqn doctor compare`."""
    from flashdqn.doctor.compare import compare_reports, read_report
    from flashdqn.doctor.report.comparison import show_comparison, write_comparison_page

    parsed = parse("doctor compare", CompareArguments, arguments, ["fail-if-slower", "html"])
    if len(parsed.reports) != 2:
        raise ConfigError(
            "`flashdqn doctor compare` takes two reports, BEFORE.json and AFTER.json, "
            f"and got {len(parsed.reports)}."
        )
    limit = read_share(parsed.fail_if_slower) if parsed.fail_if_slower is not None else None
    if parsed.html is not None:
        check_writable_file(parsed.html)
    before, after = parsed.reports
    comparison = compare_reports(read_report(before), read_report(after))
    names = (before.name, after.name) if before.name != after.name else (str(before), str(after))
    console = SteadyConsole()
    show_comparison(comparison, names, console)
    if parsed.html is not None:
        write_comparison_page(comparison, names, parsed.html)
        console.print(f"Page    {parsed.html}", highlight=False, markup=False)
    if limit is not None and comparison.is_slower_than(limit):
        console.print(f"Slower by more than {limit:.0%}: failed.", highlight=False, markup=False)
        return SLOWER_CODE
    return 0


def read_share(text: str) -> float:
    """A share: 10%, 10 % or 0.1."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share < 1:
        raise ConfigError(f"--fail-if-slower takes a share such as 10% or 0.1, and '{text}' is not one.")
    return share
