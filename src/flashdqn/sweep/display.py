"""What the user sees of a sweep: a table that is redrawn, or lines; and the best trials at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flashdqn.core.text import clean_line
from flashdqn.show.numbers import format_rate
from flashdqn.sweep.results import DONE, FAILED, LOST, PRUNED, TrialResult
from flashdqn.sweep.space import format_option

if TYPE_CHECKING:
    from flashdqn.sweep.confirm import Confirmation
    from flashdqn.sweep.search import Search

#: Seconds between two drawings, and between two lines where there is no terminal.
REDRAW, LINES = 0.5, 15.0
#: Trials in the table at the end.
SHOWN = 8


class SweepProgress:
    """Shows a sweep on a console: live on a terminal, else a line for each trial that ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._next = 0.0

    def __enter__(self) -> SweepProgress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(clean_line(text), highlight=False, markup=False, soft_wrap=True)

    def show_search(self, search: Search) -> None:
        """Draw how far the search is."""
        left = search.clock.estimate_left(
            search.plan.trials - search.started + len(search.running), 2 * search.plan.seeds
        )
        self._show(describe_search(search, left), lambda: draw_running(search))

    def end_trial(self, result: TrialResult, search: Search) -> None:
        """Print a line for a trial that has ended."""
        self.note(f"trial {result.number:>4}  {describe_result(result)}")

    def show_confirmation(self, confirmation: Confirmation) -> None:
        """Draw how many of the runs on fresh seeds are done."""
        done, total = len(confirmation.runs), confirmation.total
        left = format_left(confirmation.clock.estimate(total - done))
        text = f"Confirming trial {confirmation.winner.number} and the preset: {done} of {total} runs, left {left}"
        self._show(text, lambda: ProgressBar(total=total, completed=done, width=40))

    def end_confirmation(self, name: str, data: Mapping[str, Any], confirmation: Confirmation) -> None:
        """Print a line for a run on a fresh seed."""
        score = data.get("score")
        who, _, seed = name.partition("-")
        said = f"score {score:.4g}" if isinstance(score, int | float) else f"failed: {data.get('reason')}"
        self.note(f"{who:<10}  seed {seed}  {said}")

    def _show(self, text: str, more: Any) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        if self._live is None:
            self._next = now + LINES
            self.note(text)
            return
        self._next = now + REDRAW
        self._live.update(Group(Text(text, style="bold"), more()), refresh=True)


def describe_search(search: Search, left: float) -> str:
    """The search in a line."""
    counts = count_states(search.results)
    best = search.best
    said = f"{search.started - len(search.running)} of {search.plan.trials} trials"
    for state in (PRUNED, FAILED):
        if counts.get(state):
            said += f", {counts[state]} {state}"
    said += f"; {len(search.running)} running"
    if best is not None:
        said += f"; best {format_rate(best.score)} (trial {best.number})"
    return f"{said}; left {format_left(left)}"


def draw_running(search: Search) -> RenderableType:
    """The trials that are running, with a bar each."""
    table = Table.grid(padding=(0, 2))
    for name, live in search.running.items():
        score = format_rate(live.points[-1][1]) if live.points else "–"
        bar = ProgressBar(total=1.0, completed=live.done, width=12)
        took = f"{time.monotonic() - live.began:.0f} s"
        table.add_row(f"trial {name}", bar, took, f"score {score}", format_values(live.values))
    return table


def count_states(results: Sequence[TrialResult]) -> dict[str, int]:
    """How many trials ended in which way; those that are tried again count once."""
    found: dict[str, int] = {}
    for one in results:
        if one.reason != LOST:
            found[one.state] = found.get(one.state, 0) + 1
    return found


def describe_result(result: TrialResult) -> str:
    """A trial that has ended, in a line."""
    values = format_values(result.values)
    label = f" ({result.label})" if result.label else ""
    if result.state == FAILED:
        return f"failed{label}: {result.reason}  {values}"
    seconds = f"{result.seconds:.1f} s" if math.isfinite(result.seconds) else ""
    return f"{result.state:<6} score {format_rate(result.score)}  {seconds}{label}  {values}"


def format_values(values: Mapping[str, Any]) -> str:
    """The values of a trial: learn.lr 0.0003, replay.n_step 3."""
    return ", ".join(f"{name} {format_option(value)}" for name, value in values.items())


def format_left(seconds: float) -> str:
    """Minutes and seconds, or a dash."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def make_best_table(results: Sequence[TrialResult]) -> Table:
    """The best trials, with the values that made them."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("trial", "score", "±", "best after"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("values")
    done = sorted((one for one in results if one.state == DONE), key=lambda one: -one.score)
    for one in done[:SHOWN]:
        figures = (format_rate(one.score), format_rate(one.score_error), f"{one.best_seconds:.1f} s")
        label = "the preset: " if one.label else ""
        table.add_row(str(one.number), *figures, label + format_values(one.values))
    return table
