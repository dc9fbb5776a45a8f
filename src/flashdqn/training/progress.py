"""What the user sees during training: a live display, or plain lines without a terminal."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flashdqn.core.signals import Interrupt
from flashdqn.runs.columns import GRAPHS, PHASES
from flashdqn.runs.rows import MetricsRow
from flashdqn.training.startup import BAR, StartUp

if TYPE_CHECKING:  # PyTorch is imported while the bar is already shown
    from flashdqn.training.evaluate import Evaluation


WARMING_UP = "Warming up: compiling and allocating, before the clock starts"


class Amount(NamedTuple):
    """How much of some work is done, and of how much."""

    done: Callable[[], int]
    total: int
    unit: str  # in the plural


class Progress(Protocol):
    """Receives all events of a run, and shows some of them."""

    def note(self, text: str) -> None:
        """Show a single message."""

    def prepare(self) -> None:
        """Called when the warm-up starts, and perhaps before; a second call does nothing."""

    def prepared(self) -> None:
        """Called when the warm-up is over, whatever it led to; may be called again."""

    def begin(self, title: str, asked_ratio: float) -> None:
        """Called when training starts."""

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Called once per iteration: must cost almost nothing."""

    def report(self, row: MetricsRow) -> None:
        """Called when a window closes."""

    def working(self, what: str, count: int, of: Amount | None = None) -> None:
        """Show that something takes its time, such as an evaluation: it is at step `count`, or at `of`."""

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Called after an evaluation."""

    def end(self) -> None:
        """Called when training is over."""


class Silent:
    """Shows nothing."""

    def note(self, text: str) -> None:
        """Ignore the message."""

    def prepare(self) -> None:
        """Ignore the warm-up."""

    def prepared(self) -> None:
        """Ignore its end."""

    def begin(self, title: str, asked_ratio: float) -> None:
        """Ignore the start."""

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Ignore the progress."""

    def report(self, row: MetricsRow) -> None:
        """Ignore the row."""

    def working(self, what: str, count: int, of: Amount | None = None) -> None:
        """Show nothing."""

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Ignore the result."""

    def end(self) -> None:
        """Ignore the end."""


class Plain:
    """Prints a line every few seconds."""

    EVERY = 5.0

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start_up = StartUp(self._print_note, choose_bar(console))
        self._prepared = False
        self._share, self._start_share, self._seconds, self._start = 0.0, -1.0, 0.0, 0.0
        self._next = 0.0
        self._asked = 0.0
        self._work, self._work_began, self._next_work = ("", 0), 0.0, 0.0

    def note(self, text: str) -> None:
        """Print the text as a line."""
        with self._start_up.hidden():
            self._print_note(text)

    def _print_note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def prepare(self) -> None:
        """Say that the warm-up starts, and show how far it is."""
        if not self._prepared:
            self._prepared = True
            self.note(WARMING_UP)
            self._start_up.start()

    def prepared(self) -> None:
        """Stop showing the warm-up."""
        self._start_up.stop()

    def begin(self, title: str, asked_ratio: float) -> None:
        """Print the title."""
        self.prepared()
        self._asked = asked_ratio
        self.note(title)

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Remember the progress."""
        if self._start_share < 0:
            self._start_share, self._start = share, seconds
        self._share, self._seconds = share, seconds

    def report(self, row: MetricsRow) -> None:
        """Print a line, if the last one is old enough or the run is over."""
        if time.perf_counter() < self._next and self._share < 1.0:
            return
        self._next = time.perf_counter() + self.EVERY
        self.note(
            f"{self._share:4.0%}  {row.step:>11,} steps  {row.episodes:>8,} episodes  "
            f"{rate_text(row):>9} steps/s  {window_score_text(row)}  length {format_metric(row.length)}  "
            f"ε {row.eps:.3f}  loss {format_metric(row.loss)}  "
            f"ratio {row.ratio:.5f} of {self._asked:g}  {phase_text(row)}{gpu_text(row)}{lag_text(row)}  "
            f"left {self.left()}"
        )

    def working(self, what: str, count: int, of: Amount | None = None) -> None:
        """Show it, if the last time is long enough ago."""
        now = time.perf_counter()
        if what != self._work[0] or count <= self._work[1]:  # another one
            self._work_began, self._next_work = now, now + self.EVERY
        self._work = what, count
        if now >= self._next_work:
            self._next_work = now + self.EVERY
            at = f"step {count:,}" if of is None else f"{of.done():,} of {of.total:,} {of.unit}"
            self._show_work(f"{what}: {at}, {now - self._work_began:.0f} s", of)

    def _show_work(self, text: str, of: Amount | None) -> None:
        self.note(f"      {text}")

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Print a line."""
        self.note(f"      {step:>11,} steps  {evaluation_text(result)}")

    def end(self) -> None:
        """Do nothing: there is no panel to close."""

    def left(self) -> str:
        """The time left, from the speed since this session began."""
        done = self._share - self._start_share
        if done <= 0 or self._seconds - self._start < 1:
            return "–"
        return format_clock((1 - self._share) * (self._seconds - self._start) / done)


class LiveDisplay(Plain):
    """A panel that is redrawn a few times a second."""

    EVERY = 0.25

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._title, self._steps, self._episodes = "", 0, 0
        self._row: MetricsRow | None = None
        self._evaluation = "not yet"
        self._live: Live | None = None
        self._last: Live | None = None  # shows the work after the panel's end
        self._doing = ""
        self._done: float | None = None  # share of the work that is done, if its amount is known

    def begin(self, title: str, asked_ratio: float) -> None:
        """Open the panel."""
        self.prepared()
        self._title, self._asked = title, asked_ratio
        self._live = Live(console=self.console, auto_refresh=False, transient=False)
        self._live.start()

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Redraw if it is time."""
        super().tick(share, steps, episodes, seconds)
        self._steps, self._episodes, self._doing = steps, episodes, ""
        if self._live is not None and time.perf_counter() >= self._next:
            self._next = time.perf_counter() + self.EVERY
            self._live.update(self.panel(), refresh=True)

    def report(self, row: MetricsRow) -> None:
        """Keep the row for the next drawing."""
        self._row = row

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Keep the result for the next drawing."""
        self._evaluation = f"{evaluation_text(result).removeprefix('evaluation: ')} at {step:,} steps"

    def _show_work(self, text: str, of: Amount | None) -> None:
        self._doing, self._done = text, None if of is None else of.done() / max(1, of.total)
        if self._live is not None:
            self._live.update(self.panel(), refresh=True)
            return
        if self._last is None:
            self._last = Live(console=self.console, auto_refresh=False, transient=True)
            self._last.start()
        self._last.update(draw_work(text, self._done), refresh=True)

    def end(self) -> None:
        """Draw the panel a last time and leave it there."""
        self._doing = ""
        if self._last is not None:
            self._last.stop()
            self._last = None
        if self._live is not None:
            self._live.update(self.panel(), refresh=True)
            self._live.stop()
            self._live = None

    def panel(self) -> RenderableType:
        """The panel with all figures."""
        row = self._row
        head = Text.assemble((self._title, "bold"))
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(justify="right", no_wrap=True)
        bar.add_row(ProgressBar(total=1.0, completed=self._share), f"{self._share:.0%}  left {self.left()}")
        table = Table.grid(padding=(0, 3))
        table.add_row(
            label_value("steps", f"{self._steps:,}"),
            label_value("episodes", f"{self._episodes:,}"),
            label_value("steps/s", rate_text(row) if row else "–"),
            label_value("time", format_clock(self._seconds)),
        )
        table.add_row(
            label_value("score", window_score_text(row).removeprefix("score ") if row else "–"),
            label_value("length", format_metric(row.length) if row else "–"),
            label_value("ε", f"{row.eps:.3f}" if row else "–"),
            label_value("loss", format_metric(row.loss) if row else "–"),
        )
        lines: list[RenderableType] = [head, bar, table]
        if row:
            ratio = f"{row.ratio:.5f} (asked {self._asked:g})"
            lines += [
                label_value("ratio", ratio),
                label_value("time in", phase_text(row) + gpu_text(row) + lag_text(row)),
            ]
        lines.append(label_value("evaluation", self._evaluation))
        return Group(*lines, draw_work(f"now {self._doing}", self._done)) if self._doing else Group(*lines)


def draw_work(text: str, done: float | None) -> RenderableType:
    """A line about work, with a bar if its amount is known."""
    if done is None:
        return Text(text)
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=1.0, completed=done, width=BAR), text)
    return line


def watch_work(
    progress: Progress, what: str, interrupt: Interrupt, of: Amount | None = None
) -> Callable[[], bool]:
    """A function that work calls at each of its steps: it shows that, and says whether to stop."""
    steps = itertools.count(1)

    def stop() -> bool:
        progress.working(what, next(steps), of)
        return interrupt.requested

    return stop


def choose_bar(console: Console) -> Console | None:
    """Where the warm-up's bar is drawn: on standard error, or on the console itself; None if nobody watches."""
    error = console if console.stderr else type(console)(stderr=True)
    return next((one for one in (error, console) if one.is_terminal), None)


def choose_progress(console: Console) -> Progress:
    """A live display on a terminal, plain lines elsewhere."""
    return LiveDisplay(console) if console.is_terminal else Plain(console)


def label_value(name: str, value: str) -> Text:
    """A dim name and its value."""
    return Text.assemble((f"{name} ", "dim"), value)


def format_metric(value: float) -> str:
    """Three significant digits; a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.3g}"


def rate_text(row: MetricsRow) -> str:
    """Transitions per second in the window; a dash for NaN."""
    return "–" if math.isnan(row.steps_per_second) else f"{row.steps_per_second:,.0f}"


def window_score_text(row: MetricsRow) -> str:
    """The window's mean score, or its mean return if the task has no score."""
    score = row.score
    return f"return {format_metric(row.return_)}" if score is None else f"score {format_metric(score)}"


def evaluation_text(result: Evaluation) -> str:
    """The mean score of an evaluation."""
    games = f"{result.episodes} game{'' if result.episodes == 1 else 's'}"
    cut = f" ({result.unfinished} cut off)" if result.unfinished else ""
    return f"evaluation: score {result.mean_score:.2f} ± {result.score_error:.2f} over {games}{cut}"


def phase_text(row: MetricsRow) -> str:
    """Share of the training time per phase."""
    graph = any(row.phases[name] > 0 for name in GRAPHS)
    parts = {n: part for n, part in row.phases.items() if part > 0 or (n in PHASES and not graph)}
    total = max(1e-12, row.us_total, sum(parts.values()))  # on CUDA the parts are samples
    shares = {name: part / total for name, part in parts.items()}
    shares["other"] = max(0.0, 1 - sum(shares.values()))
    return "  ".join(f"{name} {share:.0%}" for name, share in shares.items())


def gpu_text(row: MetricsRow) -> str:
    """How busy the GPU was; empty if nobody knows."""
    used = row.gpu_percent
    return "" if used is None or math.isnan(used) else f"  GPU busy {used:.0f}%"


def lag_text(row: MetricsRow) -> str:
    """How old the weights were that acted; empty if all environments take their steps together."""
    lag = row.policy_lag
    return (
        ""
        if lag is None or math.isnan(lag)
        else f"  policy lag {lag:.0f} updates, at most {row.longest_lag:.0f}"
    )


def format_clock(seconds: float) -> str:
    """Minutes and seconds, or hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
