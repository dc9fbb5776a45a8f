"""Scores plans on the public benchmark: what share of the landscape burns, at 1, 5, 10 and 20 % of breaks.

    python benchmarks/fuelbreaks_open/score.py plans/random.npz mine.npz       # or .csv: landscape, then its cells
    python benchmarks/fuelbreaks_open/score.py mine.npz --plain --landscapes 2  # with NumPy alone: slow

A plan is `order`, [128, breaks]: cells (row · 50 + column) in the order in which they become breaks; −1: none. One
that differs by budget has `order_1`, `order_5`, `order_10` and `order_20` instead. The burned share is the mean
over the 200 fires of a landscape; intervals are 95 % over the landscapes, differences are paired by landscape.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from instances import BUDGETS, DURATION, INSTANCES, Instance, count_breaks, read_instances

CELLS = 2500
Burn = Callable[
    [Instance, list[np.ndarray]], np.ndarray
]  # breaks [cells] bool, growing, to burned cells [B, fires]


def burn_by_kernel(instance: Instance, plans: list[np.ndarray]) -> np.ndarray:
    """Burned cells of every fire behind each set of breaks, by flashdqn's fire kernel."""
    import torch

    from flashdqn.envs.fuelbreaks.fire import BURN, Spread, Weather, fire_behavior, spread_tables
    from flashdqn.envs.fuelbreaks.landscape import Landscape

    tables = spread_tables([fire_behavior(Landscape(**instance.layers), Weather(**instance.weather))])
    spread = Spread(tables, len(plans), len(instance.ignition), DURATION)
    spread.ignition.copy_(torch.from_numpy(instance.ignition))
    spread.breaks.copy_(torch.from_numpy(np.stack(plans)))
    spread.command.fill_(BURN)
    spread.launch()
    return spread.arrival.isfinite().sum(2).numpy()


def burn_plainly(instance: Instance, plans: list[np.ndarray]) -> np.ndarray:
    """The same by plain_fire.py, which needs NumPy alone."""
    from plain_fire import burn_fire, travel_times

    times = travel_times(instance.layers, instance.weather)
    fires = [[burn_fire(times, breaks, cell, DURATION) for cell in instance.ignition] for breaks in plans]
    return np.array([[np.isfinite(arrival).sum() for arrival in some] for some in fires])


def read_orders(path: Path, count: int) -> dict[float, np.ndarray]:
    """By budget, the cells of each landscape's plan in order, [count, breaks]."""
    if path.suffix == ".csv":
        rows = [line.replace(";", ",").split(",") for line in path.read_text(encoding="utf-8").split()]
        order = np.full((count, count_breaks(max(BUDGETS), CELLS)), -1, dtype=np.int64)
        for row in rows:
            order[int(row[0]), : len(row) - 1] = [int(cell) for cell in row[1:]]
        return dict.fromkeys(BUDGETS, order)
    with np.load(path) as file:
        return {
            share: file[f"order_{share:.0%}"[:-1] if "order" not in file else "order"] for share in BUDGETS
        }


def place_breaks(order: np.ndarray, share: float, name: str) -> np.ndarray:
    """The cells that hold a break, [cells] bool."""
    chosen = order[: count_breaks(share, CELLS)]
    chosen = chosen[chosen >= 0]
    if len(set(chosen.tolist())) < len(chosen) or (len(chosen) and chosen.max() >= CELLS):
        raise SystemExit(f"{name}: a plan names each cell once, by a number from 0 to {CELLS - 1}.")
    breaks = np.zeros(CELLS, dtype=np.bool_)
    breaks[chosen] = True
    return breaks


def score(
    given: dict[str, dict[float, np.ndarray]], instances: list[Instance], burn: Burn
) -> dict[str, np.ndarray]:
    """Burned shares of every policy in percent, [landscapes, budgets]."""
    shares: dict[str, list[np.ndarray]] = {name: [] for name in given}
    for i, instance in enumerate(instances):
        plans = [
            place_breaks(orders[share][i], share, f"{name}, landscape {i}")
            for name, orders in given.items()
            for share in BUDGETS
        ]
        burned = 100 * burn(instance, plans).mean(1).reshape(len(given), len(BUDGETS)) / CELLS
        for name, row in zip(given, burned, strict=True):
            shares[name].append(row)
    return {name: np.array(rows) for name, rows in shares.items()}


def interval(values: np.ndarray) -> str:
    """Mean and half of the 95 % interval, at every budget."""
    half = 1.96 * values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0 * values[0]
    return " | ".join(f"{m:.2f} ± {h:.2f}" for m, h in zip(values.mean(0), half, strict=True))


def describe_run() -> dict[str, object]:
    """Date, commit and plans: the shares themselves do not depend on the machine."""
    here = Path(__file__).parent
    found = subprocess.run(["git", "describe", "--always"], cwd=here, capture_output=True, text=True)
    plans = [Path(word).name for word in sys.argv[1:] if Path(word).suffix in (".npz", ".csv")]
    return {"date": datetime.date.today().isoformat(), "commit": found.stdout.strip(), "plans": plans}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plans", nargs="*", type=Path)
    parser.add_argument("--plain", action="store_true", help="by NumPy alone")
    parser.add_argument("--against", help="the plan to subtract from the others, by name; default: the last")
    parser.add_argument("--landscapes", type=int, help="only this many, from the first on")
    parser.add_argument("--instances", type=Path, default=INSTANCES)
    parser.add_argument("--out", type=Path, help="write the shares of every landscape as JSON")
    parser.add_argument(
        "--keep", action="store_true", help="rows in --out of plans that are not given stay, and are shown"
    )
    asked = parser.parse_args()
    every = read_instances(asked.instances)
    instances = every[: asked.landscapes]
    burn = burn_plainly if asked.plain else burn_by_kernel
    nothing = dict.fromkeys(BUDGETS, np.full((len(every), 1), -1))
    given = {"nothing": nothing} | {path.stem: read_orders(path, len(every)) for path in asked.plans}
    found = score(given, instances, burn)
    if asked.keep:
        old = json.loads(asked.out.read_text(encoding="utf-8"))["burned"]
        found = {name: np.array(rows) for name, rows in old.items() if name not in found} | found
    head = "".join(f" {share:.0%} |" for share in BUDGETS)
    print(f"| burned, % of the landscape |{head}\n" + "|---" * (len(BUDGETS) + 1) + "|")
    for name, shares in found.items():
        print(f"| {name} | {interval(shares)} |")
    best = asked.against or list(found)[-1]
    print(f"\n| points more than {best} |{head}\n" + "|---" * (len(BUDGETS) + 1) + "|")
    for name, shares in found.items():
        if name != best:
            print(f"| {name} | {interval(shares - found[best])} |")
    if asked.out:
        rounded = {name: shares.round(4).tolist() for name, shares in found.items()}
        about = describe_run() | {"budgets": BUDGETS}
        asked.out.write_text(json.dumps(about | {"burned": rounded}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
