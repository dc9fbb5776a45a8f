"""The view of Snake: a board, a body that fades toward its tail, and the food."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from flashdqn.core.drawing.palette import blend_colors, color_to_rgb
from flashdqn.core.drawing.scene import Disc, Line, Rect, Scene, Shape, Trail
from flashdqn.core.drawing.view import Facts, Grid
from flashdqn.envs.snake import Snake
from flashdqn.envs.snake.env import Board

CELL = 24.0
ENDS = {
    "wall": "ran into the wall",
    "self": "bit itself",
    "entrapment": "shut itself in",
    "timeout": "went too long without food",
    "win": "filled the board",
}


class SnakeView:
    """Shows the first board of an environment."""

    heat: Grid | None = None
    value_name = "expected return"

    def __init__(self, env: Snake) -> None:
        self.env, config = env, env.config
        side = config.size
        self.title = f"Snake {side}x{side}, {config.features} features"
        self.size = (side * CELL, side * CELL)
        self.ground = board_ground(side)
        self.actions = config.action_names

    def scene(self) -> Scene:
        """Food, body and head."""
        return board_scene(self.env.board(0))

    def text(self) -> Text:
        """Two characters per cell, because characters are twice as high as wide; letters work without colors."""
        return board_text(self.env.board(0))

    def facts(self) -> Facts:
        """Food eaten, and what is left of the board."""
        board = self.env.board(0)
        eaten = len(board.body) - self.env.config.start_length
        return [("score", str(eaten)), ("length", f"{len(board.body)} of {board.size**2}")]

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """How the game ended: the cause of death, or a win."""
        return next((ENDS[name] for name in ENDS if outcomes.get(name, 0) > 0), "ended")


def board_scene(board: Board) -> Scene:
    """The scene of one position."""
    shapes: list[Shape] = []
    if board.food is not None:
        shapes.append(Disc(*_cell_center(board.food), CELL * 0.3, "warm"))
    points = tuple(number for cell in board.body for number in _cell_center(cell))
    shapes.append(Trail(points, CELL * 0.66, "body-near", "body-far"))
    return (*shapes, *_draw_snake_head(board))


def board_ground(size: int) -> Scene:
    """The scene of an empty board."""
    side = size * CELL
    shapes: list[Shape] = [Rect(0, 0, side, side, "board")]
    for k in range(1, size):
        shapes.append(Line((0, k * CELL, side, k * CELL), 1, "grid"))
        shapes.append(Line((k * CELL, 0, k * CELL, side), 1, "grid"))
    return tuple(shapes)


def _draw_snake_head(board: Board) -> list[Shape]:
    """The head: larger than the body, with eyes that look ahead."""
    (x, y), (behind_x, behind_y) = _cell_center(board.body[0]), _cell_center(board.body[1])
    ahead_x, ahead_y = (x - behind_x) / CELL, (y - behind_y) / CELL
    shapes: list[Shape] = [Disc(x, y, CELL * 0.42, "head")]
    for side in (-1, 1):
        eye_x = x + CELL * (0.14 * ahead_x - 0.18 * side * ahead_y)
        eye_y = y + CELL * (0.14 * ahead_y + 0.18 * side * ahead_x)
        shapes.append(Disc(eye_x, eye_y, CELL * 0.08, "eye"))
    return shapes


def board_text(board: Board) -> Text:
    """One position in characters."""
    cells = [[("· ", "grey50")] * board.size for _ in range(board.size)]
    if board.food is not None:
        cells[board.food[0]][board.food[1]] = ("● ", "bold red")
    last = max(1, len(board.body) - 1)
    for k, (row, column) in reversed(list(enumerate(board.body))):
        red, green, blue = blend_colors(color_to_rgb("#4fa9c4"), color_to_rgb("#24505f"), k / last)
        cells[row][column] = ("██", f"rgb({red},{green},{blue})") if k else ("@@", "bold black on white")
    line = "─" * (2 * board.size)
    text = Text(f"┌{line}┐\n", "grey50")
    for line_of_cells in cells:
        text.append("│", "grey50")
        for characters, style in line_of_cells:
            text.append(characters, style)
        text.append("│\n", "grey50")
    return text.append(f"└{line}┘", "grey50")


def _cell_center(cell: tuple[int, int]) -> tuple[float, float]:
    return (cell[1] + 0.5) * CELL, (cell[0] + 0.5) * CELL
