"""What follows a report: its cures are tried, and its patches are made and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from flashdqn.doctor.cures.catalog import list_cures
from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.progress import count_runs, show_turns
from flashdqn.doctor.cures.trial_process import TrialSetup, plan_trials
from flashdqn.doctor.cures.turns import Turns, judge_turns, take_turns
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.patch import Patch, choose_patches, write_patches
from flashdqn.doctor.fixes.propose import propose_patches
from flashdqn.doctor.report.contents import Report, Trial
from flashdqn.doctor.report.trials import show_trials
from flashdqn.doctor.run import Patient
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.schema import WatchRecord

START_UP = 5.0
"""Seconds that a script takes to begin, as far as nothing is known."""


@dataclass(frozen=True)
class ProofOptions:
    """What to try, and for how long."""

    cures: bool = False
    patches: bool = False
    seconds: float = 15.0
    rounds: int = 3


def prove(
    patient: Patient, record: WatchRecord, report: Report, options: ProofOptions, console: Console
) -> Report:
    """Try the cures and test the patches; returns the report with what came of it."""
    if report.ended is Ending.FAILED:
        say(console, "Nothing was tried: the script fails.")
        return report
    evidence = Evidence(record)
    setup = plan_trials(patient, record, options.seconds)
    trials: tuple[Trial, ...] = ()
    if options.cures:
        trials += try_cures(setup, list_cures(evidence, report.findings), options, console)
    if options.patches:
        trials += test_patches(setup, propose_patches(evidence, report.findings), options, console)
    return replace(report, trials=trials)


def try_cures(
    setup: TrialSetup, cures: list[Cure], options: ProofOptions, console: Console
) -> tuple[Trial, ...]:
    """`--try`: each cure in turns with the untouched script."""
    if not cures:
        say(console, "Nothing to try: no finding has a cure of one setting.")
        return ()
    turns = run_turns(setup, cures, options, console, "Trying")
    trials = judge_turns(turns, cures)
    show_trials("Tried: predicted and measured", trials, setup, turns, console)
    return trials


def test_patches(
    setup: TrialSetup, patches: list[Patch], options: ProofOptions, console: Console
) -> tuple[Trial, ...]:
    """`--fix`: each patch in turns with the untouched script; those that hold are written beside the script."""
    if not patches:
        say(console, "Nothing to fix by machine: no finding has a patch that fits this source exactly.")
        return ()
    cures = [patch.as_cure() for patch in patches]
    turns = run_turns(setup, cures, options, console, "Testing")
    trials = choose_patches(patches, judge_turns(turns, cures))
    show_trials("Patches: predicted and measured", trials, setup, turns, console)
    kept = [patch for patch, trial in zip(patches, trials, strict=True) if trial.kept]
    for path in write_patches(kept, setup.patient):
        say(console, f"Patch   {path}   (the script itself is untouched)")
    if not kept:
        say(console, "No patch was written: none was both faster and the same.")
    return trials


def run_turns(
    setup: TrialSetup, cures: Sequence[Cure], options: ProofOptions, console: Console, verb: str
) -> Turns:
    """All runs, with progress on the terminal."""
    runs = count_runs(len(cures), options.rounds)
    minutes = runs * (options.seconds + START_UP) / 60
    what = f"{len(cures)} {'cure' if verb == 'Trying' else 'patch'}{'' if len(cures) == 1 else 's' if verb == 'Trying' else 'es'}"
    title = (
        f"{verb} {what} in turns with the untouched script: {runs} runs of {options.seconds:g} s, "
        f"about {minutes:.0f} min; Ctrl-C ends it early."
    )
    console.print()
    with show_turns(console, title, runs) as note:
        return take_turns(setup, cures, options.rounds, note)


def say(console: Console, text: str) -> None:
    """A line of plain text."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
