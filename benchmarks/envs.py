"""Speed of the built-in environment alone: steps per second by feature set, board count and device.

    python benchmarks/envs.py --device cpu --boards 256 4096 --json envs.json

Two players: `random` actions, so short snakes; and `mid-game`, where a greedy player first grew the snakes and
then replays its own moves, so the boards are what a trained agent sees. Resets are steps of the environment but
not transitions: the table gives transitions per second, and the share of resets beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashdqn.envs.snake import Snake, SnakeConfig
from flashdqn.envs.snake.rules import LENGTH, OVER
from measure import context, write_json

FEATURES = ("basic", "flood", "selective", "enhanced", "grid")
GRAPH_STEPS = 32


def greedy(enhanced: Tensor) -> Tensor:
    """Relative moves from `enhanced` observations: safe and open cells first, then towards the food. [N]"""
    danger, food, heading, reach = enhanced[:, :3], enhanced[:, 3:7], enhanced[:, 7:11], enhanced[:, 11:14]
    towards = []
    for turn in (0, 1, 3):  # straight, right, left as headings: the food lies that way, or the opposite
        way = heading.roll(turn, 1)
        towards.append((food * way).sum(1) - (food * way.roll(2, 1)).sum(1))
    score = 4 * reach - 100 * danger + torch.stack(towards, 1)  # [N, 3]
    return score.argmax(1)


def mid_game(
    config: SnakeConfig, num_boards: int, device: str, warmup: int
) -> tuple[dict[str, Tensor], Tensor]:
    """A state in which snakes have grown, and the greedy moves that follow it, [GRAPH_STEPS, N]."""
    env = Snake(SnakeConfig(size=config.size, features="enhanced"), num_boards, device)
    obs = env.reset(0)
    for _ in range(warmup):
        obs = env.step(greedy(obs)).obs
    state = env.state_dict()
    actions = []
    for _ in range(GRAPH_STEPS):
        actions.append(greedy(obs))
        obs = env.step(actions[-1]).obs
    return state, torch.stack(actions)


def seconds_per_step(run: Callable[[], None], steps: int, device: str, repeats: int) -> float:
    """Median over repeats; each repeat runs for about 0.1 s."""

    def synchronize() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    run()
    synchronize()
    start = time.perf_counter()
    run()
    synchronize()
    loops = max(1, round(0.1 / (time.perf_counter() - start)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(loops):
            run()
        synchronize()
        times.append((time.perf_counter() - start) / (loops * steps))
    return statistics.median(times)


def measure(
    config: SnakeConfig, num_boards: int, device: str, player: str, repeats: int
) -> list[dict[str, Any]]:
    """Rows of the table for one feature set, board count and player: eager and, on CUDA, as a graph."""
    env = Snake(config, num_boards, device)
    if player == "random":
        generator = torch.Generator().manual_seed(0)
        actions = torch.randint(0, 3, (GRAPH_STEPS, num_boards), generator=generator).to(device)
        for k in range(4 * GRAPH_STEPS):
            env.step(actions[k % GRAPH_STEPS])
        start = env.state_dict()
    else:
        grown, actions = mid_game(config, num_boards, device, warmup=20 * config.size)
        start = {**env.state_dict(), **{k: grown[k] for k in ("state", "body", "bits", "rng")}}
    rows = list(actions)
    live = [getattr(env, f"_{name}") for name in ("state", "body", "bits", "rng")]
    saved = [start[name].to(device) for name in ("state", "body", "bits", "rng")]

    def play() -> None:
        # Start from the same boards each time: otherwise replayed moves would kill the snakes they were made for.
        for tensor, value in zip(live, saved, strict=True):
            tensor.copy_(value)
        for row in rows:
            env.step(row)

    env.load_state_dict(start)
    resets = length = 0.0
    for row in rows:
        resets += float(env._state[:, OVER].float().mean()) / GRAPH_STEPS  # OVER before the step
        env.step(row)
        length += float(env._state[:, LENGTH].float().mean()) / GRAPH_STEPS
    modes = {"eager": play}
    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            play()
        modes["graph"] = graph.replay
    found = []
    for mode, run in modes.items():
        seconds = seconds_per_step(run, GRAPH_STEPS, device, repeats)
        found.append(
            {
                "features": config.features,
                "boards": num_boards,
                "player": player,
                "mode": mode,
                "microseconds_per_step": seconds * 1e6,
                "transitions_per_second": num_boards * (1 - resets) / seconds,
                "reset_share": resets,
                "mean_length": length,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--boards", type=int, nargs="+", help="board counts")
    parser.add_argument("--size", type=int, default=10, help="side of the board")
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    counts = options.boards or ([256, 4096] if options.device == "cpu" else [256, 65_536])
    result: dict[str, Any] = {**context(options.device), "size": options.size, "results": []}
    print("features    boards player   mode    µs/step  M trans/s  resets  length")
    for features in options.features:
        for boards in counts:
            for player in ("random", "mid-game"):
                config = SnakeConfig(size=options.size, features=features)
                for row in measure(config, boards, options.device, player, options.repeats):
                    result["results"].append(row)
                    print(
                        f"{features:10} {boards:7} {player:8} {row['mode']:5} "
                        f"{row['microseconds_per_step']:9.1f} {row['transitions_per_second'] / 1e6:10.2f} "
                        f"{row['reset_share']:7.1%} {row['mean_length']:7.1f}"
                    )
    if options.json:
        write_json(options.json, result)


if __name__ == "__main__":
    main()
