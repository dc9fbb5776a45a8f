"""What a notebook shows: progress that is drawn again in place, and a run's report."""

from __future__ import annotations

import sys
import time
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console

from flashdqn.runs.rows import MetricsRow
from flashdqn.show.report import make_report_page
from flashdqn.show.report_files import read_run
from flashdqn.training.evaluate import Evaluation
from flashdqn.training.progress import (
    Amount,
    Plain,
    evaluation_text,
    format_clock,
    format_metric,
    rate_text,
    window_score_text,
)
from flashdqn.training.startup import StartUp

#: The report in a frame of its own, which neither reads nor changes the notebook around it.
FRAME = (
    '<iframe srcdoc="{}" sandbox="allow-scripts" loading="lazy" '
    'style="width: 100%; height: 36rem; border: 1px solid #8884; border-radius: 8px"></iframe>'
)
CELL = '<span style="margin-right: 1.5em; white-space: nowrap"><small>{}</small> {}</span>'


def make_inline_page(run: Path) -> str:
    """A run's report as part of a notebook, made from its tables: the recorded game is only in report.html."""
    return FRAME.format(escape(make_report_page(read_run(run), with_game=False), quote=True))


def find_notebook() -> Any:
    """IPython's function that shows something; None outside of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):  # IPython in a terminal
        return None
    from IPython.display import display

    return display


class NotebookDisplay(Plain):
    """One block of HTML below the cell, drawn again a few times a second."""

    EVERY = 0.5

    def __init__(self, display: Any) -> None:
        super().__init__(Console(file=sys.stderr))
        self._start_up = StartUp(lambda text: self._show_work(text, None), None)  # in the block, not below it
        self._display = display
        self._handle: Any = None
        self._title, self._steps, self._episodes, self._evaluated = "", 0, 0, "not yet"
        self._row: MetricsRow | None = None
        self._notes: list[str] = []
        self._doing = ""

    def note(self, text: str) -> None:
        """Add a line below the figures."""
        self._notes = [*self._notes[-4:], text]
        self._draw()

    def begin(self, title: str, asked_ratio: float) -> None:
        """Show the title."""
        self.prepared()
        self._title, self._asked, self._notes, self._doing = title, asked_ratio, [], ""
        self._draw()

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Draw again if it is time."""
        super().tick(share, steps, episodes, seconds)
        if time.perf_counter() >= self._next:
            self._next = time.perf_counter() + self.EVERY
            self._steps, self._episodes, self._doing = steps, episodes, ""
            self._draw()

    def report(self, row: MetricsRow) -> None:
        """Keep the row for the next drawing."""
        self._row = row

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Keep the result for the next drawing."""
        self._evaluated = f"{evaluation_text(result).removeprefix('evaluation: ')} at {step:,} steps"

    def _show_work(self, text: str, of: Amount | None) -> None:
        self._doing = text
        self._draw()

    def end(self) -> None:
        """Draw a last time, and leave it there."""
        self._doing = ""
        if self._row is not None:
            self._steps, self._episodes = self._row.step, self._row.episodes
        self._draw()

    def make_html(self) -> str:
        """The figures as HTML."""
        row = self._row
        cells = {
            "steps": f"{self._steps:,}",
            "episodes": f"{self._episodes:,}",
            "steps/s": rate_text(row) if row else "–",
            "score": window_score_text(row).removeprefix("score ") if row else "–",
            "ε": f"{row.eps:.3f}" if row else "–",
            "loss": format_metric(row.loss) if row else "–",
            "time": format_clock(self._seconds),
            "left": self.left(),
        }
        shown = "".join(CELL.format(escape(name), escape(value)) for name, value in cells.items())
        lines = [*self._notes, self._doing] if self._doing else self._notes
        notes = "".join(f"<div><small>{escape(line)}</small></div>" for line in lines)
        if not self._title:
            return f"<div>{notes}</div>"
        return (
            f"<div><b>{escape(self._title)}</b><br>"
            f'<progress max="1" value="{self._share:.4f}" style="width: 60%"></progress> {self._share:.0%}<br>'
            f"{shown}<br><small>evaluation</small> {escape(self._evaluated)}{notes}</div>"
        )

    def _draw(self) -> None:
        shown = {"text/html": self.make_html(), "text/plain": f"{self._title} {self._share:.0%}"}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
