"""A game in the terminal: the board, the value of every action, and the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flashdqn.core.drawing.view import View
from flashdqn.show.bars import draw_signed_bar
from flashdqn.show.chart_axis import choose_round_limit
from flashdqn.show.play import GameTurn

MOST_BARS = 16  # if there are more actions, only the best are listed
BAR = 18


@dataclass(frozen=True)
class Played:
    """The result of a game."""

    seed: int
    turns: int
    total: float
    ending: str
    facts: dict[str, str]

    def sentence(self, number: int) -> str:
        """As in "Game 1 (seed 7): score 39, length 42 of 100; shut itself in after 496 steps, return 381.1"."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        start = f"Game {number} (seed {self.seed}): {facts}" + ("; " if facts else "")
        return f"{start}{self.ending} after {self.turns:,} steps, return {self.total:.4g}"


def summarize_game(seed: int, last: GameTurn) -> Played:
    """The result, from the last moment of a game."""
    return Played(seed, last.step, last.total, last.ending, dict(last.facts))


def show_live_game(
    console: Console, view: View, turns: Iterator[GameTurn], seed: int, fps: float, head: str
) -> Played:
    """Play a game in the terminal, with `fps` moves per second; 0 means as fast as possible."""
    last, shown, pace, axis = None, 0.0, Pace(fps), ValueAxis()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for turn in turns:
            pace.wait()
            last = turn
            # More than thirty frames a second cannot be seen, and drawing them would slow the game
            if turn.over or 0 < fps <= 30 or time.monotonic() - shown > 1 / 30:
                frame = draw_terminal_frame(view, turn, f"{head}, seed {seed}", pace.speed, axis)
                live.update(frame, refresh=True)
                shown = time.monotonic()
    assert last is not None
    return summarize_game(seed, last)


def print_game(
    console: Console, view: View, turns: Iterator[GameTurn], seed: int, every_frame: bool, head: str
) -> Played:
    """Without a terminal: print every frame, or only the last."""
    last, axis = None, ValueAxis()
    for turn in turns:
        last = turn
        if every_frame and not turn.over:
            _print_renderable(console, draw_terminal_frame(view, turn, f"{head}, seed {seed}", None, axis))
    assert last is not None
    _print_renderable(console, draw_terminal_frame(view, last, f"{head}, seed {seed}", None))
    return summarize_game(seed, last)


class Pace:
    """Keeps a fixed number of moves per second, and measures how many there really were."""

    def __init__(
        self,
        fps: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._fps, self._clock, self._sleep = fps, clock, sleep
        self._due, self._start, self._moves = clock(), clock(), 0

    def wait(self) -> None:
        """Wait until the next move is due."""
        self._moves += 1
        if self._fps <= 0:
            return
        now = self._clock()
        if now < self._due:
            self._sleep(self._due - now)
        self._due = max(now, self._due) + 1 / self._fps

    @property
    def speed(self) -> float:
        """Moves per second since the beginning."""
        return self._moves / max(1e-6, self._clock() - self._start)


class ValueAxis:
    """The axis of the values' bars: it holds zero, ends at round numbers and only grows, so that bars of two moves
    can be compared."""

    def __init__(self) -> None:
        self.low = self.high = 0.0

    def include(self, low: float, high: float) -> None:
        """Make room for the values of a move."""
        self.low = min(self.low, -choose_round_limit(-low))
        self.high = max(self.high, choose_round_limit(high))


def draw_terminal_frame(
    view: View, turn: GameTurn, head: str, speed: float | None, axis: ValueAxis | None = None
) -> RenderableType:
    """The board and the values side by side, under a line of text."""
    words = [head, f"step {turn.step:,}", f"return {turn.total:.4g}"]
    words += [f"{name} {value}" for name, value in turn.facts]
    words += [f"{speed:,.0f} steps/s"] if speed is not None else []
    side = Text(turn.ending, "bold") if turn.over else draw_action_values(view, turn, axis)
    grid = Table.grid(padding=(0, 3))
    grid.add_row(view.text(), side)
    return Group(Text(" · ".join(words), "bold"), grid)


def draw_action_values(view: View, turn: GameTurn, axis: ValueAxis | None = None) -> RenderableType:
    """A bar for each action, from zero to its value. The chosen one is marked, illegal ones struck."""
    table = Table.grid(padding=(0, 1))
    axis = axis or ValueAxis()
    axis.include(*legal_value_range(turn))
    for k in choose_listed_actions(turn):
        legal = turn.mask is None or turn.mask[k]
        chosen = k in turn.chosen
        style = "bold green" if chosen else ("" if legal else "dim strike")
        drawn = draw_signed_bar(turn.q[k], axis.low, axis.high, BAR) if legal else ""
        value = f"{turn.q[k]:>8.3f}" if legal else "not legal"
        table.add_row(
            Text(("▶ " if chosen else "  ") + view.actions[k], style), Text(drawn, style), Text(value, style)
        )
    if len(turn.q) > MOST_BARS:
        table.add_row(Text(f"  the best of {len(turn.q):,}", "dim"))
    about = f"{view.value_name}, from {axis.low:g} to {axis.high:g}"
    return Group(Text(about, "dim"), table)


def legal_value_range(turn: GameTurn) -> tuple[float, float]:
    """The least and the largest value of the legal actions."""
    legal = [q for k, q in enumerate(turn.q) if turn.mask is None or turn.mask[k]]
    return (min(legal), max(legal)) if legal else (0.0, 0.0)


def choose_listed_actions(turn: GameTurn) -> Sequence[int]:
    """All actions in their order, or the best legal ones if there are too many."""
    if len(turn.q) <= MOST_BARS:
        return range(len(turn.q))
    legal = [k for k in range(len(turn.q)) if turn.mask is None or turn.mask[k]]
    return sorted(legal, key=lambda k: -turn.q[k])[:MOST_BARS]


def _print_renderable(console: Console, what: RenderableType) -> None:
    console.print(what, highlight=False)
