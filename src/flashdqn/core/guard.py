"""Calls into an environment: whatever it raises becomes one `EnvError`, and a call that hangs is ended.

A thread looks twice a second at the calls that are going on. Time counts for a single call of the user's code, by
its frame on the stack: of a hundred environments that one call steps, each has the whole time. A call that takes
too long gets an exception: by a signal in the main thread, which also wakes it from sleeping or reading; by the
interpreter in other threads. Compiled code that never returns cannot be ended so: then the process is ended, if it
is ours to end.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any, TypeVar

from flashdqn.core.blame import PACKAGE, belongs_to_us, describe_failure, env_error, find_place, is_kind
from flashdqn.core.errors import CheckpointError, ConfigError, EnvHangError
from flashdqn.core.surroundings import (
    Surroundings,
    list_lost_handlers,
    open_closed_streams,
    read_torch_defaults,
    restore_handlers,
    restore_streams,
    restore_torch_defaults,
)

T = TypeVar("T")

#: Wakes the main thread. Not SIGALRM: an expired timer asks a training to save and end.
WAKE = signal.SIGURG
#: Seconds between two looks.
TICK = 0.5
#: After this many seconds a line says what is being waited for.
SAY_AFTER = 10.0
#: An environment that is being closed has at most this many seconds.
CLOSE_SECONDS = 10.0
#: Seconds in which a call must end after it got its exception.
GRACE = 5.0
#: While a compiler works, a call has this many times its seconds.
COMPILING = 5.0
COMPILERS = tuple(
    f"{os.sep}{name}{os.sep}" for name in ("numba", "llvmlite", "_dynamo", "_inductor", "triton")
)
DEBUGGERS = (f"{os.sep}bdb.py", f"{os.sep}pdb.py", f"{os.sep}debugpy{os.sep}", f"{os.sep}pydevd.py")
#: Frames that only pass a call on to several environments.
PASSING = f"{os.sep}gymnasium{os.sep}vector{os.sep}"

_log = logging.getLogger("flashdqn")


#: Calls in which an environment may well set signal handlers; in the others they are looked after by the watchdog.
RARE = ("import", "make", "reset")
FINDING = ("import", "make")


class StuckError(BaseException):
    """Raised inside a call that takes too long. Not an `Exception`: the user's code must not swallow it."""


class Guard:
    """Calls into one environment, one at a time."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.doing = ""  # the call that is going on; empty: none
        self.thread = 0
        self.calls = 0
        self.waited = 0.0  # seconds of the user's single call, counted by the watchdog
        self.seen: object = None  # what identifies that call
        self.strayed = False  # this process is a copy that the call has made of ours (`os.fork`)
        WATCHDOG.watch(self)

    def call(self, doing: str, function: Callable[..., T], *parts: Any, **named: Any) -> T:
        """Call the user's code."""
        self.thread = threading.get_ident()
        self.calls += 1
        self.doing = doing
        before = Surroundings() if doing in RARE else None
        defaults = read_torch_defaults() if doing == "step" else None
        try:
            return function(*parts, **named)
        except StuckError as error:
            raise self.complain_of_hang(doing, find_place(error.__traceback__)) from None
        except BaseException as error:
            if belongs_to_us(error) and not self.is_from_user(doing, error):
                raise
            raise env_error(self.name, doing, describe_failure(error)) from error
        finally:
            if self.strayed:
                os._exit(1)
            self.doing = ""
            if before is not None:
                before.restore()
            if defaults is not None and defaults != read_torch_defaults():
                restore_torch_defaults(defaults)
            if sys.stdout is None or sys.stderr is None:
                restore_streams()

    def is_from_user(self, doing: str, error: BaseException) -> bool:
        """Whether one of our errors is the environment's: its code may use flashdqn itself. While it is found and
        made, we check its settings."""
        return doing not in FINDING and is_kind(error, ConfigError, CheckpointError)

    def count(self, call: object, seconds: float) -> None:
        """Count the time of the user's single call; another call starts from 0."""
        self.waited = self.waited + seconds if call is not None and call == self.seen else 0.0
        self.seen = call

    @property
    def limit(self) -> float:
        """Seconds for the call that is going on."""
        return min(self.timeout, CLOSE_SECONDS) if self.doing == "close" else self.timeout

    def complain_of_hang(self, doing: str, where: str) -> EnvHangError:
        """The error for a call that takes too long."""
        limit = min(self.timeout, CLOSE_SECONDS) if doing == "close" else self.timeout
        advice = "" if doing == "close" else ", or needs longer: then raise --env.timeout"
        return EnvHangError(
            f"{self.name} has not answered for {limit:g} s (`{doing}`, in {where}). It hangs{advice}."
        )


class Watchdog:
    """One thread for all guards of a process."""

    def __init__(self) -> None:
        self.guards: weakref.WeakSet[Guard] = weakref.WeakSet()
        self.wake = threading.Event()
        self.thread: threading.Thread | None = None
        self.accused: Guard | None = None  # whose call gets the exception
        self.may_end_process = False
        self.last_words: list[Callable[[str], object]] = []

    def allow_end(self, may_end_process: bool, last_words: list[Callable[[str], object]]) -> None:
        """Whether the process may be ended, and what is called before."""
        self.may_end_process, self.last_words = may_end_process, last_words

    def watch(self, guard: Guard) -> None:
        """Look after a guard's calls from now on."""
        self.guards.add(guard)
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self._run, name="flashdqn watchdog", daemon=True)
            self.thread.start()
        if threading.current_thread() is threading.main_thread():
            with suppress(ValueError, OSError):
                if signal.getsignal(WAKE) is signal.SIG_DFL:
                    signal.signal(WAKE, self._on_wake)

    def _run(self) -> None:
        while len(self.guards):
            self.wake.wait(TICK)
            for guard in list(self.guards):
                self.look(guard)
            open_closed_streams()
            if list_lost_handlers() and _handles_wake(self):
                signal.pthread_kill(threading.main_thread().ident or 0, WAKE)

    def look(self, guard: Guard) -> None:
        """Count the time of a guard's call, and end it when its time is over."""
        if not guard.doing:
            guard.count(None, 0.0)
            return
        call, place, compiling, debugging = read_stack(guard)
        guard.count(call, 0.0 if debugging else TICK / COMPILING if compiling else TICK)
        if guard.waited >= SAY_AFTER > guard.waited - TICK and guard.limit > SAY_AFTER:
            _log.warning("Waiting for %s since %g s (`%s`, in %s)", guard.name, SAY_AFTER, guard.doing, place)
        if guard.waited >= guard.limit + GRACE:
            self.give_up(guard, place)
        elif guard.waited >= guard.limit:
            self.end_call(guard)

    def end_call(self, guard: Guard) -> None:
        """Raise `StuckError` inside a guard's call."""
        self.accused = guard
        if guard.thread == threading.main_thread().ident and _handles_wake(self):
            signal.pthread_kill(guard.thread, WAKE)
        else:
            kind = ctypes.py_object(StuckError)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(guard.thread), kind)

    def give_up(self, guard: Guard, place: str) -> None:
        """End the process, because nothing else ends the call."""
        guard.count(None, 0.0)
        reason = str(guard.complain_of_hang(guard.doing, place))
        if not self.may_end_process:
            _log.warning("%s It cannot be interrupted", reason)
            return
        for write in self.last_words:
            with suppress(BaseException):
                reason = str(write(reason) or reason)
        import multiprocessing  # only here: it is slow to import

        for child in multiprocessing.active_children():
            child.kill()
        with suppress(OSError):
            os.write(2, f"flashdqn: {reason}\n".encode(errors="replace"))
        os._exit(1)

    def _on_wake(self, number: int, frame: FrameType | None) -> None:
        restore_handlers()
        guard, self.accused = self.accused, None
        if guard is not None and guard.doing and guard.waited >= guard.limit:
            raise StuckError


def read_stack(guard: Guard) -> tuple[object, str, bool, bool]:
    """What identifies the user's call, where it is, and whether a compiler or a debugger is at work in it."""
    frames: list[FrameType] = []
    frame = sys._current_frames().get(guard.thread)
    while frame is not None and frame.f_code is not GUARDED:
        frames.append(frame)
        frame = frame.f_back
    if frame is None:
        return None, "", False, False
    own = [f for f in reversed(frames) if not f.f_code.co_filename.startswith(PACKAGE)]
    own = [f for f in own if PASSING not in f.f_code.co_filename] or own
    files = [f.f_code.co_filename for f in frames]
    place = f"{own[-1].f_code.co_filename}, line {own[-1].f_lineno}" if own else "compiled code"
    call = own[0] if own else (guard, guard.calls)
    return (
        call,
        place,
        any(word in file for file in files for word in COMPILERS),
        any(word in file for file in files for word in DEBUGGERS),
    )


def _handles_wake(watchdog: Watchdog) -> bool:
    return signal.getsignal(WAKE) == watchdog._on_wake


@contextmanager
def end_stuck_process(last_words: Callable[[str], object] | None = None) -> Iterator[None]:
    """Allow to end this process, exit code 1, if an environment hangs in compiled code; a function may save before.

    It gets the reason, and may return a longer one.
    """
    watchdog = WATCHDOG
    before, words = watchdog.may_end_process, watchdog.last_words
    watchdog.allow_end(before or last_words is None, words if last_words is None else [last_words])
    try:
        yield
    finally:
        watchdog.allow_end(before, words)


def _start_again_in_child() -> None:
    """A forked process has no watchdog's thread; its own guards start one. A call that forks may return in both
    processes: the copy must not go on with the training."""
    global WATCHDOG
    for guard in list(WATCHDOG.guards):
        guard.strayed = bool(guard.doing) and guard.thread == threading.get_ident()
    WATCHDOG = Watchdog()
    if signal.getsignal(WAKE).__class__ is type(WATCHDOG._on_wake):
        with suppress(ValueError, OSError):
            signal.signal(WAKE, signal.SIG_DFL)


WATCHDOG = Watchdog()
GUARDED: CodeType = Guard.call.__code__
os.register_at_fork(after_in_child=_start_again_in_child)
