"""Does a falling score mean that learning got worse? The score beside what is really optimized, by checkpoint.

    python benchmarks/objective.py RUN [--games 1000] [--json FILE]

Learning maximizes the discounted return, not the score. For every checkpoint of a run this plays games without
exploration and prints both: score, steps per food, the discounted return from the first state, and the mean
over all states of the discounted return from there on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

import flashdqn
from flashdqn.envs import build_env
from flashdqn.runs.checkpoint import list_checkpoints
from measure import context, write_json


@torch.no_grad()
def play(agent: flashdqn.Agent, games: int, seed: int) -> dict[str, float]:
    """The first game of each board: rewards by step, [T, N], and what follows from them."""
    env = build_env(agent.config.env, games, torch.device("cpu"))
    obs = env.reset(seed)
    running = torch.ones(games, dtype=torch.bool)
    score = torch.zeros(games)
    rewards, alive = [], []
    while running.any():
        step = env.step(agent.act(obs))
        obs = step.obs
        rewards.append(step.reward * running)
        alive.append(running.clone())
        ended = running & (step.terminated | step.truncated)
        score = torch.where(ended, env.outcomes[:, 0], score)
        running &= ~ended
    value, values = torch.zeros(games), []
    for reward in reversed(rewards):
        value = reward + agent.config.learn.gamma * value
        values.append(value)
    length = torch.stack(alive).sum(0).float()
    return {
        "score": float(score.mean()),
        "steps/food": float(length.sum() / score.sum()),
        "first": float(value.mean()),
        "error": float(value.std() / games**0.5),
        "all": float(torch.stack(values[::-1])[torch.stack(alive)].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    print("      step   score  steps/food   discounted return: first state   all states")
    for path in list_checkpoints(arguments.run / "checkpoints"):
        row = play(flashdqn.load(path, "cpu"), arguments.games, seed=77)
        rows.append({"transitions": int(path.name), **row})
        print(
            f"{int(path.name):>10,}  {row['score']:6.2f}  {row['steps/food']:10.2f}   "
            f"{row['first']:18.2f} ± {row['error']:.2f}   {row['all']:14.2f}"
        )
    if arguments.json:
        config = json.loads((arguments.run / "config.json").read_text(encoding="utf-8"))
        write_json(arguments.json, {**context("cpu"), "config": config, "checkpoints": rows})


if __name__ == "__main__":
    main()
