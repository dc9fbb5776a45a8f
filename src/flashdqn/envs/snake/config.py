"""The settings of Snake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import FLOAT32, Between, check_values
from flashdqn.envs.task import EnvConfig

Actions = Literal["relative", "absolute"]
Features = Literal["basic", "flood", "selective", "enhanced", "grid"]
Start = Literal["center", "random"]

MIN_SIZE, MAX_SIZE = 4, 32  # a row of the board is one 32-bit word
REWARDS = Between(-FLOAT32, FLOAT32)


@dataclass(frozen=True)
class SnakeConfig(EnvConfig):
    """Board, actions, observations, ends and rewards of Snake."""

    task: ClassVar[str] = "snake"

    size: Annotated[int, Between(MIN_SIZE, MAX_SIZE)] = 10
    """Side of the square board, 4 to 32."""
    actions: Actions = "relative"
    """The moves. relative: straight, right, left. absolute: up, right, down, left; a reversal goes straight on."""
    features: Features = "flood"
    """What the agent sees: basic ⊂ flood ⊂ selective ⊂ enhanced are vectors, grid is three uint8 planes
    (head, body, food)."""
    start_length: Annotated[int, Between(0, MAX_SIZE)] = 3
    """Length of the starting snake in cells, at least 2; its body lies straight behind its head."""
    start: Start = "center"
    """Where the snake starts. center: in the middle, heading right. random: any cell and heading where it fits."""
    border_distance: Annotated[int, Between(0, MAX_SIZE)] = 0
    """Smallest number of cells between the head and the border; needs start random."""
    max_steps: Annotated[int, Between(0, 2**31 - 1)] = 0
    """Truncate an episode after this many steps; 0: no limit."""
    hunger: Annotated[float, Between(0, 2**31)] = 2.0
    """Truncate an episode after hunger · size² steps without food; 0: no limit."""
    food_reward: Annotated[float, REWARDS] = 10.0
    """Reward of a step that eats."""
    death_reward: Annotated[float, REWARDS] = -10.0
    """Reward of the step that ends in a wall or in the body."""
    step_reward: Annotated[float, REWARDS] = -0.01
    """Reward of a step that neither eats nor dies."""
    win_reward: Annotated[float, REWARDS] = 0.0
    """Added to the food's reward when the snake fills the board."""
    distance_reward: Annotated[float, REWARDS] = 0.0
    """Shaping for every move that survives: this · (old − new Manhattan distance to the food) / size."""

    def __post_init__(self) -> None:
        check_values(self, "env.")
        self._check_hunger()
        self._check_start()

    @property
    def num_actions(self) -> int:
        """3 relative moves or 4 absolute ones."""
        return len(self.action_names)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the moves."""
        relative = self.actions == "relative"
        return ("straight", "right", "left") if relative else ("up", "right", "down", "left")

    @property
    def hunger_steps(self) -> int:
        """Steps without food after which an episode is truncated; 0 for none."""
        return int(self.hunger * self.size**2)

    def _check_hunger(self) -> None:
        if self.hunger != 0 and not 1 <= self.hunger * self.size**2 < 2**31:
            raise ConfigError(
                f"env.hunger must be 0 (no cap) or leave at least one step, hunger · size² ≥ 1; "
                f"it is {self.hunger} on a board of side {self.size}. 2.0 is a good value."
            )

    def _check_start(self) -> None:
        if self.border_distance and self.start != "random":
            raise ConfigError(
                f"env.border_distance {self.border_distance} is for random starts, and env.start is "
                f"'{self.start}': add --env.start random, or leave it out."
            )
        # From the middle there are size // 2 cells behind the head. From any other cell there are at least as
        # many in some direction. So one bound serves both kinds of start.
        longest = self.size // 2 + 1
        if not 2 <= self.start_length <= longest:
            raise ConfigError(
                f"A starting snake of {self.start_length} does not fit a board of side {self.size}: "
                f"set env.start_length to 2 to {longest}, or choose a larger env.size."
            )
        farthest = (self.size - 1) // 2
        if not 0 <= self.border_distance <= farthest:
            raise ConfigError(
                f"env.border_distance must be 0 to {farthest} on a board of side {self.size}; "
                f"it is {self.border_distance}."
            )
