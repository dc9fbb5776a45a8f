"""How fast is training, side by side with other libraries: the same task, the same work, in one run.

    make bench-setup
    python benchmarks/throughput.py [--rounds 3] [--seconds 15] [--only sb3,sbx] [--work rainbow]
    python benchmarks/throughput.py --device cuda [--python FILE]     # on a GPU: purejaxrl's own work

Snake 10x10 with 11 features. `--work quarter`: 8 environments, MLP 2x256, batch 64, one gradient step per 4
transitions. `--work purejaxrl`, the default on CUDA: 10 environments, MLP 120-84, batch 128, one per 10; the
program in purejaxrl's style plays CartPole in JAX, and a row of ours plays CartPole, too. `--work rainbow`: ours
and Tianshou's Rainbow with 256 boards, 2x128 with dueling streams, batch 256, one per 32. Every program is its own
process and is measured in a window after its warm-up; they take turns, in reverse order in every other round. A
short trial first finds the best number of threads for each. peers/README.md says what each does. `since start` is
all steps of a process by all its time, with imports, compilation and burn-in: it depends on --seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.compute.core_count import cores
from flashdqn.core.errors import ConfigError
from measure import context, write_json
from peers.task import WORKS, Work

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-bench" / "bin" / "python"


@dataclass(frozen=True)
class Program:
    """A row of the table: what is run, on which devices, and the settings it must keep if not those of the work."""

    label: str
    module: str
    envs: int = 0
    own_ratio: float = 0.0
    flags: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)

    def count_envs(self, work: Work) -> int:
        """Its environments."""
        return self.envs or work.envs

    def find_ratio(self, work: Work) -> float:
        """Its gradient steps per transition."""
        return self.own_ratio or work.ratio


BOTH = ("cpu", "cuda")
PROGRAMS = {
    "ours": Program("flashdqn", "ours", devices=BOTH),
    "ours-256": Program("flashdqn, 256 boards", "ours", envs=256),
    "sbx": Program("SBX (JAX)", "sbx"),
    "sb3": Program("Stable-Baselines3", "sb3", devices=BOTH),
    "tianshou": Program("Tianshou", "tianshou"),
    "torchrl": Program("TorchRL", "torchrl"),
    "torchrl-compiled": Program("TorchRL, compiled", "torchrl", flags=("--compile",)),
    "cleanrl": Program("CleanRL's style", "cleanrl", envs=1, devices=BOTH),
    "leanrl": Program("LeanRL's style", "leanrl", devices=("cuda",)),
    "ours-cartpole": Program("flashdqn, CartPole", "ours", flags=("--game", "cartpole"), devices=("cuda",)),
    "purejax": Program("purejaxrl's style, CartPole", "purejax", devices=("cuda",)),
    "naive": Program("naive loop", "naive", envs=1, own_ratio=1.0),
}
#: With `--work rainbow`.
RAINBOW = {
    "ours": Program("flashdqn", "ours"),
    "tianshou": Program("Tianshou", "tianshou"),
    "tianshou-32": Program("Tianshou, 32 boards", "tianshou", envs=32),
}
OURS = ("ours", "ours-256", "ours-cartpole")
#: Those that are compared with a row of ours other than the first.
BESIDE = {"purejax": "ours-cartpole"}


class ProgramError(Exception):
    """A program failed, or did not do the work it was asked for."""


def measure(
    program: Program, threads: int | None, seconds: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Run a program once; returns its JSON line with steps and updates per second."""
    work = WORKS[options.work]
    command = [str(options.python), "-m", f"peers.{program.module}", "--seconds", str(seconds)]
    command += ["--device", options.device, "--work", options.work]
    command += ["--envs", str(program.count_envs(work)), *program.flags]
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    if threads is not None:
        command += ["--threads", str(threads)]
        env["OMP_NUM_THREADS"] = str(threads)
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=HERE, env=env, capture_output=True, text=True, timeout=seconds + 600
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{program.label} did not end within {seconds + 600:.0f} s.") from None
    took = time.perf_counter() - began
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise ProgramError(f"{program.label} failed:\n{done.stderr[-2000:]}")
    row: dict[str, Any] = json.loads(lines[-1])
    check_work(program, work, threads, row)
    return row | {
        "steps_per_second": row["steps"] / row["seconds"],
        "updates_per_second": row["updates"] / row["seconds"],
        "wall_seconds": round(took, 2),
        "wall_steps_per_second": row["all_steps"] / took,
    }


def check_work(program: Program, work: Work, threads: int | None, row: dict[str, Any]) -> None:
    """Check the ratio within the window (except for rounding at its two ends), environments and threads."""
    ratio, envs = program.find_ratio(work), program.count_envs(work)
    if abs(row["updates"] - ratio * row["steps"]) > ratio * envs + 1:
        raise ProgramError(
            f"{program.label} should have done {ratio:g} gradient steps per transition, and did "
            f"{row['updates']} in {row['steps']}."
        )
    if (
        row["batch"] != work.batch
        or row["envs"] != envs
        or (threads is not None and row["threads"] != threads)
    ):
        raise ProgramError(
            f"{program.label} did not use the batch, environments and threads it was given: {row}"
        )


def best_threads(program: Program, options: argparse.Namespace) -> tuple[int, dict[int, float]]:
    """The best number of threads for a program, and the speed with each; on CUDA one, without a trial."""
    if options.device == "cuda":
        return 1, {}
    found = {}
    for threads in sorted({1, 2, cores()} & set(range(1, cores() + 1))):
        found[threads] = measure(program, threads, options.trial_seconds, options)["steps_per_second"]
    return max(found, key=lambda threads: found[threads]), found


def summarize(
    name: str, program: Program, rows: list[dict[str, Any]], trial: dict[int, float]
) -> dict[str, Any]:
    """Medians and spread over the rounds."""
    steps = [row["steps_per_second"] for row in rows]
    ratio = sum(row["updates"] for row in rows) / sum(row["steps"] for row in rows)
    return {
        "name": name,
        "label": program.label,
        **{key: rows[0][key] for key in ("version", "algorithm", "envs", "threads", "batch")},
        "ratio": ratio,
        "reuse": ratio * rows[0]["batch"],
        "steps_per_second": statistics.median(steps),
        "steps_per_second_min": min(steps),
        "steps_per_second_max": max(steps),
        "updates_per_second": statistics.median(row["updates_per_second"] for row in rows),
        "wall_steps_per_second": statistics.median(row["wall_steps_per_second"] for row in rows),
        "trial_steps_per_second_by_threads": trial,
        "rounds": rows,
    }


def compare(summaries: list[dict[str, Any]]) -> None:
    """Ours over theirs, by gradient steps. With the same ratio this is the same as by steps. Least and most: over
    the rounds that both have."""
    by_name = {s["name"]: s for s in summaries}
    for summary in summaries:
        ours = by_name.get(BESIDE.get(summary["name"], "ours"))
        summary["ours_over_theirs"] = (
            ours["updates_per_second"] / summary["updates_per_second"] if ours else None
        )
        theirs = {row["round"]: row["updates_per_second"] for row in summary["rounds"]}
        rounds = [] if ours is None else ours["rounds"]
        pairs = [row["updates_per_second"] / theirs[row["round"]] for row in rounds if row["round"] in theirs]
        summary["ours_over_theirs_by_round"] = pairs


def describe_work(work: Work) -> str:
    """The work in words."""
    network = "-".join(map(str, work.hidden))
    return f"one gradient step per {work.every} transitions, batch {work.batch}, MLP {network}"


def table(summaries: list[dict[str, Any]], work: Work) -> Table:
    """The table that is printed."""
    name = "Rainbow" if work == WORKS["rainbow"] else "DQN"
    grid = Table(title=f"{name} on Snake: {describe_work(work)}", caption_justify="left")
    grid.caption = (
        "ours ÷ theirs compares gradient steps per second: the naive loop takes one after every step. "
        "reuse: batch x gradient steps per transition."
    )
    for name in ("", "version", "algorithm"):
        grid.add_column(name)
    columns = ("envs", "threads", "ratio", "batch", "reuse", "steps/s", "min – max", "since start")
    for name in (*columns, "updates/s", "ours ÷ theirs", "by rounds"):
        grid.add_column(name, justify="right")
    for s in summaries:
        factor = s["ours_over_theirs"]
        grid.add_row(
            s["label"],
            s["version"],
            s["algorithm"],
            str(s["envs"]),
            str(s["threads"]),
            f"{s['ratio']:.3f}",
            str(s["batch"]),
            f"{s['reuse']:.3g}",
            f"{s['steps_per_second']:,.0f}",
            f"{s['steps_per_second_min']:,.0f} – {s['steps_per_second_max']:,.0f}",
            f"{s['wall_steps_per_second']:,.0f}",
            f"{s['updates_per_second']:,.0f}",
            "" if factor is None or s["name"] in OURS else f"{factor:.1f}",
            "" if s["name"] in OURS else ", ".join(f"{x:.1f}" for x in s["ours_over_theirs_by_round"]),
        )
    return grid


def draw(summaries: list[dict[str, Any]], work: Work, machine: str, path: Path) -> None:
    """A bar per program; whiskers from the slowest round to the fastest."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ordered = sorted(summaries, key=lambda s: s["steps_per_second"])
    speeds = [s["steps_per_second"] for s in ordered]
    whiskers = [
        [speed - s["steps_per_second_min"] for s, speed in zip(ordered, speeds, strict=True)],
        [s["steps_per_second_max"] - speed for s, speed in zip(ordered, speeds, strict=True)],
    ]
    labels = []
    for s in ordered:
        boards = "1 environment" if s["envs"] == 1 else f"{s['envs']} environments"
        own_ratio = f", ratio {PROGRAMS[s['name']].own_ratio:g}" if PROGRAMS[s["name"]].own_ratio else ""
        labels.append(
            f"{s['label'].partition(',')[0] if s['name'] in OURS else s['label']}\n{boards}{own_ratio}"
        )
    colors = ["#d95f02" if s["name"] in OURS else "#7a8ca3" for s in ordered]
    colors = ["#c9ced6" if s["name"] == "naive" else c for s, c in zip(ordered, colors, strict=True)]
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.55 * len(ordered)), layout="constrained")
    axes.barh(labels, speeds, xerr=whiskers, color=colors, error_kw={"ecolor": "#333333", "capsize": 3})
    for place, s in enumerate(ordered):
        axes.annotate(
            f"{s['steps_per_second']:,.0f}",
            (s["steps_per_second_max"], place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_xlim(0, max(s["steps_per_second_max"] for s in ordered) * 1.15)
    axes.set_xlabel(f"transitions per second while learning ({machine})")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title(f"DQN on Snake: {describe_work(work)}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run_all(
    programs: dict[str, Program], options: argparse.Namespace, console: Console
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[int, float]]]:
    """Trials, then rounds; a program that fails is named and left out."""
    threads: dict[str, int | None] = {}
    trials: dict[str, dict[int, float]] = {}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}

    def drop(name: str, error: ProgramError) -> None:
        console.print(f"[red]{error}[/red]")
        found.pop(name)

    for name in programs:
        try:
            threads[name], trials[name] = best_threads(programs[name], options)
            if not trials[name]:
                continue
            tried = ", ".join(f"{count}: {speed:,.0f}" for count, speed in trials[name].items())
            console.print(f"trial    {name:<17} steps/s by threads: {tried}")
        except ProgramError as error:
            drop(name, error)
    for number in range(options.rounds):
        for name in in_order(list(found), number):
            try:
                row = measure(programs[name], threads[name], options.seconds, options)
            except ProgramError as error:
                drop(name, error)
                continue
            found[name].append(row | {"round": number + 1})
            console.print(
                f"round {number + 1:<2} {name:<17} {row['steps_per_second']:>10,.0f} steps/s, "
                f"{row['wall_steps_per_second']:,.0f} since its start"
            )
    return {name: rows for name, rows in found.items() if rows}, trials


def in_order(names: list[str], number: int) -> Iterable[str]:
    """Forward, then backward, so no program always follows the same one."""
    return names if number % 2 == 0 else reversed(names)


def choose(options: argparse.Namespace) -> dict[str, Program]:
    """All programs of a device and a work, or ours and those that were named."""
    programs = RAINBOW if options.work == "rainbow" else PROGRAMS
    there = {name: program for name, program in programs.items() if options.device in program.devices}
    if options.only is None:
        return there
    named = options.only.split(",")
    if unknown := [name for name in named if name not in there]:
        raise SystemExit(f"Unknown: {', '.join(unknown)}. On {options.device} there are {', '.join(there)}.")
    return {name: program for name, program in there.items() if name in named or name in OURS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="measured window of each program and round"
    )
    parser.add_argument("--trial-seconds", type=float, default=5.0, help="window of the trials for threads")
    parser.add_argument("--only", help="peers by name, separated by commas; ours always runs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--work", choices=WORKS, help="default: quarter, on CUDA purejaxrl")
    parser.add_argument("--python", type=Path, default=PYTHON, help="the interpreter that has the peers")
    parser.add_argument("--machine", help="name for the files; default: the number of cores")
    parser.add_argument("--json", type=Path, help="default: benchmarks/results/throughput-MACHINE.json")
    parser.add_argument("--picture", type=Path, help="default: docs/images/throughput.png")
    options = parser.parse_args()
    options.work = options.work or ("purejaxrl" if options.device == "cuda" else "quarter")
    if not options.python.exists():
        raise SystemExit("The peers are not installed: run `make bench-setup` first.")
    try:
        measured = context(options.device)
    except ConfigError as error:
        raise SystemExit(str(error)) from None
    console = Console(width=None if sys.stdout.isatty() else 170)
    programs, work = choose(options), WORKS[options.work]
    found, trials = run_all(programs, options, console)
    summaries = [summarize(name, programs[name], rows, trials[name]) for name, rows in found.items()]
    compare(summaries)
    console.print(table(summaries, work))

    complete, rainbow = options.only is None, options.work == "rainbow"
    machine = options.machine or (f"{cores()}cores" if options.device == "cpu" else "cuda")
    file = f"throughput-{'rainbow-' * rainbow}{machine}.json"
    results = options.json or (HERE / "results" / file if complete else None)
    chart = "throughput.png" if options.device == "cpu" else "throughput-cuda.png"
    picture = options.picture or (
        HERE.parent / "docs" / "images" / chart if complete and not rainbow else None
    )
    if results:
        command = shlex.join(["python", *sys.argv])
        write_json(results, {**measured, "command": command, "ratio": work.ratio, "results": summaries})
    if picture:
        draw(summaries, work, f"{measured['device']}, {measured['cores']} cores", picture)
    if len(found) < len(programs):
        raise SystemExit(f"Left out: {', '.join(sorted(set(programs) - set(found)))}.")


if __name__ == "__main__":
    main()
