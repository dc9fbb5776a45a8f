"""`flashdqn …` in a forked child of a warm process: PyTorch is imported once, and a command costs its work only."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fault_kinds.shim import Fault

#: Seconds after which a command counts as hanging.
LIMIT = 120.0
WORKERS = len(os.sched_getaffinity(0))
Case = TypeVar("Case")


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int  # below 0: the signal that ended it
    output: str
    hung: bool = False

    @property
    def killed(self) -> bool:
        """Whether the fault's own kill ended it."""
        return self.code == -signal.SIGKILL and not self.hung

    @property
    def crashed(self) -> bool:
        """Whether the user sees a traceback, a signal or nothing at all."""
        return self.hung or self.code < 0 or "Traceback (most recent call last)" in self.output

    @property
    def said(self) -> str:
        """The sentence of an error; empty if there was none."""
        lines = [line for line in self.output.splitlines() if line.startswith("flashdqn: ")]
        return lines[-1] if lines else ""

    def __str__(self) -> str:
        end = "hung" if self.hung else f"exit {self.code}"
        return f"{end}: {' | '.join(self.output.strip().splitlines()[-3:])[-300:]}"


@dataclass(frozen=True)
class Child:
    """A command that is running."""

    pid: int
    handle: int  # of the process
    output: int  # a file without a name

    def wait(self, limit: float = LIMIT) -> Outcome:
        """Wait until it ends; what hangs is killed."""
        hung = not select.select([self.handle], [], [], limit)[0]
        if hung:
            os.killpg(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        text = os.pread(self.output, 1 << 22, 0).decode("utf-8", errors="replace")
        os.close(self.handle)
        os.close(self.output)
        return Outcome(os.waitstatus_to_exitcode(status), text, hung)


def warm_up() -> None:
    """Import what commands need, compile the kernels of the tiny runs, and stay on one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
    os.environ["FLASHDQN_COMPILE"] = "always"  # what is compiled must not depend on what ran before
    os.environ.setdefault("MPLBACKEND", "agg")
    import gymnasium  # noqa: F401
    import torch
    import torch.utils.tensorboard
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: F401

    torch.set_num_threads(1)
    import flashdqn.agent.agent
    import flashdqn.api
    import flashdqn.cli.main  # noqa: F401
    from fault_kinds.tiny_runs import DEMONSTRATED, GYM, PLAIN

    for name in ("train", "eval", "report", "export", "watch"):
        __import__(f"flashdqn.cli.{name}")
    with tempfile.TemporaryDirectory() as folder:
        for flags in (PLAIN, DEMONSTRATED, GYM):
            outcome = run_command(["train", *flags, "--out", folder], inside=True)
            assert outcome.code == 0, outcome


def start_command(
    words: Sequence[str], fault: Fault | None = None, before: Callable[[], Any] | None = None
) -> Child:
    """Start `flashdqn …` in a child, which calls `before` first and then meets the fault."""
    return start_child(lambda: call_main(words), fault, before)


def start_child(
    work: Callable[[], int], fault: Fault | None = None, before: Callable[[], Any] | None = None
) -> Child:
    """Start any function in a child; what it returns is the exit code."""
    output = os.memfd_create("output")
    pid = os.fork()
    if pid == 0:
        run_in_child(work, output, fault, before)
    return Child(pid, os.pidfd_open(pid), output)


def run_command(
    words: Sequence[str],
    fault: Fault | None = None,
    before: Callable[[], Any] | None = None,
    limit: float = LIMIT,
    inside: bool = False,
) -> Outcome:
    """Run `flashdqn …` to its end, in a child, or (`inside`) in this process."""
    if not inside:
        return start_command(words, fault, before).wait(limit)
    saved, words_of_bench = sys.stdout, sys.argv
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        try:
            return Outcome(call_main(words), "")
        finally:
            sys.stdout, sys.argv = saved, words_of_bench


def call_main(words: Sequence[str]) -> int:
    """The command's exit code."""
    from flashdqn.cli.main import main

    sys.argv = ["flashdqn", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def run_in_child(
    work: Callable[[], int], output: int, fault: Fault | None, before: Callable[[], Any] | None
) -> None:
    """The child's whole life."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (1, 2):
            os.dup2(output, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
        if before is not None:
            before()
        if fault is not None:
            fault.arm()
        code = work()
    except BaseException:  # Python would print it and exit with 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_cases(cases: Sequence[Case], do: Callable[[Case, Path], Any], folder: Path) -> Iterator[Any]:
    """`do(case, folder of its own)` for all cases, in a forked worker for each core; yields what they return, in
    any order. What a worker did not come to is yielded as a text."""
    workers = [start_worker(cases[k::WORKERS], do, folder / f"worker-{k}") for k in range(WORKERS)]
    done, open_pipes = 0, {pipe: b"" for _, pipe in workers}
    while open_pipes:
        for pipe in select.select(list(open_pipes), [], [])[0]:
            data = os.read(pipe, 1 << 16)
            lines = (open_pipes[pipe] + data).split(b"\n")
            open_pipes[pipe] = lines.pop()
            for line in lines:
                done += 1
                yield json.loads(line)
            if not data:
                del open_pipes[pipe]
                os.close(pipe)
    for pid, _ in workers:
        os.waitpid(pid, 0)
    for _ in range(len(cases) - done):
        yield "the bench itself failed: see above"


def start_worker(cases: Sequence[Case], do: Callable[[Case, Path], Any], folder: Path) -> tuple[int, int]:
    """A forked process that does some of the cases, and the pipe with its answers."""
    import shutil

    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as answers:
            for case in cases:
                folder.mkdir(parents=True)
                answers.write(json.dumps(do(case, folder)) + "\n")
                answers.flush()
                shutil.rmtree(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for(condition: Callable[[], bool], limit: float = 60.0) -> bool:
    """Whether something came true in time."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True
