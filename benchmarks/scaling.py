"""How throughput scales: with the number of boards, with the batch, with the train ratio.

    python benchmarks/scaling.py                                  # all three axes
    python benchmarks/scaling.py --device cuda                    # with 16,384 and 65,536 boards
    python benchmarks/scaling.py --axes ratio --rounds 3 --flood  # one axis, flood-fill features
    python benchmarks/scaling.py --algo rainbow

Snake 10x10, MLP 2x256, double DQN; 256 boards, batch 64 and ratio 1/32 where they do not vary. Each point is the
real training loop, in the mode and with the threads that `auto` picks, after the replay was filled with what
learning starts from. All points of an axis are prepared first and take turns, round by round, so a busy machine
affects all alike. A round ends only when all updates that it earned are done. Ratio 0 is collection alone.

A point that does not work is listed with its reason, and left out. Axes that are not measured stay in the JSON
as they were.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from flashdqn.compute.core_count import cores
from flashdqn.compute.device import choose_device
from flashdqn.compute.precision import allow_tf32
from flashdqn.compute.threads import limit_threads
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.envs import build_env
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.profile.ready import end_rollout, finish_updates
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import prepare_engine
from flashdqn.training.loop import Loop
from flashdqn.training.prepared import check_settings, use_run_threads
from flashdqn.training.progress import Silent
from measure import context, write_json

HERE = Path(__file__).parent
BASE: dict[str, Any] = {
    "envs": 256,
    "train_ratio": 1 / 32,
    "network.hidden": (256, 256),
    "learn.batch_size": 64,
    "log.tensorboard": False,
}
#: What varies: the setting, and its values.
AXES: dict[str, tuple[str, list[float]]] = {
    "boards": ("envs", [1, 8, 64, 256, 1024, 4096, 16_384, 65_536]),
    "batch": ("learn.batch_size", [32, 64, 128, 256, 512, 1024, 2048, 4096]),
    "ratio": ("train_ratio", [0, 0.004, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1]),
}
FIXED = {"boards": "batch 64, ratio 1/32", "batch": "256 boards, ratio 1/32", "ratio": "256 boards, batch 64"}
CUDA_BOARDS = 16_384  # with this many boards or more, only CUDA is measured


@dataclass
class Point:
    """A training that is ready, and its measurements."""

    value: float
    loop: Loop
    mode: str
    threads: int
    rates: list[float] = field(default_factory=list)
    seconds: float = 0.0
    transitions: int = 0


def configure(arguments: argparse.Namespace, setting: str, value: float) -> Config:
    """The configuration of a point."""
    changes = BASE | {"device": arguments.device, setting: value}
    if arguments.flood:
        changes["env.features"] = "flood"
    changes["replay.capacity"] = max(500_000, 16 * int(changes["envs"]))
    config = apply_settings(base_config("snake"), changes)
    config = apply_algorithm(config, arguments.algo) if arguments.algo else config
    if config.learn.method == "pqn" and setting != "envs":
        raise ConfigError("PQN has neither a replay batch nor its own train ratio.")
    return config


def start(config: Config, value: float, device: torch.device, folder: Path) -> Point:
    """A training that is warm and has filled its replay."""
    with use_run_threads(config, check_settings(config, device)):
        parts = assemble_parts(config, build_env(config.env, config.envs, device))
        engine, choice = prepare_engine(config, parts, lambda _: None)
        loop = Loop(config, parts, RunFolder(folder), Silent(), parts.env, engine)
        loop.start()
        while parts.counts.transitions < loop.ratio.starts:
            loop.iterate()
        return Point(value, loop, str(choice.plan), torch.get_num_threads())


def measure(point: Point, seconds: float) -> None:
    """One round."""
    loop, counts = point.loop, point.loop.parts.counts
    with limit_threads(point.threads, cores()):
        finish_updates(loop)
        end_rollout(loop)
        transitions, begun = counts.transitions, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            loop.iterate()
        end_rollout(loop)
        finish_updates(loop)
        took = time.perf_counter() - begun
    point.rates.append((counts.transitions - transitions) / took)
    point.seconds += took
    point.transitions += counts.transitions - transitions


def row_of(point: Point) -> dict[str, Any]:
    """The figures of a point."""
    median, loop = statistics.median(point.rates), point.loop
    achieved = loop.ratio.achieved(loop.parts.counts.transitions, loop.parts.learner.updates)
    return {
        "value": point.value,
        "mode": point.mode,
        "threads": point.threads,
        "steps_per_second": round(median),
        "least": round(min(point.rates)),
        "most": round(max(point.rates)),
        "microseconds_per_update": round(1e6 / median / achieved, 1) if achieved else None,
        "updates_per_second": round(median * achieved, 1),
        "ratio_asked": loop.ratio.asked,
        "ratio": achieved,
        "batch": loop.config.update_size,
        "reuse": achieved * loop.config.update_size,
        "rounds": len(point.rates),
        "measured_seconds": round(point.seconds, 2),
    }


def reason(error: BaseException) -> str:
    """Why a point is left out, in one line."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[0] if isinstance(error, ConfigError) else f"{type(error).__name__}: {lines[0]}"


def run_axis(
    axis: str, arguments: argparse.Namespace, device: torch.device, console: Console
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All points of an axis: the rows, and what was left out."""
    setting, values = AXES[axis]
    points: list[Point] = []
    skipped: list[dict[str, Any]] = []

    def skip(value: float, error: BaseException) -> None:
        skipped.append({"value": value, "reason": reason(error)})
        console.print(f"{axis} {label(axis, value)} left out: {reason(error)}", highlight=False, markup=False)

    with tempfile.TemporaryDirectory() as folder:
        for value in values:
            if axis == "boards" and value >= CUDA_BOARDS and device.type != "cuda":
                continue
            try:
                config = configure(arguments, setting, value)
                points.append(start(config, value, device, Path(folder)))
            except Exception as error:
                skip(value, error)
        for number in range(arguments.rounds):
            console.print(f"{axis}: round {number + 1} of {arguments.rounds}", highlight=False)
            for point in list(points):
                try:
                    measure(point, arguments.seconds)
                except Exception as error:
                    skip(point.value, error)
                    points.remove(point)
        rows = [row_of(point) for point in points if point.transitions]
    points.clear()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return rows, skipped


def label(axis: str, value: float) -> str:
    """A value in its usual notation: 4,096, 1/32, 0.004."""
    if axis != "ratio":
        return f"{int(value):,}"
    return (
        f"1/{round(1 / value)}"
        if 0 < value < 1 and (1 / value).is_integer() and value > 0.01
        else f"{value:g}"
    )


def table(axis: str, rows: list[dict[str, Any]], title: str) -> Table:
    """A readable table of an axis."""
    grid = Table(title=f"{axis}: {title}")
    columns = (
        axis,
        "steps/s",
        "least … most",
        "µs/update, all in",
        "ratio asked",
        "achieved",
        "batch",
        "reuse",
    )
    for name in columns:
        grid.add_column(name, justify="right")
    grid.add_column("mode")
    grid.add_column("threads", justify="right")
    for row in rows:
        per_update = row["microseconds_per_update"]
        grid.add_row(
            label(axis, row["value"]),
            f"{row['steps_per_second']:,}",
            f"{row['least']:,} … {row['most']:,}",
            "–" if per_update is None else f"{per_update:,.1f}",
            f"{row['ratio_asked']:.5g}",
            f"{row['ratio']:.5g}",
            f"{row['batch']:,}",
            f"{row['reuse']:.3g}",
            row["mode"],
            str(row["threads"]),
        )
    return grid


def draw(axes: dict[str, Any], title: str, path: Path) -> None:
    """A small panel per axis; the band is from the slowest round to the fastest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = {"boards": "boards", "batch": "batch size", "ratio": "updates per transition"}
    shown = [axis for axis in AXES if axes.get(axis, {}).get("rows")]
    if not shown:
        return
    figure = Figure(figsize=(3.7 * len(shown), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, axis in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        rows = axes[axis]["rows"]
        places = list(range(len(rows)))  # evenly: the values are powers of two, except 0 and 0.004
        panel.fill_between(
            places, [r["least"] for r in rows], [r["most"] for r in rows], color="#d95f02", alpha=0.2
        )
        panel.plot(places, [r["steps_per_second"] for r in rows], color="#d95f02", marker="o", ms=4)
        for place, row in zip(places, rows, strict=True):
            side = -1 if axis == "boards" else 1  # of the line: it rises with the boards, and falls otherwise
            offset = {"xytext": (side * 4, 4), "textcoords": "offset points", "fontsize": 7}
            text, align = short(row["steps_per_second"]), "right" if side < 0 else "left"
            panel.annotate(text, (place, row["steps_per_second"]), ha=align, **offset)
        panel.set_xticks(places, [label(axis, row["value"]) for row in rows], fontsize=7, rotation=35)
        panel.set_yscale("log")
        panel.margins(x=0.13, y=0.12)
        panel.set_xlabel(names[axis])
        panel.grid(axis="y", alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.yaxis.set_major_formatter(lambda value, _: short(value))
        panel.yaxis.set_minor_formatter(lambda value, _: "")
    figure.supylabel("transitions per second", fontsize=9)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def short(number: float) -> str:
    """1,234,567 as 1.23 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def machine(device: torch.device) -> str:
    """The name of a device in file names."""
    if device.type == "cpu":
        return "cpu"
    return "h200" if "H200" in torch.cuda.get_device_name(device) else "cuda"


def read_axes(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run with the same settings has measured."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return dict(data["axes"]) if data["settings"] == settings else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "auto"])
    parser.add_argument("--axes", default=",".join(AXES), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per round")
    parser.add_argument(
        "--flood", action="store_true", help="flood-fill features instead of the eleven basic ones"
    )
    parser.add_argument("--algo")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    wanted = [axis for axis in arguments.axes.split(",") if axis]
    if unknown := set(wanted) - set(AXES):
        parser.error(f"unknown axes {', '.join(sorted(unknown))}; known are {', '.join(AXES)}")
    device, console = choose_device(arguments.device), Console(width=116)
    arguments = argparse.Namespace(**vars(arguments) | {"device": device.type})
    name = f"scaling-{machine(device)}" + "-flood" * arguments.flood
    name += f"-{arguments.algo}" if arguments.algo else ""
    path = arguments.json or HERE / "results" / f"{name}.json"
    picture = arguments.picture or HERE.parent / "docs" / "images" / f"{name}.png"
    algo, features = arguments.algo or "double", "flood" if arguments.flood else "basic"
    settings = {"device": machine(device), "features": features, "algo": algo}
    title = f"Snake 10x10, {features}, {algo}, MLP 2x256, {machine(device).upper()}"
    axes = read_axes(path, settings)
    with allow_tf32(device):
        for axis in wanted:
            rows, skipped = run_axis(axis, arguments, device, console)
            if rows:
                console.print(table(axis, rows, title if algo == "pqn" else f"{title}, {FIXED[axis]}"))
            measured = {"context": context(arguments.device), "rows": rows, "left_out": skipped}
            measured |= {"rounds": arguments.rounds, "seconds": arguments.seconds}
            axes[axis] = measured
            write_json(path, {"settings": settings, "title": title, "axes": axes})
    rest = "" if algo == "pqn" else "; 256 boards, batch 64, ratio 1/32 where not varied"
    draw(axes, title + rest, picture)
    console.print(f"{path}, {picture}", highlight=False)


if __name__ == "__main__":
    main()
