"""What exporting loses and gains: PyTorch, TorchScript, ONNX and int8 side by side.

    python benchmarks/export.py                              # trains both agents first: about six minutes
    python benchmarks/export.py --run snake-flood=runs/…     # with an existing one
    python benchmarks/export.py --json benchmarks/results/export.json

For each agent: at least 10,000 observations of its own games, on which every file's outputs are compared with
PyTorch's; 1000 games each, the same for all; the median time of a call with one observation and with 256, in one
thread, all in turns; and the fastest call, which other programs on the machine disturb least.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import onnxruntime
from rich.console import Console
from rich.table import Table

from flashdqn.agent.agent import load
from flashdqn.agent.onnx import OnnxAgent
from flashdqn.cli.export import format_export_row, format_latency
from flashdqn.compute.seeds import purpose_seed
from flashdqn.compute.threads import limit_threads
from flashdqn.export.flow import CALIBRATION, Exported, Wanted, describe_policy, export_policy
from flashdqn.export.int8 import Keep, Way, quantize_onnx
from flashdqn.export.measure import TorchPlayer, measure_agreement, measure_latencies
from flashdqn.export.observations import collect_observations
from flashdqn.export.policy import GreedyPolicy
from flashdqn.export.to_onnx import write_onnx
from flashdqn.runs.folder import RunFolder
from measure import context, train_apart, write_json

#: The agents: a preset and what differs from it. The second is a CNN on planes of bytes, small for two cores.
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "snake-flood": ("snake-flood", {}),
    "snake-grid-cnn": (
        "snake-grid",
        {
            "env.size": 6,
            "envs": 128,
            "train_ratio": 0.0156,
            "network": {"torso": "cnn", "channels": [16, 32], "hidden": [128]},
            "learn": {"batch_size": 128, "starts": 5_000, "lr": 5e-4, "lr_over": 600_000, "gamma": 0.98},
            "replay.capacity": 200_000,
            "explore.end": 0.002,
            "runtime.precision": "fp32",
            "eval.every": 100_000,
            "eval.max_share": 1.0,
            "log.every": 25_000,
            "steps": 600_000,
        },
    ),
}


def measure(run: Path, observations: int, episodes: int) -> list[Exported]:
    """Both formats, each with its own turn of PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        int8 = export_policy(
            Wanted(run, "onnx", True, Path(folder) / "p.onnx", "best", observations, episodes)
        )
        script = export_policy(
            Wanted(run, "torchscript", False, Path(folder) / "p.pt", "best", observations, episodes)
        )
    return [int8, script]


#: What stays in float32, and what is quantized, in each row of the second table; the defaults are marked.
CHOICES: dict[str, tuple[Way, Keep, tuple[str, ...] | None]] = {
    "dynamic, everything": ("dynamic", "none", None),
    "dynamic, but the last layer": ("dynamic", "last", None),
    "dynamic, but first and last *": ("dynamic", "ends", None),
    "the same, convolutions too": ("dynamic", "ends", ("Gemm", "MatMul", "Conv")),
    "static, everything": ("static", "none", None),
    "static, but the last layer *": ("static", "last", None),
    "static, but first and last": ("static", "ends", None),
}


def choices(run: Path, observations: int) -> list[dict[str, Any]]:
    """How often files agree with PyTorch by what was quantized, and how fast they are."""
    agent = load(run, "cpu")
    seen = collect_observations(agent, observations, purpose_seed(agent.config.seed, "export"))
    calibration = collect_observations(agent, CALIBRATION, purpose_seed(agent.config.seed, "calibration"))
    policy = GreedyPolicy(agent.network, agent.head)
    texts = describe_policy(agent, RunFolder.open(run).play_point(run), run).to_texts()
    with tempfile.TemporaryDirectory() as folder, limit_threads(1, 1):
        plain = Path(folder) / "plain.onnx"
        write_onnx(policy, seen, plain, texts)
        players = {}
        for number, (name, (way, keep, kinds)) in enumerate(CHOICES.items()):
            file = Path(folder) / f"{number}.onnx"
            quantize_onnx(plain, file, way, calibration, texts, keep, kinds)
            players[name] = OnnxAgent(file)
        taken = measure_latencies(players, seen)
        same = {
            name: measure_agreement(player, TorchPlayer(policy), seen).actions
            for name, player in players.items()
        }
    return [
        {"int8": name, "same_action": same[name]}
        | {f"fastest_us_{batch}": round(1e6 * x.fastest, 2) for batch, x in taken[name].items()}
        for name in players
    ]


def show_choices(name: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{name}: what is quantized")
    for column in ("int8", "same action", "fastest call: batch 1", "batch 256"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        times = [format_latency(row[f"fastest_us_{batch}"] / 1e6) for batch in (1, 256)]
        table.add_row(row["int8"], f"{row['same_action']:.2%}", *times)
    Console(width=140).print(table)


def show(name: str, done: Exported) -> None:
    rows = done.rows
    table = Table(
        title=f"{name}: {rows[0].agreement.observations:,} observations, {rows[0].games.episodes} games"
    )
    for column in (
        "",
        "same action",
        "largest ΔQ",
        "score",
        "size",
        "batch 1",
        "batch 256",
        "fastest: 1",
        "256",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*format_export_row(row), *(format_latency(x.fastest) for x in row.latency.values()))
    Console(width=140).print(table)
    gap, regret = rows[0].agreement.mean_gap, max(row.agreement.regret for row in rows)
    Console().print(
        f"The best action is ahead of the second by {gap:.2f} on average; lost at most {regret:.4f}."
    )
    if done.why:
        Console().print(f"Kept {done.why}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--run", action="append", default=[], metavar="AGENT=FOLDER", help="do not train this one"
    )
    parser.add_argument("--observations", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    given = dict(text.split("=", 1) for text in arguments.run)
    results: dict[str, Any] = {}
    for name, (preset, settings) in AGENTS.items():
        with tempfile.TemporaryDirectory() as out:
            run = Path(given[name]) if name in given else train_apart(preset, settings, out)
            done = measure(run, arguments.observations, arguments.episodes)
            quantized = choices(run, arguments.observations)
        for part in done:
            show(name, part)
        show_choices(name, quantized)
        results[name] = {
            "preset": preset,
            "settings": settings,
            "int8": done[0].why,
            "choices": quantized,
            "onnx": [row.to_json() for row in done[0].rows],
            "torchscript": [row.to_json() for row in done[1].rows],
        }
    if arguments.json:
        write_json(
            arguments.json, {**context("cpu"), "onnxruntime": onnxruntime.__version__, "agents": results}
        )


if __name__ == "__main__":
    main()
