"""What the user sees before the clock starts: a bar for people, lines for files.

Importing PyTorch takes seconds, and compiling the first time several more. A thread draws, because the work itself
cannot say anything meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table

from flashdqn.compute.compilation import CompilationLog, get_log, restart_log

#: Seconds between lines, where nobody watches.
EVERY = 2.0
#: Width of the bar.
BAR = 30


class StartUp:
    """Shows that something happens between `start` and `stop`: a bar on `bar`, or a line every few seconds."""

    def __init__(self, say: Callable[[str], None], bar: Console | None) -> None:
        """`say` prints a line; `bar` is a terminal, or None."""
        self._say, self._bar = say, bar
        self._live: Live | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._began = 0.0
        self._spinner = Spinner("dots")

    @property
    def is_running(self) -> bool:
        """Whether something is shown now."""
        return self._live is not None or self._thread is not None

    def start(self) -> None:
        """Begin a new log, and show it."""
        restart_log()
        self._began = time.perf_counter()
        self._over.clear()
        if self._bar is not None:
            self._open_bar()
        else:
            self._thread = threading.Thread(target=self._print_lines, name="flashdqn start-up", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Show nothing any more; may be called again."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._thread is not None:
            self._over.set()
            if self._thread is not threading.current_thread():
                self._thread.join(timeout=1.0)
            self._thread = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within it something else may be printed."""
        shown = self._live is not None
        if self._live is not None:
            self._live.stop()
            self._live = None
        try:
            yield
        finally:
            if shown:
                self._open_bar()

    def _open_bar(self) -> None:
        self._live = Live(
            console=self._bar,
            get_renderable=self.draw,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def _print_lines(self) -> None:
        parent = os.getpid()
        while not self._over.wait(EVERY):
            if os.getpid() == parent:
                self._say(describe_log(get_log(), time.perf_counter(), self._began))

    def draw(self) -> RenderableType:
        """The line with the bar, as it is now."""
        log, now = get_log(), time.perf_counter()
        line = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [self._spinner]
        if log.current is not None or (log.done and log.expected):
            spent, left = log.estimate(now)
            cells.append(ProgressBar(total=1.0, completed=spent / max(1e-9, spent + left), width=BAR))
        line.add_row(*cells, describe_log(log, now, self._began))
        return line


def describe_log(log: CompilationLog, now: float, began: float) -> str:
    """What happens now, in one line."""
    kernel = log.current
    if kernel is None:
        return f"Warming up: {log.doing or 'loading PyTorch'}, {now - began:.0f} s"
    left = log.estimate(now)[1]
    return f"Compiling {kernel}, {log.number} of {log.total}, about {max(1, round(left))} s left (once)"
