"""How far some work is: a bar on a terminal, a line every few seconds where nobody watches."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

#: Seconds between lines, where nobody watches.
EVERY = 5.0


class WorkProgress:
    """Shows a share from 0 to 1 and what is being done, from `with` on; in the end, a terminal's bar disappears."""

    def __init__(self, console: Console, words: str) -> None:
        self._console, self._last = console, time.perf_counter()
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(30),
            TaskProgressColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(words, total=1.0)
        if not console.is_terminal:
            self._say(words)

    def __enter__(self) -> WorkProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tell(self, share: float, words: str) -> None:
        """Show how much is done, and what is being done now."""
        self._bar.update(self._task, completed=min(1.0, max(0.0, share)), description=words)
        now = time.perf_counter()
        if not self._console.is_terminal and now - self._last >= EVERY:
            self._last = now
            self._say(f"{share:.0%} {words}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)
