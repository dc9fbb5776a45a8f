"""Can the doctor cure its patients by machine? `flashdqn doctor --fix` on each, and the patch tried by hand.

    python benchmarks/doctor_fix.py [--seconds 30] [--try-seconds 10] [--rounds 3] [--only row_loop] [--resume]

Each patient is copied into a folder of its own and examined there. A patch that the doctor writes is applied with
`patch`, and both scripts are run alone to their end, in turns: the gain by their own clock, and their own checksum.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from doctor import HEALTHY, PATIENTS, PatientError, alone, execute, names
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "doctor_fix.json"
PAGE = Path(__file__).parent.parent / "docs" / "doctor-cures.md"
BEGIN, END = "<!-- cured: begin -->", "<!-- cured: end -->"

Row = dict[str, Any]


def treat(name: str, options: argparse.Namespace) -> Row:
    """One patient: what was tried, what was patched, and what the patch brings by the scripts' own clocks."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{name}.py"
        shutil.copy(PATIENTS / script.name, script)
        report = Path(folder) / "report.json"
        words = ["doctor", "--seconds", f"{options.seconds:g}", "--fix", "--json", str(report)]
        words += ["--try"] if options.cures else []
        words += ["--try-seconds", f"{options.try_seconds:g}", "--rounds", str(options.rounds), str(script)]
        execute([sys.executable, "-m", "flashdqn", *words])
        trials = json.loads(report.read_text(encoding="utf-8"))["trials"]
        row: Row = {"name": name, "trials": trials, "patched": [t["cure"] for t in trials if t["kept"]]}
        row["context"] = context("cpu")
        patch = script.with_suffix(".doctor.patch")
        if patch.exists() and options.alone:
            row |= try_by_hand(script, patch, options.alone)
    return row


def try_by_hand(script: Path, patch: Path, rounds: int) -> Row:
    """Apply the patch to another copy, and run both alone in turns."""
    folder = script.parent / "patched"
    folder.mkdir()
    copy = Path(shutil.copy(script, folder))
    subprocess.run(["patch", "-p1", "-i", str(patch)], cwd=folder, check=True, capture_output=True)
    before, after = [], []
    for _ in range(rounds):
        before.append(alone(script))
        after.append(alone(copy))
    gains = [one["microseconds"] / two["microseconds"] for one, two in zip(before, after, strict=True)]
    return {
        "alone": statistics.median(gains),
        "alone_each": gains,
        "before": before,
        "after": after,
        "checksums": [before[0]["checksum"], after[0]["checksum"]],
        "same_checksum": before[0]["checksum"] == after[0]["checksum"],
    }


def fill_by_hand(row: Row, rounds: int) -> Row:
    """Try a patch by hand that an earlier run has written."""
    kept = [trial for trial in row["trials"] if trial["kept"]]
    if "alone" in row or len(kept) != 1:
        return row
    with tempfile.TemporaryDirectory() as folder:
        script = Path(shutil.copy(PATIENTS / f"{row['name']}.py", folder))
        patch = script.with_suffix(".doctor.patch")
        patch.write_text(kept[0]["patch"], encoding="utf-8")
        return row | try_by_hand(script, patch, rounds)


def describe_trial(trial: Row | None) -> str:
    """Measured, with its interval; by CPU time where the clock of a busy machine could not tell."""
    if trial is None or trial["measured"] is None:
        return "–"
    text = f"{trial['measured']:.2f} ({trial['low'] or 0:.2f}–{trial['high'] or 0:.2f})"
    by_cpu = trial["kept"] and trial["low"] <= 1 and (trial.get("cpu_low") or 0) > 1
    return (
        f"{text}; CPU {trial['cpu']:.2f} ({trial['cpu_low']:.2f}–{trial['cpu_high']:.2f})" if by_cpu else text
    )


def compare_cpu(row: Row) -> float:
    """The gain of a patch tried by hand, by CPU time for each transition: other programs change it less."""
    spent = [[run["microseconds"] * run["core"] for run in row[when]] for when in ("before", "after")]
    return statistics.median(spent[0]) / statistics.median(spent[1])


def list_cells(row: Row) -> list[str]:
    """A patient's line in the table."""
    kept = [trial for trial in row["trials"] if trial["kept"]]
    together = next((trial for trial in row["trials"] if trial["cure"] == "together"), None)
    shown = together or (kept[0] if kept else None)
    alone = f"{row['alone']:.2f}; CPU {compare_cpu(row):.2f}" if "alone" in row else "–"
    same = {True: "yes", False: "no"}[row["same_checksum"]] if "alone" in row else "–"
    predicted = (
        "–" if shown is None else "not speed" if shown["predicted"] == 1 else f"{shown['predicted']:.2f}"
    )
    patch = ", ".join(f"`{name}`" for name in row["patched"]) or "none"
    return [
        f"`{row['name']}`",
        patch,
        predicted,
        describe_trial(shown),
        shown["numbers"] if shown else "–",
        alone,
        same,
    ]


def make_table(data: Row) -> str:
    """The table in the manual, with what it was measured on."""
    rows = sorted(data["patients"], key=lambda row: str(row["name"]))
    cured = sum(bool(row["patched"]) for row in rows)
    about = data["context"]
    loads = [trial["load"] for row in rows for trial in row["trials"]]
    head = ("patient", "patch", "predicted ×", "measured × (95%)", "numbers", "by hand ×", "same checksum")
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *map(list_cells, rows))]
    return "\n".join(
        [
            f"**{cured} of {len(rows)} cured by machine**, on {about['cores']} {about['device']} cores, "
            f"{about['date']}, beside other work: the load was {min(loads):.0f} to {max(loads):.0f}, so the "
            "intervals are wide. The result file says with which command each was measured.",
            "",
            *lines,
        ]
    )


def write_page(data: Row) -> None:
    """Put the table into the manual."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{make_table(data)}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Treat the patients, and write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--try-seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=1, help="how often both scripts are run alone")
    parser.add_argument("--cures", action="store_true", help="also try the cures of one setting (--try)")
    parser.add_argument(
        "--by-hand", action="store_true", help="with --resume: only try earlier patches by hand"
    )
    parser.add_argument("--only")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    console = Console(width=160)
    wanted = options.only.split(",") if options.only else [name for name in names() if name != HEALTHY]
    rows: dict[str, Row] = {}
    if options.json.exists() and (options.resume or options.only):
        rows = {row["name"]: row for row in json.loads(options.json.read_text(encoding="utf-8"))["patients"]}
    for name in wanted:
        if options.resume and name in rows and not options.by_hand:
            continue
        try:
            if options.by_hand and name in rows:
                rows[name] = fill_by_hand(rows[name], options.alone)
            else:
                rows[name] = treat(name, options)
        except (PatientError, subprocess.CalledProcessError) as error:
            console.print(str(error), style="red", markup=False, highlight=False)
            continue
        console.print(f"{name}: {', '.join(rows[name]['patched']) or 'no patch'}", highlight=False)
        write_json(options.json, {"context": context("cpu"), "patients": list(rows.values())})
    data = json.loads(options.json.read_text(encoding="utf-8"))
    if options.json == RESULTS:
        write_page(data)
    console.print(make_table(data), markup=False, highlight=False)


if __name__ == "__main__":
    main()
