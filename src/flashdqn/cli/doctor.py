"""`flashdqn doctor`: why is this training slow? For any training script."""

from __future__ import annotations

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
      flashdqn doctor --try --fix train.py
      flashdqn doctor compare before.json after.json --fail-if-slower 10%

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
    try_cures: Annotated[bool, tyro.conf.arg(aliases=("--try",)), tyro.conf.FlagCreatePairsOff] = False
    """Then run the script again with each cure of one setting, in turns with the untouched script, and say what was
    gained."""
    fix: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Then write a patch beside the script, if one fits: tested on a copy, the same results, and faster."""
    try_seconds: Annotated[Seconds, Between(1, 10**5)] = 15.0
    """How long each run of --try and --fix trains."""
    rounds: Annotated[int, Between(1, 100)] = 3
    """How often each of them is run, in turns."""
    python: Annotated[str, tyro.conf.arg(metavar="PATH")] = ""
    """The interpreter that runs the script, from the script's own environment. It needs no flashdqn. By default
    this one if it has torch, or else the one of the active environment."""


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn doctor`."""
    from flashdqn.doctor.examine import build_report
    from flashdqn.doctor.interpreter import find_python
    from flashdqn.doctor.proof import ProofOptions, prove
    from flashdqn.doctor.report.contents import write_report_json
    from flashdqn.doctor.report.page import write_doctor_page
    from flashdqn.doctor.report.terminal import show_report
    from flashdqn.doctor.run import Patient, check_patient, watch_patient

    if arguments[:1] == ["compare"]:
        from flashdqn.cli.doctor_compare import run_comparison

        return run_comparison(arguments[1:])
    ours, module, script, theirs = split_script_arguments(arguments)
    parsed = parse("doctor", DoctorArguments, ours, flag_names(DoctorArguments()), DoctorArguments())
    if not script:
        raise ConfigError(
            "Which script? For example: flashdqn doctor train.py (its own arguments follow it)."
        )
    for path in (parsed.html, parsed.json):
        if path is not None:
            check_writable_file(path)
    python = parsed.python or find_python()
    patient = Patient(
        script, tuple(theirs), module, parsed.seconds, parsed.deep, python, health=parsed.health
    )
    check_patient(patient)
    console = SteadyConsole()
    start = f"Watching {script} for up to {parsed.seconds:g} s; Ctrl-C ends it early."
    console.print(start, highlight=False, markup=False)
    say = partial(console.print, highlight=False, markup=False)
    record = watch_patient(patient, say)
    report = build_report(record)
    show_report(report, console)
    if parsed.try_cures or parsed.fix:
        options = ProofOptions(parsed.try_cures, parsed.fix, parsed.try_seconds, parsed.rounds)
        report = prove(patient, record, report, options, console)
    for name, path, write in (
        ("Page", parsed.html, write_doctor_page),
        ("JSON", parsed.json, write_report_json),
    ):
        if path is not None:
            write(report, path)
            console.print(f"{name}    {path}", highlight=False, markup=False)
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
        takes_value = word in ("--seconds", "--html", "--json", "--python", "--try-seconds", "--rounds")
        i += 2 if takes_value else 1
    return arguments, False, "", []
