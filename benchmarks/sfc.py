"""Service function chains: acceptance by load and number of data centers, for rules, random play, trained agents.

    python benchmarks/sfc.py --policies random random-may-wait heuristic makes-room    # the rules: a minute
    python benchmarks/sfc.py --policies learned shown learned-may-wait --resume        # five trainings of each
    python benchmarks/sfc.py --policies paper --resume
    python benchmarks/sfc.py --bundles 5 --episodes 128 --json FILE                    # more episodes, full load
    python benchmarks/sfc.py --write docs/images/sfc.png                               # only tables and picture

One model of each training, with 2 to 8 data centers and 1 to 5 bundles at random, serves all cells of the table.
All policies play the same networks and requests by the same rules: a data center may wait only if it can serve
nobody (`--env.waiting idle`), unless the policy's name says *may-wait*. Rewards and what an agent sees differ,
and are no part of the rules. Results are written after each policy and seed; `--resume` keeps them. `--slots 2`
measures the other interpretation of how long an instance serves a request (docs/sfc.md). `sfc_tables.py`
prints the tables, `sfc_speed.py` measures speed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import flashdqn
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import ByValue, Chance, Heuristic
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import evaluate
from measure import context, train_apart, write_json
from sfc_tables import BUNDLES, DCS, draw, tables

RESULTS = Path(__file__).parent / "results" / "sfc.json"


class Trained(NamedTuple):
    """A policy that is trained: its preset, and what differs from it."""

    preset: str
    settings: dict[str, Any]
    waiting: str = "idle"
    by_value: bool = False


#: What the preset `sfc` was until reward, state and discount were looked at (docs/sfc-learning.md).
FORMER = {
    "env.state": "paper",
    "env.discount": "action",
    "env.bound_reward": 0.0,
    "env.satisfied_reward": 0.5,
    "env.progress_reward": 0.5,
    "env.progress_power": 2.0,
    "env.time_reward": -0.03,
    "learn.gamma": 0.95,
    "steps": 600_000,
}
FORMER_DEMOS = {
    "steps": 200_000,
    "demos.episodes": 256,
    "demos.pretrain_steps": 15_000,
    "demos.keep": 250_000,
    "demos.share": 0.5,
    "demos.margin": 0.2,
    "demos.margin_weight": 1.0,
}
TRAINED = {
    "learned": Trained("sfc", {}),
    "shown": Trained("sfc-shown", {}),
    "learned-may-wait": Trained("sfc", {"env.waiting": "always"}, "always"),
    "learned-by-value": Trained("sfc", {}, by_value=True),
    "former": Trained("sfc", FORMER),
    "former-shown": Trained("sfc-shown", FORMER | FORMER_DEMOS),
    "paper": Trained("sfc-paper", {}),
    "seed": Trained("sfc-seed", {}),
}
#: Rules, and whether data centers may wait although they could serve somebody.
RULES = {"random": "idle", "random-may-wait": "always", "heuristic": "idle", "makes-room": "idle"}


def cell_env(base: SfcConfig, dcs: int, bundles: int, episodes: int, device: torch.device) -> ServiceChains:
    config = dataclasses.replace(base, min_dcs=dcs, max_dcs=dcs, min_bundles=bundles, max_bundles=bundles)
    return ServiceChains(config, episodes, device)


def make_rule(name: str, env: ServiceChains, seed: int) -> Callable[[Tensor], Tensor]:
    chance = name.startswith("random")
    return Chance(env, seed) if chance else Heuristic(env, makes_room=name == "makes-room")


def play(env: ServiceChains, policy: Any, head: Any, seed: int) -> dict[str, float]:
    """One cell: the means over its episodes."""
    games = evaluate(env, policy, head, 1_000 + seed, step_limit=200_000)
    return {
        "score": games.mean_score,
        "length": games.mean_length,
        "unfinished": games.unfinished,
        **games.outcomes,
    }


def measure(name: str, seed: int, base: SfcConfig, asked: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """All cells of one policy and seed."""
    device, agent, about = torch.device("cpu"), None, {}
    base = dataclasses.replace(base, waiting=RULES.get(name, "idle"))
    if name in TRAINED:
        path = trained(name, seed, asked)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        about = {key: summary[key] for key in ("steps", "updates", "seconds", "train_ratio")}
        agent = flashdqn.load(path, "cpu")
        seen = agent.config.env
        assert isinstance(seen, SfcConfig)
        # What an agent sees is its own, the rules are everybody's.
        base = dataclasses.replace(base, state=seen.state, waiting=TRAINED[name].waiting)
    for dcs in DCS:
        for bundles in asked.bundles:
            env = cell_env(base, dcs, bundles, asked.episodes, device)
            policy: Any = make_rule(name, env, seed) if agent is None else agent.network
            head: Any = ScalarHead(0.0) if agent is None else agent.head
            if agent is not None and TRAINED[name].by_value:
                q = agent.q
                policy, head = ByValue(env, q), ScalarHead(0.0)
            with torch.no_grad():
                cell = play(env, policy, head, seed)
            yield {
                "policy": name,
                "seed": seed,
                "dcs": dcs,
                "bundles": bundles,
                "slots": base.slots,
                "waiting": base.waiting,
                **cell,
                **about,
            }


def trained(name: str, seed: int, asked: argparse.Namespace) -> Path:
    """The run of a policy and a seed: an older one if there is one, otherwise a new training in a separate
    process."""
    preset, others = TRAINED[name].preset, TRAINED[name].settings
    folder = asked.runs / f"{name.removesuffix('-by-value')}-slots{asked.slots}-seed{seed}"
    finished = sorted(folder.glob("*/summary.json"))
    if finished:
        return finished[-1].parent
    settings: dict[str, Any] = {"seed": seed, "device": asked.device, "env.slots": asked.slots}
    settings |= (
        {"log.tensorboard": False, "eval.every": 0} | others | ({"steps": asked.steps} if asked.steps else {})
    )
    for pair in asked.set:
        key, _, value = pair.partition("=")
        settings[key] = json.loads(value)
    return train_apart(preset, settings, str(folder))


def cpu_bound(base: SfcConfig, dcs: int, bundles: int, episodes: int, seed: int) -> float:
    """Upper bound for all policies, by CPU alone: all CPU busy until the last deadline, cheapest chains first."""
    env = cell_env(base, dcs, bundles, episodes, torch.device("cpu"))
    env.reset(1_000 + seed)
    capacity = env.net.capacity[:, :, layout.CPU].sum(1)  # of the first episode
    wait, asked = torch.full((episodes,), env.num_actions - 1), torch.zeros(episodes, len(env.tables.chains))
    open_ = torch.ones(episodes, dtype=torch.bool)
    while open_.any():
        step = env.step(wait)
        ended = open_ & (step.terminated | step.truncated)
        asked[ended] = env.net.tally[ended, :, layout.ASKED].float()
        open_ &= ~ended
    cpu = {vnf.name: vnf.cpu for vnf in env.tables.vnfs}
    last = (bundles - 1) * base.bundle_every * base.step_us + 1000 * max(
        c.delay_ms for c in env.tables.chains
    )
    budget = capacity.float() * (last / base.slot_us)
    served = torch.zeros(episodes)
    for k in sorted(range(asked.shape[1]), key=lambda k: sum(cpu[v] for v in env.tables.chains[k].vnfs)):
        cost = sum(cpu[v] for v in env.tables.chains[k].vnfs)
        count = torch.minimum(asked[:, k], budget / cost)
        served += count
        budget -= count * cost
    return float((served / asked.sum(1)).mean())


def mean_bound(base: SfcConfig, dcs: int, bundles: int, asked: argparse.Namespace) -> float:
    """The same bound over the episodes of all seeds."""
    return statistics.fmean(cpu_bound(base, dcs, bundles, asked.episodes, s) for s in range(asked.seeds))


def old_bounds(old: dict[str, Any], asked: argparse.Namespace) -> Any:
    """The bounds in the file, if they cover the same episodes or more."""
    about = old.get("bounds_of", {"seeds": 0, "episodes": 0})
    same = about["seeds"] >= asked.seeds and about["episodes"] == asked.episodes
    return old.get("bounds", {}).get(str(asked.slots)) if same else None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--policies", nargs="*", choices=[*RULES, *TRAINED], default=[*RULES, *TRAINED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-bounds", action="store_true", help="leave the bounds by CPU out")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], help="result files to add to this one")
    parser.add_argument("--episodes", type=int, default=32, help="per cell and seed")
    parser.add_argument("--bundles", type=int, nargs="+", default=list(BUNDLES), help="of an episode")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--steps", type=int, help="steps of a training, instead of the preset's")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=JSON", help="settings of the trainings")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/sfc"), help="folder of trainings; finished ones are used"
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep the results in the file, and do what is missing"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument(
        "--write", type=Path, help="only print the tables, and draw this picture, from the file"
    )
    return parser.parse_args()


def merge(asked: argparse.Namespace, data: dict[str, Any]) -> None:
    """Add the results of other files, which other processes or machines have written; later ones replace."""
    for path in asked.merge:
        other = json.loads(path.read_text(encoding="utf-8"))
        new = {(row["policy"], row["seed"], row["slots"]) for row in other["results"]}
        kept = [row for row in data["results"] if (row["policy"], row["seed"], row["slots"]) not in new]
        where = {key: other[key] for key in ("date", "commit", "cpu") if key in other}
        data["results"] = kept + [{**row, **where} for row in other["results"]]
    order = [*RULES, *TRAINED]
    data["results"].sort(key=lambda row: (order.index(row["policy"]), row["slots"], row["seed"]))


def main() -> None:
    asked = arguments()
    torch.set_num_threads(1)  # more threads do not help a small network with few rows
    old = json.loads(asked.json.read_text(encoding="utf-8")) if asked.json.exists() else {}
    if not asked.write:
        data = {**context(asked.device), "bounds": old.get("bounds", {}), "results": []}
        if asked.resume or asked.merge:
            data["results"] = old.get("results", [])
        base = SfcConfig(slots=asked.slots)
        if not asked.no_bounds:
            data["bounds"][str(asked.slots)] = old_bounds(old, asked) or {
                str(d): [mean_bound(base, d, b, asked) for b in asked.bundles] for d in DCS
            }
            data["bounds_of"] = {"seeds": asked.seeds, "episodes": asked.episodes}
        merge(asked, data)
        write_json(asked.json, data)
        done = {(row["policy"], row["seed"], row["slots"]) for row in data["results"]}
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            for name in asked.policies:
                if (name, seed, asked.slots) not in done:
                    rows = list(measure(name, seed, base, asked))
                    data["results"] += rows
                    write_json(asked.json, data)
                    full = {row["dcs"]: f"{100 * row['score']:.1f}" for row in rows if row["bundles"] == 5}
                    print(f"{name:<16} seed {seed}  at 5 bundles: {full}", flush=True)
        old = data
    if old.get("bounds", {}).get(str(asked.slots)) and any(r["slots"] == asked.slots for r in old["results"]):
        print(tables(old, asked.slots))
    if asked.write:
        draw(old, asked.slots, asked.write)


if __name__ == "__main__":
    main()
