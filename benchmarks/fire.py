"""The fire against pyretechnics' level set: do the same cells burn, and how much faster? And fires per second.

    python benchmarks/fire.py                   agreement, times side by side, throughput on one and two cores
    python benchmarks/fire.py --throughput      only that, added to the existing results
    python benchmarks/fire.py --device cuda     throughput on a GPU, beside the processor of the same machine

Agreement and times need `.venv-fire`: `make fire-reference` sets it up. Every kind of case has its own random fires
(fire_cases.py). The reference burns each of them, and ours right after it, in turns, on one core. Both are timed in
CPU seconds, so other work on the machine does not count. Three of our times: with the tables at hand; with
behavior and tables of the whole landscape; and `burn_once`, from layers and weather to times of arrival.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

from fire_ask import ROOT, Reference
from fire_cases import KINDS, SIZE, Case, make_case, reference_input, with_duration
from flashdqn.envs.fuelbreaks.fire import BURN, Spread, burn_once, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.fire import behavior as behavior_module
from flashdqn.envs.fuelbreaks.fire.weather import DRY
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from measure import context, write_json

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
REPEATS = 5
AT_ONCE = 10  # our fires timed together: one is too short for the clock


def ours(case: Case, directions: int = 16) -> tuple[np.ndarray, dict[str, float]]:
    """Times of arrival, and the least seconds of a fire: with tables ready, from the landscape, by `burn_once`."""
    took = {"fire": math.inf, "from_landscape": math.inf, "once": math.inf}
    cell = case.ignition[0] * SIZE + case.ignition[1]
    for _ in range(REPEATS):
        behavior_module._memory.clear()
        start = time.process_time()
        tables = spread_tables([fire_behavior(case.landscape, case.weather)], count=directions)
        prepared = time.process_time() - start
        spread = Spread(tables, 1, 1, case.duration)
        spread.ignition.fill_(cell)
        spread.breaks.copy_(torch.from_numpy(case.breaks.reshape(1, -1)))
        spread.command.fill_(BURN)
        fire = per_call(spread.launch)
        once = per_call(
            lambda: burn_once(case.landscape, case.weather, [cell], case.duration, case.breaks, directions)
        )
        now = {"fire": fire, "from_landscape": prepared + fire, "once": once}
        took = {name: min(least, now[name]) for name, least in took.items()}
    arrival = spread.arrival.view(SIZE, SIZE).numpy()
    same = burn_once(case.landscape, case.weather, [cell], case.duration, case.breaks, directions)[0]
    if not np.array_equal(arrival, same):
        print(
            f"{case.kind}: burn_once differs from the tables in {(arrival != same).sum()} cells", flush=True
        )
    return arrival, took


def per_call(work: Callable[[], Any]) -> float:
    """CPU seconds of one of several calls."""
    start = time.process_time()
    for _ in range(AT_ONCE):
        work()
    return (time.process_time() - start) / AT_ONCE


def compare(per_kind: int) -> tuple[list[Case], list[dict[str, Any]], np.ndarray, np.ndarray]:
    """All cases: the reference and ours in turns."""
    rows: list[dict[str, Any]] = []
    cases, reference_burned, our_burned = [], [], []
    with Reference() as reference:
        for kind in KINDS:
            whole = [make_case(kind, seed) for seed in range(per_kind)]
            arrivals = reference.ask(reference_input(whole, 1), "fires")["arrival"]
            for case in (with_duration(*pair) for pair in zip(whole, arrivals, strict=True)):
                found = reference.ask(reference_input([case], REPEATS), "fires")
                theirs = found["arrival"][0] >= 0
                arrival, took = ours(case)
                mine = np.isfinite(arrival)
                row = {"kind": kind, "minutes": case.duration, "burned": int(theirs.sum())}
                row |= agreement(mine, theirs) | {"reference_ms": 1e3 * float(found["seconds"][0])}
                row |= {f"{name}_ms": 1e3 * value for name, value in took.items()}
                for directions in (8, 32):
                    row |= {
                        f"{k}_{directions}": v
                        for k, v in agreement(np.isfinite(ours(case, directions)[0]), theirs).items()
                    }
                rows.append(row)
                cases.append(case)
                reference_burned.append(theirs)
                our_burned.append(mine)
            print(f"{kind}: {per_kind} fires compared", flush=True)
    return cases, rows, np.stack(reference_burned), np.stack(our_burned)


def agreement(mine: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    return {
        "jaccard": float((mine & theirs).sum() / (mine | theirs).sum()),
        "ratio": float(mine.sum() / theirs.sum()),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Quantiles by kind of case, and over all."""
    found = {}
    for kind in (*KINDS, "all"):
        some = [row for row in rows if kind in (row["kind"], "all")]
        column = {name: np.array([row[name] for row in some]) for name in some[0] if name != "kind"}
        faster = column["reference_ms"] / column["fire_ms"]
        faster_whole = column["reference_ms"] / column["from_landscape_ms"]
        faster_once = column["reference_ms"] / column["once_ms"]
        found[kind] = {
            "fires": len(some),
            "faster_total": column["reference_ms"].sum() / column["fire_ms"].sum(),
        }
        column |= {"faster": faster, "faster_from_landscape": faster_whole, "faster_once": faster_once}
        found[kind] |= {
            name: np.quantile(values, QUANTILES).round(5).tolist() for name, values in column.items()
        }
    return found


def print_summary(found: dict[str, Any]) -> None:
    print(
        "\n| case | fires | cells burned | Jaccard index: 10 %, 25 %, median | area ratio: 10 %, median, 90 % |"
    )
    print("|---|---|---|---|---|")
    for kind, row in found.items():
        j, r = row["jaccard"], row["ratio"]
        print(
            f"| {kind} | {row['fires']} | {row['burned'][2]:.0f} | {j[0]:.2f}, {j[1]:.2f}, **{j[2]:.3f}** | "
            f"{r[0]:.2f}, **{r[2]:.3f}**, {r[4]:.2f} |"
        )
    print(
        "\n| case | pyretechnics, ms | tables at hand, ms | times faster: 10 %, median, 90 % | tables made "
        "| used once, ms | times faster: 10 %, median, 90 % |"
    )
    print("|---" * 7 + "|")
    for kind, row in found.items():
        f, w, o = row["faster"], row["faster_from_landscape"], row["faster_once"]
        times = f"{row['reference_ms'][2]:.1f} | {row['fire_ms'][2]:.3f}"
        once = f"{row['once_ms'][2]:.3f} | {o[0]:.0f}, **{o[2]:.0f}**, {o[4]:.0f}"
        print(f"| {kind} | {times} | {f[0]:.0f}, **{f[2]:.0f}**, {f[4]:.0f} | {w[2]:.1f} | {once} |")
    print("\n| directions | Jaccard index: 10 %, 25 %, median | ratio of areas: median |\n|---|---|---|")
    for directions, suffix in ((8, "_8"), (16, ""), (32, "_32")):
        j, r = found["all"][f"jaccard{suffix}"], found["all"][f"ratio{suffix}"]
        print(f"| {directions} | {j[0]:.2f}, {j[1]:.2f}, {j[2]:.3f} | {r[2]:.3f} |")


def throughput(device: str, size: int, threads: int, boards: int, fires: int) -> dict[str, Any]:
    """Fires per second on generated landscapes, dry weather, four hours: from scratch, after one more break."""
    if device == "cpu":
        numba.set_num_threads(threads)
    landscapes = [generate_landscape(seed, size) for seed in range(16)]
    tables = spread_tables([fire_behavior(landscape, DRY) for landscape in landscapes], device)
    spread = Spread(tables, boards, fires, 240.0)
    generator = torch.Generator().manual_seed(0)
    spread.table.copy_(torch.arange(boards) % len(landscapes))
    chance = tables.burnable.cpu().float()[spread.table.cpu().long()]
    spread.ignition.copy_(torch.multinomial(chance, fires, replacement=True, generator=generator))
    steps = [
        torch.multinomial(chance, 1, generator=generator)[:, 0].int().to(device)
        for _ in range(size * size // 20)
    ]

    def place() -> None:
        for cells in steps:
            spread.command.copy_(cells)
            spread.launch()

    spread.command.fill_(BURN)
    full = seconds(spread.launch, device, spread.command)
    burned = spread.burned.float().mean().item()
    update = math.inf
    for _ in range(3):
        spread.breaks.zero_()
        spread.command.fill_(BURN)
        spread.launch()
        update = min(update, timed(place, device) / len(steps))
    count = boards * fires
    return {
        "device": device,
        "size": size,
        "threads": threads,
        "boards": boards,
        "fires": fires,
        "burned": burned,
        "full_per_second": count / full,
        "update_per_second": count / update,
    }


def seconds(work: Callable[[], None], device: str, command: torch.Tensor) -> float:
    """The least of several runs."""
    command.fill_(BURN)
    work()
    return min(timed(work, device) for _ in range(REPEATS))


def timed(work: Callable[[], None], device: str) -> float:
    """Seconds; on one core, CPU seconds."""
    clock = time.process_time if device == "cpu" and numba.get_num_threads() == 1 else time.perf_counter
    if device == "cuda":
        torch.cuda.synchronize()
    start = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def all_throughputs(device: str) -> list[dict[str, Any]]:
    """On the processor; and on the GPU where that is asked for, in the same table."""
    threads = sorted({1, 2 if device == "cpu" else numba.config.NUMBA_NUM_THREADS})
    shapes = [("cpu", size, count, 64, 8) for size in (20, 50) for count in threads]
    if device == "cuda":
        shapes += [("cpu", size, threads[-1], 256, 32) for size in (20, 50)]
        some = ((64, 8), (256, 32), (1024, 32))
        shapes += [("cuda", size, 0, boards, fires) for size in (20, 50) for boards, fires in some]
    rows = []
    print(
        "\n| cells | device | boards x fires | cells burned | fires/s from scratch | fires/s after one more break |"
    )
    print("|---|---|---|---|---|---|")
    for shape in shapes:
        row = throughput(*shape)
        rows.append(row)
        where = "CUDA" if row["device"] == "cuda" else f"{row['threads']} core{'s' * (row['threads'] > 1)}"
        speeds = f"{row['full_per_second']:,.0f} | {row['update_per_second']:,.0f}"
        cells, fires = f"{row['size']}x{row['size']}", f"{row['boards']} x {row['fires']}"
        print(f"| {cells} | {where} | {fires} | {row['burned']:.0f} | {speeds} |", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--throughput", action="store_true", help="measure only fires per second")
    parser.add_argument("--per-kind", type=int, default=25, help="fires of each of the seven kinds of case")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/fire.json, or fire-cuda.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "images" / "fire.png")
    given = parser.parse_args()
    name = "fire.json" if given.device == "cpu" else "fire-cuda.json"
    out = given.out or ROOT / "benchmarks" / "results" / name
    data: dict[str, Any] = context(given.device)
    if given.throughput and out.exists():
        data = json.loads(out.read_text(encoding="utf-8"))
    elif given.device == "cpu" and not given.throughput:
        numba.set_num_threads(1)
        cases, rows, theirs, mine = compare(given.per_kind)
        data |= {"quantiles": QUANTILES, "summary": summary(rows), "fires": rows}
        print_summary(data["summary"])
        from fire_picture import draw

        draw(given.picture, cases, theirs, mine)
        write_json(out, data)
    data["throughput"] = all_throughputs(given.device)
    write_json(out, data)
    print(f"\nwritten: {out.relative_to(ROOT) if out.is_relative_to(ROOT) else out}")


if __name__ == "__main__":
    main()
