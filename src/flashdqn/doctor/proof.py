"""What follows a report: its cures are tried, and its patches are made and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from flashdqn.doctor.cures.catalog import list_cures
from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.progress import count_runs, show_turns
from flashdqn.doctor.cures.trial_process import TrialSetup, plan_trials
from flashdqn.doctor.cures.turns import TrialTurns, judge_turns, take_turns
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.patch import (
    Patch,
    choose_patches,
    combine_cures,
    mark_kept,
    select_compatible,
    write_patches,
)
from flashdqn.doctor.fixes.propose import propose_patches
from flashdqn.doctor.report.contents import Report
from flashdqn.doctor.report.cure_result import CureResult
from flashdqn.doctor.report.trials import show_trials
from flashdqn.doctor.run import Patient
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.schema import WatchRecord

LATE = ("growing-buffer", "subnormals", "slow-down", "memory-growth")
"""Findings that a training grows into: a short run would not see them."""
LONGEST = 60.0
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
    setup = plan_trials(patient, record, choose_seconds(report, options.seconds))
    trials: tuple[CureResult, ...] = ()
    if options.cures:
        trials += try_cures(setup, list_cures(evidence, report.findings, report.bound), options, console)
    if options.patches:
        trials += try_patches(setup, propose_patches(evidence, report.findings), options, console)
    return replace(report, trials=trials)


def choose_seconds(report: Report, seconds: float) -> float:
    """How long a run trains: longer if the report names something that shows itself only after a while."""
    late = any(finding.name in LATE for finding in report.findings)
    return max(seconds, min(report.seconds, LONGEST)) if late else seconds


def try_cures(
    setup: TrialSetup, cures: list[Cure], options: ProofOptions, console: Console
) -> tuple[CureResult, ...]:
    """`--try`: each cure in turns with the untouched script."""
    if not cures:
        say(console, "Nothing to try: no finding has a cure of one setting.")
        return ()
    what = f"Trying {len(cures)} cure{'s' * (len(cures) != 1)}"
    turns = run_turns(setup, cures, options, console, what)
    trials = judge_turns(turns, cures)
    show_trials("Tried: predicted and measured", trials, setup, turns, console)
    return trials


def try_patches(
    setup: TrialSetup, patches: list[Patch], options: ProofOptions, console: Console
) -> tuple[CureResult, ...]:
    """`--fix`: each patch in turns with the untouched script; those that hold are written beside the script."""
    if not patches:
        say(console, "Nothing to fix by machine: no finding has a patch that fits this source exactly.")
        return ()
    cures = [patch.as_cure() for patch in patches]
    what = f"Testing {len(cures)} patch{'es' * (len(cures) != 1)}"
    turns = run_turns(setup, cures, options, console, what)
    trials = choose_patches(patches, judge_turns(turns, cures))
    show_trials("Patches: predicted and measured", trials, setup, turns, console)
    kept = select_compatible(patches, trials)
    if len(kept) > 1:
        trials, kept = try_together(setup, kept, trials, options, console)
    for path in write_patches(kept):
        say(console, f"Patch   {path}   (the script itself is untouched)")
    if not kept:
        say(console, "No patch was written: none was both faster and the same.")
    return mark_kept(trials, kept)


def try_together(
    setup: TrialSetup,
    kept: list[Patch],
    trials: tuple[CureResult, ...],
    options: ProofOptions,
    console: Console,
) -> tuple[tuple[CureResult, ...], list[Patch]]:
    """Run all kept patches as one, which is what is written; only the best one is kept if together they fail."""
    together = combine_cures(kept)
    turns = run_turns(setup, [together], options, console, "Testing them all together,")
    (trial,) = judge_turns(turns, [together])
    show_trials("All patches together", (trial,), setup, turns, console)
    return (*trials, trial), kept if trial.pairs and trial.measured > 1.0 else kept[:1]


def run_turns(
    setup: TrialSetup, cures: Sequence[Cure], options: ProofOptions, console: Console, what: str
) -> TrialTurns:
    """All runs, with progress on the terminal."""
    runs = count_runs(len(cures), options.rounds)
    minutes = runs * (setup.seconds + START_UP) / 60
    title = (
        f"{what} in turns with the untouched script: {runs} runs of {setup.seconds:.0f} s, "
        f"about {minutes:.0f} min; Ctrl-C ends it early."
    )
    console.print()
    with show_turns(console, title, runs) as note:
        return take_turns(setup, cures, options.rounds, note)


def say(console: Console, text: str) -> None:
    """A line of plain text."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
