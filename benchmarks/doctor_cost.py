"""How much does the doctor's watching cost a script?

    python benchmarks/doctor_cost.py [--only python_env,printing] [--rounds 2]

A run with the doctor and one without differ by more than that on a machine that is not quiet. So each patient is
watched, and in that run the watch is in place and out of the way by turns, a fifth of a second each: what looks,
counts and stands in. The cost is the time of a step with it over that of the steps beside it without, as the median
over all turns. What the watch does on a thread of its own is added. `compile_in_training` is left out: torch would
compile again at every turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from doctor import PATIENTS, names
from flashdqn.doctor.examine import build_report
from flashdqn.doctor.record import read_record
from flashdqn.doctor.run import Patient, make_watch_plan
from measure import context, write_json

HERE = Path(__file__).parent
LEFT_OUT = {"compile_in_training"}
WARM = 3
"""Turns at the start that do not count."""
Row = dict[str, Any]


def apart(script: Path, seconds: float) -> Row:
    """One run, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        plan, record, out = (Path(folder) / name for name in ("plan.json", "record.json", "out.json"))
        patient = Patient(str(script), (), seconds=seconds, probe=0.01)
        plan.write_text(json.dumps(asdict(make_watch_plan(patient, record))), encoding="utf-8")
        # Threads are a disease of one of the patients: nothing from outside should decide on them.
        env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        command = [sys.executable, str(HERE / "doctor_turns.py"), str(plan), str(out)]
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{script.name} failed:\n{done.stderr[-2000:]}")
        times = json.loads(out.read_text(encoding="utf-8"))
        seen = read_record(record.read_text(encoding="utf-8"))
    pairs = list(zip(times["on"], times["off"], strict=False))[WARM:]
    return {
        "ratios": [on / off for on, off in pairs],
        "beside": seen.costs.clerk / seen.seconds,
        "said": 2 * build_report(seen).overhead,  # it was there half of the time
    }


def table(rows: list[Row]) -> Table:
    grid = Table("patient", title="What watching costs")
    for title in ("cost", "quarter of the turns below", "above", "turns", "the doctor says"):
        grid.add_column(title, justify="right")
    for row in rows:
        cells = (f"{row[key]:+.1%}" for key in ("cost", "low", "high"))
        grid.add_row(row["name"], *cells, str(row["turns"]), f"{row['said']:.1%}")
    return grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", help="patients by name, separated by commas")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a script runs at most")
    parser.add_argument("--json", type=Path, default=HERE / "results" / "doctor-cost.json")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [name for name in names() if name not in LEFT_OUT]
    console, rows = Console(width=110), []
    for name in wanted:
        runs = [apart(PATIENTS / f"{name}.py", options.seconds) for _ in range(options.rounds)]
        ratios = [ratio for run in runs for ratio in run["ratios"]]
        beside, said = (statistics.median(run[key] for run in runs) for key in ("beside", "said"))
        low, middle, high = statistics.quantiles(ratios, n=4)
        row = {"name": name, "cost": middle - 1 + beside, "low": low - 1, "high": high - 1}
        rows.append(row | {"turns": len(ratios), "said": said})
        console.print(f"{name}: {row['cost']:+.1%}", highlight=False)
        head = {**context("cpu"), "command": sys.argv[1:]}
        write_json(options.json, {**head, "patients": rows})
    console.print(table(rows))
    costs = [row["cost"] for row in rows]
    console.print(f"median {statistics.median(costs):+.1%}, most {max(costs):+.1%}", highlight=False)


if __name__ == "__main__":
    main()
