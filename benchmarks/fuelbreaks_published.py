"""Breaks on 5 % of 40x40 cells against random plans and Downstream Protection Value, on the kind of instance of
Murray et al. 2025 (Applied Soft Computing 175, arXiv 2404.08523), whose agents learn one landscape each.

    python benchmarks/fuelbreaks_published.py                              # the rules alone
    python benchmarks/fuelbreaks_published.py --run package                # and the agent of the package
    python benchmarks/fuelbreaks_published.py --write FOLDER                # the instances as .npz, to train on
    python benchmarks/fuelbreaks_published.py --cell2fire PATH              # Cell2Fire as a second judge

Fires start in a zone around the middle (19x19 cells). The experts draw their own fires in this zone; `--fires`
other ones judge all plans. Percent better is the share of the other plan's burned area that is saved; its 95 %
interval is over fires, paired. Cell2Fire (C2F-W's program, built elsewhere) judges the same plans with its own
fires and rates.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.threads import limit_threads
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.experts import Betweenness, Expert, Lookahead
from flashdqn.envs.fuelbreaks.experts.dpv import DownstreamValue
from flashdqn.envs.fuelbreaks.fire.fuels import burnable_fuels, fuel_name
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.fuelbreaks.fire.weather import EXTREME
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.envs.fuelbreaks.scenes import Scenes, build_scenes
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.agent_plan import plan_by_agent
from flashdqn.planning.agent_values import read_agent
from flashdqn.planning.ground import prepare_ground
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.shipped import load_planning_agent, load_shipped_agent
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "fuelbreaks-published.json"
SIZE, CELL_SIZE, BREAKS, RADIUS = 40, 100.0, 80, 9
WIND_SPEED, WIND_FROM = 25.0, 180.0
HOURS = {"homogeneous": 10, "heterogeneous": 6}
RANDOM_PLANS = 20
LOOK = 200  # fires that DPV and lookahead look at
BASELINES = ("random", "dpv-once", "dpv")
NAMES = {
    "random": "random",
    "dpv-once": "DPV, counted once",
    "dpv": "DPV, again after every break",
    "betweenness": "betweenness, again after every break",
    "lookahead": "one-step lookahead",
    "agent": "agent",
}


def make_landscape(kind: str) -> Landscape:
    """Short grass (fuel model 101) on a plane; or fuels in patches on hills. Without a canopy."""
    if kind == "homogeneous":
        layers = {name: np.zeros((SIZE, SIZE)) for name in LAYERS}
        layers["fuel_model"] = np.full((SIZE, SIZE), 101)
        return Landscape(**layers, cell_size=CELL_SIZE, name=kind)
    bare = {name: np.zeros((SIZE, SIZE)) for name in LAYERS if name.startswith("canopy")}
    return replace(generate_landscape(40_004, SIZE, CELL_SIZE), **bare, name=kind)


def find_zone() -> np.ndarray:
    """The cells where fires start."""
    near = np.abs(np.arange(SIZE) - (SIZE // 2 - 1)) <= RADIUS
    return np.flatnonzero(near[:, None] & near[None, :])


def build_zone_scenes(landscape: Landscape) -> Scenes:
    """One scene whose random ignitions lie in the zone."""
    weather = replace(EXTREME, wind_speed=WIND_SPEED, wind_from=WIND_FROM)
    scenes = build_scenes([landscape], [weather], 1, torch.device("cpu"))
    zone = torch.from_numpy(find_zone())
    zone = zone[scenes.burnable[0, zone]]
    places = scenes.places.clone()
    places[0, : len(zone)] = zone
    return replace(scenes, places=places, counts=torch.tensor([len(zone)], dtype=torch.int32))


def plan_by_network(landscape: Landscape, scenes: Scenes, hours: int, given: str) -> np.ndarray:
    """The plan of an agent that sees the landscape, its weather, where fires start, and scouts of its own."""
    zone = np.zeros(SIZE * SIZE, dtype=np.float32)
    zone[scenes.places[0, : int(scenes.counts[0])].numpy()] = 1.0
    stakes = Stakes(ignition=zone.reshape(SIZE, SIZE))
    weather = (Scenario("the instance's", scenes.weathers[0], 1.0),)
    ground = prepare_ground(Problem(landscape, weather, stakes, duration=60.0 * hours))
    agent = load_shipped_agent("cpu") if given == "package" else load_planning_agent(given, "cpu")
    return plan_by_agent(read_agent(agent), ground, BREAKS).order


def make_plans(env: FuelBreaks, ignition: Tensor) -> dict[str, np.ndarray]:
    """The cells of every rule's breaks, [plans, BREAKS]."""
    scene = torch.zeros(1, dtype=torch.int32)
    burnable = np.flatnonzero(env.scenes.burnable[0].numpy())
    luck = np.random.Generator(np.random.PCG64(1))
    plans = {"random": np.stack([luck.choice(burnable, BREAKS, replace=False) for _ in range(RANDOM_PLANS)])}
    judges: dict[str, Any] = {
        "dpv-once": DownstreamValue(env, 1, LOOK, once=True),
        "dpv": DownstreamValue(env, 1, LOOK),
        "betweenness": Betweenness(env),
        "lookahead": Lookahead(env, 1, LOOK),
    }
    for name, judge in judges.items():
        env.begin(scene, ignition, BREAKS)
        choose, cells = Expert(env, judge), []
        for _ in range(BREAKS):
            action = choose()
            cells.append(int(action[0]))
            env.step(action)
        plans[name] = np.array([cells])
    return plans


def burn_plan(env: FuelBreaks, ignition: Tensor, plan: np.ndarray) -> np.ndarray:
    """Burned cells of every fire, [fires]."""
    spread = Spread(env.scenes.spread, 1, ignition.shape[1], env.config.duration)
    spread.ignition.copy_(ignition)
    spread.breaks[0, torch.from_numpy(plan)] = True
    spread.command.fill_(BURN)
    spread.launch()
    return spread.arrival[0].isfinite().sum(1).double().numpy()


def percent_better(mine: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Percent of their burned area that mine saves, with half of the 95 % interval of the ratio."""
    ratio = mine.mean() / theirs.mean()
    spread = (mine - ratio * theirs).std(ddof=1) / theirs.mean()
    return 100 * (1 - ratio), 100 * 1.96 * spread / len(mine) ** 0.5


def write_cell2fire_folder(folder: Path, landscape: Landscape, hours: int) -> None:
    """The instance as Cell2Fire reads it: cells count from 1, and its driest scenario is number 1."""
    folder.mkdir(parents=True)
    head = (
        f"ncols {SIZE}\nnrows {SIZE}\nxllcorner 0\nyllcorner 0\ncellsize {CELL_SIZE:g}\nNODATA_value -9999\n"
    )
    layers = {
        "fuels": landscape.fuel_model,
        "elevation": landscape.elevation,
        "slope": 100 * np.tan(np.radians(landscape.slope)),
        "saz": landscape.aspect,
    }
    for name, layer in layers.items():
        rows = "\n".join(" ".join(f"{value:g}" for value in row) for row in layer)
        (folder / f"{name}.asc").write_text(f"{head}{rows}\n", encoding="ascii")
    lines = ["grid_value,export_value,descriptive_name,fuel_type,r,g,b,h,s,l"]
    models = [n for n in burnable_fuels().number.tolist() if n > 100]
    lines += [f"{n},{n},{fuel_name(n)},{fuel_name(n)},200,200,100,57,255,185" for n in models]
    lines += [f"{n},{n},non-burnable,NF,0,0,0,0,0,0" for n in (91, 92, 93, 98, 99)]
    (folder / "spain_lookup_table.csv").write_text("\n".join(lines) + "\n", encoding="ascii")
    times = [f"x,2001-10-{16 + h // 24} {h % 24:02d}:00,{WIND_SPEED:g},{WIND_FROM:g},1" for h in range(hours)]
    weather = "\n".join(["Instance,datetime,WS,WD,FireScenario", *times])
    (folder / "Weather.csv").write_text(weather + "\n", encoding="ascii")
    middle = (SIZE // 2 - 1) * SIZE + SIZE // 2
    (folder / "Ignitions.csv").write_text(f"Year,Ncell\n1,{middle}\n", encoding="ascii")


def judge_by_cell2fire(program: str, folder: Path, plan: np.ndarray, fires: int) -> np.ndarray:
    """Burned cells of every fire by Cell2Fire; the same seed lights the same cells for every plan."""
    with tempfile.TemporaryDirectory() as out:
        cells = Path(out, "breaks.csv")
        cells.write_text("Year,Ncell\n1," + ",".join(str(cell + 1) for cell in plan) + "\n", encoding="ascii")
        options = f"--sim S --scenario 1 --sim-years 1 --nsims {fires} --ignitions --IgnitionRad {RADIUS}"
        options += " --weather rows --nweathers 1 --Fire-Period-Length 1.0 --ROS-CV 0.0 --seed 7 --nthreads 1"
        command = [program, "--input-instance-folder", f"{folder}/", "--output-folder", f"{out}/out/"]
        command += options.split() + (["--FirebreakCells", str(cells)] if len(plan) else [])
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The result of a fire that was lit where nothing burns is printed twice, under one number.
    results = re.findall(r"Simulation (\d+) Results:.*?Burnt\s+(\d+)\s", done.stdout, re.DOTALL)
    burned = list({int(number): int(cells) for number, cells in results}.values())
    if len(burned) != fires:
        raise SystemExit(f"Cell2Fire should have burned {fires} fires and burned {len(burned)}.")
    return np.array(burned, dtype=np.float64)


def compare(kind: str, asked: argparse.Namespace) -> dict[str, Any]:
    """All policies on one instance, by our fires and by Cell2Fire's."""
    landscape = make_landscape(kind)
    scenes = build_zone_scenes(landscape)
    config = FuelBreaksConfig(
        size=SIZE,
        landscapes=1,
        held_out=0,
        fires=asked.fires,
        duration=60.0 * HOURS[kind],
        budget=float(BREAKS),
    )
    env = FuelBreaks(config, 1, scenes=scenes)
    luck = np.random.Generator(np.random.PCG64(2)).integers(0, int(scenes.counts[0]), asked.fires)
    ignition = scenes.places[:, luck]
    plans = make_plans(env, ignition)
    if asked.run:
        plans["agent"] = plan_by_network(landscape, scenes, HOURS[kind], asked.run)[None]
    burned = {"nothing": burn_plan(env, ignition, np.array([], dtype=np.int64))}
    burned |= {
        name: np.mean([burn_plan(env, ignition, plan) for plan in some], 0) for name, some in plans.items()
    }
    found = {"ours": summarize(burned)}
    print_table(f"{kind}, our fires", found["ours"])
    if asked.cell2fire:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, kind)
            write_cell2fire_folder(folder, landscape, HOURS[kind])
            nothing = np.array([], dtype=np.int64)
            some = {"nothing": nothing[None]} | {
                name: some[: asked.random_plans] for name, some in plans.items()
            }
            theirs = {
                name: np.mean(
                    [
                        judge_by_cell2fire(asked.cell2fire, folder, plan, asked.cell2fire_fires)
                        for plan in each
                    ],
                    0,
                )
                for name, each in some.items()
            }
        found["cell2fire"] = summarize(theirs)
        print_table(f"{kind}, Cell2Fire's fires", found["cell2fire"])
    return found | {"plans": {name: some[0].tolist() for name, some in plans.items()}}


def summarize(burned: dict[str, np.ndarray]) -> dict[str, Any]:
    """Burned share of each policy, and by how much each is better than the baselines."""
    found: dict[str, Any] = {}
    for name, fires in burned.items():
        found[name] = {"burned_percent": 100 * float(fires.mean()) / SIZE**2}
        for other in BASELINES:
            found[name][f"better_than_{other}"] = percent_better(fires, burned[other])
    return found


def print_table(title: str, found: dict[str, Any]) -> None:
    """One instance and one judge."""
    print(f"\n| {title} | burned, % | less than random, % | less than DPV once, % | less than DPV again, % |")
    print("|---" * 5 + "|")
    for name, row in found.items():
        better = [row[f"better_than_{other}"] for other in BASELINES]
        cells = " | ".join(f"{mean:+.1f} ± {half:.1f}" for mean, half in better)
        print(f"| {NAMES.get(name, name)} | {row['burned_percent']:.2f} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--run", help="a run folder, an agent's file, or `package` for the agent that is shipped"
    )
    parser.add_argument("--fires", type=int, default=1000, help="fires that judge")
    parser.add_argument("--cell2fire", help="C2F-W's program: a path, or its name on the PATH")
    parser.add_argument("--cell2fire-fires", type=int, default=200)
    parser.add_argument("--random-plans", type=int, default=5, help="random plans that Cell2Fire judges")
    parser.add_argument("--write", type=Path, help="write the instances as .npz here, and stop")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.write:
        for kind in HOURS:
            write_npz(make_landscape(kind), asked.write / f"{kind}.npz")
        zone = " ".join(f"{cell // SIZE},{cell % SIZE}" for cell in find_zone())
        (asked.write / "ignitions.txt").write_text(zone + "\n", encoding="ascii")
        return
    if asked.cell2fire and shutil.which(asked.cell2fire) is None:
        raise SystemExit(
            f"There is no program {asked.cell2fire}: give its path, or put its folder on the PATH."
        )
    with limit_threads(1, 2):
        instances = {kind: compare(kind, asked) for kind in HOURS}
    about = {"size": SIZE, "cell_size": CELL_SIZE, "breaks": BREAKS, "zone_radius": RADIUS, "hours": HOURS}
    about |= {"wind_speed": WIND_SPEED, "wind_from": WIND_FROM, "fires": asked.fires}
    write_json(asked.out, {"context": context("cpu"), "about": about, "instances": instances})


if __name__ == "__main__":
    main()
