"""Environments that misbehave: each deed of `misbehaving.py`, in training and in the commands that play.

Every case is a process of its own, forked from one that has imported everything. Checked: the exit code, one
sentence without a traceback, summary.json, a checkpoint that loads, and that no worker process is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_kinds.tally import Tally, scale_count, share_cases

HERE = Path(__file__).parent
#: Reads cases as JSON, one in a line, and runs each in a child; answers with its exit code.
NURSERY = """
import json, os, sys
import torch, gymnasium, numba, flashdqn, flashdqn.cli.main, flashdqn.cli.train
import flashdqn.cli.eval, flashdqn.cli.watch
import flashdqn.api, flashdqn.envs.gymnasium.env, flashdqn.envs.gymnasium.make, flashdqn.training.session
import flashdqn.agent.agent, flashdqn.show.report, flashdqn.envs.gymnasium.task
print("ready", flush=True)
for line in sys.stdin:
    case = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(case["folder"])
        null = os.open(os.devnull, os.O_RDONLY)
        for number, name in enumerate((None, "stdout", "stderr")):
            os.dup2(null if name is None else os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.update(case["variables"])
        sys.argv = ["flashdqn", *case["arguments"]]
        sys.modules["__main__"].__file__ = "flashdqn"  # the command, which ends its threads
        sys.path.insert(0, case["path"])
        try:
            flashdqn.cli.main.main()
        except SystemExit as left:
            import atexit, threading
            threading._shutdown()
            atexit._run_exitfuncs()
            os._exit(left.code if isinstance(left.code, int) else 1)
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(99)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
SETTINGS = {
    "--steps": "160",
    "--envs": "4",
    "--device": "cpu",
    "--network.hidden": "8",
    "--replay.capacity": "200",
    "--learn.batch-size": "8",
    "--learn.starts": "20",
    "--train-ratio": "0.05",
    "--eval.every": "80",
    "--eval.episodes": "2",
    "--log.checkpoint-every": "40",
    "--runtime.threads": "1",
    "--runtime.mode": "eager",
}
FLAGS = ("--log.no-tensorboard", "--runtime.no-warmup", "--log.no-game")


@dataclass(frozen=True)
class Case:
    """One misbehavior."""

    deed: str
    moment: str
    count: int
    how: str  # sync, async, own
    command: str  # train, eval, watch, gif
    code: int = 1

    def __str__(self) -> str:
        return f"{self.command} {self.how}: {self.deed} at {self.moment} {self.count}"


class Nursery:
    """Runs commands in forked children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def run(self, arguments: list[str], variables: dict[str, str], patience: float = 60.0) -> tuple[int, str]:
        """The exit code and what was said on standard error; 98: it hung."""
        assert self.process.stdin is not None
        case = {
            "folder": str(self.folder),
            "arguments": arguments,
            "variables": variables,
            "path": str(HERE),
        }
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        child = int(self._read())
        until, hung = time.monotonic() + patience, False
        while not _has_ended(child):
            if time.monotonic() > until:
                hung = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                break
            time.sleep(0.02)
        code = int(self._read())
        self.orphans = find_orphans(child)
        for pid in self.orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        said = (self.folder / "stderr").read_text(errors="replace")
        return (98 if hung else code), said

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def _has_ended(pid: int) -> bool:
    """Whether a process is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def find_orphans(session: int) -> list[int]:
    """Processes that a case has left behind: those of its session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != session:
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[3]) == session and words[0] != "Z":
                found.append(int(entry.name))
    return found


def list_cases() -> Iterator[Case]:
    """Every deed at every moment where it makes sense."""
    import misbehaving as bad  # imports PyTorch

    for deed in bad.DEEDS:
        for how in ("sync", "async", "own"):
            for moment, count in (("step", 30), ("step", 1), ("reset", 2), ("make", 1), ("close", 1)):
                yield Case(deed, moment, count, how, "train")
        yield Case(deed, "import", 1, "sync", "train")
        yield Case(deed, "step", 3, "sync", "eval")
        yield Case(deed, "make", 1, "own", "eval")
        yield Case(deed, "step", 3, "sync", "watch")
        yield Case(deed, "render", 3, "sync", "gif")
    for deed in bad.HANGS:
        for moment in ("step", "reset", "make", "close"):
            for how in ("sync", "async", "own"):
                if how != "async" or "C" not in deed:
                    yield Case(deed, moment, 2 if moment == "step" else 1, how, "train")
        yield Case(deed, "step", 3, "sync", "eval")
    for deed in bad.DEATHS:
        for moment, count in (("step", 30), ("reset", 1), ("make", 1), ("close", 1)):
            yield Case(deed, moment, count, "async", "train")
    for deed in bad.ANSWERS:
        for how in ("sync", "async"):
            yield Case(deed, "step", 20, how, "train", 1)
        if not deed.startswith(("reward", "terminated", "truncated")):  # a reset does not return these
            yield Case(deed, "reset", 1, "sync", "train", 0 if deed in bad.FINE_RESETS else 1)
        yield Case(deed, "step", 2, "sync", "eval", 1)
    for deed in bad.GAME_ANSWERS:
        yield Case(deed, "step", 20, "own", "train")
    for deed in (*bad.HARMLESS, *bad.FINE_ANSWERS):
        for how in ("sync", "async", *(("own",) if deed in bad.HARMLESS else ())):
            yield Case(deed, "step", 20, how, "train", 0)
        if deed in bad.HARMLESS:
            yield Case(deed, "make", 1, "sync", "train", 0)


class Trials:
    """Runs cases, each with a folder of its own for its run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.nursery = folder, Nursery(folder)
        self.good: dict[str, Path] = {}  # runs to play with, by kind of environment

    def try_case(self, case: Case) -> str:
        """What is wrong with how a case ended; empty: nothing."""
        variables = {"MISBEHAVE": f"{case.deed},{case.moment},{case.count}"}
        if case.command != "train":
            run = self.good_run(case.how)
            more = {"eval": ["--episodes", "2"], "watch": ["--fps", "0"], "gif": ["--gif", "a.gif"]}[
                case.command
            ]
            command = "watch" if case.command == "gif" else case.command
            code, said = self.nursery.run([command, str(run), *more, "--trust"], variables)
            return judge_words(case, code, said) or self._orphans(case)
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        code, said = self.nursery.run(
            self.arguments(case.how, "out", "5" if case.code == 0 else "2"), variables
        )
        return judge_words(case, code, said) or judge_run(case, code, out) or self._orphans(case)

    def arguments(self, how: str, out: str, timeout: str) -> list[str]:
        """A tiny training."""
        settings = SETTINGS | {"--out": out, "--env.timeout": timeout}
        name = "misbehaving:MisbehavingGame" if how == "own" else "misbehaving:Misbehaving"
        if how != "own":
            settings["--env.vectorization"] = how
            settings |= {"--env.workers": "2"} if how == "async" else {}
        return ["train", name, *(word for pair in settings.items() for word in pair), *FLAGS]

    def good_run(self, how: str) -> Path:
        """A finished run of a well-behaved environment."""
        if how not in self.good:
            out = f"good-{how}"
            code, said = self.nursery.run(self.arguments(how, out, "3"), {"MISBEHAVE": "nothing,step,1"})
            assert code == 0, said
            (self.good[how],) = (self.folder / out).iterdir()
        return self.good[how]

    def _orphans(self, case: Case) -> str:
        left = self.nursery.orphans
        return f"{len(left)} processes are left" if left and case.deed != "fork" else ""


def judge_words(case: Case, code: int, said: str) -> str:
    """Whether the exit code and standard error are right."""
    last = said.strip()[-300:]
    if code != case.code:
        return f"exit code {code} instead of {case.code}: {last}"
    if "Traceback" in said:
        return f"a traceback: {last}"
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in said):
        return "control codes in the message"
    sentences = [line for line in said.splitlines() if line.startswith("flashdqn: ")]
    if code == 1 and (len(sentences) != 1 or len(said) > 2500):
        return f"{len(sentences)} sentences in {len(said)} characters: {last}"
    if code == 1 and "isbehaving" not in sentences[0]:
        return f"does not name the environment: {last}"
    return ""


def judge_run(case: Case, code: int, out: Path) -> str:
    """Whether the run was saved, if it had begun."""
    runs = list(out.iterdir()) if out.exists() else []
    if not runs:
        # One is made, reset and closed before the run begins: to know its spaces.
        early = case.moment != "step" or case.count == 1
        return "" if early and code else "no run folder"
    summary = runs[0] / "summary.json"
    if not summary.exists():
        return "no summary.json"
    told: dict[str, Any] = json.loads(summary.read_text())
    closed = case.moment == "close"
    if told.get("finished") is not (code == 0 or closed):
        return f"finished: {told.get('finished')}"
    if code == 1 and not closed and not told.get("stopped"):
        return "the summary does not say why"
    if not any((runs[0] / "checkpoints").glob("0*")):
        return "no checkpoint"
    return ""


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A sample of all cases, the same for the same effort."""
    sys.path.insert(0, str(HERE))
    cases = list(list_cases())
    random.Random(18).shuffle(cases)
    tallies: dict[str, Tally] = {}
    trials = Trials(folder)
    try:
        for case in share_cases(cases[: scale_count(len(cases), effort, least=6)]):
            kind = f"environments, {case.command if case.command == 'train' else 'play'}, {case.how}"
            wrong = trials.try_case(case)
            tallies.setdefault(kind, Tally(kind)).check(not wrong, f"{case}: {wrong}")
    finally:
        trials.nursery.close()
    return [tallies[kind] for kind in sorted(tallies)]


def main() -> None:
    """Try the cases whose description holds all given words."""
    import tempfile

    sys.path.insert(0, str(HERE))
    cases = [case for case in list_cases() if all(word in str(case) for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(Path(folder))
        for case in cases:
            start = time.perf_counter()
            wrong = trials.try_case(case)
            print(f"{time.perf_counter() - start:5.1f} s  {case}: {wrong or 'fine'}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main()
