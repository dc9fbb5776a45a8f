"""Whether a saved state of Snake can be one: every cell lies on the board, and the bits are those of the body."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.core.saved import require_everywhere, require_range
from flashdqn.envs.snake import rules
from flashdqn.envs.snake.board import MASK, SHIFT


def check_snake_state(saved: Mapping[str, Tensor], size: int) -> None:
    """Refuse a state that no game on boards of this side has."""
    state, body, bits = (saved[name].cpu().long() for name in ("state", "body", "bits"))
    cells = size * size
    for what, column, low, high in (
        ("a heading", rules.HEADING, 0, 3),
        ("a snake's length", rules.LENGTH, 1, cells),
        ("a tail's place", rules.TAIL_AT, 0, cells - 1),
        ("an end", rules.OVER, 0, 1),
        ("a number of steps", rules.STEPS, 0, 2**31 - 2),
        ("a number of hungry steps", rules.HUNGRY, 0, 2**31 - 2),
        ("a score", rules.SCORE, 0, cells),
    ):
        require_range(what, state[:, column], low, high)
    require_range("a row of a body", body >> SHIFT, 0, size + 1)
    length, tail_at = state[:, rules.LENGTH, None], state[:, rules.TAIL_AT, None]
    place = torch.arange(cells)
    ring = body.gather(1, (tail_at + place) % cells)
    used = place < length
    require_everywhere(_is_on_board(ring, size) | ~used, "a snake must lie on its board")
    head = ring.gather(1, length - 1)[:, 0]
    require_everywhere(head == state[:, rules.HEAD], "a head must be the end of its body")
    require_everywhere(
        bits[:, : size + 2] == make_obstacle_rows(ring, used, size), "obstacles must be the body"
    )
    food = state[:, rules.FOOD]
    require_everywhere(_is_on_board(food, size) | (food == rules.NO_FOOD), "food must lie on its board")
    full = length[:, 0] == cells
    require_everywhere(full | (food != rules.NO_FOOD), "a board that is not full must have food")


def _is_on_board(cell: Tensor, size: int) -> Tensor:
    row, column = cell >> SHIFT, cell & MASK
    return (row >= 1) & (row <= size) & (column >= 1) & (column <= size)


def make_obstacle_rows(ring: Tensor, used: Tensor, size: int) -> Tensor:
    """The rows of obstacle bits, [N, S+2], of bodies in order, the tail first; the tail is not an obstacle."""
    deadly = used.clone()
    deadly[:, 0] = False
    grid = torch.zeros(len(ring), (size + 2) << SHIFT, dtype=torch.bool)
    grid.scatter_(1, torch.where(deadly, ring, 0), torch.ones_like(deadly))  # cell 0 lies in the wall
    grid = grid.view(-1, size + 2, 1 << SHIFT)
    grid[:, (0, size + 1)] = True
    grid[:, :, 0] = True
    grid[:, :, size + 1 :] = True
    return (grid.long() << torch.arange(1 << SHIFT)).sum(2)
