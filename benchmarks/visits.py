"""The doctor visits trainings of other libraries, unchanged: does its split of the time agree with py-spy's?

    make bench-setup                                   # Stable-Baselines3, SBX, Tianshou and py-spy in .venv-bench
    python benchmarks/visits.py [--seconds 40] [--only sb3-8] [--json FILE]

Each script of benchmarks/visits/ runs twice: under the doctor, and under py-spy, which reads another process's
memory and does not know of the doctor. For some functions, it compares the share of the training spent in each
(with all that it called). Training is what happens below the library's own training loop. The doctor's findings
are printed too: none should be wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.examine import build_report
from flashdqn.doctor.run import Patient, watch_patient
from measure import context, write_json

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-bench" / "bin" / "python"
SPY = PYTHON.with_name("py-spy")
FRAME = re.compile(r"^(?P<name>\S+) \((?P<file>.*?)(:\d+)?\)$")


@dataclass(frozen=True)
class Visit:
    """A script, its training loop, and the functions to look for below it, with their files."""

    script: str
    arguments: tuple[str, ...]
    loop: str
    functions: dict[str, str]


TORCH = {"backward": r"\bbackward .*torch/_tensor\.py", "optimizer": r"\bstep .*torch/optim/adam\.py"}
SB3 = {
    "update": r"\btrain .*/dqn/dqn\.py",
    "environments": r"\bstep .*vec_env/base_vec_env\.py",
    "acting": r"\b_sample_action .*off_policy_algorithm\.py",
    "replay's sample": r"\bsample .*common/buffers\.py",
}
VISITS = {
    "sb3-1": Visit("sb3.py", ("1",), r"\blearn .*off_policy_algorithm\.py", SB3 | TORCH),
    "sb3-8": Visit("sb3.py", ("8",), r"\blearn .*off_policy_algorithm\.py", SB3 | TORCH),
    "sbx-8": Visit("sbx_dqn.py", ("8",), r"\blearn .*off_policy_algorithm\.py", SB3),
    "tianshou-8": Visit(
        "tianshou_dqn.py",
        ("8",),
        r"\brun_training .*algorithm_base\.py",
        {
            "update": r"\bupdate .*algorithm_base\.py",
            "collecting": r"\bcollect .*collector\.py",
            "environments": r"\bstep .*env/venvs\.py",
            "replay's sample": r"\bsample .*buffer/",
        }
        | TORCH,
    ),
}


def shares(stacks: Iterable[tuple[list[str], float]], visit: Visit) -> dict[str, float]:
    """The share of the time below the training loop with each function on the stack."""
    loop = re.compile(visit.loop)
    spent: Counter[str] = Counter()
    whole = 0.0
    for frames, weight in stacks:
        if not any(loop.search(frame) for frame in frames):
            continue
        whole += weight
        for label, pattern in visit.functions.items():
            if any(re.search(pattern, frame) for frame in frames):
                spent[label] += weight
    return {label: spent[label] / max(whole, 1e-9) for label in visit.functions}


def by_doctor(visit: Visit, seconds: float) -> tuple[dict[str, float], Any]:
    """The doctor's split, and its report."""
    script = str(HERE / "visits" / visit.script)
    record = watch_patient(Patient(script, visit.arguments, seconds=seconds, python=str(PYTHON)))
    evidence = Evidence(record)
    spent: Counter[int] = Counter()
    for window in record.windows:
        for number, weight in window.samples.items():
            spent[number] += weight
    stacks = (
        ([f"{frame.function.rpartition('.')[2]} {frame.file}" for frame in evidence.frames(number)], weight)
        for number, weight in spent.items()
    )
    return shares(stacks, visit), build_report(record)


def by_spy(visit: Visit, seconds: float) -> dict[str, float]:
    """py-spy's split, from a separate run."""
    script = str(HERE / "visits" / visit.script)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stacks.txt"
        command = [str(SPY), "record", "--format", "raw", "--full-filenames", "--rate", "200", "--duration"]
        command += [f"{seconds:.0f}", "--output", str(out), "--", str(PYTHON), script, *visit.arguments]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = out.read_text(encoding="utf-8").splitlines()
    return shares((read_line(line) for line in lines), visit)


def read_line(line: str) -> tuple[list[str], float]:
    """A stack and how often it was seen."""
    text, _, count = line.rpartition(" ")
    frames = []
    for part in text.split(";"):
        if match := FRAME.match(part):
            frames.append(f"{match['name'].rpartition('.')[2]} {match['file']}")
    return frames, float(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--only", nargs="+", choices=list(VISITS), default=list(VISITS))
    parser.add_argument("--json", type=Path, default=HERE / "results" / "visits.json")
    arguments = parser.parse_args()
    if not SPY.exists():
        parser.error("py-spy is missing: `make bench-setup` installs it")
    console = Console(width=110)
    rows = []
    for name in arguments.only:
        spy = by_spy(VISITS[name], arguments.seconds)
        doctor, report = by_doctor(VISITS[name], arguments.seconds)
        rows.append({"visit": name, "py-spy": spy, "doctor": doctor, "report": report.as_dict()})
        show(console, name, spy, doctor, report)
    if arguments.only == list(VISITS):
        write_json(arguments.json, {**context("cpu"), "seconds": arguments.seconds, "visits": brief(rows)})


def show(console: Console, name: str, spy: dict[str, float], doctor: dict[str, float], report: Any) -> None:
    table = Table(
        title=f"{name}: {report.transitions:,} transitions, {report.updates:,} updates", title_justify="left"
    )
    for heading in ("of the training", "py-spy", "doctor", "difference"):
        table.add_column(heading, justify="left" if heading == "of the training" else "right")
    for label, share in spy.items():
        table.add_row(label, f"{share:.1%}", f"{doctor[label]:.1%}", f"{100 * (doctor[label] - share):+.1f}")
    console.print(table)
    console.print(f"limited by {report.bound}: {report.bound_because}", highlight=False)
    for finding in report.findings:
        console.print(
            f"finding: {finding.name}, {finding.speedup:.2f} times: {finding.title}", highlight=False
        )
    console.print(f"the doctor slowed it by about {report.overhead:.0%}\n", highlight=False)


def brief(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The part of each visit that is kept."""
    keep = ("transitions", "updates", "bound", "bound_because", "overhead", "phases")
    return [
        {
            "visit": row["visit"],
            "py-spy": row["py-spy"],
            "doctor": row["doctor"],
            **{name: row["report"][name] for name in keep},
            "findings": [
                {name: finding[name] for name in ("name", "title", "line", "share", "speedup")}
                for finding in row["report"]["findings"]
            ],
        }
        for row in json.loads(json.dumps(rows))
    ]


if __name__ == "__main__":
    main()
