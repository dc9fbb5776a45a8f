"""kill -9 at every file operation of every command, and a second one in the resume that follows."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fault_kinds.children import run_cases, run_command
from fault_kinds.scenarios import (
    PRODUCTS,
    Prepared,
    check_end,
    hash_tree,
    last_saved,
    prepare_scenarios,
)
from fault_kinds.shim import Action, Fault, Kind, Operation, read_log
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import EVENTS, digest_run, find_run

#: Of the kills in a training, those that are followed by a second one.
SECOND = 0.4


class Case(NamedTuple):
    """A kill."""

    scenario: int
    at: int
    action: Action
    second: int  # the operation of the resume that is killed too; 0: none


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """One row for each command."""
    # `eval` writes no file: there is no operation to kill it at, and no row
    prepared = [one for one in prepare_scenarios(folder, effort) if one.operations]
    cases = list_cases(prepared, effort)
    rows = [Tally(f"kill -9: {one.scenario.name}") for one in prepared]
    for answer in run_cases(
        cases, lambda case, place: try_kill(prepared[case.scenario], case, place), folder
    ):
        if isinstance(answer, str):
            rows[0].check(False, answer)
            continue
        row = rows[answer["scenario"]]
        for _ in range(answer["kills"] - 1):
            row.check(True, "")
        row.check(not answer["wrong"], answer["wrong"])
    for row, one in zip(rows, prepared, strict=True):
        row.note = f"{len(one.operations)} file operations"
    if effort >= 0.2:
        rows[0].check(*compare_with_unforked(prepared[0], folder))
    return rows


def list_cases(prepared: list[Prepared], effort: float) -> list[Case]:
    """Every operation at full effort, a sample of them with less."""
    chance, cases = random.Random(18), []
    for k, one in enumerate(prepared):
        points = [Case(k, op.number, Action.KILL, 0) for op in one.operations[:: one.scenario.stride]]
        writes = [op for op in one.operations if op.kind == Kind.WRITE and not is_event(op)]
        points += [Case(k, op.number, Action.TEAR_AND_KILL, 0) for op in writes]
        few = chance.sample(points, min(len(points), scale_count(len(points), effort)))
        again = [chance.randint(1, 60) if chance.random() < SECOND else 0 for _ in few]
        trains = one.scenario.trains
        cases += [case._replace(second=n if trains else 0) for case, n in zip(few, again, strict=True)]
    return cases


def is_event(operation: Operation) -> bool:
    """Whether an operation writes TensorBoard's events: there are hundreds, all alike."""
    return ".tfevents." in operation.path


def try_kill(prepared: Prepared, case: Case, folder: Path) -> dict[str, Any]:
    """Kill, perhaps kill the resume too, then let it end and compare."""
    out, log, kills = prepared.copy_to(folder), folder / "operations.log", 0
    run = find_run(out)
    before = hash_tree(run, PRODUCTS) if run and not prepared.scenario.trains else {}
    outcome = run_command(prepared.scenario.make_words(out), Fault(out, case.action, case.at, log=log))
    kills += outcome.killed
    wrong = "" if outcome.killed or outcome.code == 0 else str(outcome)
    if case.second and find_run(out):
        words = prepared.scenario.make_words(out, again=True)
        outcome = run_command(words, Fault(out, Action.KILL, case.second, log=log))
        kills += outcome.killed
        wrong = wrong or (str(outcome) if outcome.crashed and not outcome.killed else "")
    saved = last_saved(read_log(log)) if prepared.scenario.trains else -1
    wrong = wrong or check_end(prepared, out, saved, before)
    if wrong:
        what = prepared.find_operation(case.at)
        second = f", then at {case.second} of the resume" if case.second else ""
        wrong = f"{case.action.name} at {case.at} ({what.kind.name} {Path(what.path).name}){second}: {wrong}"
    return {"scenario": case.scenario, "kills": max(1, kills), "wrong": wrong}


def compare_with_unforked(prepared: Prepared, folder: Path) -> tuple[bool, str]:
    """A training in its own process comes to the same weights as those in forked children."""
    words = ["train", *EVENTS, "--out", str(folder / "unforked")]
    subprocess.run([sys.executable, "-m", "flashdqn", *words], capture_output=True, check=True)
    run = find_run(folder / "unforked")
    assert run is not None
    wrong = digest_run(run).differs(prepared.expected)
    return not wrong, f"forked and unforked: {wrong}"
