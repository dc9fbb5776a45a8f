"""Damage to every file of a run, stopped or finished: each command must refuse it, say it, or still be right.

What counts as harm: a traceback, a hang, an error that does not name what is damaged, another result without a word
(silent acceptance), and a change to a file outside the run. Numbers in tables are plain text and have no checksum:
a table must keep its rows, or a line says what is left out. A deleted file may be missed, but weights stay.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fault_kinds.children import Outcome, run_cases, run_command
from fault_kinds.mutations import FOLDER_MUTATIONS, MUTATIONS, Mutation, Place
from fault_kinds.scenarios import make_beginnings
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import EVENTS, digest_run, find_run

#: A command that meets damage must end within these seconds: one takes 2, and much more on a busy machine.
LIMIT = 90.0
#: How a line says that something was left out or done another way.
SAYS = re.compile(
    r"damaged|left out|cannot be read|not readable|missing|ignored|skipped|does not match|not a file|link|No game|"
    r"was changed|belongs to another run|not there|other weights|other columns|another folder",
    re.I,
)
VICTIM = b'{"this": "belongs to somebody"}\n'
#: How often each file and each mutation meet at full effort.
TURNS = 1


class Case(NamedTuple):
    """One mutation of one file (or checkpoint) of one run."""

    begin: str
    file: str
    mutation: str
    seed: int


class Command(NamedTuple):
    """A command on a damaged run, and what of its result must not change."""

    words: Callable[[Path], list[str]]
    read: Callable[[Path, Outcome], dict[str, Any]]


def read_evaluation(run: Path, outcome: Outcome) -> dict[str, Any]:
    return {"evaluation": json.loads(outcome.output.strip().splitlines()[-1])}


def read_page(run: Path, outcome: Outcome) -> dict[str, Any]:
    page = (run / "page.html").read_text(encoding="utf-8")
    return {"page": page, "score": re.findall(r"score[^<]{0,40}", page)[:3]}


def read_training(run: Path, outcome: Outcome) -> dict[str, Any]:
    digest = digest_run(run)
    tables = {"metrics": digest.metrics, "evaluations": digest.evaluations}
    return {
        "weights": digest.weights,
        "best": digest.best,
        **{k: [r[0] for r in v] for k, v in tables.items()},
    }


#: By the name of the beginning, too: a finished run needs more steps to go on.
COMMANDS: dict[str, Command] = {
    "eval": Command(lambda run: ["eval", str(run), "--episodes", "5", "--json"], read_evaluation),
    "report": Command(lambda run: ["report", str(run), "--out", str(run / "page.html")], read_page),
    "resume": Command(lambda run: ["train", "--resume", str(run), "--steps", "520"], read_training),
}


class Runs(NamedTuple):
    """Whole runs, and what the commands say of them."""

    begins: dict[str, Path]
    other: Path
    whole: dict[tuple[str, str], tuple[str, dict[str, Any]]]  # output and result by beginning and command


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A row for each command that met damage."""
    runs = prepare_runs(folder)
    cases = list_cases(runs, effort)
    rows = {name: Tally(f"damaged run: {name}") for name in COMMANDS}
    for answer in run_cases(cases, lambda case, place: try_damage(runs, case, place), folder):
        if isinstance(answer, str):
            rows["eval"].check(False, answer)
            continue
        for name, wrong in answer.items():
            rows[name].check(not wrong, wrong)
    for row in rows.values():
        row.note = f"{len(cases)} mutations"
    return list(rows.values())


def prepare_runs(folder: Path) -> Runs:
    """A stopped run, a finished one, and another one of another seed."""
    begins = {name: path for name, path in make_beginnings(folder).items() if name != "nothing"}
    other = folder / "other"
    done = run_command(["train", *EVENTS, "--seed", "7", "--out", str(other)])
    assert done.code == 0, done
    for begin in begins.values():
        run = find_run(begin)
        assert run is not None
        (run / ".lock").touch()
    whole = {}
    for begin, path in begins.items():
        for name, command in COMMANDS.items():
            run = copy_run(path, folder / f"whole-{begin}-{name}")
            outcome = run_command(command.words(run))
            assert outcome.code == 0, outcome
            whole[begin, name] = outcome.output, command.read(run, outcome)
    found = find_run(other)
    assert found is not None
    return Runs(begins, found, whole)


def copy_run(begin: Path, to: Path) -> Path:
    """A copy of the run in an output folder; always under the same name, because pages show it."""
    import shutil

    found = find_run(begin)
    assert found is not None
    return Path(shutil.copytree(found, to / "run"))


def list_cases(runs: Runs, effort: float) -> list[Case]:
    """Every file with every mutation at full effort; a sample that has all mutations with less."""
    chance, cases = random.Random(58), []
    for begin, path in runs.begins.items():
        run = find_run(path)
        assert run is not None
        for file in sorted(run.rglob("*")):
            if file.is_dir() and not file.name.isdigit():
                continue  # what a kill has left: the next resume removes it
            kinds = FOLDER_MUTATIONS if file.is_dir() else MUTATIONS
            if file.name == "checkpoints":
                continue
            turns = TURNS
            names = [one.__name__ for one in kinds]
            cases += [
                Case(begin, str(file.relative_to(run)), name, s) for name in names for s in range(turns)
            ]
    chance.shuffle(cases)
    return cases[: scale_count(len(cases), effort, least=8)]


def find_mutation(name: str) -> Mutation:
    return next(one for one in (*MUTATIONS, *FOLDER_MUTATIONS) if one.__name__ == name)


def try_damage(runs: Runs, case: Case, folder: Path) -> dict[str, str]:
    """Damage a copy, and give it to each command in turn; returns what is wrong, by command."""
    run = copy_run(runs.begins[case.begin], folder)
    victim = folder / "outside" / "victim.json"
    victim.parent.mkdir()
    victim.write_bytes(VICTIM)
    chance = random.Random(f"{case.file} {case.mutation} {case.seed}")
    before = read_digests(run)
    find_mutation(case.mutation)(Place(run / case.file, run, runs.other, victim, chance))
    after = read_digests(run)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    if not changed:
        return {}
    answers = {}
    for name, command in COMMANDS.items():
        outcome = run_command(command.words(run), limit=LIMIT)
        wrong = judge(case, name, run, outcome, runs, changed)
        if victim.read_bytes() != VICTIM:
            wrong = f"a file outside was changed; {wrong}"
        answers[name] = f"{case.begin} run, {case.mutation} {case.file}: {wrong}" if wrong else ""
    return answers


def read_digests(run: Path) -> dict[Path, str]:
    """What lies at each path: the checksum of a plain file, or the kind of anything else."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() and not path.is_symlink()
        else oct(path.lstat().st_mode)
        for path in run.rglob("*")
    }


def judge(case: Case, name: str, run: Path, outcome: Outcome, runs: Runs, damaged: set[Path]) -> str:
    """What is wrong with how a command met the damage; empty if nothing. An error names a damaged file or its
    checkpoint: a swap has damaged two files."""
    if outcome.crashed:
        return str(outcome)
    file = Path(case.file)
    if outcome.code != 0:
        steps = {path.parent.name for path in damaged if path.parent.name.isdigit()}
        named = any(part in outcome.said for part in {path.name for path in damaged} | steps)
        return "" if named else f"the error does not name the file: {outcome}"
    text, expected = runs.whole[case.begin, name]
    try:
        found = COMMANDS[name].read(run, outcome)
    except (OSError, ValueError, KeyError, IndexError) as error:
        return f"exit 0, and the result cannot be read: {error!r}"
    if case.mutation.startswith("delete"):
        return "" if found.get("weights") == expected.get("weights") else "other weights without a word"
    changed = [key for key in expected if found[key] != expected[key]]
    if not changed or says_so(case, outcome.output, text) or is_said_on_page(found, expected):
        return ""
    if changed == ["page"] and file.suffix == ".csv":  # numbers of a table
        return ""
    return f"silent: other {', '.join(changed)}"


def says_so(case: Case, output: str, whole: str) -> bool:
    """Whether the command prints a line that it does not print for a whole run, about what is wrong."""
    known = set(whole.splitlines())
    new = [line for line in output.splitlines() if line not in known]
    return any(SAYS.search(line) for line in new)


def is_said_on_page(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether the page says what it does not say of a whole run."""
    if "page" not in found:
        return False
    return len(SAYS.findall(found["page"])) > len(SAYS.findall(expected["page"]))
