"""Is the doctor right? Each of its patients has one disease, and each has a cured copy of the same script.

    python benchmarks/doctor.py [--rounds 3] [--seconds 120] [--only python_env,printing] [--resume] [--jobs 7]

First the gain of the cure is measured: patient and cured alone, in turns, by their time per transition. Then
the doctor examines both. It should name the disease first, at a line marked `# disease`; predict what was measured;
not find it in the cured copy; not change the results; and cost little (doctor_cost.py measures that better). The
patients are in tests/doctor/patients. With --jobs several are examined at once, each with its own two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rich.console import Console
from rich.table import Table

from measure import context, write_json

HERE = Path(__file__).parent
PATIENTS = HERE.parent / "tests" / "doctor" / "patients"
RESULTS = HERE / "results" / "doctor.json"
HEALTHY = "healthy"
NEED_GPU = ("launch_bound",)
CLOSE = 0.3
"""A prediction counts as right when it is within this share of what was measured."""
QUIET = 0.9
"""A script that got less of a core was not alone: its time means little."""

Row = dict[str, Any]


class PatientError(Exception):
    """A script, or the doctor, failed."""


def names() -> list[str]:
    """The diseases in alphabetical order, and the healthy script last."""
    cured = sorted(path.stem.removesuffix("_cured") for path in PATIENTS.glob("*_cured.py"))
    return [*(name for name in cured if name not in NEED_GPU or shutil.which("nvidia-smi")), HEALTHY]


def name_disease(name: str) -> str:
    """The finding that a patient is for: after a double underscore follows the shape in which it has the
    disease."""
    return name.partition("__")[0].replace("_", "-")


def marked_lines(script: Path) -> list[int]:
    lines = script.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# disease")]


def execute(command: list[str]) -> str:
    """Run a program to its end; returns what it printed."""
    # Threads are the disease of one of the patients: nothing from outside should set them.
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        raise PatientError(f"{shlex.join(command)} did not end within half an hour.") from None
    if done.returncode:
        raise PatientError(f"{shlex.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def last_figures(output: str) -> dict[str, float]:
    """What the script reports about itself at the end; empty if it was stopped before."""
    lines = re.findall(r"^DONE (.*)$", output, re.MULTILINE)
    pairs = (word.partition("=") for word in lines[-1].split()) if lines else ()
    return {key: float(value) for key, _, value in pairs}


def alone(script: Path) -> dict[str, float]:
    """The script's own figures, without the doctor, and how much of a core it got."""
    begun, before = time.perf_counter(), processor_seconds()
    figures = last_figures(execute([sys.executable, str(script)]))
    core = (processor_seconds() - before) / (time.perf_counter() - begun)
    if not figures:
        raise PatientError(f"{script.name} ended without its last line.")
    return figures | {"microseconds": 1e6 * figures["seconds"] / figures["transitions"], "core": core}


def processor_seconds() -> float:
    """CPU seconds of all programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def examined(script: Path, seconds: float) -> tuple[dict[str, float], Row]:
    """The script's own figures while the doctor watches, and the doctor's report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "flashdqn",
            "doctor",
            "--seconds",
            f"{seconds:g}",
            "--json",
            str(path),
        ]
        figures = last_figures(execute([*command, str(script)]))
        report: Row = json.loads(path.read_text(encoding="utf-8"))
    if figures:
        figures["microseconds"] = 1e6 * figures["seconds"] / figures["transitions"]
    return figures, report


def brief(findings: list[Row]) -> list[Row]:
    """The parts of each finding that are judged here."""
    keys = ("name", "line", "share", "speedup", "certainty")
    return [{key: f[key] for key in keys} | {"file": Path(f["file"]).name} for f in findings]


def judge_patient(name: str, findings: list[Row], measured: float) -> Row:
    """Whether the disease was found first, where, and with which gain."""
    script, disease = PATIENTS / f"{name}.py", name_disease(name)
    found = next((f for f in findings if f["name"] == disease), None)
    first = bool(findings) and findings[0]["name"] == disease
    right_line = found is not None and found["file"] == script.name and found["line"] in marked_lines(script)
    predicted = found["speedup"] if found else None
    return {
        "found": found is not None,
        "first": first,
        "right_line": right_line,
        "line": found["line"] if found else None,
        "share": found["share"] if found else None,
        "predicted": predicted,
        "off": predicted / measured - 1 if predicted else None,
        "close": predicted is not None and abs(predicted / measured - 1) <= CLOSE,
    }


def overhead(figures: list[dict[str, float]], without: list[Row], reports: list[Row]) -> Row:
    """What the doctor cost: as measured, and as it says itself; and whether it changed the results.

    The best round with it against the best without, because other work on the machine can only add time.
    """
    ended = [run for run in figures if run]
    base = min(run["microseconds"] for run in without)
    checksums = {run["checksum"] for run in [*ended, *without]}
    return {
        "slowdown": min(run["microseconds"] for run in ended) / base - 1 if ended else None,
        "slowdown_estimated": statistics.median(report["overhead"] for report in reports),
        "same_result": len(checksums) == 1 if ended else None,
    }


def seen(names: list[str], options: argparse.Namespace, console: Console) -> Iterator[tuple[str, Row]]:
    """Patient after patient, or several at once; one that fails is reported and left out."""
    see = see_apart if options.jobs > 1 else see_one
    cores, pairs = sorted(os.sched_getaffinity(0)), SimpleQueue[str]()
    for k in range(options.jobs):
        pairs.put(f"{cores[2 * k % len(cores)]},{cores[(2 * k + 1) % len(cores)]}")
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(see, name, options, pairs): name for name in names}
        for done in as_completed(waiting):
            try:
                yield waiting[done], done.result()
            except PatientError as error:
                console.print(str(error), style="red", markup=False, highlight=False)


def see_one(name: str, options: argparse.Namespace, _: SimpleQueue[str]) -> Row:
    """Examine it in this process, with all cores."""
    return see_healthy(options) if name == HEALTHY else see_patient(name, options)


def see_apart(name: str, options: argparse.Namespace, pairs: SimpleQueue[str]) -> Row:
    """Examine it in a process that has only two cores."""
    pair = pairs.get()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            given = {
                "--only": name,
                "--rounds": options.rounds,
                "--doctor-rounds": options.doctor_rounds,
                "--seconds": options.seconds,
                "--json": path,
            }
            words = [word for key, value in given.items() for word in (key, str(value))]
            execute(["taskset", "-c", pair, sys.executable, __file__, *words])
            row: Row = json.loads(path.read_text(encoding="utf-8"))["patients"][0]
            return row
    finally:
        pairs.put(pair)


def see_patient(name: str, options: argparse.Namespace) -> Row:
    """All results about one disease."""
    sick_script, cured_script = PATIENTS / f"{name}.py", PATIENTS / f"{name}_cured.py"
    sick, cured, watched = [], [], []
    for number in range(options.rounds):
        sick.append(alone(sick_script))
        cured.append(alone(cured_script))
        if number < options.doctor_rounds:
            watched.append(examined(sick_script, options.seconds))
    ratios = [one["microseconds"] / other["microseconds"] for one, other in zip(sick, cured, strict=True)]
    measured = statistics.median(one["microseconds"] for one in sick)
    measured /= statistics.median(one["microseconds"] for one in cured)
    judged = [judge_patient(name, brief(report["findings"]), measured) for _, report in watched]
    judged.sort(key=lambda row: row["predicted"] or 0.0)
    _, cured_report = examined(cured_script, options.seconds)
    cured_findings = brief(cured_report["findings"])
    return {
        "name": name,
        "sick_microseconds": statistics.median(one["microseconds"] for one in sick),
        "cured_microseconds": statistics.median(one["microseconds"] for one in cured),
        "measured": measured,
        "core": min(one["core"] for one in [*sick, *cured]),
        "measured_min": min(ratios),
        "measured_max": max(ratios),
        **judged[len(judged) // 2],
        "cured_clean": all(finding["name"] != name_disease(name) for finding in cured_findings),
        **overhead([figures for figures, _ in watched], sick, [report for _, report in watched]),
        "findings": brief(watched[0][1]["findings"]),
        "cured_findings": cured_findings,
        "rounds": {"sick": sick, "cured": cured, "watched": [figures for figures, _ in watched]},
    }


def see_healthy(options: argparse.Namespace) -> Row:
    """The healthy script: there should be nothing to find."""
    script = PATIENTS / f"{HEALTHY}.py"
    runs, watched = [], []
    for number in range(options.rounds):
        runs.append(alone(script))
        if number < options.doctor_rounds:
            watched.append(examined(script, options.seconds))
    findings = brief(watched[0][1]["findings"])
    return {
        "name": HEALTHY,
        "sick_microseconds": statistics.median(run["microseconds"] for run in runs),
        "core": min(run["core"] for run in runs),
        "cured_clean": not findings,
        **overhead([figures for figures, _ in watched], runs, [report for _, report in watched]),
        "findings": findings,
        "rounds": {"healthy": runs, "watched": [figures for figures, _ in watched]},
    }


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def mark(value: bool | None) -> str:
    return "–" if value is None else "[green]yes[/green]" if value else "[red]no[/red]"


def others(row: Row) -> str:
    """What else the doctor said, about the patient and about the cured copy."""
    disease = name_disease(row["name"])
    said = [finding["name"] for finding in row["findings"] if finding["name"] != disease]
    cured = [finding["name"] for finding in row.get("cured_findings", ())]
    return ", ".join([*said, *(f"cured: {name}" for name in cured)])


def table(rows: list[Row]) -> Table:
    """The table that is printed."""
    grid = Table(title="The doctor and its patients", caption_justify="left")
    grid.caption = (
        "µs per transition; gains of the whole by the cure; cost: the doctor's, best round against best (as it "
        "says itself)"
    )
    grid.add_column("patient")
    for title in ("sick µs", "cured µs", "measured ×", "predicted ×", "off"):
        grid.add_column(title, justify="right")
    for title in ("first", "line", "cured clean", "same result"):
        grid.add_column(title, justify="center")
    grid.add_column("cost", justify="right")
    grid.add_column("also said", overflow="fold")
    for row in rows:
        spread = (
            f"{row['measured']:.2f} ({row['measured_min']:.2f}–{row['measured_max']:.2f})"
            if "measured" in row
            else ""
        )
        grid.add_row(
            row["name"],
            number(row["sick_microseconds"], ",.1f"),
            number(row.get("cured_microseconds"), ",.1f"),
            spread,
            number(row.get("predicted"), ".2f"),
            number(row.get("off"), "+.0%"),
            mark(row.get("first")),
            mark(row.get("right_line")),
            mark(row["cured_clean"]),
            mark(row["same_result"]),
            f"{number(row['slowdown'], '+.1%')} ({number(row['slowdown_estimated'], '.1%')})",
            others(row),
        )
    return grid


def counts(rows: list[Row]) -> str:
    """The summary in the last line."""
    sick = [row for row in rows if row["name"] != HEALTHY]
    right = sum(row["first"] and row["right_line"] for row in sick)
    close = sum(row["close"] for row in sick)
    clean = sum(row["cured_clean"] for row in rows)
    return (
        f"First at the right line: {right} of {len(sick)}; within {CLOSE:.0%}: {close} of {len(sick)}; "
        f"cured or healthy without the finding: {clean} of {len(rows)}."
    )


def choose(only: str | None) -> list[str]:
    """All patients, or those that were named."""
    known = names()
    named = known if only is None else [name.replace("-", "_") for name in only.split(",")]
    if unknown := [name for name in named if name not in known]:
        raise SystemExit(f"Unknown: {', '.join(unknown)}. There are {', '.join(known)}.")
    return named


def rows_before(options: argparse.Namespace) -> dict[str, Row]:
    """Results of an earlier run that are kept: with --resume, and for patients that --only leaves out."""
    if not options.json.exists() or not (options.resume or options.only):
        return {}
    rows: list[Row] = json.loads(options.json.read_text(encoding="utf-8"))["patients"]
    return {row["name"]: row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of patient and cured alone, in turns")
    parser.add_argument("--doctor-rounds", type=int, default=1, help="of these, with the doctor too")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the doctor watches at most")
    parser.add_argument("--only", help="patients by name, separated by commas; other results are kept")
    parser.add_argument("--resume", action="store_true", help="leave out patients that have a result already")
    parser.add_argument("--jobs", type=int, default=1, help="patients at once, on two cores each")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if not 1 <= options.doctor_rounds <= options.rounds:
        parser.error("--doctor-rounds: from 1 to --rounds")
    console = Console(width=None if sys.stdout.isatty() else 190)
    wanted, rows = choose(options.only), rows_before(options)
    wanted = [name for name in wanted if not (options.resume and name in rows)]
    head = {**context("cpu"), "command": shlex.join(["python", *sys.argv])}
    done = []
    for name, row in seen(wanted, options, console):
        console.print(f"{name}: seen", highlight=False)
        rows[name] = row
        done.append(name)
        kept = [rows[known] for known in names() if known in rows]
        write_json(options.json, {**head, "summary": counts(kept), "patients": kept})
    shown = [rows[name] for name in names() if name in rows]
    console.print(table(shown))
    if busy := [row["name"] for row in shown if row["core"] < QUIET]:
        console.print(
            f"The machine was busy with other things: measure {', '.join(busy)} again.", style="red"
        )
    console.print(counts(shown), highlight=False)
    if failed := [name for name in wanted if name not in done]:
        raise SystemExit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
