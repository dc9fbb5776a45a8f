"""Run a script once for a trial, in its own process, and read how far it came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.record import decode_as
from flashdqn.doctor.run import WATCH, Patient, describe_exit_code
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.schema import WatchRecord
from flashdqn.doctor.watch.trial_rows import TrialPlan, TrialRecord

SEED = 20_240_601
"""For every generator that the script leaves to chance, in all trials the same."""
GRACE = 30.0
LINES = 40
"""Of what the script printed, for a trial that failed."""


@dataclass(frozen=True)
class TrialSetup:
    """What all trials of a script share."""

    patient: Patient
    seconds: float
    longest: float
    """The most seconds until training has begun."""
    waits_for_updates: bool


def plan_trials(patient: Patient, record: WatchRecord, seconds: float) -> TrialSetup:
    """How to try this script: the clock starts at its first update, and how late that may come is known."""
    first = next((w.start for w in record.windows if w.counts.updates), None)
    start = first if first is not None else record.training_began or 0.0
    return TrialSetup(patient, seconds, longest=30.0 + 3.0 * start, waits_for_updates=first is not None)


def run_trial(setup: TrialSetup, cure: Cure | None) -> TrialRecord:
    """Run the script with a cure, or untouched. Whatever it starts ends with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = write_plan(setup, cure, folder)
        command = [setup.patient.python, str(WATCH), str(plan), "trial"]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        assert child.stdout is not None
        tail: deque[bytes] = deque(maxlen=LINES)
        reader = threading.Thread(target=read_lines, args=(child.stdout, tail), daemon=True)
        reader.start()
        try:
            with suppress(subprocess.TimeoutExpired):
                child.wait(setup.longest + setup.seconds + GRACE)
        finally:
            end_group(child)
        reader.join(2.0)
        path = folder / "trial.json"
        if path.exists():
            record = decode_as(TrialRecord, json.loads(path.read_text(encoding="utf-8")))
            assert isinstance(record, TrialRecord)
            return record
    said = b"".join(tail).decode(errors="replace")
    error = f"It {describe_exit_code(child.returncode)}.\n{said}"
    return TrialRecord(Ending.KILLED, error, (), (), (), (), 0.0, os.getloadavg()[0])


def write_plan(setup: TrialSetup, cure: Cure | None, folder: Path) -> Path:
    """The plan, and the texts that replace the script's own files."""
    patient = setup.patient
    replaced = {}
    for number, (path, text) in enumerate((cure.replaced if cure else {}).items()):
        copy = folder / f"{number}.py"
        copy.write_text(text, encoding="utf-8")
        replaced[str(Path(path).resolve())] = str(copy)
    plan = TrialPlan(
        script=patient.script if patient.module else str(Path(patient.script).absolute()),
        given=patient.script,
        module=patient.module,
        arguments=patient.arguments,
        record=str(folder / "trial.json"),
        seconds=setup.seconds,
        longest=setup.longest,
        waits_for_updates=setup.waits_for_updates,
        injections=cure.injections if cure else (),
        replaced=replaced,
        seed=SEED,
    )
    written = folder / "plan.json"
    written.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    return written


def read_lines(stream: IO[bytes], tail: deque[bytes]) -> None:
    """Take what the script prints, so that it never waits for a reader; the last lines are kept."""
    with stream:
        tail.extend(stream)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End the process and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
