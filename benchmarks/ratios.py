"""How much to train: Snake at train ratios from 0.004 to 0.25, at equal transitions and at equal seconds.

    python benchmarks/ratios.py curves --device cuda --jobs 10 --json benchmarks/results/ratios.json
    python benchmarks/ratios.py speed --device cpu --json benchmarks/results/ratios-speed-2cores.json
    python benchmarks/ratios.py speed --device cuda --json benchmarks/results/ratios-speed-h200.json
    python benchmarks/ratios.py table --json benchmarks/results/ratios.json \
        --speeds benchmarks/results/ratios-speed-2cores.json benchmarks/results/ratios-speed-h200.json \
        --write docs/ratios.md

`curves` trains every ratio with every seed and writes the evaluations by transitions. A curve over transitions does
not depend on the machine, so the trainings may share one. A low ratio gets more transitions (`--reach`), because in
equal seconds it collects more. Only ratio, seed and budget differ; everything else is the preset's.
`speed` times each ratio alone, without evaluations, by turns (`--rounds`): transitions per second.
`table` reads both: the score after so many transitions, and after so many seconds on each machine, which by the
measured speed are so many transitions. Means over seeds with 95 % intervals (Student's t).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from flashdqn.config.presets import base_config
from flashdqn.config.schedules import SCHEDULES, get_setting
from flashdqn.runs.tables import read_evaluations, read_metrics
from measure import context, describe_work, train_apart, write_json

RATIOS = (0.004, 0.015625, 0.03125, 0.0625, 0.125, 0.25)
PRESETS = ("snake", "snake-flood")
#: Transitions after which the tables have a column.
AT = (0.25e6, 0.5e6, 1e6, 2e6, 3e6)
#: Around the tables in docs/ratios.md.
BEGIN, END = "<!-- ratios: begin -->", "<!-- ratios: end -->"
#: Student's t for a 95 % interval, by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def train_curve(preset: str, ratio: float, seed: int, device: str, steps: int, every: int) -> dict[str, Any]:
    """One training in its own process: the score of every evaluation."""
    own = base_config(preset)
    # The preset's own schedules: without them here, they would follow the number of steps.
    schedules = {name: get_setting(own, name) for name in (*SCHEDULES, "learn.starts")}
    settings = schedules | {
        "train_ratio": ratio,
        "seed": seed,
        "device": device,
        "steps": steps,
        "eval.every": every,
        "eval.max_share": 1.0,  # every point of the curve
        "log.checkpoint_every": 0,
        "log.tensorboard": False,
        "log.game": False,
    }
    with tempfile.TemporaryDirectory() as out:
        path = train_apart(preset, settings, out)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        rows = [(row.step, round(row.mean_score, 4)) for row in read_evaluations(path)]
        achieved = summary["train_ratio"]
    return {"preset": preset, "ratio": ratio, "seed": seed, "train_ratio": achieved, "evaluations": rows}


def choose_steps(ratio: float, steps: int, reach: int) -> int:
    """The lowest ratio gets `reach` times the transitions, the highest `steps`; the others lie between."""
    share = math.log(ratio / RATIOS[-1]) / math.log(RATIOS[0] / RATIOS[-1])
    return round(steps * reach**share)


def collect_curves(arguments: argparse.Namespace) -> None:
    work = [
        (preset, ratio, seed)
        for seed in range(arguments.seeds)
        for ratio in sorted(RATIOS, reverse=True)  # the slow ones first: they take longest
        for preset in arguments.presets
    ]

    def train_one(item: tuple[str, float, int]) -> dict[str, Any]:
        preset, ratio, seed = item
        steps = choose_steps(ratio, arguments.steps, arguments.reach)
        return train_curve(preset, ratio, seed, arguments.device, steps, arguments.every)

    runs: list[dict[str, Any]] = []
    if arguments.json.exists():  # it goes on where it was stopped
        runs = json.loads(arguments.json.read_text(encoding="utf-8"))["runs"]
    there = {(run["preset"], run["ratio"], run["seed"]) for run in runs}
    work = [item for item in work if item not in there]
    about = context(arguments.device)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done in as_completed([pool.submit(train_one, item) for item in work]):
            run = done.result() | {"commit": about["commit"]}  # a study of several sittings
            runs.append(run)
            write_json(arguments.json, {**about, "runs": runs})  # what is done stays, if it is stopped
            print(
                f"{run['preset']:12} {run['ratio']:<8g} seed {run['seed']}: {run['evaluations'][-1]}",
                flush=True,
            )


def time_ratio(preset: str, ratio: float, device: str, seconds: float) -> float:
    """Transitions per second of training, in its own process: the median of its windows."""
    settings = {
        "train_ratio": ratio,
        "device": device,
        "max_time": seconds,
        "eval.every": 0,
        "eval.episodes": 1,
        "log.checkpoint_every": 0,
        "log.tensorboard": False,
        "log.game": False,
    }
    with tempfile.TemporaryDirectory() as out:
        rows = read_metrics(train_apart(preset, settings, out))
    rates = [row.steps_per_second for row in rows if math.isfinite(row.steps_per_second)]
    return statistics.median(rates)


def measure_speeds(arguments: argparse.Namespace) -> None:
    """Time what the file does not have yet, round by round; it is written after each."""
    found: dict[str, dict[str, list[float]]] = {p: {f"{r:g}": [] for r in RATIOS} for p in arguments.presets}
    if arguments.json.exists():
        found |= json.loads(arguments.json.read_text(encoding="utf-8"))["transitions_per_second"]
    about = context(arguments.device)
    for number in range(arguments.rounds):
        for preset in arguments.presets:
            for ratio in RATIOS:
                rates = found[preset][f"{ratio:g}"]
                if len(rates) > number:
                    continue
                rates.append(time_ratio(preset, ratio, arguments.device, arguments.seconds))
                write_json(arguments.json, {**about, "transitions_per_second": found})
                work = describe_work(ratio, base_config(preset).update_size)
                print(f"{preset:12} {work:40} {rates[-1]:12,.0f} transitions/s", flush=True)


def score_at(run: dict[str, Any], step: float) -> float:
    """The score after `step` transitions: the last evaluation by then, the mean with the one before and after it.
    NaN where the curve ends earlier."""
    rows = run["evaluations"]
    if step > rows[-1][0] * 1.02:
        return math.nan
    index = max((k for k, row in enumerate(rows) if row[0] <= step * 1.001), default=0)
    near = [row[1] for row in rows[max(0, index - 1) : index + 2]]
    return statistics.fmean(near)


def describe_scores(scores: list[float]) -> str:
    """Mean ± half of the 95 % interval; a dash where a curve is too short."""
    if any(math.isnan(score) for score in scores):
        return "–"
    if len(scores) == 1:
        return f"{scores[0]:.1f}"
    error = T95[len(scores) - 1] * statistics.stdev(scores) / len(scores) ** 0.5
    return f"{statistics.fmean(scores):.1f} ± {error:.1f}"


def make_tables(
    runs: list[dict[str, Any]], speeds: list[dict[str, Any]], presets: list[str], at: list[float]
) -> str:
    """For each preset: scores by transitions, and by seconds on each machine."""
    lines: list[str] = []
    for preset in presets:
        of_ratio = {r: [run for run in runs if run["preset"] == preset and run["ratio"] == r] for r in RATIOS}
        lines += ["", f"`{preset}`, by transitions:", ""]
        lines += [
            "| ratio | " + " | ".join(f"{step / 1e6:g} M" for step in at) + " |",
            "|---|" + "---|" * len(at),
        ]
        for ratio, own in of_ratio.items():
            cells = [describe_scores([score_at(run, step) for run in own]) for step in at]
            lines.append(f"| {ratio:g} | " + " | ".join(cells) + " |")
        for speed in speeds:
            rates = read_rates(speed, preset)
            times = [step / min(rates.values()) for step in at]
            lines += ["", f"`{preset}`, by seconds of training on {describe_machine(speed)}:", ""]
            lines.append("| ratio | transitions/s | " + " | ".join(f"{t:.3g} s" for t in times) + " |")
            lines.append("|---|---|" + "---|" * len(times))
            for ratio, own in of_ratio.items():
                cells = [describe_scores([score_at(run, t * rates[ratio]) for run in own]) for t in times]
                lines.append(f"| {ratio:g} | {rates[ratio]:,.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read_rates(speed: dict[str, Any], preset: str) -> dict[float, float]:
    """Transitions per second by ratio."""
    return {float(r): statistics.median(v) for r, v in speed["transitions_per_second"][preset].items()}


def describe_machine(speed: dict[str, Any]) -> str:
    """The GPU, or the processor and its cores."""
    device: str = speed["device"]
    return device if device.startswith("NVIDIA") else f"{speed['cores']} cores ({device})"


def print_tables(arguments: argparse.Namespace) -> None:
    """Print the tables, or put them between the marks of a page."""
    runs = json.loads(arguments.json.read_text(encoding="utf-8"))["runs"]
    speeds = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.speeds]
    tables = make_tables(runs, speeds, arguments.presets, arguments.at)
    if arguments.write is None:
        print(tables)
        return
    before, _, rest = arguments.write.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    arguments.write.write_text(f"{before}{BEGIN}\n{tables}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=("curves", "speed", "table"))
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3_000_000, help="transitions of the highest ratio")
    parser.add_argument("--reach", type=int, default=10, help="how many times as many the lowest ratio gets")
    parser.add_argument("--every", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at", type=float, nargs="+", default=list(AT))
    parser.add_argument("--speeds", type=Path, nargs="*", default=[])
    parser.add_argument("--write", type=Path, help="a page, for `table`")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    {"curves": collect_curves, "speed": measure_speeds, "table": print_tables}[arguments.part](arguments)


if __name__ == "__main__":
    main()
