"""What presets reach: score over 100 fresh games, by seed, and the time it took.

python benchmarks/tasks.py --presets cartpole acrobot --seeds 3 [--jobs 2] [--device cuda] [--json FILE]
python benchmarks/tasks.py --presets snake-flood --seeds 4 --threads 0     # what `make train` runs
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from flashdqn.config.presets import base_config
from flashdqn.core.contract import close_env
from flashdqn.envs import build_evaluation_env
from measure import RATES, context, train_apart, write_json
from random_play import play_games_randomly


def train(preset: str, seed: int, device: str, threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as out:
        path = train_apart(preset, {"seed": seed, "device": device, "runtime.threads": threads}, out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    games = summary["evaluation"]
    row = {"preset": preset, "seed": seed, "score": games["mean_score"], "error": games["score_error"]}
    return row | {name: summary[name] for name in ("steps", "updates", "seconds", "warm_up_seconds", *RATES)}


def play_randomly(preset: str) -> dict[str, Any]:
    """Random play in the preset's environment."""
    env = build_evaluation_env(base_config(preset).env, 100, torch.device("cpu"))
    games = play_games_randomly(env, seed=0)
    close_env(env)
    return {"preset": preset, "score": games.mean_score, "error": games.score_error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--presets", nargs="+", default=["cartpole", "acrobot", "lunarlander", "minatar-breakout"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="0: the trainer chooses")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    work = [(preset, seed) for preset in arguments.presets for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda item: train(*item, arguments.device, arguments.threads), work))
    print("preset            seed     score            steps  ratio  batch  reuse  training s    wall s")
    for row in rows:
        print(
            f"{row['preset']:<17} {row['seed']:>4}  {row['score']:8.2f} ± {row['error']:<5.2f} "
            f"{row['steps']:>9,}  {row['train_ratio']:5.3f}  {row['batch']:5}  {row['reuse']:5.3g}  "
            f"{row['seconds']:10.1f}  {row['wall_seconds']:8.1f}"
        )
    chance = [play_randomly(preset) for preset in arguments.presets]
    for row in chance:
        print(f"{row['preset']:<17} {'random':>6} {row['score']:7.2f} ± {row['error']:<5.2f}")
    if arguments.json:
        write_json(arguments.json, {**context(arguments.device), "results": rows, "random": chance})


if __name__ == "__main__":
    main()
