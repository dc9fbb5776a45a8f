"""Snake as a vectorized environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, board_tensor, inner
from flashdqn.compute.random_bits import board_keys
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step
from flashdqn.envs.kernel_env import copy_actions, copy_state, resolve_kernel_device, restore_state
from flashdqn.envs.snake import rules
from flashdqn.envs.snake.board import MASK, SHIFT
from flashdqn.envs.snake.config import SnakeConfig
from flashdqn.envs.snake.features import (
    LEVELS,
    body_shades,
    observe_grid,
    observe_vector,
    vector_length,
)
from flashdqn.envs.snake.rules import advance_board
from flashdqn.envs.snake.saved_state import check_snake_state


@inner
def play_vector(
    i: Scalar,
    action: Array,
    state: Array,
    body: Array,
    bits: Array,
    rng: Array,
    params: Array,
    rewards: Array,
    obs: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    outcomes: Array,
) -> None:
    """Step board `i` and observe it as a vector."""
    advance_board(i, action, state, body, bits, rng, params, rewards, reward, terminated, truncated, outcomes)
    observe_vector(i, state, body, bits, params, obs)


@inner
def play_grid(
    i: Scalar,
    action: Array,
    state: Array,
    body: Array,
    bits: Array,
    rng: Array,
    params: Array,
    rewards: Array,
    shades: Array,
    obs: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    outcomes: Array,
) -> None:
    """Step board `i` and observe it as planes."""
    advance_board(i, action, state, body, bits, rng, params, rewards, reward, terminated, truncated, outcomes)
    observe_grid(i, state, body, params, shades, obs)


# A board takes 30 to 150 ns: a single thread plays a thousand in the time of a small network's forward pass.
# The other cores are then free for the network.
PARALLEL_FROM = 1024


class Board(NamedTuple):
    """One board for pictures; cells are (row, column)."""

    size: int
    body: list[tuple[int, int]]  # head first, tail last
    food: tuple[int, int] | None


class Snake:
    """`num_envs` boards of Snake on one device, played by one kernel launch per step.

    An action out of range goes straight. Outputs are static buffers, overwritten by the next step.
    """

    name = "snake"
    outcome_names: tuple[str, ...] = rules.OUTCOMES
    first_board = 0
    cause_names: tuple[str, ...] = rules.OUTCOMES[rules.OUT_WALL :]
    mask: Tensor | None = None

    def __init__(self, config: SnakeConfig, num_envs: int, device: torch.device | str = "cpu") -> None:
        self.config = config
        self.num_envs = num_envs
        self.device = resolve_kernel_device(torch.device(device), "Snake")
        self.num_actions = config.num_actions
        self.obs_spec = _obs_spec(config)
        self.capturable = self.device.type == "cuda"
        if num_envs < 1:
            raise EnvError(f"Snake needs at least one board; num_envs is {num_envs}.")
        self._allocate()
        grid = config.features == "grid"
        tables = [_make_params(config), _make_rewards(config), *([_make_shades(config)] if grid else [])]
        self._launch = Kernel(play_grid if grid else play_vector, PARALLEL_FROM, skippable=True).bind(
            num_envs,
            self._action,
            self._state,
            self._body,
            self._bits,
            self._rng,
            *(table.to(self.device) for table in tables),
            *self._step[:4],
            self.outcomes,
        )
        self.reset(0)

    def _allocate(self) -> None:
        n, size, device = self.num_envs, self.config.size, self.device
        self._action = self.action_buffer = torch.zeros(n, dtype=torch.int64, device=device)
        self._state = board_tensor(n, (rules.STATE,), torch.int32, device)
        self._body = board_tensor(n, (size * size,), torch.int16, device)
        self._bits = board_tensor(n, (2 * (size + 2),), torch.int64, device)
        self._rng = board_tensor(n, (2,), torch.int64, device)
        # Outputs lie row by row on every device: that is how networks and rings read them.
        self._step = Step(
            obs=torch.zeros(n, *self.obs_spec.shape, dtype=self.obs_spec.dtype, device=device),
            reward=torch.zeros(n, device=device),
            terminated=torch.zeros(n, dtype=torch.bool, device=device),
            truncated=torch.zeros(n, dtype=torch.bool, device=device),
        )
        self.outcomes = torch.zeros(n, len(self.outcome_names), device=device)

    def reset(self, seed: int) -> Tensor:
        """Start an episode on every board; the same seed gives the same games. Returns obs [N, …]."""
        self._rng[:, 0] = board_keys(seed, self.num_envs, self.first_board).to(self.device)
        self._rng[:, 1] = 0
        self._state[:, rules.OVER] = 1  # the step after an end starts an episode
        self.outcomes.zero_()
        self._launch()
        return self._step.obs

    def step(self, action: Tensor) -> Step:
        """Take one action, [N] of any integer dtype, on every board."""
        copy_actions(self._action, action, "Snake")
        self._launch()
        return self._step

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to continue from here, as copies."""
        return copy_state(self._tensors())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken, on any device."""
        settings = "board side, features, actions, number of boards"
        restore_state(self._tensors(), state, "Snake", settings, self._check)

    def _check(self, state: Mapping[str, Tensor]) -> None:
        check_snake_state(state, self.config.size)

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "state": self._state,
            "body": self._body,
            "bits": self._bits,
            "rng": self._rng,
            "obs": self._step.obs,
            "reward": self._step.reward,
            "terminated": self._step.terminated,
            "truncated": self._step.truncated,
            "outcomes": self.outcomes,
        }

    def board(self, i: int) -> Board:
        """Body and food of board `i`, for pictures only: this reads the device."""
        state = self._state[i].tolist()
        ring = self._body[i].tolist()
        length, tail_at, food = state[rules.LENGTH], state[rules.TAIL_AT], state[rules.FOOD]
        cells = [ring[(tail_at + k) % len(ring)] for k in reversed(range(length))]
        return Board(
            self.config.size,
            [_row_and_column(cell) for cell in cells],
            None if food == rules.NO_FOOD else _row_and_column(food),
        )

    def render(self, i: int) -> str:
        """Board `i` as text: @ head, o body, * food."""
        board = self.board(i)
        rows = [["."] * board.size for _ in range(board.size)]
        if board.food is not None:
            rows[board.food[0]][board.food[1]] = "*"
        for k, (row, col) in enumerate(board.body):
            rows[row][col] = "o" if k else "@"
        return "\n".join(" ".join(row) for row in rows)


def _row_and_column(cell: int) -> tuple[int, int]:
    return (cell >> SHIFT) - 1, (cell & MASK) - 1


def _obs_spec(config: SnakeConfig) -> ObsSpec:
    if config.features == "grid":
        return ObsSpec((3, config.size, config.size), torch.uint8)
    return ObsSpec((vector_length(config.features, config.num_actions),), torch.float32)


def _make_params(config: SnakeConfig) -> Tensor:
    """The kernel's parameters as data, so a new setting does not compile it again; [PARAMS] int32."""
    params = torch.zeros(rules.PARAMS, dtype=torch.int32)
    params[rules.SIZE] = config.size
    params[rules.ABSOLUTE] = int(config.actions == "absolute")
    params[rules.LEVEL] = 0 if config.features == "grid" else LEVELS.index(config.features)
    params[rules.START_LENGTH] = config.start_length
    params[rules.RANDOM_START] = int(config.start == "random")
    params[rules.BORDER] = config.border_distance
    params[rules.MAX_STEPS] = config.max_steps
    params[rules.MAX_HUNGRY] = config.hunger_steps
    return params


def _make_rewards(config: SnakeConfig) -> Tensor:
    """The reward of each kind of move; a move changes the distance to the food by one. [REWARDS] float32."""
    shaping = config.distance_reward / config.size
    rewards = torch.zeros(rules.REWARDS)
    rewards[rules.CLOSER] = config.step_reward + shaping
    rewards[rules.FARTHER] = config.step_reward - shaping
    rewards[rules.ATE] = config.food_reward + shaping
    rewards[rules.WON] = config.food_reward + config.win_reward + shaping
    rewards[rules.DIED] = config.death_reward
    return rewards


def _make_shades(config: SnakeConfig) -> Tensor:
    """The byte in the body's plane for each number of steps until a cell is free; [S² + 1] uint8."""
    return torch.tensor(body_shades(config.size), dtype=torch.uint8)
