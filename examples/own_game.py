"""Your own game on the kernel layer, in one file: `python examples/own_game.py` checks it and plays it.

*Coins*: a walker on a ring of twelve cells looks for a coin. It moves left or right. The coin pays 1 and then falls
somewhere else. The episode is cut off after thirty steps. Written for one board, compiled for CPU and CUDA threads.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, board_tensor, scalar
from flashdqn.compute.random_bits import below, board_keys, random_bits
from flashdqn.core.types import Step
from flashdqn.envs import ObsSpec, check_env

CELLS, STEPS = 12, 30
WALKER, COIN, CLOCK, OVER, COINS = range(5)  # columns of the state


@scalar
def draw(i: Scalar, rng: Array) -> Scalar:
    """A random cell; the generator is a key and a counter in the state."""
    cell = below(random_bits(rng[i, 0], rng[i, 1]), CELLS)
    rng[i, 1] += 1
    return cell


@scalar
def play(
    i: Scalar,
    action: Array,
    state: Array,
    rng: Array,
    obs: Array,
    reward: Array,
    truncated: Array,
    outcomes: Array,
) -> None:
    """Move board `i`. After an end the action is ignored and a new episode starts (next-step autoreset)."""
    reward[i] = 0.0
    truncated[i] = False
    if state[i, OVER] == 1:
        state[i, WALKER], state[i, COIN] = draw(i, rng), draw(i, rng)
        state[i, CLOCK], state[i, OVER], state[i, COINS] = 0, 0, 0
    else:
        state[i, WALKER] = (state[i, WALKER] + (1 if action[i] == 1 else CELLS - 1)) % CELLS
        state[i, CLOCK] += 1
        if state[i, WALKER] == state[i, COIN]:
            reward[i] = 1.0
            state[i, COINS] += 1
            state[i, COIN] = draw(i, rng)
        if state[i, CLOCK] == STEPS:
            truncated[i] = True
            state[i, OVER] = 1
            outcomes[i, 0] = state[i, COINS]
    for cell in range(CELLS):
        obs[i, cell] = 1.0 if cell == state[i, WALKER] else 0.0
        obs[i, CELLS + cell] = 1.0 if cell == state[i, COIN] else 0.0


class Coins:
    """The game as a vectorized environment: tensors, one launch per step, and the state for checkpoints."""

    name = "coins"
    num_actions = 2
    obs_spec = ObsSpec((2 * CELLS,), torch.float32)
    outcome_names: tuple[str, ...] = ("score",)
    mask: Tensor | None = None

    def __init__(self, num_envs: int, device: str = "cpu") -> None:
        self.num_envs, self.device = num_envs, torch.device(device)
        self.capturable = self.device.type == "cuda"  # a CUDA graph may hold a step: nothing is read back
        self._action = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._state = board_tensor(num_envs, (5,), torch.int32, device)
        self._rng = board_tensor(num_envs, (2,), torch.int64, device)
        self._obs = torch.zeros(num_envs, 2 * CELLS, device=device)
        self._reward = torch.zeros(num_envs, device=device)
        self._never = torch.zeros(num_envs, dtype=torch.bool, device=device)  # it never terminates
        self._truncated = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self.outcomes = torch.zeros(num_envs, 1, device=device)
        self._launch = Kernel(play).bind(
            num_envs,
            self._action,
            self._state,
            self._rng,
            self._obs,
            self._reward,
            self._truncated,
            self.outcomes,
        )
        self.reset(0)

    def reset(self, seed: int) -> Tensor:
        """Start an episode on every board."""
        self._rng[:, 0] = board_keys(seed, self.num_envs).to(self.device)
        self._rng[:, 1] = 0
        self._state[:, OVER] = 1
        self._launch()
        return self._obs

    def step(self, action: Tensor) -> Step:
        """Take one action per board."""
        self._action.copy_(action)
        self._launch()
        return Step(self._obs, self._reward, self._never, self._truncated)

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all tensors that change."""
        return {name: tensor.clone() for name, tensor in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        for name, tensor in self._tensors().items():
            tensor.copy_(state[name])

    def _tensors(self) -> dict[str, Tensor]:
        return {"state": self._state, "rng": self._rng, "obs": self._obs, "outcomes": self.outcomes}


if __name__ == "__main__":
    print(check_env(Coins(num_envs=64)))
