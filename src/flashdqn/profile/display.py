"""What the user sees while a profile is taken, and the hidden displays of its trainings."""

from __future__ import annotations

import io
import time
from typing import TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from flashdqn.profile.contest import ContestObserver
from flashdqn.training.progress import LiveDisplay, Plain, Progress, format_clock


class Unseen(LiveDisplay):
    """The live panel of `flashdqn train`, drawn as often but not shown, so that its cost is measured too."""

    def begin(self, title: str, asked_ratio: float) -> None:
        """Begin without a panel on the terminal."""
        self._title, self._asked = title, asked_ratio

    def tick(self, share: float, steps: int, episodes: int, seconds: float) -> None:
        """Draw if it is time."""
        super().tick(share, steps, episodes, seconds)
        if time.perf_counter() >= self._next:
            self._next = time.perf_counter() + self.EVERY
            self.console.print(self.panel())


class Nowhere(io.TextIOBase):
    """A text stream that discards everything."""

    def write(self, text: str) -> int:
        """Discard the text."""
        return len(text)


def make_hidden_display(terminal: bool) -> Progress:
    """The display that a training would have here, but not shown."""
    console = Console(file=cast(TextIO, Nowhere()), force_terminal=terminal, width=110)
    return Unseen(console) if terminal else Plain(console)


class Lines:
    """A line for every note and every round."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._round = 0

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def preparing(self, name: str, number: int, total: int, left: float) -> None:
        """Print a line for the first experiment only."""
        if number == 1:
            self.note(f"Preparing {total} trainings; time left {format_clock(left)}")

    def turn(self, name: str, round_: int, rounds: int, left: float) -> None:
        """Print a line when a round begins."""
        if round_ != self._round:
            self.note(f"Round {round_} of {rounds}; time left {format_clock(left)}")
        self._round = round_

    def end(self) -> None:
        """There is nothing to close."""


class OneLine(Lines):
    """A line that is drawn again between turns, never during one: drawing takes time too."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def preparing(self, name: str, number: int, total: int, left: float) -> None:
        """Show which experiment is prepared."""
        self._show(f"Preparing {number} of {total}: {name}; time left {format_clock(left)}")

    def turn(self, name: str, round_: int, rounds: int, left: float) -> None:
        """Show whose turn it is."""
        self._show(f"Round {round_} of {rounds}: {name}; time left {format_clock(left)}")

    def end(self) -> None:
        """Remove the line."""
        self._live.stop()

    def _show(self, text: str) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(Text(text, style="dim"), refresh=True)


def make_observer(console: Console) -> ContestObserver:
    """One line on a terminal, several elsewhere."""
    return OneLine(console) if console.is_terminal else Lines(console)
