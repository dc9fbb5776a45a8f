"""Speed of service function chains: the environment alone, and training beside an eager loop at stated ratios.

    python benchmarks/sfc_speed.py [--device cuda] [--networks 256 4096] [--seconds 20] [--json FILE]
    python benchmarks/sfc_speed.py --device cuda --presets sfc sfc-shown --envs 1024 4096     # trainings alone

Training: the paper's network, batch 32. Ours has one update per 5 actions; the loop that a user would write first
(one network, eager PyTorch, a ring of NumPy arrays) has one after every action, and one after every 5. Every figure
states its ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import flashdqn
from flashdqn.config.presets import base_config
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.sfc.baselines import Heuristic
from flashdqn.networks import build_network
from flashdqn.runs.tables import read_metrics
from measure import context, describe_work, read_rates, train_apart, write_json

BATCH, CAPACITY, STARTS = 32, 10_000, 1_000


def environment(networks: int, device: str, player: str, seconds: float) -> dict[str, Any]:
    """Actions per second of `step` alone; choosing the actions is not timed."""
    env = ServiceChains(SfcConfig(), networks, device)
    obs, rule = env.reset(0), Heuristic(env, makes_room=True)
    generator = torch.Generator(device).manual_seed(0)
    times: list[float] = []
    warm, start = 300, time.perf_counter()
    while len(times) < warm + 50 or time.perf_counter() - start < seconds:
        if player == "rule":
            action = rule(obs).argmax(1)
        else:
            assert env.mask is not None
            action = torch.multinomial(env.mask.float(), 1, generator=generator)[:, 0]
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        obs = env.step(action).obs
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    mean = statistics.fmean(times[warm:])
    return {"networks": networks, "player": player, "actions_per_second": networks / mean}


def ours(device: str, seconds: float, envs: int, mode: str, preset: str = "sfc-paper") -> dict[str, Any]:
    """A preset at its own ratio: the median of its windows."""
    settings: dict[str, Any] = {"max_time": seconds, "device": device, "envs": envs, "runtime.mode": mode}
    settings |= {"log.tensorboard": False, "eval.episodes": 4, "eval.every": 0}
    settings["log.every"] = 2_000 if preset == "sfc-paper" else 50 * envs
    if preset == "sfc-paper":
        settings["learn.batch_size"] = BATCH
    else:
        settings["steps"] = 2_000_000_000  # the time ends it
    with tempfile.TemporaryDirectory() as out:
        run = train_apart(preset, settings, out)
        rows = read_metrics(run)
        used = json.loads((run / "summary.json").read_text(encoding="utf-8"))["mode"]
        wall = read_rates(run)["wall_steps_per_second"]
    speeds = [row.steps_per_second for row in rows[1:] or rows]
    return {
        "who": f"{preset}, {envs} networks, {used}",
        "steps_per_second": statistics.median(speeds),
        "ratio": rows[-1].ratio,
        "wall_steps_per_second": wall,
    }


def eager(device: str, seconds: float, every: int) -> dict[str, Any]:
    """One network at a time, an update after every `every` actions."""
    env = ServiceChains(SfcConfig(), 1)
    generator = torch.Generator().manual_seed(0)
    config = base_config("sfc-paper").network
    online, target = (
        build_network(config, env.obs_spec, env.num_actions, generator).to(device) for _ in range(2)
    )
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    shape = env.obs_spec.shape[0]
    states, nexts = np.zeros((CAPACITY, shape), np.float32), np.zeros((CAPACITY, shape), np.float32)
    actions, rewards, ends = (
        np.zeros(CAPACITY, np.int64),
        np.zeros(CAPACITY, np.float32),
        np.zeros(CAPACITY, np.float32),
    )
    dice = np.random.default_rng(0)
    obs, steps, updates, began, first = env.reset(0)[0].numpy().copy(), 0, 0, 0.0, (0, 0)
    while True:
        assert env.mask is not None
        legal = env.mask[0].nonzero()[:, 0].numpy()
        if dice.random() < 0.1:
            action = int(dice.choice(legal))
        else:
            with torch.no_grad():
                q = online(torch.from_numpy(obs)[None].to(device))[0].cpu()
            action = int(q.masked_fill(~env.mask[0], -torch.inf).argmax())
        step = env.step(torch.tensor([action]))
        k = steps % CAPACITY
        states[k], actions[k], rewards[k] = obs, action, step.reward.item()
        nexts[k], ends[k] = step.obs[0].numpy(), step.terminated.item()
        obs = nexts[k].copy()
        steps += 1
        if steps > STARTS and steps % every == 0:
            rows = dice.integers(0, min(steps, CAPACITY), BATCH)
            batch = [torch.from_numpy(x[rows]).to(device) for x in (states, actions, rewards, nexts, ends)]
            update(online, target, optimizer, batch)
            updates += 1
            if updates % 10 == 0:
                target.load_state_dict(online.state_dict())
        if steps == STARTS + 100:
            began, first = time.perf_counter(), (steps, updates)
        if began and time.perf_counter() - began > seconds:
            spent = time.perf_counter() - began
            ratio = (updates - first[1]) / (steps - first[0])
            return {"who": "eager loop", "steps_per_second": (steps - first[0]) / spent, "ratio": ratio}


def update(
    online: nn.Module, target: nn.Module, optimizer: torch.optim.Optimizer, batch: list[torch.Tensor]
) -> None:
    """A gradient step of plain DQN."""
    states, actions, rewards, nexts, ends = batch
    q = online(states).gather(1, actions[:, None])[:, 0]
    with torch.no_grad():
        expected = rewards + 0.99 * target(nexts).max(1).values * (1 - ends)
    loss = nn.functional.smooth_l1_loss(q, expected)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()


def evaluation(run: Path) -> float:
    """Seconds that a trained agent takes to play one episode in each of 64 networks."""
    agent = flashdqn.load(run, "cpu")
    agent.evaluate(64, seed=0)  # compiles
    began = time.perf_counter()
    agent.evaluate(64, seed=1)
    return time.perf_counter() - began


def train_all(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One round: ours, and the eager loop beside the paper's network."""
    for preset in asked.presets or ["sfc-paper"]:
        for envs in asked.envs:
            row = ours(asked.device, asked.seconds, envs, asked.mode, preset)
            yield row | {"batch": BATCH if preset == "sfc-paper" else base_config(preset).learn.batch_size}
    if not asked.presets:
        for every in (1, 5):
            yield eager(asked.device, asked.seconds, every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--networks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--envs", type=int, nargs="+", default=[32, 256], help="networks of a training")
    parser.add_argument("--mode", default="auto", help="ours: as --runtime.mode")
    parser.add_argument(
        "--presets", nargs="+", default=[], help="only trainings of these, at their own ratios"
    )
    parser.add_argument("--rounds", type=int, default=1, help="of all trainings, in turns; the median counts")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1, help="PyTorch's, for the eager loop")
    parser.add_argument("--skip-training", action="store_true")
    parser.add_argument("--evaluate", type=Path, metavar="RUN", help="also time an evaluation of 64 networks")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    data: dict[str, Any] = {**context(asked.device), "environment": [], "training": []}
    for networks in [] if asked.presets else asked.networks:
        for player in ("random", "rule"):
            row = environment(networks, asked.device, player, asked.seconds / 2)
            data["environment"].append(row)
            print(
                f"{networks:>6} networks, {player:<6}  {row['actions_per_second']:>12,.0f} actions/s",
                flush=True,
            )
    if asked.evaluate:
        data["evaluation_seconds"] = [evaluation(asked.evaluate) for _ in range(3)]
        print(f"64 networks evaluated in {data['evaluation_seconds']} s", flush=True)
    torch.set_num_threads(asked.threads)
    rounds = [] if asked.skip_training else [list(train_all(asked)) for _ in range(asked.rounds)]
    for rows in zip(*rounds, strict=True):
        speeds = sorted(row["steps_per_second"] for row in rows)
        row = rows[0] | {"steps_per_second": statistics.median(speeds), "rounds": speeds}
        data["training"].append(row)
        whole = row.get("wall_steps_per_second")  # the eager loop has only its window
        wall = f"  {whole:,.0f} since its start" if whole else ""
        batch = row.get("batch", BATCH)
        print(
            f"{row['who']:<40} {describe_work(row['ratio'], batch)}  "
            f"{row['steps_per_second']:>10,.0f} steps/s  {speeds}{wall}"
        )
    if asked.json:
        write_json(asked.json, data)


if __name__ == "__main__":
    main()
