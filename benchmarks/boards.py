"""How well the five feature sets learn Snake, and how agents trained on 10x10 play on other boards.

    python benchmarks/boards.py --resume                      # all that is missing; continues where it stopped
    python benchmarks/boards.py --features flood --seeds 5
    python benchmarks/boards.py --random                      # only random play
    python benchmarks/quality.py --write docs/results.md      # the page, from what was measured

Every feature set has the same budget, algorithm (double DQN), rewards and settings; `grid` has a small CNN, the
others an MLP. Every training is a process with one thread. The best checkpoint plays fresh games on every board;
`grid` only on 10x10, because its network has the board's size. Random play is measured in the same games. Only
learning is measured here: trainings may share their machine with other work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from flashdqn.agent.agent import load_agent
from flashdqn.agent.other_env import change_env
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.core.user_code import NO_PERMISSION
from flashdqn.envs import SnakeConfig, build_evaluation_env
from flashdqn.training.evaluate import Evaluation
from measure import context, train_apart, write_json
from random_play import play_games_randomly

RESULTS = Path(__file__).parent / "results" / "boards.json"
PRESET = "snake-flood"
SETTINGS: dict[str, Any] = {
    "steps": 300_000,
    "envs": 64,
    "train_ratio": 0.0625,
    "learn.starts": 2000,
    "learn.lr_over": 300_000,
    "explore.over": 50_000,
    "eval.every": 50_000,
    "eval.max_share": 1.0,
    "log.tensorboard": False,
    "log.game": False,
    "log.checkpoint_every": 0,
    "runtime.threads": 1,
}
#: What differs between the feature sets.
FEATURES: dict[str, dict[str, Any]] = {
    "basic": {},
    "flood": {},
    "selective": {},
    "enhanced": {},
    "grid": {"network.torso": "cnn", "network.channels": (16, 16)},
}
TRAINED, SIZES = 10, (8, 10, 15, 20)
GAMES, SEED = 500, 20261116
#: Mean scores of a public report for an agent that was trained on 10x10 and played on these sizes.
PUBLISHED = {8: 20.0, 10: 26.4, 15: 45.1, 20: 52.3}


def train(features: str, seed: int) -> Iterator[dict[str, Any]]:
    """Train one agent, and play with it on every board that its network can take."""
    with tempfile.TemporaryDirectory() as out:
        settings = SETTINGS | FEATURES[features] | {"env.features": features, "seed": seed, "device": "cpu"}
        path = train_apart(PRESET, settings, out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        for size in SIZES if features != "grid" else (TRAINED,):
            agent = load_agent(path, "cpu", NO_PERMISSION, change=resize(size))
            row = describe_games(features, seed, size, agent.evaluate(GAMES, SEED))
            yield row | {"transitions": summary["steps"], "updates": summary["updates"]}


def resize(size: int) -> Callable[[Config], Config]:
    """Gives a run's configuration boards of this size."""

    def change(config: Config) -> Config:
        assert isinstance(config.env, SnakeConfig)
        return change_env(config, replace(config.env, size=size))

    return change


def play_randomly(size: int) -> dict[str, Any]:
    """Random play on boards of one size."""
    config = resize(size)(base_config(PRESET))
    env = build_evaluation_env(config.env, GAMES, torch.device("cpu"))
    return describe_games("random", 0, size, play_games_randomly(env, SEED))


def describe_games(features: str, seed: int, size: int, games: Evaluation) -> dict[str, Any]:
    """One row of the results."""
    return {
        "features": features,
        "seed": seed,
        "size": size,
        "score": games.mean_score,
        "score_error": games.score_error,
        "games": games.episodes,
        "cut_off": games.unfinished,
        "length": games.mean_length,
        "outcomes": games.outcomes,
    }


def list_scores(results: list[dict[str, Any]], features: str, size: int) -> list[float]:
    """The scores of a feature set on one size, one for each seed."""
    return [row["score"] for row in results if (row["features"], row["size"]) == (features, size)]


def write_section(data: dict[str, Any], interval: Callable[[list[float]], tuple[float, float]]) -> list[str]:
    """The part of docs/results.md that these results make."""
    results, seeds = data["results"], len({row["seed"] for row in data["results"]})
    lines = [
        "## Feature sets, and other boards",
        "",
        f"Double DQN, {SETTINGS['steps']:,} transitions on 10x10 with each feature set, train ratio "
        f"{SETTINGS['train_ratio']}, {SETTINGS['envs']} boards, {seeds} seeds; `grid` has a CNN of two layers, the "
        f"others an MLP. The best checkpoint plays {GAMES} fresh games on each size, unchanged "
        "(`flashdqn eval RUN --env.size 15`); mean score, with a 95 % interval over seeds. Random play has the "
        f"same games. {data['date']}, {data['device']}, {data['cores']} cores that had other work to do: only "
        "learning is measured.",
        "",
        "| features | " + " | ".join(f"{size}x{size}" for size in SIZES) + " |",
        "|---|" + "---|" * len(SIZES),
    ]
    for features in (*FEATURES, "random"):
        cells = []
        for size in SIZES:
            scores = list_scores(results, features, size)
            mean, half = interval(scores) if scores else (0.0, 0.0)
            spread = f" ± {half:.1f}" if len(scores) > 1 else ""
            cells.append(f"{mean:.1f}{spread}" if scores else "–")
        lines.append(f"| {features} | {' | '.join(cells)} |")
    if not list_scores(results, "grid", TRAINED):
        lines[2] += " `grid` is not measured yet."
    lines += [
        "| *published* | " + " | ".join(f"{score:.1f}" for score in PUBLISHED.values()) + " |",
        "",
        "*Published*: a public report's agent, trained on 10x10 and tested on the other sizes; its budget is not "
        "the same, and it cuts games off after 1000 steps, ours after 2 · size² steps without food. A `grid` "
        f"network has the size of its board, so it plays on no other; {SETTINGS['steps']:,} transitions are few "
        "for it: `snake-grid` takes a GPU and a thousand times as many.",
        "",
        "`python benchmarks/boards.py`, from `benchmarks/results/boards.json`.",
        "",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--features", nargs="+", choices=list(FEATURES), default=list(FEATURES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--random", action="store_true", help="only random play")
    parser.add_argument(
        "--resume", action="store_true", help="keep the results in the file, do what is missing"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data: dict[str, Any] = {**context("cpu"), "settings": SETTINGS | {"features": FEATURES}, "results": []}
    if arguments.resume and arguments.json.exists():
        data["results"] = json.loads(arguments.json.read_text(encoding="utf-8"))["results"]
    done = {(row["features"], row["seed"]) for row in data["results"]}
    if ("random", 0) not in done:
        data["results"] += [play_randomly(size) for size in SIZES]
    work = [(f, s) for s in range(arguments.seeds) for f in arguments.features if (f, s) not in done]
    for features, seed in [] if arguments.random else work:
        rows = list(train(features, seed))
        data["results"] += rows
        write_json(arguments.json, data)
        scores = "  ".join(f"{row['size']}: {row['score']:.2f}" for row in rows)
        print(f"{features:<10} seed {seed}  {scores}", flush=True)
    write_json(arguments.json, data)


if __name__ == "__main__":
    main()
