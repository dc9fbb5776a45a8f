"""Does the doctor put time at the right line? Generated loops whose lines have known costs.

Each script is a loop of some lines in random order: operators on arrays, products, `in` on a list, slices, calls,
comparisons. Each line is timed alone, which gives its true share; the doctor's looks give another. A line is
right if the doctor's share, over the lines that it names together, is within five points of the truth.

    python benchmarks/doctor_lines.py --scripts 6
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.run import Patient, watch_patient
from measure import context, write_json

RESULTS = Path(__file__).parent / "results" / "doctor_lines.json"
LINES = (
    "a = big + 1.0",
    "b = square @ square",
    "c = 99_999 in numbers",
    "d = numbers[10:{size}]",
    "e = big.sum()",
    "f = (big > 0.5)",
    "g = len(numbers)",
    "h = sorted(few)",
    "k = tensor * 2.0",
    "m = words + words",
)
HEAD = """import time
import numpy as np
import torch
torch.set_num_threads(1)
big, square = np.random.rand({size}), np.random.rand(48, 48)
numbers, few, words = list(range({size} // 8)), list(range(300)), "x" * {size}
tensor = torch.rand({size})


class Env:
    def reset(self):
        return 0

    def step(self, action):
        return 0, 0.0, False, {{}}


"""


def make_script(rng: random.Random) -> tuple[str, list[str]]:
    """A script, and the lines of its loop."""
    size = rng.choice((4_000, 16_000, 40_000))
    lines = [line.format(size=size) for line in rng.sample(LINES, 6)]
    body = "".join(f"        {line}\n" for line in lines)
    loop = f"def work(times):\n    env = Env()\n    for _ in range(times):\n        env.step(0)\n{body}\n\n"
    timing = "".join(
        f"for _ in range(3):\n    start = time.perf_counter()\n    for _ in range(300):\n        {line}\n"
        f"    spent = time.perf_counter() - start\nprint({number}, spent / 300)\n"
        for number, line in enumerate(lines)
    )
    head = HEAD.format(size=size)
    return head + loop + "if __name__ == '__main__':\n    work(10**9)\n", [head + timing, *lines]


def true_shares(timing: str, folder: Path) -> list[float]:
    """Each line's share, timed alone."""
    path = folder / "timing.py"
    path.write_text(timing, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    seconds = [float(row.split()[1]) for row in done.stdout.splitlines()]
    return [value / sum(seconds) for value in seconds]


def examine(text: str, timing: list[str], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """What the doctor says of each line of a script."""
    path = folder / "loop.py"
    path.write_text(text, encoding="utf-8")
    truth = true_shares(timing[0], folder)
    evidence = Evidence(watch_patient(Patient(str(path), seconds=seconds, probe=0.01)))
    first = text.splitlines().index(f"        {timing[1]}") + 1
    inside = {at: share_at(evidence, path, at) for at in range(first, first + len(truth))}
    whole = sum(inside.values()) or 1.0
    rows = []
    for number, line in enumerate(timing[1:]):
        at = first + number
        exact = inside[at] / whole
        wide = [b for b in range(at, first + len(truth)) if evidence.first_line_of(str(path), b) <= at < b]
        ranges = sum(inside[b] for b in wide) / whole
        rows.append(
            {
                "line": line,
                "true": truth[number],
                "exact": exact,
                "in_ranges": ranges,
                "ranged": evidence.first_line_of(str(path), at) != at,
            }
        )
    return rows


def share_at(evidence: Evidence, path: Path, line: int) -> float:
    """The share of the time that the doctor puts at a line."""
    return evidence.at([(str(path), line)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rng, rows = random.Random(1), []
    for script in range(options.scripts):
        with tempfile.TemporaryDirectory() as folder:
            found = examine(*make_script(rng), options.seconds, Path(folder))
        rows += [row | {"script": script} for row in found]
    grid = Table(title="Shares by line, in percent")
    for name in ("script", "line", "true", "at this line", "in a range with it", "right"):
        grid.add_column(name)
    wrong = 0
    for row in rows:
        right = row["true"] <= row["exact"] + row["in_ranges"] + 0.05 and (
            row["ranged"] or row["exact"] <= row["true"] + 0.05
        )
        wrong += not right
        shares = [f"{100 * row[name]:.1f}" for name in ("true", "exact", "in_ranges")]
        grid.add_row(str(row["script"]), row["line"], *shares, "yes" if right else "NO")
    Console(width=110).print(grid)
    summary = (
        f"{len(rows) - wrong} of {len(rows)} lines within five points of the truth, by line or by range."
    )
    Console().print(summary)
    write_json(options.json, {**context("cpu"), "summary": summary, "rows": rows})


if __name__ == "__main__":
    main()
