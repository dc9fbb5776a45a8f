"""Power cuts: after every file operation, what a disk may have kept (disk_model.py), and if the run goes on."""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from fault_kinds.children import run_cases, run_command
from fault_kinds.disk_model import Disk, Model, list_contents, write_node
from fault_kinds.scenarios import SCENARIOS, Prepared, check_end, prepare_scenarios
from fault_kinds.shim import Fault, Kind, Operation, mark_log, read_log
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import PLAIN

#: Folders that are drawn for each operation and each model, at full effort.
DRAWS = 8
MODELS: dict[Model, str] = {"posix": "power cut, names in any order", "ext4": "power cut, names in a journal"}
NAMES = ("train", "resume", "resume with more steps")


class Case(NamedTuple):
    """A folder after a cut, as the draw of a random generator."""

    scenario: int
    after: int  # operations
    model: Model
    seed: int


class Recorded(NamedTuple):
    """A scenario with all that it wrote."""

    prepared: Prepared
    root: Path
    operations: list[Operation]


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A row for each model."""
    kinds = tuple(scenario for scenario in SCENARIOS if scenario.name in NAMES)
    recorded = [record(one, folder) for one in prepare_scenarios(folder, effort, kinds)]
    cases = list_cases(recorded, effort)
    rows = {model: Tally(name) for model, name in MODELS.items()}
    for answer in run_cases(cases, lambda case, place: try_cut(recorded[case.scenario], case, place), folder):
        if isinstance(answer, str):
            rows["posix"].check(False, answer)
        else:
            rows[answer["model"]].check(not answer["wrong"], answer["wrong"])
    return list(rows.values())


def record(prepared: Prepared, folder: Path) -> Recorded:
    """Run it once more, and keep every byte that it writes and every checkpoint that it reports as saved."""
    out = folder / f"recorded-{prepared.scenario.name.replace(' ', '-')}"
    shutil.copytree(prepared.begin, out)
    log = out.with_suffix(".log")
    words = [word for word in prepared.scenario.make_words(out) if word not in ("--log.tensorboard",)]
    if prepared.scenario.begin == "nothing":
        words = ["train", *PLAIN, "--out", str(out)]
    done = run_command(words, Fault(out, log=log, contents=True), before=mark_saves)
    assert done.code == 0, done
    operations = read_log(log)
    disk = Disk(out, prepared.begin)
    for operation in operations:
        disk.play(operation)
    there = {str(path.relative_to(out)) for path in out.rglob("*")}
    played = {name.strip("/") for name, _ in list_contents(disk.root)} - {""}
    assert played == there, f"the log is not whole: {played ^ there}"
    return Recorded(prepared, out, operations)


def mark_saves() -> None:
    """Write into the log when a checkpoint is reported as saved."""
    from flashdqn.training.loop import Loop

    save = Loop.save

    def save_and_mark(self: Loop, with_state: bool = True) -> Path:
        path = save(self, with_state)
        if with_state:
            mark_log(f"saved {path.name}")
        return path

    Loop.save = save_and_mark  # type: ignore[method-assign]


def list_cases(recorded: list[Recorded], effort: float) -> list[Case]:
    """Draws after every operation; with less effort, after some. Equal folders are tried once."""
    chance = random.Random(48)
    points = [(k, n) for k, one in enumerate(recorded) for n in range(1, len(one.operations) + 1)]
    few = set(chance.sample(points, min(len(points), scale_count(len(points), 2 * effort, least=6))))
    draws = scale_count(DRAWS, effort)
    cases, seen = [], set()
    for k, one in enumerate(recorded):
        disk = Disk(one.root, one.prepared.begin)
        for n, operation in enumerate(one.operations, 1):
            disk.play(operation)
            if (k, n) not in few:
                continue
            for model in MODELS:
                for seed in range(draws):
                    case = Case(k, n, model, seed)
                    key = fingerprint(disk, case), last_mark(one.operations[:n]), model
                    if key not in seen:
                        seen.add(key)
                        cases.append(case)
    return cases


def fingerprint(disk: Disk, case: Case) -> str:
    """Equal for equal folders."""
    found = list_contents(disk.cut_power(random.Random(case.seed * 7919 + case.after), case.model))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def last_mark(operations: list[Operation]) -> int:
    """The step of the last checkpoint that was reported as saved; -1 if none."""
    marks = [int(op.path.split()[1]) for op in operations if op.kind == Kind.MARK]
    return max(marks, default=-1)


def try_cut(recorded: Recorded, case: Case, folder: Path) -> dict[str, Any]:
    """Put what is left into a folder, and go on from there."""
    disk = Disk(recorded.root, recorded.prepared.begin)
    for operation in recorded.operations[: case.after]:
        disk.play(operation)
    root = disk.cut_power(random.Random(case.seed * 7919 + case.after), case.model)
    write_node(root, folder / "out")
    saved = last_mark(recorded.operations[: case.after])
    if recorded.prepared.scenario.begin != "nothing":
        saved = max(saved, 0)  # a run that was safe before must stay so
    wrong = check_end(recorded.prepared, folder / "out", saved, {})
    if wrong:
        last = recorded.operations[case.after - 1]
        wrong = (
            f"{recorded.prepared.scenario.name}, draw {case.seed} after {case.after} "
            f"({last.kind.name} {Path(last.path).name}): {wrong}"
        )
    return {"model": case.model, "wrong": wrong}
