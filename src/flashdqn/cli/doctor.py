"""`flashdqn doctor`: why is this training slow? For any training script."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.cli.arguments import flag_names, parse
from flashdqn.config import Seconds
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file
from flashdqn.core.ranges import Between
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class DoctorArguments:
    """Why is this training slow? Runs any training script with PyTorch, unchanged, and watches it.

      flashdqn doctor train.py --env CartPole-v1 --steps 50000
      flashdqn doctor --seconds 2m --html report.html train.py
      flashdqn doctor --python ../their-project/.venv/bin/python ../their-project/dqn.py
      flashdqn doctor -m cleanrl.dqn --seed 1

    The doctor's own flags come before the script; everything after the script is passed to it. The report says
    where the time goes, line by line, what to do about it, with the expected gain, and what only looks like a gain.
    The script computes the same results as without the doctor. Ctrl-C ends it early and still prints the report.
    """

    seconds: Annotated[Seconds, Between(0, 10**6)] = 60.0
    """How long to watch, at most: 60, 90s, 2m."""
    deep: bool = False
    """Look closer: every torch operation by line, and ten times as many samples. Slows the script down."""
    health: bool = False
    """Also look at what is learned: gradients, values, exploration, targets, rewards."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write the report as a page."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write the report as JSON."""
    python: Annotated[str, tyro.conf.arg(metavar="PATH")] = sys.executable
    """The interpreter that runs the script, from the script's own environment. It does not need flashdqn."""


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn doctor`."""
    from flashdqn.doctor.examine import build_report
    from flashdqn.doctor.report.contents import write_report_json
    from flashdqn.doctor.report.page import write_doctor_page
    from flashdqn.doctor.report.terminal import show_report
    from flashdqn.doctor.run import Patient, check_patient, watch_patient

    ours, module, script, theirs = split_script_arguments(arguments)
    parsed = parse("doctor", DoctorArguments, ours, flag_names(DoctorArguments()), DoctorArguments())
    if not script:
        raise ConfigError(
            "Which script? For example: flashdqn doctor train.py (its own arguments follow it)."
        )
    for path in (parsed.html, parsed.json):
        if path is not None:
            check_writable_file(path)
    patient = Patient(
        script, tuple(theirs), module, parsed.seconds, parsed.deep, parsed.python, health=parsed.health
    )
    check_patient(patient)
    console = SteadyConsole()
    start = f"Watching {script} for up to {parsed.seconds:g} s; Ctrl-C ends it early."
    console.print(start, highlight=False, markup=False)
    say = partial(console.print, highlight=False, markup=False)
    report = build_report(watch_patient(patient, say))
    show_report(report, console)
    if parsed.html is not None:
        write_doctor_page(report, parsed.html)
        console.print(f"Page    {parsed.html}", highlight=False, markup=False)
    if parsed.json is not None:
        write_report_json(report, parsed.json)
        console.print(f"JSON    {parsed.json}", highlight=False, markup=False)
    return 1 if report.ended == "failed" else 0


def split_script_arguments(arguments: list[str]) -> tuple[list[str], bool, str, list[str]]:
    """The doctor's flags, whether a module follows, the script, and the script's own arguments."""
    i = 0
    while i < len(arguments):
        word = arguments[i]
        if word == "-m":
            if i + 1 == len(arguments):
                raise ConfigError("-m needs the name of a module, as in `flashdqn doctor -m cleanrl.dqn`.")
            return arguments[:i], True, arguments[i + 1], arguments[i + 2 :]
        if not word.startswith("-"):
            return arguments[:i], False, word, arguments[i + 1 :]
        takes_value = word in ("--seconds", "--html", "--json", "--python")
        i += 2 if takes_value else 1
    return arguments, False, "", []
