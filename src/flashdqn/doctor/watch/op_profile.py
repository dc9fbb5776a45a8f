"""The deep mode: every operation of torch, counted and timed by the line that called it.

It costs several microseconds per operation, which slows small networks, and ends where torch.compile begins.
"""

from __future__ import annotations

import sys
from time import perf_counter
from types import CodeType, ModuleType
from typing import Any

from .frames import get_qualified_name, locate_script_line
from .rows import OperationUse
from .sampler import call_before_function


class Operations:
    """How often operations ran, and how long, by line and name."""

    def __init__(self) -> None:
        self.counts: dict[tuple[CodeType, int, str], list[float]] = {}
        self.own_seconds = 0.0
        self.over = False

    def start(self, torch: ModuleType) -> None:
        """Start to count, when torch is imported and on the thread that imported it."""
        operations = self

        class Counting(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined,misc]
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                start = perf_counter()
                result = func(*args, **(kwargs or {}))
                if not operations.over:
                    operations.note(getattr(func, "__name__", "?"), start, perf_counter())
                return result

        mode = Counting()
        mode.__enter__()  # not left in the end: the script may be inside its own modes by then

        def leave() -> None:
            if torch.overrides._get_current_function_mode() is mode:
                mode.__exit__(None, None, None)
            operations.stop()

        call_before_function(leave, torch, "compile")  # compiled code must not contain this mode

    def note(self, name: str, start: float, end: float) -> None:
        """Count one operation."""
        place = locate_script_line(sys._getframe(2))
        if place is not None:
            entry = self.counts.setdefault((*place, name), [0, 0.0])
            entry[0] += 1
            entry[1] += end - start
        self.own_seconds += perf_counter() - end

    def stop(self) -> None:
        """Stop counting."""
        self.over = True

    def describe(self) -> tuple[OperationUse, ...]:
        """The operations, the most expensive first."""
        rows = [
            OperationUse(code.co_filename, line, get_qualified_name(code), name, int(count), seconds)
            for (code, line, name), (count, seconds) in list(self.counts.items())
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds)[:500])
