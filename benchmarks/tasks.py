"""The presets for Gymnasium tasks with known answers: score over 100 new games, by seed, and training time.

python benchmarks/tasks.py --presets cartpole acrobot --seeds 3 [--jobs 2] [--device cuda] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import context, train_apart, write_json


def train(preset: str, seed: int, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as out:
        path = train_apart(preset, {"seed": seed, "device": device, "runtime.threads": 1}, out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    games = summary["evaluation"]
    row = {"preset": preset, "seed": seed, "score": games["mean_score"], "error": games["score_error"]}
    return row | {name: summary[name] for name in ("steps", "updates", "seconds", "train_ratio")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--presets", nargs="+", default=["cartpole", "acrobot", "lunarlander", "minatar-breakout"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    work = [(preset, seed) for preset in arguments.presets for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda item: train(*item, arguments.device), work))
    print("preset            seed     score            steps  ratio  training s")
    for row in rows:
        print(
            f"{row['preset']:<17} {row['seed']:>4}  {row['score']:8.2f} ± {row['error']:<5.2f} "
            f"{row['steps']:>9,}  {row['train_ratio']:5.3f}  {row['seconds']:10.1f}"
        )
    if arguments.json:
        write_json(arguments.json, {**context(arguments.device), "results": rows})


if __name__ == "__main__":
    main()
