"""Run the untouched script and its cures in turns: untouched, each cure, untouched, each cure, … untouched."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.same_numbers import Numbers, compare_numbers
from flashdqn.doctor.cures.same_work import Interval, compute_interval, measure_gains
from flashdqn.doctor.cures.trial_process import TrialSetup, run_trial
from flashdqn.doctor.report.cure_result import CureResult
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.trial_rows import TrialRecord

Say = Callable[[str], None]
"""Is told what runs now."""
SPARE = 0.5
"""A load of this many processes above the number of cores means that others are at work, too."""
RunOne = Callable[[TrialSetup, Cure | None], TrialRecord]


@dataclass
class TrialTurns:
    """The runs so far, by cure."""

    untouched: list[TrialRecord] = field(default_factory=list)
    cured: dict[str, list[TrialRecord]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    """Cures with which the script failed: the last line of its error. They are not run again."""


def take_turns(
    setup: TrialSetup, cures: Sequence[Cure], rounds: int, say: Say, run: RunOne = run_trial
) -> TrialTurns:
    """All runs, in turns. Ctrl-C ends them early, and what was measured until then counts."""
    turns = TrialTurns(cured={cure.name: [] for cure in cures})
    try:
        for number in range(1, rounds + 1):
            if not run_untouched(setup, turns, f"round {number} of {rounds}", say, run):
                return turns
            for cure in cures:
                if cure.name not in turns.broken:
                    say(f"round {number} of {rounds}: {cure.what}")
                    note_cured(turns, cure, run(setup, cure))
        run_untouched(setup, turns, "last", say, run)
    except KeyboardInterrupt:
        say("stopped; what was measured until now follows")
    return turns


def run_untouched(setup: TrialSetup, turns: TrialTurns, when: str, say: Say, run: RunOne) -> bool:
    """Run the script as it is; False if it failed, because then there is nothing to compare with."""
    say(f"{when}: the untouched script")
    record = run(setup, None)
    if record.ended in (Ending.FAILED, Ending.KILLED) or not record.series:
        for name in turns.cured:
            turns.broken.setdefault(name, f"the untouched script failed: {find_last_line(record.error)}")
        return False
    turns.untouched.append(record)
    return True


def note_cured(turns: TrialTurns, cure: Cure, record: TrialRecord) -> None:
    """Keep a cured run, or the reason why there is none."""
    if record.ended in (Ending.FAILED, Ending.KILLED) or not record.series:
        turns.broken[cure.name] = f"the script failed with it: {find_last_line(record.error)}"
    elif cure.injections and not record.applied:
        reason = record.failed[0] if record.failed else "nothing in the script uses it"
        turns.broken[cure.name] = f"it changed nothing: {reason}"
    else:
        turns.cured[cure.name].append(record)


def find_last_line(error: str) -> str:
    """The last line of a traceback."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def judge_turns(turns: TrialTurns, cures: Sequence[Cure]) -> tuple[CureResult, ...]:
    """What each cure has brought."""
    return tuple(judge_cure(turns, cure) for cure in cures)


def judge_cure(turns: TrialTurns, cure: Cure) -> CureResult:
    """The measured gain of one cure, its interval, and whether the numbers stayed the same."""
    cured = turns.cured[cure.name] if cure.name not in turns.broken else []
    gains = measure_gains(turns.untouched, cured, "time", cure.unit)
    cpu = measure_gains(turns.untouched, cured, "cpu", cure.unit)
    nothing = Interval(math.nan, math.nan, math.nan)
    gain = compute_interval(gains) if gains else nothing
    work = compute_interval(cpu) if cpu else nothing
    numbers = compare_numbers(turns.untouched, cured)
    load = max((run.load for run in (*turns.untouched, *cured)), default=math.nan)
    trial = CureResult(
        cure=cure.name,
        finding=cure.finding,
        what=cure.what,
        predicted=cure.predicted,
        measured=gain.middle,
        low=gain.low,
        high=gain.high,
        cpu=work.middle,
        cpu_low=work.low,
        cpu_high=work.high,
        pairs=len(gains),
        numbers=numbers.sameness,
        numbers_because=numbers.words,
        load=load,
        busy=load > count_cores() + SPARE,
        verdict="",
        changes=cure.changes,
    )
    return replace(trial, verdict=describe_verdict(turns, cure, trial, numbers))


def describe_verdict(turns: TrialTurns, cure: Cure, trial: CureResult, numbers: Numbers) -> str:
    """One sentence on one cure."""
    if cure.name in turns.broken:
        return f"Not measured: {turns.broken[cure.name]}."
    if not trial.pairs:
        return "Not measured: too little common work; give it longer with --try-seconds."
    if trial.pairs == 1:
        speed = "One pair of runs says nothing about chance"
    elif trial.low > 1.0:
        speed = "Faster"
    elif trial.is_faster:
        cpu = f"{trial.cpu:.2f}x (95%: {trial.cpu_low:.2f}–{trial.cpu_high:.2f})"
        speed = f"Faster by CPU time, {cpu}, where the busy machine's clock is too uneven to tell"
    elif trial.high < 1.0:
        speed = "Slower"
    else:
        speed = "No difference beyond chance"
    return f"{speed}; the numbers: {numbers.words}."


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
