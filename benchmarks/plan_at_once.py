"""How many breaks an agent may place per forward pass, and how far apart.

    python benchmarks/plan_at_once.py                                   # the agent of the package
    python benchmarks/plan_at_once.py --agent runs/fuelbreaks-small-…   # another one

Generated landscapes that no agent was trained on, 5 % of the cells, dry weather with the wind from four sides in
turn. "8 apart 4" takes the eight best cells that lie at least four rows or columns apart; "2 and almost 0.8 apart
8" takes the two best ones and up to 14 more, if each of them gains at least 0.8 of what the best one gains. Every
plan is judged by the same fires. Differences are paired by landscape: what burns more than with one break per pass,
in percent of what burns without breaks, with a 95 % interval over the landscapes.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.compute.threads import limit_threads
from flashdqn.envs.fuelbreaks.fire.weather import DRY
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.agent_plan import AgentSettings, plan_by_agent
from flashdqn.planning.agent_values import NetworkValues, read_agent
from flashdqn.planning.ground import prepare_ground
from flashdqn.planning.judge import FireJudge
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "plan_at_once.json"
FIRST_SEED = 880_000  # of landscapes that no training draws
SHARE = 0.05
BEGIN, END = "<!-- plan at once: begin -->", "<!-- plan at once: end -->"


def make_problem(seed: int, size: int) -> Problem:
    """A generated landscape in dry weather, with the wind from one of four sides."""
    wind = dataclasses.replace(DRY, wind_from=90.0 * (seed % 4))
    return Problem(generate_landscape(seed, size), (Scenario("dry", wind, 1.0),), Stakes())


def list_ways(
    size: int, counts: list[int], shares: list[float], distances: list[int], least: list[int]
) -> dict[str, AgentSettings]:
    """The ways to take several breaks, by name."""
    area = size**2 / 2500
    ways = {"1": AgentSettings(at_once=0.0, whole=size)}
    for apart in distances:
        for count in counts:
            name = f"{count} apart {apart}"
            ways[name] = AgentSettings(at_once=count / area, apart=apart, almost=0.0, whole=size)
        for share, fewest in itertools.product(shares, least):
            name = f"{fewest} and almost {share:g} apart {apart}"
            ways[name] = AgentSettings(at_least=fewest / area, apart=apart, almost=share, whole=size)
    return ways


def measure_landscape(
    values: NetworkValues, seed: int, size: int, ways: dict[str, AgentSettings], fires: int
) -> dict[str, tuple[float, float]]:
    """What burns in percent of what burns without breaks, and the seconds, for each way."""
    ground = prepare_ground(make_problem(seed, size))
    judge = FireJudge(ground, fires, seed=1)
    before = judge.judge(np.empty(0, dtype=np.int64)).area.mean()
    found = {}
    for name, how in ways.items():
        plan = plan_by_agent(values, ground, round(SHARE * size**2), how)
        found[name] = (100 * float(judge.judge(plan.order).area.mean() / before), plan.seconds)
    return found


def summarize_runs(runs: list[dict[str, tuple[float, float]]]) -> dict[str, dict[str, float]]:
    """Means over landscapes, and differences to one break per pass."""
    summary = {}
    for name in runs[0]:
        burned = np.array([run[name][0] for run in runs])
        more = burned - np.array([run["1"][0] for run in runs])
        summary[name] = {
            "burned_percent": float(burned.mean()),
            "more_than_one_at_a_time": float(more.mean()),
            "error": float(1.96 * more.std(ddof=1) / len(runs) ** 0.5) if len(runs) > 1 else 0.0,
            "seconds": float(np.median([run[name][1] for run in runs])),
        }
    return summary


def make_table(data: dict[str, Any]) -> str:
    """What burns more than with one break per pass, and seconds, for each size."""
    sizes = data["sizes"]
    heads = [f"{size}x{size}: burns more, points | seconds" for size in sizes]
    rows = ["| breaks per pass | " + " | ".join(heads) + " |", "|---" * (2 * len(sizes) + 1) + "|"]
    for name in next(iter(sizes.values()))["plans"]:
        found = [one["plans"][name] for one in sizes.values()]
        cells = [
            f"{row['more_than_one_at_a_time']:+.2f} ± {row['error']:.2f} | {row['seconds']:.2f}"
            for row in found
        ]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    about, counts = data["about"], " and ".join(str(one["landscapes"]) for one in sizes.values())
    side = about["trained_size"]
    trained = f"An agent of {about['agent_steps']:,} transitions on {side}x{side} cells"
    return "\n".join([*rows, "", f"{trained}; {counts} landscapes; {data['context']['date']}, one core."])


def write_tables(data: dict[str, Any], page: Path) -> None:
    """Put the tables into a page, between their marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{make_table(data)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", type=Path, help="a run folder or an agent's file; default: the package's")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--landscapes", type=int, nargs="*", default=[16, 8], help="for each size")
    parser.add_argument("--at-once", type=int, nargs="*", default=[2, 4, 8, 16])
    parser.add_argument("--almost", type=float, nargs="*", default=[0.8, 0.9, 0.95])
    parser.add_argument("--at-least", type=int, nargs="*", default=[1, 2], help="with --almost")
    parser.add_argument("--apart", type=int, nargs="*", default=[8])
    parser.add_argument("--fires", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="put the table into this page: docs/planning.md")
    asked = parser.parse_args()
    agent = load_shipped_agent("cpu") if asked.agent is None else load_planning_agent(asked.agent, "cpu")
    values = read_agent(agent)
    sizes: dict[str, Any] = {}
    with limit_threads(1, 1):
        for size, landscapes in zip(asked.sizes, asked.landscapes, strict=True):
            ways = list_ways(size, asked.at_once, asked.almost, asked.apart, asked.at_least)
            runs = [
                measure_landscape(values, FIRST_SEED + k, size, ways, asked.fires) for k in range(landscapes)
            ]
            sizes[str(size)] = {"landscapes": landscapes, "plans": summarize_runs(runs)}
            for name, row in sizes[str(size)]["plans"].items():
                print(
                    f"{size}x{size}, {name:>18} per pass: {row['burned_percent']:6.2f} % of what burned before, "
                    f"{row['more_than_one_at_a_time']:+.2f} ± {row['error']:.2f}, {row['seconds']:.2f} s",
                    flush=True,
                )
    about = {
        "share": SHARE,
        "fires": asked.fires,
        "agent_steps": agent.steps,
        "trained_size": values.trained_size,
    }
    data = {"context": context("cpu"), "about": about, "sizes": sizes}
    write_json(asked.out, data)
    if asked.write:
        write_tables(data, asked.write)


if __name__ == "__main__":
    main()
