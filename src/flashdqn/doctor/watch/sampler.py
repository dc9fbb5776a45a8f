"""Where the time goes: about a hundred times a second, the script's own thread looks at what it is doing.

A timer's signal asks for each look. Python handles it between two instructions of the script, right after
whatever call it is in, so the look sees the line that took the time. (A thread that looks from outside would have
to wait for the interpreter's lock, and would see only the places where the script releases it.) Each look counts
for the time since the last one, so a long call is not lost.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from time import perf_counter, thread_time
from types import CodeType, FrameType, ModuleType
from typing import Any

from . import counters as tally
from .frames import describe_frame, is_plumbing
from .rows import Frame
from .segments import find_lines, find_lines_before_call, is_at_start

DEPTH = 100
set_handler, set_timer = signal.signal, signal.setitimer  # the originals, before anything replaces them
Stack = tuple[tuple[CodeType, int, int], ...]


class Looks:
    """A thread's looks at its own stack."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.stacks: list[Stack] = []
        self.numbers: dict[tuple[int, ...], int] = {}
        """The number of the stack with these codes and lines, by their identities."""
        self.by_instruction: dict[tuple[int, ...], int] = {}
        """The same by instruction, which a look can read at once."""
        self.samples: dict[int, float] = {}
        """Seconds by stack since the last window was closed."""
        self.number = 0
        self.seconds = 0.0
        self.over = False
        self.gave_way = False
        """Whether the script uses the alarm itself."""
        self.errand: Callable[[FrameType | None], None] | None = None
        """Something to do on the script's thread, at the next look."""
        self._last = perf_counter()
        self._random = random.Random(0)  # never the script's own

    def start(self) -> None:
        """Take the timer, and ask for the first look."""
        set_handler(signal.SIGALRM, self.look)
        signal.siginterrupt(signal.SIGALRM, False)  # system calls are not interrupted
        self._last = perf_counter()
        self._ask()

    def _ask(self) -> None:
        # Once, after a random time: a loop in step with a regular timer would show one line only.
        set_timer(signal.ITIMER_REAL, self.interval * (0.5 + self._random.random()))

    def look(self, _: int, frame: FrameType | None) -> None:
        """Handle the timer's signal."""
        self.see(frame)
        errand, self.errand = self.errand, None
        if errand is not None:
            errand(frame)
            self._last = perf_counter()  # the errand's time is not the script's
        if not self.over:
            self._ask()

    def see(self, frame: FrameType | None) -> None:
        """Add the time since the last look to the stack that is running now."""
        start, now = thread_time(), perf_counter()
        busy = tally.busy_thread[0]
        if busy and busy != threading.get_ident():
            frame = sys._current_frames().get(busy, frame)
        seen = read_instructions(frame)
        number = self.by_instruction.get(seen, -1)
        if number < 0:
            number = self.by_instruction[seen] = self.number_of(read_stack(frame))
        samples = self.samples
        samples[number] = samples.get(number, 0.0) + now - self._last
        self._last = now
        self.number += 1
        self.seconds += thread_time() - start

    def number_of(self, stack: Stack) -> int:
        """A stack's number; a new stack gets the next one."""
        key = tuple(part for code, line, since in stack for part in (id(code), line, since))
        number = self.numbers.setdefault(key, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(stack)  # keeps the codes too, so that their ids are not used again
        return number

    def stop(self) -> None:
        """Stop looking. A timer that the script has taken over is left alone."""
        self.over = True
        if not self.gave_way:
            set_timer(signal.ITIMER_REAL, 0.0)

    def give_way(self) -> None:
        """Give the alarm back as if the watch had never used it."""
        if not self.gave_way:
            self.stop()
            set_handler(signal.SIGALRM, signal.SIG_DFL)
            self.gave_way = True

    def describe(self) -> tuple[tuple[Frame, ...], tuple[tuple[int, ...], ...]]:
        """Frames, each once, and the stacks as the numbers of their frames, outermost first."""
        numbers: dict[tuple[int, int, int], int] = {}
        frames: list[Frame] = []
        stacks: list[tuple[int, ...]] = []
        for stack in list(self.stacks):
            for code, line, since in stack:
                if numbers.setdefault((id(code), line, since), len(frames)) == len(frames):
                    frames.append(describe_frame(code, line, since))
            stacks.append(tuple(numbers[id(code), line, since] for code, line, since in reversed(stack)))
        return tuple(frames), tuple(stacks)


def read_instructions(frame: FrameType | None) -> tuple[int, ...]:
    """The code's id and the instruction of each frame, innermost first. Hashing the code itself, or looking up its
    line, would take many times longer."""
    found: list[int] = []
    while frame is not None and len(found) < 2 * DEPTH:
        found.append(id(frame.f_code))
        found.append(frame.f_lasti)
        frame = frame.f_back
    return tuple(found)


def read_stack(frame: FrameType | None) -> Stack:
    """Code, line and first possible line of each frame, innermost first. Only the innermost one may be a range: the
    others are inside a call."""
    stack: list[tuple[CodeType, int, int]] = []
    entered = frame
    if (
        frame is not None
        and frame.f_back is not None
        and not is_plumbing(frame.f_back.f_code.co_filename)
        and is_at_start(frame.f_code, frame.f_lasti)
    ):
        before = find_lines_before_call(frame.f_back.f_code, frame.f_back.f_lasti)
        if before is not None:
            entered = frame.f_back  # nothing of the called function has run yet
            stack.append((entered.f_code, before[1], before[0]))
            entered = entered.f_back
    frame = entered
    while frame is not None and len(stack) < DEPTH:
        line = frame.f_lineno or find_line_before(frame.f_code, frame.f_lasti)
        since = line
        if not stack and not is_plumbing(frame.f_code.co_filename):
            since, line = find_lines(frame.f_code, frame.f_lasti, line)
        stack.append((frame.f_code, line, since))
        frame = frame.f_back
    return tuple(stack)


def find_line_before(code: CodeType, instruction: int) -> int:
    """The line of the nearest earlier instruction that has one: jumps at the end of a loop have none."""
    line = code.co_firstlineno
    for start, _, number in code.co_lines() if hasattr(code, "co_lines") else ():  # from Python 3.10 on
        if start > instruction:
            break
        line = number or line
    return line


def call_before_function(action: Callable[[], None], module: ModuleType, name: str, *wanted: int) -> None:
    """Do an action before a function of a module is called: with one of the `wanted` numbers, or with any."""
    original = getattr(module, name)

    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if not wanted or args[:1] in [(number,) for number in wanted]:
            action()
        return original(*args, **kwargs)

    setattr(module, name, stand_in)


current: list[Looks] = []
"""The looks of this process; a forked one has its own."""


def yield_alarm_to_script(looks: Looks) -> None:
    """Give the alarm to a script that uses it, and stop it for a script that becomes another program."""
    current[:] = [looks]

    def give_way() -> None:
        current[0].give_way()

    call_before_function(give_way, signal, "signal", signal.SIGALRM)
    call_before_function(give_way, signal, "setitimer", signal.ITIMER_REAL)
    call_before_function(give_way, signal, "alarm")
    call_before_function(give_way, os, "execv")
    call_before_function(give_way, os, "execve")
