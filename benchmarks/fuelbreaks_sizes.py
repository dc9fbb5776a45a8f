"""One agent on landscapes of several sizes, without training again, beside the rules: 5 % of the cells.

    python benchmarks/fuelbreaks_sizes.py                                  # the agent of the package
    python benchmarks/fuelbreaks_sizes.py --agent runs/fuelbreaks-… --sizes 20 50
    python benchmarks/fuelbreaks_sizes.py --policies agent                 # the others as they are in the file

Generated landscapes that no training draws, dry weather, the wind from four sides in turn, 200 fires that no policy
knows. All policies have the same cells, budget and fires (`flashdqn.planning`). Intervals are 95 % over landscapes;
differences are paired by landscape. Rules have 60 s a landscape, as in `flashdqn fuelbreaks plan`. The file is
written after every landscape.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.compute.threads import limit_threads
from flashdqn.envs.fuelbreaks.fire.weather import DRY
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning import (
    Problem,
    Scenario,
    judge_plans,
    load_planning_agent,
    load_shipped_agent,
    make_plans,
)
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "fuelbreaks-sizes.json"
FIRST_SEED, SHARE, FIRES = 990_000, 0.05, 200
COUNTS = {20: 16, 50: 16, 100: 8, 200: 2}
POLICIES = ("random", "betweenness-once", "dpv-once", "lookahead", "dpv", "betweenness", "agent")


def measure_landscape(
    seed: int, size: int, agent: Any, policies: Sequence[str] = POLICIES
) -> dict[str, dict[str, float]]:
    """Burned percent of a landscape and seconds of planning, for every policy."""
    wind = dataclasses.replace(DRY, wind_from=90.0 * (seed % 4))
    problem = Problem(generate_landscape(seed, size), (Scenario("dry", wind, 1.0),), Stakes())
    budget = float(round(SHARE * size**2))
    plans = make_plans(problem, budget, policies, agent=agent, seed=seed)
    judgement = judge_plans(problem, plans, (budget,), FIRES, seed)
    hectares = size**2 * problem.landscape.cell_size**2 / 10_000
    found = {"nothing": {"burned": 100 * float(judgement.before.area.mean()) / hectares, "seconds": 0.0}}
    for name, plan in plans.items():
        burned = 100 * float(judgement.after[name][0].area.mean()) / hectares
        found[name] = {"burned": burned, "seconds": plan.seconds}
    return found


def describe_interval(values: list[float]) -> str:
    half = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {half:.2f}"


def print_table(rows: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    print("| | " + " | ".join(f"{size}x{size}, {len(some)} landscapes" for size, some in rows.items()) + " |")
    print("|---" * (len(rows) + 1) + "|")
    for name in ("nothing", *POLICIES):
        cells = [describe_interval([row[name]["burned"] for row in some]) for some in rows.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| points more than the agent; seconds a landscape | " + " | ".join(rows) + " |")
    print("|---" * (len(rows) + 1) + "|")
    for name in POLICIES:
        cells = []
        for some in rows.values():
            more = describe_interval([row[name]["burned"] - row["agent"]["burned"] for row in some])
            cells.append(f"{more}; {np.mean([row[name]['seconds'] for row in some]):.2f}")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default="", help="a run folder or an agent's file; default: the package's")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--count", type=int, help="landscapes of every size")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    agent = load_planning_agent(asked.agent, "cpu") if asked.agent else load_shipped_agent("cpu")
    whole = set(asked.policies) == set(POLICIES) and set(asked.sizes) == set(COUNTS)
    old = {} if whole or not asked.out.exists() else json.loads(asked.out.read_text(encoding="utf-8"))
    known: dict[str, list[dict[str, dict[str, float]]]] = old.get("burned", {})
    rows: dict[str, list[dict[str, dict[str, float]]]] = dict(known)
    data = context("cpu") | {"share": SHARE, "fires": FIRES, "first_seed": FIRST_SEED, "burned": rows}
    if old:
        data["others"] = {key: old[key] for key in ("date", "commit", "command", "load", "device")}
    with limit_threads(1, 1):
        for size in asked.sizes:
            before, rows[str(size)] = known.get(str(size), []), []
            for k in range(asked.count or COUNTS.get(size, 4)):
                row = measure_landscape(FIRST_SEED + k, size, agent, asked.policies)
                rows[str(size)].append((before[k] if k < len(before) else {}) | row)
                write_json(asked.out, data)
    print_table(rows)


if __name__ == "__main__":
    main()
