"""Run a script under the watch, in its own process, and read its record."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError
from flashdqn.doctor.record import read_record
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.schema import WatchPlan, WatchRecord

WATCH = Path(__file__).parent / "watch" / "__main__.py"
GRACE = 20.0
"""Seconds that a script may take to end, probes included, when its time is up; then it is killed."""
COMPILE_GRACE = 75.0
"""Seconds more for compiling the update of a copy, on a GPU."""
STAGES = {
    ".probing": "Watched. Now a few seconds of measuring what cures would gain, on copies of its networks …",
    ".compiling": "Compiling the update of a copy, to see what that gains: up to a minute …",
}
"""Files that the watch leaves as signs, and what they mean."""


@dataclass(frozen=True)
class Patient:
    """What to run, and how long to watch it."""

    script: str
    """A file, or a module's name."""
    arguments: tuple[str, ...] = ()
    module: bool = False
    seconds: float = 60.0
    deep: bool = False
    python: str = sys.executable
    """The interpreter of the script's own environment. It need not have flashdqn."""
    probe: float = 1.0
    """Seconds for each probe after the script's end."""
    grace: float = GRACE
    health: bool = False
    """Whether to look at what is learned."""


def check_patient(patient: Patient) -> None:
    """Raise ConfigError if the script cannot be run or watched."""
    if not hasattr(signal, "setitimer"):
        raise ConfigError("The doctor needs Linux or macOS: it needs a timer that other systems do not have.")
    if shutil.which(patient.python) is None:
        raise ConfigError(f"There is no Python at '{patient.python}'.")
    if patient.seconds <= 0:
        raise ConfigError(f"--seconds must be above zero, and is {patient.seconds:g}.")
    if patient.module:
        return
    path = Path(patient.script)
    if not path.is_file():
        raise ConfigError(f"There is no script '{patient.script}'.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own run will show them
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise ConfigError(f"'{patient.script}' cannot be read: {error.strerror}.") from None
    except (SyntaxError, ValueError) as error:
        if patient.python != sys.executable:
            return  # another Python version may accept this syntax
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ConfigError(
            f"'{patient.script}' is not a Python script: {getattr(error, 'msg', error)}{line}."
        ) from None


def watch_patient(patient: Patient, say: Callable[[str], None] = lambda _: None) -> WatchRecord:
    """Run the script until it ends or its time is up; Ctrl-C ends it early. `say` is told what goes on."""
    check_patient(patient)
    with tempfile.TemporaryDirectory() as folder:
        path, plan = Path(folder) / "record.json", Path(folder) / "plan.json"
        plan.write_text(json.dumps(asdict(make_watch_plan(patient, path))), encoding="utf-8")
        with gpu_meter() as meter, leave_interrupts_to_child():
            child = subprocess.Popen([patient.python, str(WATCH), str(plan)])
            wait_or_kill(child, patient.seconds + patient.grace, path, say)
        if not path.exists():
            how = describe_exit_code(child.returncode)
            raise ConfigError(f"'{patient.script}' {how} before it could be watched.")
        record = read_record(path.read_text(encoding="utf-8"))
        if record.ended is not Ending.FINISHED:
            end_children(path)
        record = choose_lead(replace(record, children=read_children(path)))
    if record.ended is Ending.MISSING:
        raise ConfigError(f"There is no module '{patient.script}' that {patient.python} can run.")
    if not record.torch and record.ended is not Ending.FAILED:
        raise ConfigError(
            f"{describe_missing_torch(patient, record)}: the doctor is for trainings with PyTorch."
        )
    return replace(record, utilization=meter.mean(record.training_began))


def read_children(path: Path) -> tuple[WatchRecord, ...]:
    """The records of the script's other processes; one that was cut off while it was written is left out."""
    found = []
    for child in sorted(path.parent.glob("child-*.json")):
        with suppress(ValueError):
            found.append(read_record(child.read_text(encoding="utf-8")))
    return tuple(found)


def choose_lead(record: WatchRecord) -> WatchRecord:
    """The record of the process that trains: where the script's own does not, of the child with the most
    updates."""
    if record.totals.updates or not any(child.totals.updates for child in record.children):
        return record
    lead = max(record.children, key=lambda child: child.totals.updates)
    others = (*(child for child in record.children if child is not lead), replace(record, children=()))
    how = {name: getattr(record, name) for name in ("script", "arguments", "ended", "error", "code")}
    return replace(lead, children=others, **how)


def describe_missing_torch(patient: Patient, record: WatchRecord) -> str:
    """What a script without torch did instead."""
    if record.other:
        return f"'{patient.script}' trains with {record.other} and never imported torch"
    why = f"ended with code {record.code} before it" if record.code else "never"
    return f"'{patient.script}' {why} imported torch"


def describe_exit_code(code: int) -> str:
    """An exit code in words; a negative one is a signal."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def make_watch_plan(patient: Patient, record: Path) -> WatchPlan:
    """The plan for the watch."""
    return WatchPlan(
        script=patient.script if patient.module else str(Path(patient.script).absolute()),
        given=patient.script,
        module=patient.module,
        arguments=patient.arguments,
        record=str(record),
        seconds=patient.seconds,
        interval=0.001 if patient.deep else 0.01,
        window=1.0,
        flush=5.0,
        probe=patient.probe,
        deep=patient.deep,
        health=patient.health,
    )


def wait_or_kill(
    child: subprocess.Popen[bytes], seconds: float, record: Path, say: Callable[[str], None]
) -> None:
    """Wait until the process ends; kill it if it does not end itself in time. Say what it does after its time."""
    end, said = time.monotonic() + seconds, set[str]()
    while child.poll() is None:
        if time.monotonic() > end:
            child.kill()
            child.wait()
        for sign, words in STAGES.items():
            if sign not in said and record.with_suffix(sign).exists():
                said.add(sign)
                say(words)
                end = max(end, time.monotonic() + COMPILE_GRACE) if sign == ".compiling" else end
        with suppress(subprocess.TimeoutExpired):
            child.wait(0.1)


def end_children(record: Path) -> None:
    """End what a stopped script has left behind: only processes that carry the record's folder in their command (a
    fork has that of the script) or in their environment."""
    mark = str(record.parent).encode()
    for path in record.parent.glob("child-*.json"):
        pid = path.stem.partition("-")[2]
        with suppress(OSError, ValueError):
            process = Path("/proc") / pid
            if mark in (process / "cmdline").read_bytes() or mark in (process / "environ").read_bytes():
                os.kill(int(pid), signal.SIGTERM)


@contextmanager
def leave_interrupts_to_child() -> Iterator[None]:
    """Leave Ctrl-C to the script, in the same terminal; a second one within two seconds also ends the doctor."""
    last = [0.0]

    def pass_on(*_: Any) -> None:
        now = time.monotonic()
        if now - last[0] < 2.0:
            raise KeyboardInterrupt
        last[0] = now

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Meter:
    """How busy the GPU was, read from nvidia-smi once a second; the work of other programs is included."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.values: list[tuple[float, float]] = []

    def mean(self, since: float | None) -> float | None:
        """The mean from `since` seconds after the start on; None without readings."""
        values = [value for at, value in self.values if at >= (since or 0.0)]
        return sum(values) / len(values) if values else None


@contextmanager
def gpu_meter() -> Iterator[Meter]:
    """Read the GPU's use in the background; without nvidia-smi there are no readings."""
    meter = Meter()
    program = shutil.which("nvidia-smi")
    if program is None:
        yield meter
        return
    command = [program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop=1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def read() -> None:
        for line in process.stdout or ():
            if line.strip().isdigit():
                meter.values.append((time.monotonic() - meter.started, int(line) / 100))

    threading.Thread(target=read, daemon=True).start()
    try:
        yield meter
    finally:
        process.terminate()
