"""One agent on landscapes of several sizes, without training again, beside the rules: 5 % of the cells.

    python benchmarks/fuelbreaks_sizes.py                                  # the agent of the package
    python benchmarks/fuelbreaks_sizes.py --agent runs/fuelbreaks-… --sizes 20 50
    python benchmarks/fuelbreaks_sizes.py --policies agent                 # the others as they are in the file
    python benchmarks/fuelbreaks_sizes.py --write docs/fuelbreaks.md

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
LABELS = {
    "betweenness-once": "betweenness, once",
    "dpv-once": "DPV, once",
    "betweenness": "betweenness again",
    "dpv": "DPV again",
}
BEGIN, END = "<!-- sizes: begin -->", "<!-- sizes: end -->"
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
    """A mean with its 95 % interval; the mean alone if there is one value."""
    if len(values) < 2:
        return f"{np.mean(values):+.2f}"
    return f"{np.mean(values):+.2f} ± {1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5:.2f}"


def make_table(rows: dict[str, list[dict[str, dict[str, float]]]]) -> str:
    """What burns, what burns more than with the agent, and seconds, for each size: on the landscapes that every
    policy has planned."""
    rows = {size: [row for row in some if set(POLICIES) <= set(row)] for size, some in rows.items()}
    some_landscapes = {size: f"{size}x{size}, {len(some)}" for size, some in rows.items()}
    names = ("nothing", *POLICIES)
    lines = ["| burned, % | " + " | ".join(LABELS.get(name, name) for name in names) + " |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for size, some in rows.items():
        cells = [f"{np.mean([row[name]['burned'] for row in some]):.2f}" for name in names]
        lines.append(f"| {some_landscapes[size]} | {' | '.join(cells)} |")
    others = [name for name in POLICIES if name != "agent"]
    lines += ["", "| points more than the agent | " + " | ".join(LABELS.get(n, n) for n in others) + " |"]
    lines.append("|---" * (len(others) + 1) + "|")
    for size, some in rows.items():
        cells = [
            describe_interval([row[name]["burned"] - row["agent"]["burned"] for row in some])
            for name in others
        ]
        lines.append(f"| {some_landscapes[size]} | {' | '.join(cells)} |")
    lines += ["", "| seconds a landscape | " + " | ".join(LABELS.get(name, name) for name in POLICIES) + " |"]
    lines.append("|---" * (len(POLICIES) + 1) + "|")
    for size, some in rows.items():
        cells = [f"{np.mean([row[name]['seconds'] for row in some]):.2f}" for name in POLICIES]
        lines.append(f"| {some_landscapes[size]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_table(rows: dict[str, list[dict[str, dict[str, float]]]], page: Path) -> None:
    """Put the table into a page, between its marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{make_table(rows)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default="", help="a run folder or an agent's file; default: the package's")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--count", type=int, help="landscapes of every size")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="put the tables into this page: docs/fuelbreaks.md")
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
    print(make_table(rows))
    if asked.write:
        write_table(rows, asked.write)


if __name__ == "__main__":
    main()
