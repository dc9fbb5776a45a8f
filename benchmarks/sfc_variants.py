"""Service function chains: what each choice of state, reward, discount and learner brings, one change at a time.

    python benchmarks/sfc_variants.py --jobs 2                                # all variants, one seed: an hour
    on two cores python benchmarks/sfc_variants.py --only learned "state of the paper" --seeds 3
    python benchmarks/sfc_variants.py --write docs/images/sfc-variants.png    # only table and picture

Every variant is trained in a process of its own, and plays 5 bundles with 2, 4, 6 and 8 data centers. Random
actions and the rule *makes-room* play the same episodes by the same rules (`--env.waiting` as in training).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

import flashdqn
from flashdqn.config.presets import base_config
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.sfc.baselines import Chance, Heuristic
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import evaluate
from measure import context, train_apart, write_json
from sfc_tables import DCS, interval, table

RESULTS = Path(__file__).parent / "results" / "sfc-variants.json"
PAPER_REWARD = {
    "env.satisfied_reward": 2.0,
    "env.dropped_reward": -1.5,
    "env.needed_reward": -0.5,
    "env.bound_reward": 0.0,
}
FORMER_REWARD = {
    "env.satisfied_reward": 0.5,
    "env.progress_reward": 0.5,
    "env.progress_power": 2.0,
    "env.time_reward": -0.03,
    "env.bound_reward": 0.0,
}
BOUND_REWARD = {
    "env.satisfied_reward": 1.0,
    "env.dropped_reward": 0.0,
    "env.needed_reward": 0.0,
    "env.bound_reward": 1.0,
}
PAPER_NETWORK = {
    "network.torso": "branches",
    "network.branches": ("14:128,64", "6x13:64/64", "6x10:64/64"),
    "network.attention": 128,
    "network.hidden": (256, 128, 64),
}
#: Where a training of the paper's system must save work to fit into the same time.
IDLE = {"env.waiting": "idle", "env.full_steps": False}
#: name → the preset, and what differs from it
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "learned": ("sfc", {}),
    "state of the paper": ("sfc", {"env.state": "paper"}),
    "reward of the paper": ("sfc", PAPER_REWARD),
    "former reward": ("sfc", FORMER_REWARD),
    "former state and reward": ("sfc", FORMER_REWARD | {"env.state": "paper", "learn.gamma": 0.95}),
    "no urgency": ("sfc", {"env.bound_urgency": 0.0}),
    "urgency 0.9": ("sfc", {"env.bound_urgency": 0.9}),
    "layer norm": ("sfc", {"network.layer_norm": True}),
    "128 and 128 units": ("sfc", {"network.hidden": (128, 128)}),
    "γ 0.9 per action": ("sfc", {"learn.gamma": 0.9}),
    "γ 0.95 per action": ("sfc", {"learn.gamma": 0.95}),
    "γ 0.98 per action": ("sfc", {"learn.gamma": 0.98}),
    "γ 0.995 per action": ("sfc", {"learn.gamma": 0.995}),
    "γ 0.8 per millisecond": ("sfc", {"learn.gamma": 0.8, "env.discount": "time"}),
    "γ 0.9 per millisecond": ("sfc", {"learn.gamma": 0.9, "env.discount": "time"}),
    "n = 5": ("sfc", {"replay.n_step": 5}),
    "dueling": ("sfc", {"network.dueling": True}),
    "512 and 256 units": ("sfc", {"network.hidden": (512, 256)}),
    "twice the gradient steps": ("sfc", {"train_ratio": 0.0625}),
    "quantiles": ("sfc", {"learn.head": "quantile"}),
    "three to six bundles": ("sfc", {"env.min_bundles": 3, "env.max_bundles": 6}),
    "may wait": ("sfc", {"env.waiting": "always"}),
    "with demonstrations": ("sfc-shown", {}),
    "paper": ("sfc-paper", {}),
    "paper, waits only if idle": ("sfc-paper", IDLE),
    "paper, and the bound as reward": ("sfc-paper", IDLE | BOUND_REWARD),
    "paper, and batches of 256": (
        "sfc-paper",
        IDLE | BOUND_REWARD | {"learn.batch_size": 256, "train_ratio": 0.03125, "replay.capacity": 300_000},
    ),
}


def play(base: SfcConfig, dcs: int, episodes: int, seed: int, agent: Any, rule: str) -> float:
    """The mean acceptance of an agent or a rule at 5 bundles."""
    config = dataclasses.replace(
        base, min_dcs=dcs, max_dcs=dcs, min_bundles=5, max_bundles=5, full_steps=False
    )
    env = ServiceChains(config, episodes)
    policy: Any = Chance(env, seed) if rule == "random" else Heuristic(env, makes_room=True)
    head: Any = ScalarHead(0.0)
    if agent is not None:
        policy, head = agent.network, agent.head
    with torch.no_grad():
        return float(evaluate(env, policy, head, 1_000 + seed, step_limit=200_000).mean_score)


def run_variant(name: str, seed: int, slots: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train a variant and let it play."""
    torch.set_num_threads(1)
    preset, others = VARIANTS[name]
    settings = {"seed": seed, "device": "cpu", "env.slots": slots, "eval.every": 0, "log.tensorboard": False}
    settings |= {"runtime.threads": 1, "runtime.mode": "native", "max_time": asked.seconds} | others
    settings["steps"] = base_config(preset).steps  # a limit of time alone would replace it
    if asked.steps and preset == "sfc":
        settings |= {"steps": asked.steps, "learn.lr_over": asked.steps}
    folder = asked.runs / f"{name.replace(' ', '-').replace(',', '')}-slots{slots}-seed{seed}"
    path = train_apart(preset, settings, str(folder))
    summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    agent = flashdqn.load(path, "cpu")
    base = agent.config.env
    scores = {dcs: play(base, dcs, asked.episodes, seed, agent, "") for dcs in DCS}
    about = {key: summary[key] for key in ("steps", "updates", "seconds")}
    return {"variant": name, "seed": seed, "slots": slots, "scores": scores, **about}


def run_rule(name: str, seed: int, slots: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Let a rule play the same episodes."""
    torch.set_num_threads(1)
    waiting = "always" if name.endswith("may-wait") else "idle"
    base = SfcConfig(slots=slots, waiting=waiting)  # type: ignore[arg-type]
    rule = "random" if name.startswith("random") else name
    scores = {dcs: play(base, dcs, asked.episodes, seed, None, rule) for dcs in DCS}
    return {"variant": name, "seed": seed, "slots": slots, "scores": scores}


def print_table(rows: list[dict[str, Any]], slots: int) -> str:
    """Acceptance and the difference to makes-room on the same episodes."""
    rows = [row for row in rows if row["slots"] == slots]
    rule = {row["seed"]: row["scores"] for row in rows if row["variant"] == "makes-room"}
    lines = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == name]
        cells = [interval([row["scores"][str(d)] for row in own]) for d in DCS]
        more = [
            interval([row["scores"][str(d)] - rule[row["seed"]][str(d)] for row in own], "+") for d in DCS
        ]
        steps = f"{statistics.fmean(row['steps'] for row in own):,.0f}" if "steps" in own[0] else ""
        lines.append([name, *cells, *more, steps])
    head = ["", *(f"{d} DCs" for d in DCS), *(f"{d}: more than the rule" for d in DCS), "transitions"]
    return "\n".join(table(head, lines))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slots", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, help="transitions of the variants of `sfc`, instead of its own")
    parser.add_argument("--seconds", type=float, default=300.0, help="the longest that a training may take")
    parser.add_argument("--episodes", type=int, default=32, help="for each number of data centers")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/sfc-variants"))
    parser.add_argument("--resume", action="store_true", help="keep the results in the file")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="only print the table from the file")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    old = json.loads(asked.json.read_text(encoding="utf-8")) if asked.json.exists() else {"results": []}
    if asked.write:
        for slots in sorted({row["slots"] for row in old["results"]}):
            print(f"slots {slots}\n" + print_table(old["results"], slots))
        return
    data = {**context("cpu"), "results": old["results"] if asked.resume else []}
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    with ProcessPoolExecutor(asked.jobs) as pool:
        runs = [
            pool.submit(run_variant, name, seed, slots, asked)
            for seed in seeds
            for name in asked.only
            for slots in asked.slots
        ]
        runs += [
            pool.submit(run_rule, name, seed, slots, asked)
            for name in ("makes-room", "random", "random-may-wait")
            for seed in seeds
            for slots in asked.slots
        ]
        for run in as_completed(runs):
            row = json.loads(json.dumps(run.result()))
            data["results"].append(row)
            write_json(asked.json, data)
            shown = {dcs: round(100 * score, 1) for dcs, score in row["scores"].items()}
            print(f"{row['variant']:<32} slots {row['slots']} seed {row['seed']} {shown}", flush=True)


if __name__ == "__main__":
    main()
