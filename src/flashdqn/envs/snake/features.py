"""What an agent sees of board `i`, as scalar kernel code.

Vector sets, float32 in [0, 1]; each holds the one before it. A is 3 (straight, right, left) with relative
actions and 4 (up, right, down, left) with absolute ones, where the reversal stands for what it does: straight.

basic, A + 8:
    danger [A]     1 if that move kills. The cell that the tail leaves does not kill.
    food [4]       1 if the food lies up / right / down / left of the head (two may hold; none after a win)
    heading [4]    one-hot: up, right, down, left
flood, + A:
    reach [A]      share of the free cells that the snake can reach after that move. With the head on its new
                   cell and the tail gone unless it eats: (cells of the new cell's component − 1) / (S² − length),
                   the component taken in the free cells and the new cell. 0 if the move kills, 1 if no cell
                   remains free.
selective, + 5:
    tail [4]       1 if the tail lies up / right / down / left of the head
    tail reach     1 if a safe move leads to a cell from which a path of free cells goes to the tail's cell,
                   that cell counted as free
enhanced, + A + 2:
    escapes [A]    safe moves (straight, right, left) after that move / 3; 0 if the move kills
    tail distance  Manhattan distance of head and tail / (2 · (S − 1))
    length         length / S²

grid: uint8 [3, S, S]. Plane 0: the head, 255. Plane 1: each body cell, head included, by the number t of steps
until it is free again if the snake does not eat (tail 1, head its length): 51 + ⌊204 √(t / S²)⌋. Plane 2:
the food, 255. Networks read bytes as 0 … 1. So any body cell differs from a free one by at least 0.2. The steps
near the tail, which decide whether a cell will be free in time, differ most. Up to S = 10 no two shades are equal.

After a death the observation shows the snake as it was before the fatal move.
Every float is one division of two small integers: CPU and CUDA round it the same.
"""

from __future__ import annotations

import math

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.snake.board import (
    MASK,
    SHIFT,
    cell_ahead,
    clear_bit,
    is_deadly,
    manhattan_distance,
    set_bit,
)
from flashdqn.envs.snake.flood import component_size, in_component
from flashdqn.envs.snake.rules import (
    ABSOLUTE,
    FOOD,
    HEAD,
    HEADING,
    LENGTH,
    LEVEL,
    NO_FOOD,
    SIZE,
    TAIL_AT,
)

# feature sets as levels
LEVELS = ("basic", "flood", "selective", "enhanced")
FLOOD, SELECTIVE, ENHANCED = 1, 2, 3


def body_shades(size: int) -> list[int]:
    """The byte for t = 0 … S² steps until a cell is free; looked up, so all devices agree."""
    cells = size * size
    return [0] + [51 + math.isqrt(204 * 204 * t // cells) for t in range(1, cells + 1)]


def vector_length(features: str, num_actions: int) -> int:
    """The length of a vector set's observation."""
    level = LEVELS.index(features)
    return (num_actions + 8, 2 * num_actions + 8, 2 * num_actions + 13, 3 * num_actions + 15)[level]


@inner
def ratio_or_one(part: Scalar, whole: Scalar) -> Scalar:
    """part / whole in float32; 1 where the whole is 0."""
    return np.float32(part) / np.float32(whole) if whole > 0 else np.float32(1.0)


@inner
def write_moves(
    i: Scalar, at: Scalar, values: Scalar, heading: Scalar, absolute: Scalar, obs: Array
) -> Scalar:
    """Write one number per action from those of straight, right, left; returns where to write next."""
    straight, right, left = values
    if absolute == 0:
        obs[i, at] = straight
        obs[i, at + 1] = right
        obs[i, at + 2] = left
        return at + 3
    obs[i, at + heading] = straight
    obs[i, at + ((heading + 1) & 3)] = right
    obs[i, at + ((heading + 2) & 3)] = straight  # a reversal goes straight
    obs[i, at + ((heading + 3) & 3)] = left
    return at + 4


@inner
def write_directions(i: Scalar, at: Scalar, head: Scalar, cell: Scalar, obs: Array) -> Scalar:
    """Write whether `cell` lies up, right, down, left of the head."""
    row, col = (cell >> SHIFT) - (head >> SHIFT), (cell & MASK) - (head & MASK)
    obs[i, at] = row < 0
    obs[i, at + 1] = col > 0
    obs[i, at + 2] = row > 0
    obs[i, at + 3] = col < 0
    return at + 4


@inner
def measure_move_components(
    i: Scalar, cells: Scalar, safe: Scalar, tail: Scalar, size: Scalar, bits: Array
) -> Scalar:
    """Sizes of the components of three cells, and whether one of them holds the tail; −1 for unsafe cells.

    Cells of one component share one fill: most boards need a single one.
    """
    first, second, third = -1, -1, -1
    tail_reached = False
    for k in range(3):
        if safe[k] and (first, second, third)[k] < 0:
            count = component_size(i, cells[k], size, bits)
            tail_reached = tail_reached or in_component(i, tail, size, bits)
            first = count if in_component(i, cells[0], size, bits) else first
            second = count if in_component(i, cells[1], size, bits) else second
            third = count if in_component(i, cells[2], size, bits) else third
    return (first, second, third), tail_reached


@inner
def reachable_share(
    i: Scalar, cell: Scalar, count: Scalar, tail: Scalar, state: Array, bits: Array, size: Scalar
) -> Scalar:
    """The reach of a move to `cell`, whose component has `count` cells; −1 if the move kills."""
    free = size * size - state[i, LENGTH]
    if count < 0:
        return np.float32(0.0)
    if cell == state[i, FOOD]:  # it eats, so the tail stays
        set_bit(i, tail, bits)
        count = component_size(i, cell, size, bits)
        clear_bit(i, tail, bits)
        free -= 1
    return ratio_or_one(count - 1, free)


@inner
def escape_share(
    i: Scalar,
    cell: Scalar,
    heading: Scalar,
    safe: Scalar,
    state: Array,
    body: Array,
    bits: Array,
    size: Scalar,
) -> Scalar:
    """Safe moves after moving to `cell` by `heading`, / 3."""
    if not safe:
        return np.float32(0.0)
    # Unless that move eats, the tail's neighbor becomes the tail, which is not an obstacle.
    tail_at = state[i, TAIL_AT]
    if cell != state[i, FOOD]:
        tail_at = tail_at + 1 if tail_at + 1 < size * size else 0
    tail = body[i, tail_at]
    count = 0
    for turn in (0, 1, 3):
        onward = cell_ahead(cell, (heading + turn) & 3)
        count += int(onward == tail or not is_deadly(i, onward, bits))
    return ratio_or_one(count, 3)


@inner
def write_basic_features(i: Scalar, unsafe: Scalar, state: Array, params: Array, obs: Array) -> Scalar:
    """Danger, food and heading; returns where to write next."""
    heading, food = state[i, HEADING], state[i, FOOD]
    at = write_moves(i, 0, unsafe, heading, params[ABSOLUTE], obs)
    head = state[i, HEAD]
    at = write_directions(i, at, head, head if food == NO_FOOD else food, obs)
    for k in range(4):
        obs[i, at + k] = heading == k
    return at + 4


@inner
def observe_vector(i: Scalar, state: Array, body: Array, bits: Array, params: Array, obs: Array) -> None:
    """Write the vector that `params[LEVEL]` asks for."""
    size, absolute, level = params[SIZE], params[ABSOLUTE], params[LEVEL]
    head, heading, tail = state[i, HEAD], state[i, HEADING], body[i, state[i, TAIL_AT]]
    right, left = (heading + 1) & 3, (heading + 3) & 3
    cells = (cell_ahead(head, heading), cell_ahead(head, right), cell_ahead(head, left))
    unsafe = (is_deadly(i, cells[0], bits), is_deadly(i, cells[1], bits), is_deadly(i, cells[2], bits))
    at = write_basic_features(i, unsafe, state, params, obs)
    if level < FLOOD:
        return
    safe = (not unsafe[0], not unsafe[1], not unsafe[2])
    counts, tail_reached = measure_move_components(i, cells, safe, tail, size, bits)
    shares = (
        reachable_share(i, cells[0], counts[0], tail, state, bits, size),
        reachable_share(i, cells[1], counts[1], tail, state, bits, size),
        reachable_share(i, cells[2], counts[2], tail, state, bits, size),
    )
    at = write_moves(i, at, shares, heading, absolute, obs)
    if level < SELECTIVE:
        return
    at = write_directions(i, at, head, tail, obs)
    obs[i, at] = tail_reached
    if level < ENHANCED:
        return
    routes = (
        escape_share(i, cells[0], heading, safe[0], state, body, bits, size),
        escape_share(i, cells[1], right, safe[1], state, body, bits, size),
        escape_share(i, cells[2], left, safe[2], state, body, bits, size),
    )
    at = write_moves(i, at + 1, routes, heading, absolute, obs)
    obs[i, at] = ratio_or_one(manhattan_distance(head, tail), 2 * (size - 1))
    obs[i, at + 1] = ratio_or_one(state[i, LENGTH], size * size)


@inner
def observe_grid(i: Scalar, state: Array, body: Array, params: Array, shades: Array, obs: Array) -> None:
    """Write the three planes."""
    size = params[SIZE]
    for plane in range(3):
        for row in range(size):
            for col in range(size):
                obs[i, plane, row, col] = 0
    head, food = state[i, HEAD], state[i, FOOD]
    obs[i, 0, (head >> SHIFT) - 1, (head & MASK) - 1] = 255
    if food != NO_FOOD:
        obs[i, 2, (food >> SHIFT) - 1, (food & MASK) - 1] = 255
    at = state[i, TAIL_AT]
    for k in range(state[i, LENGTH]):
        cell = body[i, at]
        obs[i, 1, (cell >> SHIFT) - 1, (cell & MASK) - 1] = shades[k + 1]
        at = at + 1 if at + 1 < size * size else 0
