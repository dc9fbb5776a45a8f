"""Snake again, naively: lists, sets and breadth-first search; the oracle for the compiled game.

It shares nothing with the game but its configuration, and draws the same random numbers in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flashdqn.envs.snake import SnakeConfig

Cell = tuple[int, int]

UP, RIGHT, DOWN, LEFT = (-1, 0), (0, 1), (1, 0), (0, -1)
HEADINGS = [UP, RIGHT, DOWN, LEFT]
ALL_64 = 2**64 - 1


def plain_mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL_64
    return x ^ (x >> 31)


def plain_key(seed: int, board: int) -> int:
    first = plain_mix((seed + 0x9E3779B97F4A7C15) & ALL_64)
    return plain_mix((first + (board + 1) * 0xBF58476D1CE4E5B9) & ALL_64)


def plain_bits(key: int, counter: int) -> int:
    return plain_mix((key + counter * 0x9E3779B97F4A7C15) & ALL_64)


@dataclass
class PlainRandom:
    key: int
    counter: int = 0

    def below(self, n: int) -> int:
        bits = plain_bits(self.key, self.counter)
        self.counter += 1
        return ((bits >> 32) * n) >> 32


@dataclass
class TwinStep:
    obs: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    outcomes: dict[str, float]  # empty unless the episode ended


def add(a: Cell, b: Cell) -> Cell:
    return a[0] + b[0], a[1] + b[1]


def manhattan(a: Cell, b: Cell) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def turned(heading: Cell, quarters: int) -> Cell:
    return HEADINGS[(HEADINGS.index(heading) + quarters) % 4]


@dataclass
class TwinSnake:
    config: SnakeConfig
    random: PlainRandom
    body: list[Cell] = field(default_factory=list)  # head first
    heading: Cell = RIGHT
    food: Cell | None = None
    steps: int = 0
    hungry: int = 0
    score: int = 0
    over: bool = True

    def __post_init__(self) -> None:
        side = range(self.config.size)
        self.cells = {(r, c): None for r in side for c in side}  # a set in order, row by row

    def step(self, action: int) -> TwinStep:
        if self.over:
            self.start()
            return TwinStep(self.observe(), 0.0, False, False, {})
        reward, cause = self.play(action)
        outcomes = {}
        if cause:
            self.over = True
            outcomes = dict.fromkeys(("score", "wall", "self", "entrapment", "timeout", "win"), 0.0)
            outcomes["score"] = float(self.score)
            outcomes[cause] = 1.0
        return TwinStep(self.observe(), reward, cause not in ("", "timeout"), cause == "timeout", outcomes)

    def start(self) -> None:
        config, size = self.config, self.config.size
        head, self.heading = (size // 2, size // 2), RIGHT
        if config.start == "random":
            allowed = range(config.border_distance, size - config.border_distance)
            heads = [(r, c) for r in allowed for c in allowed]
            head = heads[self.random.below(len(heads))]
            fitting = [h for h in HEADINGS if set(self.straight(head, h)) <= self.cells.keys()]
            self.heading = fitting[self.random.below(len(fitting))]
        self.body = self.straight(head, self.heading)
        self.steps = self.hungry = self.score = 0
        self.over = False
        self.place_food()

    def straight(self, head: Cell, heading: Cell) -> list[Cell]:
        return [(head[0] - k * heading[0], head[1] - k * heading[1]) for k in range(self.config.start_length)]

    def place_food(self) -> None:
        free = [cell for cell in self.cells if cell not in self.body]
        self.food = free[self.random.below(len(free))] if free else None

    def after(self, action: int) -> Cell:
        if self.config.actions == "relative":
            return turned(self.heading, {1: 1, 2: -1}.get(action, 0))
        if action not in range(4) or HEADINGS[action] == turned(self.heading, 2):
            return self.heading
        return HEADINGS[action]

    def grown(self, heading: Cell) -> list[Cell] | None:
        """The body after a move, or None if the move kills."""
        cell = add(self.body[0], heading)
        rest = self.body if cell == self.food else self.body[:-1]
        return None if cell in rest or cell not in self.cells else [cell, *rest]

    def play(self, action: int) -> tuple[float, str]:
        config = self.config
        heading = self.after(action)
        body = self.grown(heading)
        self.steps += 1
        if body is None:
            cell = add(self.body[0], heading)
            if all(self.grown(turned(self.heading, q)) is None for q in (-1, 0, 1)):
                return config.death_reward, "entrapment"
            return config.death_reward, "self" if cell in self.cells else "wall"
        assert self.food is not None
        closer = manhattan(self.body[0], self.food) - manhattan(body[0], self.food)
        shaping = config.distance_reward * closer / config.size
        ate = len(body) > len(self.body)
        self.body, self.heading = body, heading
        self.hungry += 1
        reward = config.step_reward + shaping
        if ate:
            reward = config.food_reward + shaping
            self.score += 1
            self.hungry = 0
            self.place_food()
            if len(self.body) == config.size**2:
                return reward + config.win_reward, "win"
        too_long = config.max_steps > 0 and self.steps >= config.max_steps
        too_hungry = config.hunger > 0 and self.hungry >= int(config.hunger * config.size**2)
        return reward, "timeout" if too_long or too_hungry else ""

    # observations

    def observe(self) -> np.ndarray:
        if self.config.features == "grid":
            return self.grid()
        headings = [self.after(a) for a in range(self.config.num_actions)]
        names = ["basic", "flood", "selective", "enhanced"]
        parts: list[Any] = [self.basic, self.flood, self.selective, self.enhanced]
        wanted = parts[: names.index(self.config.features) + 1]
        return np.array([x for part in wanted for x in part(headings)], dtype=np.float32)

    def directions(self, cell: Cell | None) -> list[float]:
        if cell is None:
            return [0.0] * 4
        (row, col), (r, c) = self.body[0], cell
        return [float(r < row), float(c > col), float(r > row), float(c < col)]

    def basic(self, headings: list[Cell]) -> list[float]:
        danger = [float(self.grown(h) is None) for h in headings]
        return danger + self.directions(self.food) + [float(h == self.heading) for h in HEADINGS]

    def flood(self, headings: list[Cell]) -> list[np.float32]:
        return [self.share(h) for h in headings]

    def share(self, heading: Cell) -> np.float32:
        body = self.grown(heading)
        if body is None:
            return np.float32(0)
        free = self.cells.keys() - set(body)
        if not free:
            return np.float32(1)
        return np.float32(len(component(body[0], free)) - 1) / np.float32(len(free))

    def selective(self, headings: list[Cell]) -> list[float]:
        tail = self.body[-1]
        open_cells = (self.cells.keys() - set(self.body)) | {tail}
        reached = any(
            tail in component(add(self.body[0], h), open_cells) for h in headings if self.grown(h) is not None
        )
        return [*self.directions(tail), float(reached)]

    def enhanced(self, headings: list[Cell]) -> list[np.float32]:
        size, tail = self.config.size, self.body[-1]
        far = np.float32(manhattan(self.body[0], tail)) / np.float32(2 * (size - 1))
        long = np.float32(len(self.body)) / np.float32(size * size)
        return [*(self.escapes(h) for h in headings), far, long]

    def escapes(self, heading: Cell) -> np.float32:
        body = self.grown(heading)
        if body is None:
            return np.float32(0)
        onward = [add(body[0], turned(heading, q)) for q in (-1, 0, 1)]
        safe = [cell for cell in onward if cell in self.cells and cell not in body[:-1]]
        return np.float32(len(safe)) / np.float32(3)

    def grid(self) -> np.ndarray:
        planes = np.zeros((3, self.config.size, self.config.size), dtype=np.uint8)
        planes[(0, *self.body[0])] = 255
        for k, cell in enumerate(reversed(self.body)):
            root = next(r for r in range(204, -1, -1) if r * r * len(self.cells) <= 204 * 204 * (k + 1))
            planes[(1, *cell)] = 51 + root
        if self.food is not None:
            planes[(2, *self.food)] = 255
        return planes


def component(start: Cell, allowed: set[Cell]) -> set[Cell]:
    """All cells joined to `start` through allowed cells; `start` itself belongs to it."""
    found, frontier = {start}, [start]
    while frontier:
        cell = frontier.pop(0)
        for heading in HEADINGS:
            neighbor = add(cell, heading)
            if neighbor in allowed and neighbor not in found:
                found.add(neighbor)
                frontier.append(neighbor)
    return found
