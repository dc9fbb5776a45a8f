"""CartPole on our kernel layer, for the GPU: the equations and limits of Gymnasium's CartPole-v1.

Written for one board, compiled for CPU and CUDA threads, as `examples/own_game.py` is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, board_tensor, scalar
from flashdqn.compute.random_bits import board_keys, random_bits
from flashdqn.core.types import Step
from flashdqn.envs import ObsSpec

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MASS, MOMENT = CART + POLE, POLE * HALF_LENGTH
EDGE, LEAN, STEPS = 2.4, 12 * 2 * math.pi / 360, 500
CLOCK, OVER = range(2)  # columns of `state`
X, SPEED, ANGLE, TURN = range(4)  # columns of the observation


@scalar
def play(
    i: Scalar, action: Array, state: Array, rng: Array, obs: Array, reward: Array, terminated: Array,
    truncated: Array, outcomes: Array,
) -> None:  # fmt: skip
    """Move board `i`. After an end the action is ignored and a new episode starts (next-step autoreset)."""
    reward[i] = 0.0
    terminated[i] = False
    truncated[i] = False
    if state[i, OVER] == 1:
        for k in range(4):
            obs[i, k] = (random_bits(rng[i, 0], rng[i, 1]) & 0xFFFFFF) / 16777216.0 * 0.1 - 0.05
            rng[i, 1] += 1
        state[i, CLOCK], state[i, OVER] = 0, 0
    else:
        x, speed, angle, turn = obs[i, X], obs[i, SPEED], obs[i, ANGLE], obs[i, TURN]
        sine, cosine = math.sin(angle), math.cos(angle)
        push = ((FORCE if action[i] == 1 else -FORCE) + MOMENT * turn * turn * sine) / MASS
        bend = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cosine * cosine / MASS))
        pull = push - MOMENT * bend * cosine / MASS
        x, speed = x + SECONDS * speed, speed + SECONDS * pull
        angle, turn = angle + SECONDS * turn, turn + SECONDS * bend
        obs[i, X], obs[i, SPEED], obs[i, ANGLE], obs[i, TURN] = x, speed, angle, turn
        state[i, CLOCK] += 1
        reward[i] = 1.0
        terminated[i] = abs(x) > EDGE or abs(angle) > LEAN
        truncated[i] = not terminated[i] and state[i, CLOCK] == STEPS
        if terminated[i] or truncated[i]:
            state[i, OVER] = 1
            outcomes[i, 0] = state[i, CLOCK]


class CartPole:
    """`num_envs` poles; the score of an episode is its number of steps."""

    name = "cartpole"
    num_actions = 2
    obs_spec = ObsSpec((4,), torch.float32)
    outcome_names: tuple[str, ...] = ("score",)
    mask: Tensor | None = None

    def __init__(self, num_envs: int, device: str = "cpu") -> None:
        self.num_envs, self.device = num_envs, torch.device(device)
        self.capturable = self.device.type == "cuda"
        self._action = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._state = board_tensor(num_envs, (2,), torch.int32, device)
        self._rng = board_tensor(num_envs, (2,), torch.int64, device)
        self._step = Step(
            torch.zeros(num_envs, 4, device=device),
            torch.zeros(num_envs, device=device),
            torch.zeros(num_envs, dtype=torch.bool, device=device),
            torch.zeros(num_envs, dtype=torch.bool, device=device),
        )
        self.outcomes = torch.zeros(num_envs, 1, device=device)
        self._launch = Kernel(play).bind(
            num_envs, self._action, self._state, self._rng, *self._step[:4], self.outcomes
        )
        self.reset(0)

    def reset(self, seed: int) -> Tensor:
        """Start an episode on every board."""
        self._rng[:, 0] = board_keys(seed, self.num_envs).to(self.device)
        self._rng[:, 1] = 0
        self._state[:, OVER] = 1
        self._launch()
        return self._step.obs

    def step(self, action: Tensor) -> Step:
        """Take one action per board."""
        self._action.copy_(action)
        self._launch()
        return self._step

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all tensors that change."""
        return {name: tensor.clone() for name, tensor in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        for name, tensor in self._tensors().items():
            tensor.copy_(state[name])

    def _tensors(self) -> dict[str, Tensor]:
        obs, reward, terminated, truncated, _ = self._step
        ends = {"reward": reward, "terminated": terminated, "truncated": truncated}
        return {"state": self._state, "rng": self._rng, "obs": obs, **ends, "outcomes": self.outcomes}
