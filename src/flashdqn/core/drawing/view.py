"""How a task is shown: what its view must have. One file per task; see `snake.py` for a short one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.text import Text

from flashdqn.core.drawing.scene import Scene

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Grid:
    """Where actions lie on the board, for tasks with one per cell: k in row k // columns, column k % columns.

    Their values are drawn as a heat map over the board. Actions from `count` on are listed beside it.
    """

    x: float
    y: float
    side: float
    columns: int
    count: int


class View(Protocol):
    """One game as pictures and words. It holds the environment and describes its first board."""

    title: str
    #: width and height of the scene, in its own units
    size: tuple[float, float]
    #: a name for every action
    actions: tuple[str, ...]
    #: what a Q-value means here, in a few words
    value_name: str
    #: where the actions lie on the board; None: their values are drawn as bars
    heat: Grid | None
    #: what lies under every scene and never changes, such as the lines of a board
    ground: Scene

    def scene(self) -> Scene:
        """The board as it is now: plain data, from which `paint` makes an RGB image and the browser a canvas."""

    def text(self) -> Text:
        """The board for a terminal."""

    def facts(self) -> Facts:
        """Names and values that sum up the game so far; the score first."""

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """How the game ended, in a few words."""
