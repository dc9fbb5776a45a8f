"""Fuel breaks: seconds until the scenes of a training are there, by whole arrays and by the kernel, in turns.

    python benchmarks/fuelbreaks_scenes.py                       # fuelbreaks, fuelbreaks-20, fuelbreaks-small
    python benchmarks/fuelbreaks_scenes.py fuelbreaks-small --rounds 5

By whole arrays, as until version 0.1: the behavior of fire in NumPy, for some landscapes together and in threads,
then the planes, then the tables. By the kernel: `build_scenes`. Both start from the same landscapes and maps, on
the CPU, and end with the same tensors, which are compared. A round times one after the other. A figure is the
median of the rounds, by the clock and in seconds of the processor over all threads. Nothing is compiled meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from flashdqn.compute.core_count import cores
from flashdqn.config.presets import base_config
from flashdqn.envs.fuelbreaks.collection import collect_landscapes
from flashdqn.envs.fuelbreaks.config import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, joint_behavior
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables, spread_tables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.observation import layer_planes, scene_planes
from flashdqn.envs.fuelbreaks.scenes import build_scenes, collect_stakes, find_placeable
from flashdqn.envs.fuelbreaks.stakes import Stakes
from measure import context, write_json

PRESETS = ("fuelbreaks", "fuelbreaks-20", "fuelbreaks-small")
RESULTS = Path(__file__).parent / "results" / "fuelbreaks_scenes.json"
CPU = torch.device("cpu")
#: Cells whose fires are computed together by whole arrays.
CELLS_AT_ONCE = 10_000


class Work(NamedTuple):
    """What scenes are made of."""

    landscapes: list[Landscape]
    stakes: list[Stakes]
    weathers: list[Weather]


class Found(NamedTuple):
    """What is compared."""

    spread: SpreadTables
    planes: np.ndarray


def build_by_kernel(work: Work) -> Found:
    """The scenes as a training makes them."""
    scenes = build_scenes(work.landscapes, work.weathers, 1, CPU, work.stakes)
    return Found(scenes.spread, scenes.planes.tables(CPU)[1].numpy())


def build_by_arrays(work: Work) -> Found:
    """The scenes by way of whole arrays."""
    behaviors, planes = burn_landscapes(work)
    every = [given for given in work.stakes for _ in work.weathers]
    np.stack([layer_planes(*both) for both in zip(work.landscapes, work.stakes, strict=True)])
    worth = np.stack([given.worth(work.landscapes[0].shape) for given in every])
    for given, fire in zip(every, behaviors, strict=True):
        burnable = fire.burnable.reshape(-1)
        find_placeable(given, burnable)
        given.ignition_cells(burnable)
    return Found(spread_tables(behaviors, worth=worth), planes)


def burn_landscapes(work: Work) -> tuple[list[FireBehavior], np.ndarray]:
    """The behavior of fire in every scene, and its planes [S, 5, H, W]."""
    (rows, columns), count = work.landscapes[0].shape, len(work.weathers)
    behaviors: dict[int, FireBehavior] = {}
    planes = np.empty((len(work.landscapes) * count, 5, rows, columns), dtype=np.float32)
    at_once = max(1, CELLS_AT_ONCE // (rows * columns))

    def burn(start: int, k: int) -> None:
        some = work.landscapes[start : start + at_once]
        joint = joint_behavior(some, work.weathers[k])
        for j, landscape in enumerate(some):
            scene = (start + j) * count + k
            own = cut_rows(joint, slice(j * rows, (j + 1) * rows))
            behaviors[scene] = replace(own, cell_size=float(landscape.cell_size))
            planes[scene] = scene_planes(behaviors[scene], work.stakes[start + j])

    with ThreadPoolExecutor(cores()) as pool:
        starts = itertools.product(range(0, len(work.landscapes), at_once), range(count))
        for done in [pool.submit(burn, *which) for which in starts]:
            done.result()
    return [behaviors[scene] for scene in range(len(planes))], planes


def cut_rows(value: Any, rows: slice) -> Any:
    """A dataclass of arrays with some rows of each."""
    if isinstance(value, np.ndarray):
        return value[rows]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(*(cut_rows(getattr(value, field.name), rows) for field in fields(value)))


WAYS: dict[str, Callable[[Work], Found]] = {"arrays": build_by_arrays, "kernel": build_by_kernel}


def time_call(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a call returns, and its seconds by the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    found = call()
    return found, {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


def prepare_work(config: FuelBreaksConfig) -> Work:
    """The landscapes of a preset, with their maps."""
    landscapes, _ = collect_landscapes(config)
    return Work(landscapes, collect_stakes(config, landscapes), config.read_weathers())


def measure_preset(name: str, rounds: int) -> dict[str, Any]:
    """The row of a preset."""
    config = base_config(name).env
    assert isinstance(config, FuelBreaksConfig)
    work, preparing = time_call(lambda: prepare_work(config))
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    differences = {}
    for _ in range(rounds):
        found = {}
        for way, build in WAYS.items():
            found[way], seconds = time_call(lambda build=build: build(work))
            seen[way].append(seconds)
        differences = compare_ways(found["arrays"], found["kernel"])
    row: dict[str, Any] = {"preset": name, "scenes": len(work.landscapes) * len(work.weathers)}
    row |= {"size": config.size, "rounds": rounds, "landscapes": preparing, **differences}
    for way, times in seen.items():
        row[way] = {kind: statistics.median(one[kind] for one in times) for kind in times[0]}
    return row


def compare_ways(one: Found, other: Found) -> dict[str, float]:
    """How far both ways are apart."""
    assert torch.equal(one.spread.burnable, other.spread.burnable)
    assert torch.equal(one.spread.open, other.spread.open)
    return {
        "times_apart": int((one.spread.times != other.spread.times).sum()),
        "planes_apart": float(np.abs(one.planes - other.planes).max()),
    }


def show_row(row: dict[str, Any]) -> str:
    """A row as text."""
    cells = [f"{row['preset']}: {row['scenes']:,} scenes of {row['size']}x{row['size']}"]
    for part in ("landscapes", *WAYS):
        cells.append(f"{part} {row[part]['wall']:.2f} s ({row[part]['processor']:.2f} s of the processor)")
    faster = row["arrays"]["processor"] / row["kernel"]["processor"]
    cells.append(f"{faster:.1f} times less of the processor")
    cells.append(f"times that differ {row['times_apart']}, planes at most {row['planes_apart']:g} apart")
    return "; ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("presets", nargs="*", default=list(PRESETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    small = replace(base_config("fuelbreaks-small").env, landscapes=1, held_out=1)
    for build in WAYS.values():  # compiles
        build(prepare_work(small))
    rows = []
    for name in args.presets:
        rows.append(measure_preset(name, args.rounds))
        print(show_row(rows[-1]), flush=True)
    write_json(args.json, {**context("cpu"), "cores": cores(), "results": rows})


if __name__ == "__main__":
    main()
