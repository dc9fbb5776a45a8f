"""Signals that ask a program to end: Ctrl-C, a scheduler's warning, a terminal that is gone.

Two ways to answer them. At first every signal ends the work at once, by `Stopped`. A training that has begun says
`waits = True`: then the first signal only sets `requested`, and the training saves and leaves by itself.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from flashdqn.core.blame import came_from_signal

#: What a terminal, a user or a scheduler sends to end a program, or to warn it that its time is up. Those that a
#: system does not have are left out.
STOP_SIGNALS: tuple[signal.Signals, ...] = tuple(
    getattr(signal, f"SIG{name}")
    for name in ("INT", "TERM", "HUP", "QUIT", "XCPU", "USR1", "USR2", "PWR", "ALRM", "VTALRM", "PROF")
    if hasattr(signal, f"SIG{name}")
)
#: The exit code after Ctrl-C, and after any other signal: EX_TEMPFAIL, "try again".
CTRL_C_CODE, TRY_AGAIN_CODE = 130, 75

#: Seconds in which a repeated Ctrl-C, or another repeated signal, is the same one: `timeout` and schedulers send it
#: to the process and to its group.
CTRL_C_ECHO, ECHO = 0.1, 1.0
#: A program that has swallowed this many requests to end is ended without another.
PATIENCE = 3
#: Seconds of processor time that are kept for saving, where they are limited; of a long limit, a twentieth,
#: and of a short one, half.
SAVE_SECONDS = 10


class Stopped(KeyboardInterrupt):
    """A signal ends the work at once."""

    def __init__(self, number: int, message: str = "Stopped.") -> None:
        super().__init__(message)
        self.signal = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        """The exit code of the program."""
        return find_exit_code(self.signal)


class StopRequestedError(Exception):
    """The work was left because a signal asks to end: there is something to save."""


def find_exit_code(number: int) -> int:
    """130 after Ctrl-C, as shells expect; 75 after any other signal."""
    return CTRL_C_CODE if number == signal.SIGINT else TRY_AGAIN_CODE


def name_signal(number: int) -> str:
    """A signal as a user knows it."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


class Interrupt:
    """A context in which signals are answered; in another thread than the main one it answers none.

    While it waits, a second Ctrl-C still ends the work at once, and so does any other signal that comes again
    after a while, because the work may hang; but a save that is in progress is completed.
    """

    def __init__(self, waits: bool = False) -> None:
        self.waits = waits
        self.saving = False
        self.signal: signal.Signals | None = None  # the first one
        self._when = 0.0
        self._raised = 0
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has asked to end."""
        return self.signal is not None

    @property
    def is_open(self) -> bool:
        """Whether signals are answered here."""
        return bool(self._previous)

    @property
    def ended_at_once(self) -> bool:
        """Whether `Stopped` was raised, which somebody may have caught."""
        return self._raised > 0

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for name in STOP_SIGNALS:
                if may_take_over(name, before := signal.getsignal(name)):
                    self._previous[name] = before
                    signal.signal(name, self._handle)
            self._take_lost_request()
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._previous.items():
            if signal.getsignal(name) == self._handle:  # else somebody has set another one, which stays
                signal.signal(name, handler)
        self._previous.clear()

    def adopt(self, number: int) -> None:
        """Take over a signal that another rank of this training has got."""
        if self.signal is None:
            self.signal, self._when = signal.Signals(number), time.monotonic()

    def stop_if_requested(self) -> None:
        """End the work at once if a signal came and its `Stopped` was swallowed on the way."""
        if self.signal is not None:
            raise Stopped(self.signal)

    def _take_lost_request(self) -> None:
        """Take over a signal whose `Stopped` was swallowed by a library before this context began."""
        for handler in self._previous.values():
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, Interrupt) and outer.signal is not None and self.signal is None:
                self.signal, self._when = outer.signal, outer._when

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._when = signal.Signals(number), now
            if self.waits:
                return
        elif self._is_echo(number, now):
            return
        self._raised += 1
        if self._raised > PATIENCE:
            os._exit(find_exit_code(number))
        raise Stopped(number)

    def _is_echo(self, number: int, now: float) -> bool:
        if number == signal.SIGINT:
            return now - self._when < CTRL_C_ECHO
        repeats = number == getattr(signal, "SIGXCPU", None)  # the system sends it every second
        return repeats or self.saving or now - self._when < ECHO


def may_take_over(name: signal.Signals, handler: Any) -> bool:
    """Whether a signal's handler may be replaced. One that is ignored stays so (`nohup`), and one that somebody has
    set stays too; but Ctrl-C and SIGTERM are always answered."""
    if name in (signal.SIGINT, signal.SIGTERM):
        return True
    return handler == signal.SIG_DFL or isinstance(getattr(handler, "__self__", None), Interrupt)


def runs_as_command() -> bool:
    """Whether this process is the command `flashdqn`, and not a script that imports the package."""
    # Not sys.argv: an environment may empty it, and a test may pretend.
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script or "").name == "flashdqn" or ("-m", "flashdqn") in itertools.pairwise(sys.orig_argv)


def ignore_stop_signals() -> None:
    """For a process whose end is near, and for a worker: there, signals are for the trainer, which saves and then
    ends its workers."""
    for name in STOP_SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def leave_time_to_save() -> None:
    """Have SIGXCPU come before the system kills this process: `ulimit -t` sets both limits to the same second."""
    try:
        import resource  # not on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft == hard != resource.RLIM_INFINITY:
        kept = min(hard // 2, max(SAVE_SECONDS, hard // 20))
        resource.setrlimit(resource.RLIMIT_CPU, (hard - kept, hard))


@contextmanager
def hold_stop_signals() -> Iterator[None]:
    """Signals wait until the block is over. A process that is started in it begins with them held, until it calls
    `ignore_stop_signals`."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def send_swallowed_stops_again() -> Iterator[None]:
    """A `Stopped` that comes up where Python cannot raise it, such as in a compiler's callback or a destructor, is
    not printed but sent again a moment later."""
    hook = sys.unraisablehook

    def answer(found: Any) -> None:
        stop = found.exc_value
        if not isinstance(stop, KeyboardInterrupt) or not came_from_signal(stop):  # an environment's own
            hook(found)
            return
        number = stop.signal if isinstance(stop, Stopped) else signal.SIGINT
        again = threading.Timer(1.5 * (CTRL_C_ECHO if number == signal.SIGINT else ECHO), send, [number])
        again.daemon = True
        again.start()

    def send(number: int) -> None:
        if sys.unraisablehook is answer:
            signal.raise_signal(number)

    sys.unraisablehook = answer
    try:
        yield
    finally:
        sys.unraisablehook = hook
