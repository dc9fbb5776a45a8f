"""Does a long training stay as it is? Memory, Python's objects, file handles, threads, children and disk.

    python benchmarks/soak.py                    # 30 minutes
    python benchmarks/soak.py --minutes 3        # a first look: intervals are wide
    python benchmarks/soak.py --page docs/soak.md

Two processes run beside each other for all this time (soak_work.py):

  long     one training of Snake, with evaluations, checkpoints by steps and by time, TensorBoard and reports; every
           two minutes another process evaluates and reports its run folder
  turns    one process that trains CartPole in worker processes, resumes, evaluates and reports, again and again

Each measure gets a slope per hour with its 99.8 % interval, after a third of the time as warm-up. It *grows* if the
interval lies above 0 and a day of it would add more than 10 % of a size, or one handle, thread or child. The exit
code is 1 if anything grows that should not. Files that grow by design (tables, events, weights) are counted per
report and per checkpoint, and extrapolated to 24 hours of the preset's own settings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.config.presets import base_config
from flashdqn.runs.tables import read_evaluations, read_metrics
from measure import context, write_json
from soak_slopes import Slope, extrapolate_day, measure_slope
from soak_work import SAMPLES

HERE = Path(__file__).parent
START, END = "<!-- made by benchmarks/soak.py -->", "<!-- end -->"
LOOK = 120.0  # seconds between two looks at the long training by other processes
MUST_STAY = {"rss_mb": False, "heap_mb": False, "handles": True, "threads": True, "children": True}
SHOWN = ("python_blocks", "states_bytes", "cache_bytes")  # small, or bounded by design
Series = dict[str, Slope]


def run_both(folder: Path, seconds: float) -> None:
    """Start the two, look at the long one now and then, and wait for both."""
    workers = {}
    for name in ("long", "turns"):
        (folder / name).mkdir()
        command = [sys.executable, str(HERE / "soak_work.py"), name, str(folder / name), str(seconds)]
        workers[name] = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    looked = time.monotonic()
    try:
        while any(worker.poll() is None for worker in workers.values()):
            time.sleep(1.0)
            if time.monotonic() - looked > LOOK and workers["long"].poll() is None:
                look_at_run(folder / "long" / "runs")
                looked = time.monotonic()
    finally:
        for worker in workers.values():
            worker.terminate()
    for name, worker in workers.items():
        _, errors = worker.communicate()
        if worker.returncode:
            raise SystemExit(f"The process '{name}' failed:\n{errors}")


def look_at_run(runs: Path) -> None:
    """What a user does meanwhile: evaluate and report. Failure is a failure of the soak."""
    for run in runs.iterdir():
        if any((run / "checkpoints").glob("[0-9]*")):
            for words in (["eval", str(run), "--episodes", "10"], ["report", str(run)]):
                command = [sys.executable, "-m", "flashdqn", *words]
                subprocess.run(command, check=True, capture_output=True)


def read_samples(folder: Path) -> list[dict[str, float]]:
    """The lines that a process has written down. Of the long training those between its first and last report:
    compiling and drawing the final pages are not a part of it."""
    lines = (folder / SAMPLES).read_text(encoding="utf-8").splitlines()
    samples: list[dict[str, float]] = [json.loads(line) for line in lines]
    if folder.name == "turns":
        return samples
    until = json.loads((folder / "run.json").read_text(encoding="utf-8"))["until"]
    training = [sample for sample in samples if sample["metrics_bytes"] and sample["seconds"] <= until]
    return [sample | {"seconds": sample["seconds"] - training[0]["seconds"]} for sample in training]


def measure_slopes(samples: list[dict[str, float]]) -> Series:
    """All measures that must not grow, and those that are bounded."""
    seconds = [sample["seconds"] for sample in samples]
    found = {
        name: measure_slope(seconds, [sample[name] for sample in samples]) for name in (*MUST_STAY, *SHOWN)
    }
    return {name: slope for name, slope in found.items() if slope is not None}


def find_growing(slopes: Series) -> list[str]:
    """The measures that grow and should not."""
    return [name for name, slope in slopes.items() if name in MUST_STAY and slope.grows(MUST_STAY[name])]


def plan_day(run: Path, last: dict[str, float]) -> dict[str, Any]:
    """24 hours on paper, at the speed of this run, with the preset's own settings."""
    rows, evaluations = read_metrics(run), read_evaluations(run)
    weights = [path.stat().st_size for path in run.glob("checkpoints/*/weights.safetensors")]
    manifest = [path.stat().st_size for path in run.glob("checkpoints/*/manifest.json")]
    rate = rows[-1].step / last["seconds"]
    config = base_config("snake-flood")
    every = config.log.every or max(25_000, 100 * config.envs)
    size = {
        "metrics.csv": last["metrics_bytes"] / len(rows),
        "events": last["events_bytes"] / len(rows),
        "evaluations.csv": (run / "evaluations.csv").stat().st_size / max(1, len(evaluations)),
        "weights": (sum(weights) + sum(manifest)) / len(weights),
    }
    apart = {
        "metrics.csv": every,
        "events": every,
        "evaluations.csv": config.eval.every,
        "weights": config.eval.every,
    }
    files = extrapolate_day(rate, size, {kind: float(step) for kind, step in apart.items()})
    return {"transitions_per_second": rate, "transitions": rate * 86_400, "bytes_each": size, "files": files}


def show(name: str, slopes: Series, samples: int) -> None:
    """A table of one process."""
    table = Table(
        "measure", "level", "per hour", "99.8 % interval", "verdict", title=f"{name}: {samples} samples"
    )
    for measure, slope in slopes.items():
        verdict = "GROWS" if measure in find_growing(slopes) else "flat" if measure in MUST_STAY else ""
        interval = f"{slope.low:+,.2f} … {slope.high:+,.2f}"
        table.add_row(measure, f"{slope.level:,.1f}", f"{slope.per_hour:+,.2f}", interval, verdict)
    Console().print(table if slopes else f"{name}: {samples} samples are too few to say anything.")


def show_day(day: dict[str, Any]) -> None:
    """The table on paper."""
    title = f"24 hours on paper: {day['transitions'] / 1e9:.2f} billion transitions"
    table = Table("file", "times", "MB per million transitions", "MB per day", title=title)
    for kind, row in day["files"].items():
        table.add_row(
            kind, f"{row['count']:,.0f}", f"{row['mb_per_million']:.3f}", f"{row['mb_per_day']:,.0f}"
        )
    Console().print(table)


def write_page(page: Path, result: dict[str, Any]) -> None:
    """Put the tables between their two marks in the docs."""
    lines = [
        f"{result['date']}, commit {result['commit']}, {result['minutes']:.0f} minutes, {result['device']}",
        "",
    ]
    lines += ["| process | measure | level | per hour | 99.8 % interval | |", "|---|---|---|---|---|---|"]
    for name, process in result["processes"].items():
        for measure in (key for key in (*MUST_STAY, SHOWN[0]) if key in process["slopes"]):
            slope = process["slopes"][measure]
            grows = f"{name}: {measure}" in result["growing"]
            verdict = "grows" if grows else "flat" if measure in MUST_STAY else "shown"
            interval = f"{slope['low']:+,.2f} … {slope['high']:+,.2f}"
            figures = f"{slope['level']:,.1f} | {slope['per_hour']:+,.2f} | {interval}"
            lines.append(f"| {name} | {measure} | {figures} | {verdict} |")
    day = result["day"]
    lines += [
        "",
        f"A day on paper: {day['transitions_per_second']:,.0f} transitions per second, the preset's own settings.",
    ]
    lines += ["", "| file | times | MB per million transitions | MB per day |", "|---|---|---|---|"]
    for kind, row in day["files"].items():
        lines.append(
            f"| {kind} | {row['count']:,.0f} | {row['mb_per_million']:.3f} | {row['mb_per_day']:,.0f} |"
        )
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    page.write_text("\n".join([before + START, *lines, END]) + rest.partition(END)[2], encoding="utf-8")


def main() -> None:
    """Run, measure, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "soak.json")
    parser.add_argument("--page", type=Path, help="also write the tables into this page, docs/soak.md")
    arguments = parser.parse_args()
    result: dict[str, Any] = context("cpu") | {"minutes": arguments.minutes, "processes": {}}
    growing: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run_both(folder, arguments.minutes * 60)
        for name in ("long", "turns"):
            samples = read_samples(folder / name)
            slopes = measure_slopes(samples)
            show(name, slopes, len(samples))
            growing += [f"{name}: {measure}" for measure in find_growing(slopes)]
            measures = {measure: vars(slope) for measure, slope in slopes.items()}
            result["processes"][name] = {
                "samples": len(samples),
                "slopes": measures,
                "first": samples[0],
                "last": samples[-1],
            }
        run = Path(json.loads((folder / "long" / "run.json").read_text(encoding="utf-8"))["path"])
        result["day"] = plan_day(run, result["processes"]["long"]["last"])
    show_day(result["day"])
    result["growing"] = growing
    write_json(arguments.out, result)
    if arguments.page:
        write_page(arguments.page, result)
    if growing:
        raise SystemExit(f"What grows and should not: {', '.join(growing)}.")
    print("Nothing grows that should not.")


if __name__ == "__main__":
    main()
