"""Service function chains: acceptance by load and number of data centers, for rules, random play, trained agents.

    python benchmarks/sfc.py --policies heuristic makes-room random --seeds 5        # the rules: a minute
    python benchmarks/sfc.py --policies paper best best-by-value --seeds 5 --device cuda --resume
    python benchmarks/sfc.py --policies best --device cuda --steps 100000000 --set envs=512 train_ratio=0.004
    python benchmarks/sfc.py --write docs/images/sfc.png                             # only table and picture

One model of each training, with 2 to 8 data centers and 1 to 5 bundles at random, serves all cells of the table.
All policies play the same episodes. Results are written after each policy and seed; `--resume` keeps them.
`--slots 2` measures the other interpretation of how long an instance serves a request (docs/sfc.md). `sfc_speed.py`
measures speed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import flashdqn
from flashdqn.compute.device import choose_device
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import ByValue, Chance, Heuristic
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import evaluate
from measure import context, train_apart, write_json

RESULTS = Path(__file__).parent / "results" / "sfc.json"
DCS, BUNDLES = (8, 6, 4, 2), (1, 2, 3, 4, 5)

#: Acceptance at 5 bundles in Onsu et al. 2024 and in arXiv:2411.12851, by data centers.
PUBLISHED = {
    "DRL (paper)": {8: 0.81, 6: 0.76, 4: 0.62, 2: 0.315},
    "GenAI-assisted (follow-up)": {8: 1.0, 6: 0.96, 4: 0.87, 2: 0.40},
}
#: Trained policies: the preset, whether the data center is chosen by value, and other settings than the preset's.
TRAINED: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "paper": ("sfc-paper", False, {}),
    "best": ("sfc", False, {}),
    "best-by-value": ("sfc", True, {}),
    "undemonstrated": (
        "sfc",
        False,
        {"demos.source": "none", "steps": 600_000, "learn.starts": 30_000, "learn.lr_over": 600_000},
    ),
}
RULES = ("heuristic", "makes-room", "random")


def cell_env(base: SfcConfig, dcs: int, bundles: int, episodes: int, device: torch.device) -> ServiceChains:
    config = dataclasses.replace(base, min_dcs=dcs, max_dcs=dcs, min_bundles=bundles, max_bundles=bundles)
    return ServiceChains(config, episodes, device)


def rule(name: str, env: ServiceChains, seed: int) -> Callable[[Tensor], Tensor]:
    return Chance(env, seed) if name == "random" else Heuristic(env, makes_room=name == "makes-room")


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
    device, agent, about = choose_device(asked.device), None, {}
    if name in TRAINED:
        path = trained(name, seed, asked)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        about = {key: summary[key] for key in ("steps", "updates", "seconds", "train_ratio")}
        agent = flashdqn.load(path, asked.device)
        base = agent.config.env
        assert isinstance(base, SfcConfig)
        # The same, except for the waiting at the ends of steps.
        base = dataclasses.replace(base, full_steps=False)
    for dcs in DCS:
        for bundles in BUNDLES:
            env = cell_env(base, dcs, bundles, asked.episodes, device)
            policy: Any = rule(name, env, seed) if agent is None else agent.network
            head: Any = ScalarHead(0.0) if agent is None else agent.head
            if agent is not None and TRAINED[name][1]:
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
                **cell,
                **about,
            }


def trained(name: str, seed: int, asked: argparse.Namespace) -> Path:
    """The run of a policy and a seed: an older one if there is one, otherwise a new training in a separate
    process."""
    preset, _, others = TRAINED[name]
    folder = asked.runs / f"{name.removesuffix('-by-value')}-slots{asked.slots}-seed{seed}"
    finished = sorted(folder.glob("*/summary.json"))
    if finished:
        return finished[-1].parent
    settings: dict[str, Any] = {"seed": seed, "device": asked.device, "env.slots": asked.slots}
    settings |= {"log.tensorboard": False} | others | ({"steps": asked.steps} if asked.steps else {})
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


def interval(values: list[float]) -> str:
    """Mean and half-width of a 95 % interval over seeds (Student's t), in percent."""
    mean = 100 * statistics.fmean(values)
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}.get(len(values), 2.2)
    if len(values) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {100 * t * statistics.stdev(values) / len(values) ** 0.5:.1f}"


def tables(data: dict[str, Any], slots: int) -> str:
    """The tables of docs/sfc.md from the results."""
    rows = [row for row in data["results"] if row["slots"] == slots]
    policies = list(dict.fromkeys(row["policy"] for row in rows))

    def cell(policy: str, dcs: int, bundles: int, name: str = "score") -> list[float]:
        key = (policy, dcs, bundles)
        return [row[name] for row in rows if (row["policy"], row["dcs"], row["bundles"]) == key]

    lines = ["Acceptance in % by bundles; ± is a 95 % interval over seeds.", ""]
    lines += [
        "| policy | DCs | " + " | ".join(map(str, BUNDLES)) + " | seeds |",
        "|---" * (len(BUNDLES) + 3) + "|",
    ]
    for dcs in DCS:
        for policy in policies:
            texts = [interval(cell(policy, dcs, b)) for b in BUNDLES]
            lines.append(f"| {policy} | {dcs} | " + " | ".join(texts) + f" | {len(cell(policy, dcs, 5))} |")
        bounds = data["bounds"][str(slots)][str(dcs)]
        lines.append(
            f"| *CPU allows at most* | {dcs} | " + " | ".join(f"{100 * b:.1f}" for b in bounds) + " | |"
        )
    lines += ["", "At 5 bundles; the published figures are those of other simulators.", ""]
    lines += ["| | " + " | ".join(f"{d} DCs" for d in DCS) + " |", "|---" * (len(DCS) + 1) + "|"]
    for name, scores in PUBLISHED.items():
        lines.append(f"| {name} | " + " | ".join(f"{100 * scores[d]:.1f}" for d in DCS) + " |")
    for policy in policies:
        lines.append(f"| {policy} | " + " | ".join(interval(cell(policy, d, 5)) for d in DCS) + " |")
    chains = [name for name in rows[0] if name.startswith("accepted_")]
    lines += ["", "By chain, 6 DCs, 5 bundles, acceptance in %:", ""]
    lines += ["| policy | " + " | ".join(c.removeprefix("accepted_") for c in chains) + " |"]
    lines += ["|---" * (len(chains) + 1) + "|"]
    for policy in policies:
        lines.append(f"| {policy} | " + " | ".join(interval(cell(policy, 6, 5, c)) for c in chains) + " |")
    lines += [
        "",
        "At 5 bundles: delay of the satisfied, their bandwidth together, resources held, causes of drops.",
        "",
    ]
    lines += [
        "| policy | DCs | delay ms | Gbit/s | CPU % | storage % | no room % | no bandwidth % | no time % |",
        "|---" * 9 + "|",
    ]
    names = ("delay_ms", "throughput_gbps", "cpu", "storage", "no_room", "no_bandwidth", "no_time")
    for dcs in DCS:
        for policy in policies:
            means = {name: statistics.fmean(cell(policy, dcs, 5, name)) for name in names}
            texts = [
                f"{means[n]:.1f}" if "_ms" in n or "_gbps" in n else f"{100 * means[n]:.1f}" for n in names
            ]
            lines.append(f"| {policy} | {dcs} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def draw(data: dict[str, Any], slots: int, path: Path) -> None:
    """Acceptance by load, one panel for each number of data centers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in data["results"] if row["slots"] == slots]
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, dcs in zip(figure.subplots(1, len(DCS), sharey=True), sorted(DCS), strict=True):
        for k, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
            means = [
                statistics.fmean(
                    r["score"] for r in rows if (r["policy"], r["dcs"], r["bundles"]) == (policy, dcs, b)
                )
                for b in BUNDLES
            ]
            axes.plot(BUNDLES, [100 * m for m in means], color=f"C{k}", marker=".", label=policy)
        bounds = data["bounds"][str(slots)][str(dcs)]
        axes.plot(BUNDLES, [100 * b for b in bounds], color="#99a", lw=1, ls="--", label="CPU allows")
        axes.set(title=f"{dcs} data centers", xlabel="bundles", ylim=(0, 103))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accepted requests, %")
    figure.axes[-2].legend(frameon=False, fontsize=8, loc="center left")  # there are no curves in that place
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--policies", nargs="+", choices=[*RULES, *TRAINED], default=[*RULES, *TRAINED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=64, help="per cell and seed")
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


def main() -> None:
    asked = arguments()
    torch.set_num_threads(1)  # more threads do not help a small network with few rows
    old = json.loads(asked.json.read_text(encoding="utf-8")) if asked.json.exists() else {}
    if not asked.write:
        data = {**context(asked.device), "bounds": old.get("bounds", {}), "results": []}
        if asked.resume:
            data["results"] = old.get("results", [])
        base = SfcConfig(slots=asked.slots)
        data["bounds"][str(asked.slots)] = old_bounds(old, asked) or {
            str(d): [mean_bound(base, d, b, asked) for b in BUNDLES] for d in DCS
        }
        data["bounds_of"] = {"seeds": asked.seeds, "episodes": asked.episodes}
        write_json(asked.json, data)
        done = {(row["policy"], row["seed"], row["slots"]) for row in data["results"]}
        for seed in range(asked.seeds):
            for name in asked.policies:
                if (name, seed, asked.slots) not in done:
                    rows = list(measure(name, seed, base, asked))
                    data["results"] += rows
                    write_json(asked.json, data)
                    full = {row["dcs"]: f"{100 * row['score']:.1f}" for row in rows if row["bundles"] == 5}
                    print(f"{name:<14} seed {seed}  at 5 bundles: {full}", flush=True)
        old = data
    print(tables(old, asked.slots))
    if asked.write:
        draw(old, asked.slots, asked.write)


if __name__ == "__main__":
    main()
