"""Your own environment: a class with Gymnasium's interface, trained, judged and played.

python examples/train_own_env.py
"""

from typing import Any

import gymnasium
import numpy as np

import flashdqn

CELLS = 8


class Corridor(gymnasium.Env[np.ndarray[Any, Any], int]):
    """Walk to the right end of a corridor. Every step costs a little."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)  # left, right

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start in the left half."""
        super().reset(seed=seed)
        self.cell, self.steps = int(self.np_random.integers(CELLS // 2)), 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go left or right."""
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        self.steps += 1
        there = self.cell == CELLS - 1
        return self._obs(), 1.0 if there else -0.05, there, self.steps >= 40, {}

    def _obs(self) -> np.ndarray[Any, Any]:
        return np.array([self.cell / (CELLS - 1)], dtype=np.float32)


if __name__ == "__main__":
    # The class, not an instance: 16 environments are trained on at once, and evaluation makes its own.
    run = flashdqn.train(
        Corridor,
        steps=4_000,
        learn={"starts": 500, "lr": 1e-3, "target_every": 100},
        explore={"over": 2_000},
        eval={"every": 1_000},
        log={"every": 1_000},
    )
    agent, env = run.agent(), Corridor()
    obs, _ = env.reset(seed=1)
    path, over = [env.cell], False
    while not over:
        obs, _, terminated, truncated, _ = env.step(agent.act(obs))
        path.append(env.cell)
        over = terminated or truncated
    print(f"score {run.score:.2f}, cells {path}")
