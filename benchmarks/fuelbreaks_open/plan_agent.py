"""Plans of a trained agent for the public benchmark: one for each budget, on one core a landscape.

    python benchmarks/fuelbreaks_open/plan_agent.py                              # the agent of the package
    python benchmarks/fuelbreaks_open/plan_agent.py --agent runs/fuelbreaks-… --name agent-1 --workers 2
    python benchmarks/fuelbreaks_open/plan_agent.py --one --name agent-one       # one break per forward pass

A finished landscape is a file, OUT/NAME/NUMBER.npz, so the same command continues where an earlier one stopped.
When all are there they are gathered into OUT/NAME.npz, which score.py reads. The seconds are those of the largest
budget.
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from instances import BUDGETS, DURATION, INSTANCES, count_breaks, read_instances
from plan_rules import name_part, write_arrays

from flashdqn.envs.fuelbreaks.fire import Weather
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.agent_plan import AgentSettings, plan_by_agent
from flashdqn.planning.agent_values import read_agent
from flashdqn.planning.ground import prepare_ground
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent


def plan_landscape(agent: str, number: int, one: bool, target: str) -> tuple[int, float]:
    """Plan one landscape at every budget, and write it down."""
    torch.set_num_threads(1)
    instance = read_instances(INSTANCES)[number]
    landscape = Landscape(**instance.layers, name=instance.name)
    weather = Scenario("its own", Weather(**instance.weather), 1.0)
    ground = prepare_ground(Problem(landscape, (weather,), Stakes(), duration=DURATION))
    values = read_agent(load_planning_agent(agent, "cpu") if agent else load_shipped_agent("cpu"))
    how = AgentSettings(at_once=0.0) if one else AgentSettings()
    orders, seconds = {}, 0.0
    for share in BUDGETS:
        count = count_breaks(share, instance.layers["slope"].size)
        plan = plan_by_agent(values, ground, count, how)
        order = np.full(count, -1, dtype=np.int16)
        order[: len(plan.order)] = plan.order
        orders[f"order_{round(100 * share)}"] = order
        seconds = plan.seconds
    write_arrays(Path(target), seconds=np.float64(seconds), **orders)
    return number, seconds


def gather_plans(out: Path, name: str, count: int) -> bool:
    """One file of all landscapes, if all are there."""
    paths = [name_part(out, name, number) for number in range(count)]
    if not all(path.exists() for path in paths):
        return False
    parts = [dict(np.load(path)) for path in paths]
    write_arrays(out / f"{name}.npz", **{key: np.stack([part[key] for part in parts]) for key in parts[0]})
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default="", help="a run folder or an agent's file; default: the package's")
    parser.add_argument("--name", default="agent", help="of the row")
    parser.add_argument("--one", action="store_true", help="one break per forward pass")
    parser.add_argument("--landscapes", type=int, help="only this many, from the first on")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("plans"))
    asked = parser.parse_args()
    count = len(read_instances(INSTANCES))
    numbers = range(min(count, asked.landscapes or count))
    left = [number for number in numbers if not name_part(asked.out, asked.name, number).exists()]
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(
                plan_landscape, asked.agent, number, asked.one, str(name_part(asked.out, asked.name, number))
            )
            for number in left
        ]
        took = [job.result() for job in as_completed(jobs)]
    if took:
        print(f"{asked.name}: {np.mean([seconds for _, seconds in took]):.2f} s a landscape")
    print(
        f"{asked.name}: {'complete' if gather_plans(asked.out, asked.name, count) else 'not all landscapes yet'}"
    )


if __name__ == "__main__":
    main()
