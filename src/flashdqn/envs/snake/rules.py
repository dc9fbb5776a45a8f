"""The rules of Snake for one board `i`, as scalar kernel code.

A step: the action becomes a heading, and the cell ahead decides. A wall or the body is death, and the snake
stays as it was before that move; the cell that the tail leaves in this step is not an obstacle. Food lengthens the
snake and is placed again, uniformly among the free cells. A full board is a win. Death and win terminate; the
two limits (steps, steps without food) truncate an episode that did neither.
The step after an end ignores its action and starts a new episode.

Tensors of N boards, S the side; see board.py for cells and bits:
    state [N, STATE] int32; body [N, S²] int16; rng [N, 2] int64: key and counter;
    bits [N, 2·(S+2)] int64: rows of obstacles, then as many rows of scratch for the flood-fill;
    params [PARAMS] int32; rewards [REWARDS] float32: looked up, never computed, so all devices agree.
"""

from __future__ import annotations

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.random_bits import below, random_bits
from flashdqn.envs.snake.board import (
    cell_ahead,
    cell_at,
    clear_bit,
    count_set_bits,
    is_deadly,
    is_wall,
    manhattan_distance,
    set_bit,
)

# state
HEAD, HEADING, LENGTH, TAIL_AT, FOOD, STEPS, HUNGRY, OVER, SCORE, STATE = range(10)
# params
SIZE, ABSOLUTE, LEVEL, START_LENGTH, RANDOM_START, BORDER, MAX_STEPS, MAX_HUNGRY, PARAMS = range(9)
# rewards, by what a move did
CLOSER, FARTHER, ATE, WON, DIED, REWARDS = range(6)
# outcomes
OUTCOMES = ("score", "wall", "self", "entrapment", "timeout", "win")
OUT_SCORE, OUT_WALL, OUT_SELF, OUT_ENTRAPMENT, OUT_TIMEOUT, OUT_WIN, NUM_OUTCOMES = range(7)
NO_OUTCOME = -1

NO_FOOD = 0  # a cell of the wall


@inner
def chosen_heading(action: Scalar, heading: Scalar, absolute: Scalar) -> Scalar:
    """The heading after an action; an invalid action and a reversal go straight on."""
    if absolute != 0:
        goes = action >= 0 and action <= 3 and action != heading ^ 2
        return action if goes else heading
    return (heading + int(action == 1) + 3 * int(action == 2)) & 3


@inner
def draw_board_number(i: Scalar, n: Scalar, rng: Array) -> Scalar:
    """A random number below `n` from board `i`'s stream."""
    bits = random_bits(rng[i, 0], rng[i, 1])
    rng[i, 1] += 1
    return below(bits, n)


@inner
def place_food(i: Scalar, state: Array, body: Array, bits: Array, rng: Array, size: Scalar) -> None:
    """Put the food on the k-th free cell, k drawn at random; there must be one."""
    k = draw_board_number(i, size * size - state[i, LENGTH], rng)
    tail = body[i, state[i, TAIL_AT]]
    set_bit(i, tail, bits)  # safe to move to, but not free
    row = 1
    free = ~bits[i, 1]
    count = count_set_bits(free)
    while k >= count:
        k -= count
        row += 1
        free = ~bits[i, row]
        count = count_set_bits(free)
    for _ in range(k):
        free &= free - 1
    clear_bit(i, tail, bits)
    state[i, FOOD] = cell_at(row, count_set_bits((free & -free) - 1))


@inner
def start_cell(i: Scalar, params: Array, rng: Array) -> Scalar:
    """Head and heading of a new snake."""
    size, behind = params[SIZE], params[START_LENGTH] - 1
    if params[RANDOM_START] == 0:
        return cell_at(size // 2 + 1, size // 2 + 1), 1
    side = size - 2 * params[BORDER]
    k = draw_board_number(i, side * side, rng)
    row, col = params[BORDER] + 1 + k // side, params[BORDER] + 1 + k % side
    # Room for the body behind the head, by heading: up, right, down, left.
    fits = (
        int(row + behind <= size),
        int(col - behind >= 1),
        int(row - behind >= 1),
        int(col + behind <= size),
    )
    k = draw_board_number(i, fits[0] + fits[1] + fits[2] + fits[3], rng)
    heading = 0
    while fits[heading] == 0 or k > 0:
        k -= fits[heading]
        heading += 1
    return cell_at(row, col), heading


@inner
def start_episode(i: Scalar, state: Array, body: Array, bits: Array, rng: Array, params: Array) -> None:
    """Place a new snake straight behind its head, and the first food."""
    size, length = params[SIZE], params[START_LENGTH]
    head, heading = start_cell(i, params, rng)
    bits[i, 0] = -1
    bits[i, size + 1] = -1
    for row in range(1, size + 1):
        bits[i, row] = ~(((1 << size) - 1) << 1)
    cell = head
    for k in range(length - 1, -1, -1):
        body[i, k] = cell
        if k > 0:  # all but the tail
            set_bit(i, cell, bits)
        cell = cell_ahead(cell, heading ^ 2)
    state[i, HEAD] = head
    state[i, HEADING] = heading
    state[i, LENGTH] = length
    state[i, TAIL_AT] = 0
    state[i, STEPS] = 0
    state[i, HUNGRY] = 0
    state[i, OVER] = 0
    state[i, SCORE] = 0
    place_food(i, state, body, bits, rng, size)


@inner
def move_snake(
    i: Scalar, cell: Scalar, eats: Scalar, state: Array, body: Array, bits: Array, size: Scalar
) -> None:
    """Put the head on `cell`, which is safe; unless it eats, the tail's neighbor becomes the tail."""
    cells = size * size
    tail_at, length = state[i, TAIL_AT], state[i, LENGTH]
    head_at = tail_at + length
    head_at = head_at - cells if head_at >= cells else head_at
    if eats:
        state[i, LENGTH] = length + 1
    else:
        tail_at = tail_at + 1 if tail_at + 1 < cells else 0
        clear_bit(i, body[i, tail_at], bits)
        state[i, TAIL_AT] = tail_at
    body[i, head_at] = cell
    set_bit(i, cell, bits)
    state[i, HEAD] = cell


@inner
def death_cause(i: Scalar, cell: Scalar, state: Array, bits: Array, size: Scalar) -> Scalar:
    """Why moving to `cell` was deadly: no safe move existed, the wall, or the body."""
    head, heading = state[i, HEAD], state[i, HEADING]
    straight = is_deadly(i, cell_ahead(head, heading), bits)
    right = is_deadly(i, cell_ahead(head, (heading + 1) & 3), bits)
    left = is_deadly(i, cell_ahead(head, (heading + 3) & 3), bits)
    if straight and right and left:
        return OUT_ENTRAPMENT
    return OUT_WALL if is_wall(cell, size) else OUT_SELF


@inner
def eat_food(i: Scalar, state: Array, body: Array, bits: Array, rng: Array, size: Scalar) -> Scalar:
    """Count the food and place the next; return whether the board is full."""
    state[i, SCORE] += 1
    state[i, HUNGRY] = 0
    if state[i, LENGTH] == size * size:
        state[i, FOOD] = NO_FOOD
        return True
    place_food(i, state, body, bits, rng, size)
    return False


@inner
def is_out_of_time(i: Scalar, state: Array, params: Array) -> Scalar:
    """Whether a step limit is reached; 0 means no limit."""
    flat = params[MAX_STEPS] > 0 and state[i, STEPS] >= params[MAX_STEPS]
    return flat or (params[MAX_HUNGRY] > 0 and state[i, HUNGRY] >= params[MAX_HUNGRY])


@inner
def play_move(
    i: Scalar, action: Scalar, state: Array, body: Array, bits: Array, rng: Array, params: Array
) -> Scalar:
    """Take an action; return the kind of its reward, and the cause of the episode's end or NO_OUTCOME."""
    size, head, food = params[SIZE], state[i, HEAD], state[i, FOOD]
    heading = chosen_heading(action, state[i, HEADING], params[ABSOLUTE])
    cell = cell_ahead(head, heading)
    state[i, STEPS] += 1
    if is_deadly(i, cell, bits):
        return DIED, death_cause(i, cell, state, bits, size)
    eats = cell == food
    state[i, HEADING] = heading
    state[i, HUNGRY] += 1
    move_snake(i, cell, eats, state, body, bits, size)
    earned = CLOSER if manhattan_distance(cell, food) < manhattan_distance(head, food) else FARTHER
    if eats:
        if eat_food(i, state, body, bits, rng, size):
            return WON, OUT_WIN
        earned = ATE
    return earned, OUT_TIMEOUT if is_out_of_time(i, state, params) else NO_OUTCOME


@inner
def advance_board(
    i: Scalar,
    action: Array,
    state: Array,
    body: Array,
    bits: Array,
    rng: Array,
    params: Array,
    rewards: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    outcomes: Array,
) -> None:
    """One step of board `i`: everything but the observation."""
    if state[i, OVER] != 0:
        start_episode(i, state, body, bits, rng, params)
        reward[i] = 0.0
        terminated[i] = False
        truncated[i] = False
        return
    earned, cause = play_move(i, action[i], state, body, bits, rng, params)
    reward[i] = rewards[earned]
    terminated[i] = cause != NO_OUTCOME and cause != OUT_TIMEOUT
    truncated[i] = cause == OUT_TIMEOUT
    if cause != NO_OUTCOME:
        state[i, OVER] = 1
        for k in range(NUM_OUTCOMES):
            outcomes[i, k] = k == cause
        outcomes[i, OUT_SCORE] = state[i, SCORE]
