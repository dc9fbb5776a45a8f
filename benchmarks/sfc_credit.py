"""Service function chains: how far an action is from what it brings, and where policies lose requests.

    python benchmarks/sfc_credit.py [--run RUN] [--write docs/images/sfc-credit.png]

The rule *makes-room* and random actions play 4 data centers with 5 bundles; `--run` adds a trained agent.
Counted are actions and milliseconds between the first VNF of a chain and its reward, how many actions have a
reward at all, and what their rewards say about them. The picture has the requests that are satisfied, or can
still be by the bound, over time.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

import flashdqn
from flashdqn.envs.sfc import ServiceChains, SfcConfig, layout
from flashdqn.envs.sfc.baselines import Chance, Heuristic
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "sfc-credit.json"
REWARDS: dict[str, dict[str, float]] = {
    "paper": {},
    "former": {
        "satisfied_reward": 0.5,
        "dropped_reward": 0.0,
        "needed_reward": 0.0,
        "progress_reward": 0.5,
        "progress_power": 2.0,
        "time_reward": -0.03,
    },
    "bound": {"satisfied_reward": 1.0, "dropped_reward": 0.0, "needed_reward": 0.0, "bound_reward": 1.0},
}


def play(name: str, reward: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Figures of a policy's first episodes under a reward, and its course."""
    config = SfcConfig(min_dcs=4, max_dcs=4, min_bundles=5, waiting="idle", state="full", **REWARDS[reward])  # type: ignore[arg-type]
    env = ServiceChains(config, asked.networks)
    policy: Any = Heuristic(env, makes_room=True) if name == "makes-room" else Chance(env, 0)
    agent = flashdqn.load(asked.run, "cpu") if name == "learned" else None
    obs, going = env.reset(1_000), torch.ones(asked.networks, dtype=torch.bool)
    counts: dict[str, float] = {"actions": 0, "with a reward": 0, "of the sum": 0.0, "largest loss": 0.0}
    acts, course = [], [[] for _ in range(130)]
    with torch.no_grad():
        while going.any():
            now = env.net.state[:, layout.NOW].clone()
            q = policy(obs) if agent is None else agent.q(obs)
            step = env.step(q.masked_fill(~env.net.mask, -torch.inf).argmax(1))
            obs, paid = step.obs, step.reward[going]
            counts["actions"] += len(paid)
            counts["with a reward"] += int((paid != 0).sum())
            counts["of the sum"] += float(paid.abs().sum())
            counts["largest loss"] = min(counts["largest loss"], float(paid.min()))
            passed = going & (env.net.state[:, layout.NOW] > now)
            acts.append(env.net.state[:, layout.NOW][passed])
            if reward == "bound":
                satisfied = env.net.tally[:, :, layout.SATISFIED].sum(1)
                possible = (satisfied + env.net.sums[:, layout.BOUND] / 1000) / bundles_mean(env)
                for k in torch.nonzero(passed)[:, 0].tolist():
                    course[min(129, int(now[k]))].append(float(possible[k]))
            going &= ~(step.terminated | step.truncated)
    slots = sum(len(part) for part in acts)
    row = {"policy": name, "reward": reward, "actions per ms": counts["actions"] / max(1, slots)}
    row |= {"share with a reward": counts["with a reward"] / counts["actions"]}
    row |= {"largest loss at once": counts["largest loss"]}
    if reward == "bound":
        row["course"] = [statistics.fmean(part) if part else None for part in course]
        row["ms to the end of a chain"] = chain_times(config, asked)
    return row


def bundles_mean(env: ServiceChains) -> float:
    """The mean number of requests of an episode."""
    return sum(env.net.expected[:, k].sum().item() for k in range(len(env.tables.chains))) / 1000


def chain_times(config: SfcConfig, asked: argparse.Namespace) -> float:
    """The median time between a satisfied chain's first and last VNF, under the rule."""
    env = ServiceChains(config, 1)
    rule = Heuristic(env, makes_room=True)
    env.reset(1_000)
    while True:
        step = env.step(rule.choose())
        if step.terminated[0] or step.truncated[0]:
            break
    times = []
    for r in range(int(env.net.state[0, layout.REQUESTS])):
        count = len(env.tables.chains[int(env.net.request[0, r, layout.CHAIN])].vnfs)
        begins = env.net.starts[0, r, :count].tolist()
        if begins[-1] >= 0:
            times.append(begins[-1] - begins[0])
    return float(statistics.median(times))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Requests that are satisfied or can still be, over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for k, row in enumerate(row for row in rows if "course" in row):
        points = [(t, 100 * y) for t, y in enumerate(row["course"]) if y is not None]
        axes.plot(*zip(*points, strict=True), color=f"C{k}", label=row["policy"])
    axes.set(xlabel="ms", ylabel="satisfied or still possible, % of requests")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=32)
    parser.add_argument("--run", type=Path, help="a run of the preset sfc")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="draw this picture")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    names = ["random", "makes-room", *(["learned"] if asked.run else [])]
    rows = [play(name, "bound", asked) for name in names]
    rows += [play("makes-room", reward, asked) for reward in ("paper", "former")]
    write_json(asked.json, {**context("cpu"), "results": rows})
    if asked.write:
        draw(rows, asked.write)
    for row in rows:
        print({key: value for key, value in row.items() if key != "course"}, flush=True)


if __name__ == "__main__":
    main()
