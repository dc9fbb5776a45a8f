"""Our games with another trainer: Stable-Baselines3 learns `flashdqn/Snake-v0` unchanged.

    make bench-setup                                   # Stable-Baselines3 comes with the benchmarks
    .venv-bench/bin/python examples/sb3_on_snake.py    # about a minute

It prints the mean score (food eaten) over fifty games before and after.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import stable_baselines3 as sb3
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

import flashdqn  # noqa: F401 - registers flashdqn/Snake-v0

GAME = "flashdqn/Snake-v0"
SETTINGS: dict[str, Any] = {"size": 8, "features": "flood"}


def mean_score(model: DQN, games: int) -> float:
    """Food per game, played greedily; every game has its own seed."""
    env = gymnasium.make(GAME, **SETTINGS)
    total = 0.0
    for seed in range(games):
        obs, info = env.reset(seed=seed)
        while "outcomes" not in info:
            action, _ = model.predict(obs, deterministic=True)
            obs, _, _, _, info = env.step(action)
        total += info["outcomes"]["score"]
    return total / games


def main() -> None:
    """Train, and print the score before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--games", type=int, default=50)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    envs = make_vec_env(GAME, n_envs=8, seed=0, env_kwargs=SETTINGS)
    model = DQN(
        "MlpPolicy",
        envs,
        learning_rate=1e-3,
        learning_starts=1000,
        batch_size=64,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=2000,
        exploration_fraction=0.4,
        exploration_final_eps=0.02,
        policy_kwargs={"net_arch": [128, 128]},
        seed=0,
        device="cpu",
    )
    before = mean_score(model, arguments.games)
    model.learn(arguments.steps)
    after = mean_score(model, arguments.games)
    print(
        f"food a game: {before:.2f} before, {after:.2f} after {arguments.steps:,} steps (SB3 {sb3.__version__})"
    )


if __name__ == "__main__":
    main()
