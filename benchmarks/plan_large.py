"""Large landscapes: how long planning and judging take, how much memory, and which windows are best.

    python benchmarks/plan_large.py --windows                 # quality on 200x200: the whole grid, windows, halos
    python benchmarks/plan_large.py --sizes 500 1000 2000     # seconds and memory
    python benchmarks/plan_large.py --agent runs/…            # another agent than the package's

Generated landscapes in dry weather. Sizes are measured in a process each, whose peak memory is its own. Both
parts go into one file; a part that was not asked for stays as it was.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.agent.agent import Agent
from flashdqn.compute.threads import limit_threads
from flashdqn.core.errors import EnvError
from flashdqn.planning.agent_plan import AgentSettings, choose_window, plan_by_agent
from flashdqn.planning.agent_values import NetworkValues, read_agent
from flashdqn.planning.ground import prepare_ground
from flashdqn.planning.judge import FireJudge, compare_losses, judge_plans, spread_budgets
from flashdqn.planning.plan import Plan
from flashdqn.planning.problem import Problem
from flashdqn.planning.rules import SECONDS, plan_by_rule
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent
from measure import context, write_json
from plan_at_once import make_problem

RESULTS = Path(__file__).parent / "results" / "plan_large.json"
FIRST_SEED = 890_000
BEGIN, END = "<!-- plan large: begin -->", "<!-- plan large: end -->"
WINDOW_SIZE = 200  # of the landscapes that windows are tried on
#: Windows and halos, in shares of the side that the network was trained on.
WINDOWS = ((1.0, 0.1), (1.0, 0.2), (1.0, 0.3), (1.5, 0.2), (2.0, 0.2), (2.0, 0.4))


def load_agent(path: Path | None) -> Agent:
    """The agent to plan with."""
    return load_shipped_agent("cpu") if path is None else load_planning_agent(path, "cpu")


def list_windows(trained: int) -> dict[str, AgentSettings]:
    """The ways to plan that are compared, by name."""
    ways = {"whole": AgentSettings(whole=WINDOW_SIZE)}
    for share, edge in WINDOWS:
        size, halo = round(share * trained), round(edge * trained)
        if size < WINDOW_SIZE:
            ways[f"{size}, halo {halo}"] = AgentSettings(whole=8, window=size, halo=halo)
    return ways


def compare_windows(values: NetworkValues, landscapes: int, share: float, fires: int) -> dict[str, Any]:
    """What burns after plans with each window, in percent of what burns before; and seconds."""
    ways = list_windows(values.trained_size)
    burned: dict[str, list[float]] = {name: [] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(landscapes):
        ground = prepare_ground(make_problem(FIRST_SEED + k, WINDOW_SIZE))
        judge = FireJudge(ground, fires, seed=1)
        before = judge.judge(np.empty(0, dtype=np.int64)).area.mean()
        for name, how in ways.items():
            plan = plan_by_agent(values, ground, round(share * WINDOW_SIZE**2), how)
            burned[name].append(100 * float(judge.judge(plan.order).area.mean() / before))
            seconds[name].append(plan.seconds)
            print(f"landscape {k}, {name:>12}: {burned[name][-1]:.2f} %, {plan.seconds:.1f} s", flush=True)
    first = np.array(burned["whole"])
    rows = {}
    for name, found in burned.items():
        more = np.array(found) - first
        error = 1.96 * more.std(ddof=1) / len(more) ** 0.5 if len(more) > 1 else float("nan")
        rows[name] = {
            "burned_percent": float(np.mean(found)),
            "more_than_whole": float(more.mean()),
            "error": float(error),
            "seconds": float(np.median(seconds[name])),
        }
    return {"size": WINDOW_SIZE, "landscapes": landscapes, "share": share, "fires": fires, "windows": rows}


def make_large_problem(size: int) -> Problem:
    """The first seed whose hills are not higher than mountains are: slopes over this many cells add up."""
    for seed in range(FIRST_SEED, FIRST_SEED + 100):
        try:
            return make_problem(seed, size)
        except EnvError:
            continue
    raise SystemExit(f"No landscape of {size} x {size} cells fits.")


def measure_size(size: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each part, and the peak of memory after it, in one process."""
    steps: dict[str, Any] = {}

    def note(name: str, started: float, **more: Any) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        steps[name] = {"seconds": round(time.perf_counter() - started, 2), "peak_gb": round(peak, 2)} | more
        print(f"{size}: {name} {steps[name]}", file=sys.stderr, flush=True)

    problem = make_large_problem(size)
    started = time.perf_counter()
    ground = prepare_ground(problem)
    note("fire behavior and tables", started)
    budget = float(round(asked.share * size**2))
    plans: dict[str, Plan] = {}
    agent = load_agent(asked.agent)
    values = read_agent(agent)
    started = time.perf_counter()
    how = AgentSettings(seconds=asked.seconds, window=asked.window)
    plans["agent"] = plan_by_agent(values, ground, budget, how)
    note("agent", started, breaks=len(plans["agent"].order), note=plans["agent"].note)
    for rule in asked.rules:
        started = time.perf_counter()
        plans[rule] = plan_by_rule(rule, ground, budget, seconds=min(SECONDS, asked.seconds))
        note(rule, started, note=plans[rule].note)
    started = time.perf_counter()
    judged = judge_plans(problem, plans, spread_budgets(budget))
    note("judge", started, fires=judged.fires)
    saved = {name: compare_losses(judged.before, after[-1]) for name, after in judged.after.items()}
    return {
        "share": asked.share,
        "agent": {
            "transitions": agent.steps,
            "weights": sum(weight.numel() for weight in agent.network.parameters()),
            "window": choose_window(ground, values, how)[0],
            "seconds": asked.seconds,
        },
        "steps": steps,
        "before_ha": float(judged.before.area.mean()),
        "saved_ha": {name: {"mean": one.mean, "error": one.error} for name, one in saved.items()},
    }


def measure_apart(size: int, asked: argparse.Namespace) -> dict[str, Any]:
    """`measure_size` in a process of its own."""
    words = [
        sys.executable,
        __file__,
        "--one",
        str(size),
        "--share",
        str(asked.share),
        "--rules",
        *asked.rules,
    ]
    words += ["--seconds", str(asked.seconds), "--window", str(asked.window), "--threads", str(asked.threads)]
    if asked.agent is not None:
        words += ["--agent", str(asked.agent)]
    answer = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def make_table(data: dict[str, Any]) -> str:
    """Windows on 200x200 cells, then seconds and memory by size; a part that was not measured is left out."""
    rows: list[str] = []
    if "windows" in data:
        rows += [
            "| window on 200x200 cells | burns more than with the whole, points | seconds |",
            "|---|---|---|",
        ]
        for name, row in data["windows"]["windows"].items():
            rows.append(
                f"| {name} | {row['more_than_whole']:+.2f} ± {row['error']:.2f} | {row['seconds']:.1f} |"
            )
        rows.append("")
    if "sizes" in data:
        sizes = sorted(data["sizes"], key=int)
        rows += [
            "| | " + " | ".join(f"{size}x{size}" for size in sizes) + " |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for step in data["sizes"][sizes[0]]["steps"]:
            found = [f"{data['sizes'][size]['steps'][step]['seconds']:.0f}" for size in sizes]
            rows.append(f"| {step}, s | " + " | ".join(found) + " |")
        peaks = [
            f"{max(one['peak_gb'] for one in data['sizes'][size]['steps'].values()):.1f}" for size in sizes
        ]
        rows.append("| peak of memory, GB | " + " | ".join(peaks) + " |")
        one = data["sizes"][sizes[-1]]
        agent, told = one["agent"], one["context"]
        side = agent["window"]
        text = f"Breaks on {one['share']:.0%} of the cells, windows of {side}x{side}; an agent of "
        text += f"{agent['transitions']:,} transitions and {agent['weights']:,} weights, told to end in "
        text += f"{agent['seconds']:g} s, which its first pass may exceed; "
        text += f"{told['date']}, {told['cores']} cores with a load of {told['load']:g}."
        rows += ["", text]
    return "\n".join(rows).strip()


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
    parser.add_argument("--windows", action="store_true", help="compare windows on 200x200 cells")
    parser.add_argument("--landscapes", type=int, default=4, help="for --windows")
    parser.add_argument("--fires", type=int, default=1000, help="for --windows")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="measure seconds and memory")
    parser.add_argument("--rules", nargs="*", default=["dpv", "domirank", "betweenness-once"])
    parser.add_argument("--share", type=float, default=0.01, help="of the cells that become breaks")
    parser.add_argument("--seconds", type=float, default=900.0, help="for the agent; a rule has at most 60")
    parser.add_argument("--window", type=int, default=0, help="cells a side; 0: as `plan` chooses")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", type=int, help="measure this size here, and print the result as JSON")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="put the tables into this page: docs/planning.md")
    asked = parser.parse_args()
    with limit_threads(asked.threads, asked.threads):
        run_parts(asked)


def run_parts(asked: argparse.Namespace) -> None:
    """What was asked for."""
    if asked.one:
        print(json.dumps(measure_size(asked.one, asked)))
        return
    result = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.exists() else {}
    if asked.windows:
        found = compare_windows(
            read_agent(load_agent(asked.agent)), asked.landscapes, asked.share, asked.fires
        )
        result["windows"] = found | {"context": context("cpu")}
        write_json(asked.out, result)
    for size in asked.sizes:
        result.setdefault("sizes", {})[str(size)] = measure_apart(size, asked) | {"context": context("cpu")}
        write_json(asked.out, result)
    if asked.write:
        write_tables(result, asked.write)


if __name__ == "__main__":
    main()
