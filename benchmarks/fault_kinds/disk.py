"""A disk that is full, broken or read-only, at every write: by an error that the shim injects, and for real."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fault_kinds.children import Outcome, run_cases, run_command
from fault_kinds.scenarios import (
    PRODUCTS,
    SCENARIOS,
    Prepared,
    check_end,
    hash_tree,
    last_saved,
    prepare_scenarios,
)
from fault_kinds.shim import Action, Fault, Kind, read_log
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import find_run, list_litter

#: The error, how long it lasts, and whether the disk still lets us clean up.
ERRORS = (
    ("full", errno.ENOSPC, Action.FAIL_FROM, True),
    ("full", errno.ENOSPC, Action.FAIL_ONCE, True),
    ("over quota", errno.EDQUOT, Action.FAIL_FROM, True),
    ("input/output error", errno.EIO, Action.FAIL_ONCE, True),
    ("read-only", errno.EROFS, Action.FAIL_FROM, False),
)
CAN_FAIL = (Kind.OPEN, Kind.WRITE, Kind.SYNC, Kind.MKDIR, Kind.TRUNCATE)
#: Faults at full effort: injected, and on a small file system.
COUNT, REAL = 900, 60
#: Bytes of the file system, and of what is left of it.
SIZE, MOST_LEFT = 2 << 20, 400 << 10


class Case(NamedTuple):
    """An error at one operation."""

    scenario: int
    at: int
    error: int  # in ERRORS


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A row for each kind of error, and one for a real full disk."""
    kinds = tuple(scenario for scenario in SCENARIOS if scenario.name != "eval")
    prepared = prepare_scenarios(folder, effort, kinds)
    rows = {name: Tally(f"disk {name}") for name, *_ in ERRORS}
    cases = list_cases(prepared, effort)
    for answer in run_cases(
        cases, lambda case, place: try_error(prepared[case.scenario], case, place), folder
    ):
        if isinstance(answer, str):
            rows["full"].check(False, answer)
        else:
            rows[answer["row"]].check(not answer["wrong"], answer["wrong"])
    return [*rows.values(), try_small_disk(prepared, effort, folder)]


def list_cases(prepared: list[Prepared], effort: float) -> list[Case]:
    """Every operation that can fail, with the errors in turn; the first error at each."""
    chance = random.Random(28)
    places = [
        (k, op.number)
        for k, one in enumerate(prepared)
        for n, op in enumerate(one.operations)
        if op.kind in CAN_FAIL and (".tfevents." not in op.path or n % 10 == 0)
    ]
    all_of_them = [Case(k, n, 0) for k, n in places]
    rest = [Case(k, n, error) for k, n in places for error in range(1, len(ERRORS))]
    few = scale_count(COUNT, effort, least=len(ERRORS))
    if few <= len(all_of_them):
        return [
            case._replace(error=k % len(ERRORS)) for k, case in enumerate(chance.sample(all_of_them, few))
        ]
    return all_of_them + chance.sample(rest, min(len(rest), few - len(all_of_them)))


def try_error(prepared: Prepared, case: Case, folder: Path) -> dict[str, Any]:
    """Run into the error, then give the command again on a whole disk."""
    name, number, action, cleans = ERRORS[case.error]
    out, log = prepared.copy_to(folder), folder / "operations.log"
    run = find_run(out)
    before = hash_tree(run, PRODUCTS) if run and not prepared.scenario.trains else {}
    outcome = run_command(prepared.scenario.make_words(out), Fault(out, action, case.at, number, log))
    saved = last_saved(read_log(log)) if prepared.scenario.trains else -1
    wrong = describe_refusal(outcome) or (describe_litter(out) if cleans else "")
    wrong = wrong or check_end(prepared, out, saved, before, saves_more=True)
    if wrong:
        what = prepared.find_operation(case.at)
        wrong = (
            f"{prepared.scenario.name}, {errno.errorcode[number]} at {case.at} ({what.kind.name} "
            f"{Path(what.path).name}): {wrong}"
        )
    return {"row": name, "wrong": wrong}


def describe_refusal(outcome: Outcome) -> str:
    """What is wrong with how a command meets a broken disk: it must succeed, or fail in one sentence (1: it is not
    the user's mistake)."""
    if outcome.crashed:
        return str(outcome)
    return "" if outcome.code == 0 or (outcome.code == 1 and outcome.said) else f"no sentence: {outcome}"


def describe_litter(out: Path) -> str:
    """Unfinished files that a command has left although it could remove them."""
    litter = list_litter(out)
    return f"litter: {litter[:3]}" if litter else ""


def try_small_disk(prepared: list[Prepared], effort: float, folder: Path) -> Tally:
    """The same on a file system with a few kB left."""
    row, chance = Tally("disk full, a real small one"), random.Random(38)
    count = scale_count(REAL, effort, least=2)
    kinds = [one for one in prepared if one.scenario.trains and one.scenario.begin != "finished"]
    for number in range(count):
        one = kinds[number % len(kinds)]
        left = int(MOST_LEFT * (number + chance.random()) / count)
        with mount_small_disk(folder / "disk") as disk:
            if disk is None:
                row.note = "a file system cannot be mounted here"
                return row
            row.check(*try_with_space(one, disk, left))
    return row


def try_with_space(prepared: Prepared, disk: Path, left: int) -> tuple[bool, str]:
    """Run with `left` bytes of space, then with all of it."""
    out = prepared.copy_to(disk)
    filler = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler.write_bytes(bytes(max(0, free - left)))
    outcome = run_command(prepared.scenario.make_words(out))
    filler.unlink()
    wrong = describe_refusal(outcome) or describe_litter(out)
    run = find_run(out)
    saved = 0 if run and list(run.glob("checkpoints/[0-9]*/state.safetensors")) else -1
    wrong = wrong or check_end(prepared, out, saved, {}, saves_more=True)
    return not wrong, f"{prepared.scenario.name} with {left} bytes left: {wrong}"


@contextmanager
def mount_small_disk(place: Path) -> Iterator[Path | None]:
    """A file system of a few MB, if this user may mount one."""
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=True)
