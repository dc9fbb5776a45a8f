"""Pictures of Snake: a board, a strip of boards, a moving one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from flashdqn.agent import Agent
from flashdqn.envs.snake import Snake, SnakeConfig
from flashdqn.errors import EnvError

if TYPE_CHECKING:
    from flashdqn.envs.snake.env import Board

GROUND, CELL, FOOD, HEAD = "#f4f1ea", "#e7e2d6", "#c8553d", "#143d4d"
BODY_NEAR, BODY_FAR = (31, 111, 139), (156, 197, 208)


def draw_board(board: Board, cell: int = 24) -> Image.Image:
    """One position; the body pales towards the tail."""
    side = board.size * cell
    image = Image.new("RGB", (side + 1, side + 1), GROUND)
    draw = ImageDraw.Draw(image)
    for k in range(board.size + 1):
        draw.line([(0, k * cell), (side, k * cell)], fill=CELL)
        draw.line([(k * cell, 0), (k * cell, side)], fill=CELL)
    centres = [(col * cell + cell // 2, row * cell + cell // 2) for row, col in board.body]
    for k in reversed(range(len(centres) - 1)):
        draw.line([centres[k], centres[k + 1]], fill=_shade(k, len(centres)), width=int(cell * 0.66))
    for k in reversed(range(len(centres))):
        _disc(draw, centres[k], cell * 0.33 if k else cell * 0.42, _shade(k, len(centres)) if k else HEAD)
    if board.food is not None:
        row, col = board.food
        _disc(draw, (col * cell + cell // 2, row * cell + cell // 2), cell * 0.3, FOOD)
    return image


def play(agent: Agent, seed: int) -> list[Board]:
    """Every position of one game of a trained agent."""
    if not isinstance(agent.config.env, SnakeConfig):
        raise EnvError(f"Only games of Snake can be drawn, and this agent plays {agent.config.env.task}.")
    env = Snake(agent.config.env, 1, "cpu")
    obs = env.reset(seed).to(agent.device)
    boards = [env.board(0)]
    while True:
        step = env.step(agent.act(obs).to(env.device))
        boards.append(env.board(0))
        if bool(step.terminated) or bool(step.truncated):
            return boards
        obs = step.obs.to(agent.device)


def draw_strip(boards: Sequence[Board], path: Path, count: int = 4, cell: int = 20) -> None:
    """Positions of one game side by side, from early to last."""
    chosen = [boards[round(k * (len(boards) - 1) / (count - 1))] for k in range(count)]
    images = [draw_board(board, cell) for board in chosen]
    gap, width = cell // 2, images[0].width
    strip = Image.new("RGB", (count * width + (count - 1) * gap, width), "white")
    for k, image in enumerate(images):
        strip.paste(image, (k * (width + gap), 0))
    strip.save(path, optimize=True)


def draw_film(boards: Sequence[Board], path: Path, cell: int = 20, milliseconds: int = 60) -> None:
    """The whole game as a GIF."""
    frames = [
        draw_board(board, cell).convert("P", palette=Image.Palette.ADAPTIVE, colors=32) for board in boards
    ]
    pause = [milliseconds] * (len(frames) - 1) + [1500]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=pause, loop=0, optimize=True)


def _shade(k: int, length: int) -> tuple[int, int, int]:
    share = k / max(1, length - 1)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(BODY_NEAR, BODY_FAR, strict=True))
    return red, green, blue


def _disc(
    draw: ImageDraw.ImageDraw, centre: tuple[int, int], radius: float, fill: str | tuple[int, int, int]
) -> None:
    x, y = centre
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=fill)
