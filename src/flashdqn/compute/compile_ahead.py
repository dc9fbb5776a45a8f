"""Compile in another process what will be needed later: Numba's compiler uses only one core of a process.

The helper puts the code into the cache (`kernel_cache`), where this process finds it when it comes to that kernel.
If the helper is still at work then, its lock on the kernel makes this process wait. So the helper only saves time:
nothing depends on it, and whatever happens to it, this process compiles the kernel itself.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from flashdqn.compute.cache_folder import find_cache_folder
from flashdqn.compute.compilation import get_log, list_compiled, note_elsewhere, report_waiting
from flashdqn.compute.core_count import cores

#: What a helper compiles for `networks/fused`.
FUSED_LAYERS = "fused layers"

#: How many seconds to wait for a helper.
LONGEST = 120.0

#: How the helper starts. It looks for modules where this process does, and never in the working folder by itself.
START = "import sys; sys.path[:] = sys.argv[2:]; from flashdqn.compute.compile_ahead import serve; serve()"


@dataclass(frozen=True)
class KernelJob:
    """A function for `native.compile_for_types`, and the types of its arguments."""

    function: Callable[..., Any]
    #: such as ("int64", 2), an array with two axes, or ("float64", 0), a number
    types: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The kernel's name in the cache."""
        return self.plain.__name__

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that it compiles."""
        return (self.name,)

    @property
    def plain(self) -> Callable[..., Any]:
        """The Python function."""
        plain: Callable[..., Any] = getattr(self.function, "py_func", self.function)
        return plain

    def to_json(self) -> dict[str, Any]:
        """Data that the helper understands."""
        return {"module": self.plain.__module__, "name": self.name, "types": self.types}


@dataclass(frozen=True)
class CallJob:
    """A function of a module that compiles some kernels, and its arguments."""

    module: str
    function: str
    arguments: dict[str, Any]
    kernels: tuple[str, ...]
    #: whether this process must wait for the helper's end before it needs them: there is no lock that says so
    wait: bool = False

    def to_json(self) -> dict[str, Any]:
        """Data that the helper understands."""
        return {"module": self.module, "name": self.function, "arguments": self.arguments}


Job = KernelJob | CallJob
J = TypeVar("J", KernelJob, CallJob, Job)

#: A helper that was started before anybody knew what it has to do, and one that was started with its work.
_early: list[Helper] = []
_working: list[Helper] = []
#: Helpers to wait for, by what they compile.
_awaited: dict[str, Helper] = {}


class Helper:
    """A process that compiles."""

    def __init__(self, module: str | None = None) -> None:
        """Start it; it loads a module first. Raises OSError if it cannot be started."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("there is no Python to start: the program that runs here is another")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, module or "", *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def send(self, jobs: Sequence[Job]) -> None:
        """Say what to compile; once."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended
            self._process.stdin.write(json.dumps([job.to_json() for job in jobs]).encode() + b"\n")
            self._process.stdin.flush()
            for job in jobs:
                for kernel in job.kernels:
                    note_elsewhere(kernel)
                if isinstance(job, CallJob) and job.wait:
                    _awaited.update(dict.fromkeys(job.kernels, self))

    def wait(self) -> None:
        """Wait until it has ended, but not for ever: it may hang."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LONGEST)

    def stop(self) -> None:
        """End it, whether or not it is done: its work is not needed any more."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.kill()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def start_early(module: str, kernel: str) -> None:
    """Start a helper before its work is known, so that it loads PyTorch at the same time as this process does: if
    this kernel is not on disk, and there is a core for it. `module` is where the kernels are."""
    if _early or cores() < 2 or find_cache_folder() is None or kernel in list_compiled():
        return
    with suppress(OSError):
        _early.append(Helper(module))


def compile_early(jobs: Sequence[CallJob]) -> None:
    """Start a helper for each job that is not done, while there are cores, before this process loads PyTorch."""
    for job in find_missing(jobs)[: cores() - 1 - len(_working)]:
        with suppress(OSError):
            _working.append(Helper(job.module))
            _working[-1].send([job])


def is_compiled_elsewhere(name: str) -> bool:
    """Whether there is a helper to wait for before this is compiled."""
    return name in _awaited


def wait_for(name: str) -> None:
    """Wait until the helper that compiles this has ended, if there is one."""
    if (helper := _awaited.pop(name, None)) is not None:
        with report_waiting(name):
            helper.wait()


def stop_awaited() -> None:
    """Wait for no helper any more: what they compile is not found."""
    for helper in set(_awaited.values()):
        helper.stop()
    _awaited.clear()


def find_missing(jobs: Sequence[J]) -> list[J]:
    """The jobs with kernels that are neither on disk nor being compiled elsewhere."""
    if find_cache_folder() is None:
        return []
    there = list_compiled() | set(get_log().elsewhere)
    return [job for job in jobs if not there.issuperset(job.kernels)]


@contextmanager
def compile_ahead(jobs: Sequence[Job], helpers: int) -> Iterator[None]:
    """Within it, up to `helpers` processes compile the jobs that are not on disk."""
    missing = find_missing(jobs)
    count = min(helpers, len(missing))
    started: list[Helper] = []
    try:
        for k in range(count):
            with suppress(OSError):
                started.append(_early.pop() if _early else Helper())
                started[-1].send(missing[k::count])
        yield
    finally:
        for helper in (*started, *_early, *_working):
            helper.stop()
        _working.clear()
        _awaited.clear()
        _early.clear()


def serve() -> None:
    """The helper: compile what the first line of standard input says. It ends when the input does, because the
    process that started it has ended then."""
    if module := sys.argv[1]:
        importlib.import_module(module)
    wanted = json.loads(sys.stdin.readline() or "[]")
    threading.Thread(target=end_with_input, daemon=True).start()
    for job in wanted:
        function = getattr(importlib.import_module(job["module"]), job["name"])
        if "arguments" in job:
            function(**job["arguments"])
        else:
            from flashdqn.compute.native import compile_for_types

            compile_for_types(function, [(str(name), int(axes)) for name, axes in job["types"]])


def end_with_input() -> None:
    """End this process at the end of its input."""
    sys.stdin.read()
    os._exit(0)
