"""What is being compiled: for a display and its estimate, and for a training that is too short to wait for it.

Compiling a kernel takes seconds, and happens once: `kernel_cache` keeps the code. It reports here whether code was
found on disk. How long each kernel took is remembered in the cache folder, because the next version of the same
kernel takes about as long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from flashdqn.compute.cache_folder import find_cache_folder
from flashdqn.core.errors import ExecutionError
from flashdqn.core.files import read_json_object, write_signed_json

#: The file in the cache folder with the seconds that each kernel took.
TIMES_FILE = "compile-times.json"
#: Kernels to remember.
MOST_TIMES = 200
#: A longer time is damage: the sum of many would be infinite.
MOST_SECONDS = 1e6

#: Ends the name of a kernel that is compiled for CUDA.
CUDA_MARK = "_cuda"

#: Seconds on one quiet core of 2026, where nothing is remembered; other kernels take about `USUAL_SECONDS`.
FIRST_GUESSES = {
    "play_vector": 4.5,
    "play_grid": 3.5,
    "record_step": 0.7,
    "pick_batch": 0.8,
    "run_policy": 1.6,
    "run_updates": 3.5,
    "run_updates_by_halves": 4.5,
    "run_scalar_policy": 1.5,
    "run_scalar_updates": 6.5,
    "run_categorical_policy": 1.5,
    "run_categorical_updates": 6.5,
    "run_quantile_policy": 1.5,
    "run_quantile_updates": 6.5,
    "adam_step": 0.2,
}
USUAL_SECONDS = 3.0
#: Seconds until a helper process begins to compile.
HELPER_START = 2.5
#: Kernels that take less are always compiled.
CHEAP = 0.5


class NotCompiledError(ExecutionError):
    """The code is not on disk, and must not be compiled now."""


@dataclass
class CompilationLog:
    """What a start of a training has compiled so far. One thread writes, a display reads."""

    #: what happens now, in a few words
    doing: str = ""
    #: the kernel that is being compiled, and since when
    current: str | None = None
    started: float = 0.0
    #: seconds by kernel, of those that are done
    done: dict[str, float] = field(default_factory=dict)
    #: kernels that are probably still to come
    expected: list[str] = field(default_factory=list)
    #: kernels that another process compiles, and since when
    elsewhere: dict[str, float] = field(default_factory=dict)
    #: kernels that were not on disk, while `refuse_compilation` was in effect
    refused: list[str] = field(default_factory=list)
    #: what the display and the choice count with, read once
    times: dict[str, float] = field(default_factory=dict)
    #: when it began, by the clock and in this process's own time
    begun: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))

    def begin_stage(self, text: str) -> None:
        """Say what happens now."""
        self.doing = text

    @property
    def number(self) -> int:
        """The number of the kernel that is being compiled."""
        return len(self.done) + 1

    @property
    def total(self) -> int:
        """How many kernels will have been compiled."""
        return len(self.done) + len(self.expected) + (self.current is not None)

    def guess_seconds(self, kernel: str) -> float:
        """How long a kernel will take: as the last time, or a first guess."""
        return self.times.get(kernel, FIRST_GUESSES.get(kernel, USUAL_SECONDS))

    def measure_busyness(self, now: float) -> float:
        """How much longer everything takes because other programs use the processor: 1 on a quiet machine."""
        worked = time.process_time() - self.begun[1]
        return max(1.0, (now - self.begun[0]) / worked) if worked > 0.5 else 1.0

    def estimate(self, now: float) -> tuple[float, float]:
        """Seconds that compiling has taken so far, and those that it will still take."""
        spent = sum(self.done.values())
        guessed = sum(map(self.guess_seconds, self.done))
        pace = spent / guessed if guessed > 1.0 else self.measure_busyness(now)
        here = [kernel for kernel in list(self.expected) if kernel not in self.elsewhere]
        left = pace * sum(map(self.guess_seconds, here))
        if (kernel := self.current) is not None:
            running = now - self.started
            spent += running
            since = now - min(self.started, self.elsewhere.get(kernel, self.started))
            left += max(pace * self.guess_seconds(kernel) - since, 0.1 * running)
        for kernel, since in list(self.elsewhere.items()):
            if kernel in self.expected:  # it is done at the same time as what is compiled here
                left = max(left, HELPER_START + pace * self.guess_seconds(kernel) - (now - since))
        return spent, left


_log = CompilationLog()
_refusing = False


def get_log() -> CompilationLog:
    """The log of this process."""
    return _log


def restart_log() -> CompilationLog:
    """Begin a new log: another training starts."""
    global _log
    _log = CompilationLog(times=read_times())
    return _log


def report_stage(text: str) -> None:
    """Say what happens now."""
    _log.begin_stage(text)


def expect_kernels(kernels: Iterable[str]) -> None:
    """Say which kernels will probably be needed; those with code on disk are left out."""
    there = list_compiled()
    _log.expected = [kernel for kernel in kernels if kernel not in there and kernel not in _log.done]


def list_compiled() -> set[str]:
    """The kernels that have some code on disk, for one kind of arguments at least."""
    if (folder := find_cache_folder()) is None:
        return set()
    names = (path.name for path in folder.glob("flashdqn_kernel_*.kernel"))
    return {find_kernel(name) for name in names}


def find_kernel(name: str) -> str:
    """The function's name in the name of a driver or of its file: flashdqn_kernel_FUNCTION_DIGEST…"""
    return name.removeprefix("flashdqn_kernel_").split(".")[0].rpartition("_")[0]


def note_elsewhere(kernel: str) -> None:
    """Another process has begun to compile a kernel."""
    _log.elsewhere[kernel] = time.perf_counter()


@contextmanager
def report_waiting(kernel: str) -> Iterator[None]:
    """Show that another process compiles a kernel, while this one waits for it."""
    _log.expected = [other for other in _log.expected if other != kernel]
    _log.started, _log.current = time.perf_counter(), kernel
    try:
        yield
    finally:
        _log.done[kernel] = time.perf_counter() - _log.started
        _log.current = None


def begin_compilation(name: str) -> None:
    """A driver's code is not on disk, and will be compiled now; NotCompiledError if that is refused."""
    kernel = find_kernel(name)
    if _refusing and FIRST_GUESSES.get(kernel, USUAL_SECONDS) > CHEAP:
        _log.refused.append(kernel)
        raise NotCompiledError(f"{kernel} is not compiled yet")
    _log.expected = [other for other in _log.expected if other != kernel]
    _log.started, _log.current = time.perf_counter(), kernel


def end_compilation(name: str) -> None:
    """A driver has been compiled."""
    kernel = find_kernel(name)
    if _log.current != kernel:
        return
    _log.done[kernel] = time.perf_counter() - _log.started
    _log.current = None
    remember_time(kernel, _log.done[kernel])


@contextmanager
def refuse_compilation() -> Iterator[list[str]]:
    """Within it only code that is on disk is used, except for cheap kernels; the list will hold those that are
    missing."""
    global _refusing
    before, _refusing, _log.refused = _refusing, True, []
    try:
        yield _log.refused
    finally:
        _refusing = before


def read_times() -> dict[str, float]:
    """The remembered seconds by kernel; empty if there are none."""
    if (folder := find_cache_folder()) is None:
        return {}
    try:
        known = {name: float(seconds) for name, seconds in read_json_object(folder / TIMES_FILE).items()}
    except (OSError, ValueError, TypeError, OverflowError):
        return {}
    return known if all(0 <= seconds <= MOST_SECONDS for seconds in known.values()) else {}


def remember_time(kernel: str, seconds: float) -> None:
    """Note how long a kernel took; a cache that cannot be written does without."""
    if (folder := find_cache_folder()) is None:
        return
    known = read_times()
    known.pop(kernel, None)
    known[kernel] = round(seconds, 2)
    with suppress(OSError):
        write_signed_json(folder / TIMES_FILE, dict(list(known.items())[-MOST_TIMES:]), mode=0o600)
