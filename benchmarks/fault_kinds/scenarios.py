"""Commands that are disturbed, each from a known beginning to a known end. A new command is one line here."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from fault_kinds.children import Outcome, run_command
from fault_kinds.shim import Action, Fault, Kind, Operation, read_log
from fault_kinds.tiny_runs import (
    DEMONSTRATED,
    EVENTS,
    GYM,
    PLAIN,
    Digest,
    digest_run,
    find_run,
    list_resumable,
)

#: Less effort than this is the short form.
NOT_SHORT = 0.02
_FEW = ["--observations", "32", "--episodes", "2"]


@dataclass(frozen=True)
class Scenario:
    """A command; `{out}` and `{run}` stand for its folders."""

    name: str
    words: list[str]
    begin: str = "nothing"  # or "stopped", "finished": the run that is there before
    again: list[str] = field(default_factory=lambda: ["train", "--resume", "{run}"])  # what follows the fault
    exact: bool = True  # whether a resumed run comes to the same weights: an environment may not be resumable
    trains: bool = True
    stride: int = 1  # 2: only every second operation, for what is slow

    def make_words(self, out: Path, again: bool = False) -> list[str]:
        """The command line."""
        run = find_run(out) or out / "missing"
        return [word.format(out=out, run=run) for word in (self.again if again else self.words)]


SCENARIOS = (
    Scenario("train", ["train", *EVENTS, "--out", "{out}"]),
    Scenario("train with demonstrations", ["train", *DEMONSTRATED, "--out", "{out}"]),
    Scenario("train on Gymnasium", ["train", *GYM, "--out", "{out}"], exact=False),
    Scenario("resume", ["train", "--resume", "{run}"], begin="stopped"),
    Scenario(
        "resume with more steps", ["train", "--resume", "{run}", "--steps", "640"], begin="finished",
        again=["train", "--resume", "{run}", "--steps", "640"],
    ),
    Scenario("report", ["report", "{run}"], "finished", ["report", "{run}"], trains=False),
    Scenario(
        "export to TorchScript", ["export", "{run}", "--to", "torchscript", *_FEW], "finished",
        ["export", "{run}", "--to", "torchscript", *_FEW], trains=False,
    ),
    Scenario(
        "export to ONNX", ["export", "{run}", *_FEW], "finished", ["export", "{run}", *_FEW], trains=False, stride=2
    ),
    Scenario("eval", ["eval", "{run}"], "finished", ["eval", "{run}"], trains=False),
)  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """A scenario, the folder it begins with, and what comes of it undisturbed."""

    scenario: Scenario
    begin: Path
    operations: list[Operation]
    expected: Digest

    def find_operation(self, number: int) -> Operation:
        """The operation of that number."""
        return next(op for op in self.operations if op.number == number)

    def copy_to(self, folder: Path) -> Path:
        """A fresh output folder."""
        return Path(shutil.copytree(self.begin, folder / "out", symlinks=True))


def prepare_scenarios(
    folder: Path, effort: float, scenarios: tuple[Scenario, ...] = SCENARIOS
) -> list[Prepared]:
    """Make the beginnings, and run each scenario once without a fault. The short form leaves out what is slow."""
    begins = make_beginnings(folder)
    wanted = [scenario for scenario in scenarios if scenario.stride == 1 or effort >= NOT_SHORT]
    return [prepare_scenario(scenario, begins[scenario.begin], folder) for scenario in wanted]


def make_beginnings(folder: Path) -> dict[str, Path]:
    """Output folders with nothing, with a run that was killed, and with one that is finished."""
    begins = {name: folder / f"begin-{name}" for name in ("nothing", "stopped", "finished")}
    for path in begins.values():
        path.mkdir(parents=True)
    log = folder / "finished.log"
    words = ["train", *PLAIN, "--out"]
    done = run_command([*words, str(begins["finished"])], Fault(begins["finished"], log=log))
    assert done.code == 0, done
    check_scores_differ(begins["finished"])
    saved = [op.number for op in read_log(log) if saved_step(op) is not None]
    # before the last but one comes into its place: there is litter, and something left to train
    killed = run_command([*words, str(begins["stopped"])], Fault(begins["stopped"], Action.KILL, saved[-2]))
    assert killed.killed, killed
    return begins


def check_scores_differ(out: Path) -> None:
    """If all evaluations were equal, a wrong choice of the best checkpoint would not be noticed."""
    run = find_run(out)
    assert run is not None
    digest = digest_run(run)
    first = digest.evaluations[1][0]
    assert int(digest.best["checkpoint"]) > int(first), (
        "the first evaluation is the best: change the settings"
    )


def prepare_scenario(scenario: Scenario, begin: Path, folder: Path) -> Prepared:
    """Run it undisturbed, with a log of its operations."""
    slug = re.sub(r"\W+", "-", scenario.name)
    out, log = folder / f"whole-{slug}", folder / f"{slug}.log"
    shutil.copytree(begin, out)
    done = run_command(scenario.make_words(out), Fault(out, log=log))
    assert done.code == 0, f"{scenario.name} without a fault: {done}"
    run = find_run(out)
    assert run is not None
    return Prepared(scenario, begin, read_log(log), digest_run(run))


def saved_step(operation: Operation) -> int | None:
    """The step of the checkpoint that this operation puts into its place."""
    found = re.search(r"/checkpoints/(\d{12})$", operation.second)
    return int(found[1]) if found and operation.kind == Kind.RENAME else None


def last_saved(operations: list[Operation]) -> int:
    """The step of the last resumable checkpoint that came into its place; -1 if none."""
    with_state = {
        Path(op.path).parent.name
        for op in operations
        if op.kind == Kind.SYNC and op.path.endswith("/state.safetensors")
    }
    steps = [
        step for op in operations if (step := saved_step(op)) is not None and Path(op.path).name in with_state
    ]
    return max(steps, default=-1)


def hash_tree(folder: Path, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The checksum of each plain file that is not hidden."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.name not in without
    }


#: What the commands that do not train write.
PRODUCTS = ("report.html", "policy.pt", "policy.onnx", "policy.onnx.data", "policy.json")


def check_end(
    prepared: Prepared, out: Path, saved: int, before: dict[str, str], saves_more: bool = False
) -> str:
    """Give the command again, undisturbed. Returns what is wrong with what comes of it; empty if nothing.
    A training that met an error `saves_more`: what was learned is saved at that step, too."""
    run = find_run(out)
    if run is None:
        return f"the checkpoint of step {saved} is gone with its run" if saved >= 0 else ""
    if prepared.scenario.trains and max(list_resumable(run), default=-1) < saved:
        return f"the checkpoint of step {saved} is gone: {list_resumable(run)} are there"
    done = run_command(prepared.scenario.make_words(out, again=True))
    if done.crashed:
        return f"again: {done}"
    if not prepared.scenario.trains:
        after = hash_tree(run, PRODUCTS)
        return (
            "" if done.code == 0 and before == after else f"again: {done}; changed files: {before == after}"
        )
    return check_trained(prepared, run, done, saved, saves_more)


def check_trained(prepared: Prepared, run: Path, done: Outcome, saved: int, saves_more: bool) -> str:
    """What is wrong with a run that was resumed to its end."""
    if done.code == 2 and (older := re.search(r"flashdqn train --resume (\S+)$", done.said.strip())):
        done = run_command(["train", "--resume", older[1], *prepared.scenario.again[3:]])  # as it says
    finished = done.code == 2 and "used its budget" in done.said
    if done.code != 0 and not finished:
        return "" if saved < 0 and done.said else f"again: {done}"
    if finished:  # the fault came while the pages were drawn
        run_command(["report", str(run)])
    try:
        found, wanted = digest_run(run), prepared.expected
    except (OSError, ValueError, KeyError) as error:
        return f"the run cannot be read: {error!r}"
    if finished:
        found = without_pages(found)
        wanted = without_pages(wanted)
    elif saves_more:
        found = without_more_checkpoints(found, wanted)
    if not prepared.scenario.exact:
        return describe_rows(found)
    return found.differs(wanted)


def without_pages(digest: Digest) -> Digest:
    """Without what is drawn, and without leftovers that the next resume removes: nobody has resumed it since."""
    kept = [name for name in digest.files if not name.endswith((".png", ".html", "state.safetensors"))]
    kept = [name for name in kept if "/." not in f"/{name}"]
    return Digest(digest.weights, digest.metrics, digest.evaluations, digest.best, kept)


def without_more_checkpoints(found: Digest, wanted: Digest) -> Digest:
    """Without checkpoints that an undisturbed run does not have. States may be in other checkpoints, too;
    there must be as many, and the newest must have one."""
    steps = {name.split("/")[1] for name in wanted.files if name.startswith("checkpoints/")}
    ours, theirs = list_states(found), list_states(wanted)
    kept = {name for name in found.files if not is_checkpoint(name) or name.split("/")[1] in steps}
    if len(ours) == len(theirs) and ours[-1:] == theirs[-1:]:
        kept = kept - set(ours) | set(theirs)
    return replace(found, files=sorted(kept))


def is_checkpoint(name: str) -> bool:
    """Whether a path is a checkpoint or lies in one; what is unfinished is none."""
    return re.match(r"checkpoints/\d", name) is not None


def list_states(digest: Digest) -> list[str]:
    return [name for name in digest.files if name.endswith("/state.safetensors")]


def describe_rows(digest: Digest) -> str:
    """Rows that stand twice or out of order."""
    for table in (digest.metrics, digest.evaluations):
        steps = [int(row[0]) for row in table[1:]]
        if steps != sorted(set(steps)):
            return f"rows out of order: {steps}"
    return "litter" if any("/." in f"/{name}" for name in digest.files) else ""
