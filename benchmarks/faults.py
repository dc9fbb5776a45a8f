"""What survives what: thousands of faults, made on purpose, and a table of the harm that they did.

    python benchmarks/faults.py                                   # everything: more than an hour on two cores
    python benchmarks/faults.py --kind kills power --effort 0.1   # a tenth of two kinds
    python benchmarks/faults.py --effort small                    # the short form, as in `make test`
    python benchmarks/faults.py --kind inputs --add               # one kind again, into the result file

Each module in benchmarks/fault_kinds/ with a function `try_faults` is a kind. The full table is written to
benchmarks/results/faults.json and into docs/reliability.md. Exit code 1: something did harm.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fault_kinds import tally
from fault_kinds.shim import preload_shim
from fault_kinds.tally import Tally

HERE = Path(__file__).parent
KINDS = HERE / "fault_kinds"
RESULTS = HERE / "results" / "faults.json"
PAGE = HERE.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
SMALL = 0.01
#: Failures that are kept of a row, and shown of it.
KEPT, SHOWN = 20, 3
#: Kinds that fork from a warm process on top of the shim; they come last, and share its imports.
WARM = ("kills", "damage", "disk", "power", "concurrency", "clocks")
#: Kinds that several processes can share.
SPLIT = ("signals", "environments")


def main() -> int:
    arguments = read_arguments()
    kinds = sorted(arguments.kind or find_kinds(), key=lambda kind: (kind in WARM, kind))
    no_shim = preload_shim() if set(kinds) & set(WARM) else ""
    console = Console(stderr=True)
    begin = time.monotonic()
    warm = set(kinds) & set(WARM)
    if no_shim:
        console.print(f"{', '.join(sorted(warm))}: left out, because {no_shim}", markup=False)
        kinds = [kind for kind in kinds if kind not in WARM]
    elif warm:
        from fault_kinds.children import warm_up

        warm_up()
    for name in (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):  # `nohup` and `&` leave them ignored
        signal.signal(name, signal.default_int_handler if name == signal.SIGINT else signal.SIG_DFL)
    rows: list[dict[str, Any]] = []
    for kind, seconds, found in try_kinds(kinds, arguments.effort, arguments.jobs):
        rows += [row | {"kind": kind, "seconds": seconds} for row in found]
        done, harm = sum(row["tried"] for row in found), sum(row["harm"] for row in found)
        console.print(f"{kind}: {done:,} faults, {harm} did harm, {seconds:.0f} s")
    rows.sort(key=lambda row: kinds.index(row["kind"]))
    data = {"effort": arguments.effort, "seconds": round(time.monotonic() - begin), "rows": rows}
    show_results(data, arguments.json, console)
    write_results(data, arguments, kinds)
    return int(any(row["harm"] for row in rows))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", nargs="+", choices=find_kinds(), help="only these kinds")
    parser.add_argument("--effort", type=read_effort, default=1.0, help="1: all faults; 0.1: a tenth; small")
    parser.add_argument("--out", type=Path, help=f"a result file; {RESULTS.name} if everything is tried")
    parser.add_argument("--add", action="store_true", help="keep the other kinds that are in the result file")
    parser.add_argument("--jobs", type=int, default=1, help="kinds that are tried at once")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def read_effort(word: str) -> float:
    effort = SMALL if word == "small" else float(word)
    if not 0 < effort <= 1:
        raise argparse.ArgumentTypeError("between 0 and 1")
    return effort


def find_kinds() -> list[str]:
    """The modules that define `try_faults`; they are not imported for that."""
    return sorted(path.stem for path in KINDS.glob("*.py") if defines_faults(path))


def defines_faults(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        return True  # to be reported, not to be overlooked
    return any(isinstance(node, ast.FunctionDef) and node.name == "try_faults" for node in tree.body)


def try_kinds(
    kinds: list[str], effort: float, jobs: int
) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    """Try each kind in a forked process, or in several: if it breaks, that is one failure, and the others go on."""
    waiting = [Trial(kind, k, n) for kind in kinds for n in [jobs if kind in SPLIT else 1] for k in range(n)]
    running: dict[int, Trial] = {}
    found: dict[str, list[Tally]] = {kind: [] for kind in kinds}
    while waiting or running:
        while waiting and len(running) < jobs:
            trial = waiting.pop(0)
            running[trial.begin(effort)] = trial
        pid, status = os.wait()
        if pid not in running:
            continue
        trial = running.pop(pid)
        found[trial.kind] += trial.read(status)
        if trial.kind not in {one.kind for one in (*waiting, *running.values())}:
            yield (
                trial.kind,
                round(trial.seconds, 1),
                [describe_row(row) for row in join_rows(found[trial.kind])],
            )


def join_rows(rows: list[Tally]) -> list[Tally]:
    """Rows of one name are one row."""
    joined: dict[str, Tally] = {}
    for row in rows:
        whole = joined.setdefault(row.kind, Tally(row.kind, note=row.note))
        whole.tried += row.tried
        whole.failures += row.failures
    return list(joined.values())


class Trial:
    """A kind, or the part `number` of `parts` of it, that is tried in a forked process."""

    def __init__(self, kind: str, number: int, parts: int) -> None:
        self.kind, self.share, self.start = kind, [number, parts], 0.0
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.answer: Any = None

    def begin(self, effort: float) -> int:
        """Fork; returns the process."""
        self.start = time.monotonic()
        self.folder = tempfile.TemporaryDirectory(prefix=f"faults-{self.kind}-")
        self.answer = tempfile.TemporaryFile()  # noqa: SIM115
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            tally.SHARE[:] = self.share
            run_in_child(self.kind, effort, Path(self.folder.name).resolve(), self.answer.fileno())
        return pid

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def read(self, status: int) -> list[Tally]:
        """The rows, when the process has ended."""
        assert self.folder is not None
        self.answer.seek(0)
        text = self.answer.read().decode()
        self.answer.close()
        self.folder.cleanup()
        if (code := os.waitstatus_to_exitcode(status)) == 0:
            return [Tally(**row) for row in json.loads(text)]
        return [Tally(f"{self.kind}: the bench itself", 1, [f"exit {code}: {text[-600:]}"])]


def run_in_child(kind: str, effort: float, folder: Path, answer: int) -> None:
    code = 1
    try:
        rows = importlib.import_module(f"fault_kinds.{kind}").try_faults(effort, folder)
        text = json.dumps([asdict(row) for row in rows])
        code = 0
    except BaseException:
        text = traceback.format_exc()
    finally:
        os.write(answer, text.encode())
        os._exit(code)


def describe_row(row: Tally) -> dict[str, Any]:
    return {
        "name": row.kind,
        "tried": row.tried,
        "survived": row.survived,
        "harm": len(row.failures),
        "note": row.note,
        "failures": row.failures[:KEPT],
    }


def show_results(data: dict[str, Any], as_json: bool, console: Console) -> None:
    if as_json:
        print(json.dumps(data, indent=2))
        return
    table = Table("kind", "fault", "tried", "survived", "did harm", "note")
    for row in data["rows"]:
        cells = [row["name"], f"{row['tried']:,}", f"{row['survived']:,}", f"{row['harm']:,}", row["note"]]
        table.add_row(row["kind"], *cells, style="red" if row["harm"] else None)
    Console().print(table)
    for row in data["rows"]:
        for failure in row["failures"][:SHOWN]:
            console.print(f"{row['name']}: {failure}", markup=False, highlight=False)


def write_results(data: dict[str, Any], arguments: argparse.Namespace, kinds: list[str]) -> None:
    """The result file, and the page if it was the whole bench or is added to it."""
    whole = arguments.effort == 1.0 and set(kinds) == set(find_kinds())
    path = arguments.out or (RESULTS if whole or arguments.add else None)
    if path is None:
        return
    from measure import context, write_json

    before = json.loads(path.read_text(encoding="utf-8"))["parts"] if arguments.add and path.exists() else []
    write_json(path, {"parts": join_parts(before, [context("cpu") | data])})
    if path.resolve() == RESULTS.resolve():
        write_page(json.loads(RESULTS.read_text(encoding="utf-8")))


def join_parts(before: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of the bench, each with its machine; what was tried again replaces what was there."""
    again = {row["kind"] for part in new for row in part["rows"]}
    kept = [part | {"rows": [row for row in part["rows"] if row["kind"] not in again]} for part in before]
    return [part for part in kept if part["rows"]] + new


def write_page(data: dict[str, Any]) -> None:
    """Put the table between the marks in docs/reliability.md."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{make_table(data)}\n{END}{after}", encoding="utf-8")


def make_table(data: dict[str, Any]) -> str:
    """The table in docs/reliability.md."""
    lines, rows = [], []
    for part in data["parts"]:
        kinds = ", ".join(dict.fromkeys(row["kind"] for row in part["rows"]))
        machine = f"{part['device']}, {part['cores']} cores, Python {part['python']}, PyTorch {part['torch']}"
        lines.append(
            f"- {kinds}: `{part['command']}` ({part['date']}, commit {part['commit']}, {machine}, "
            f"{part['seconds'] / 60:.0f} minutes)"
        )
        rows += part["rows"]
    lines += ["", "| fault | tried | survived | did harm |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["kind"]):
        lines.append(f"| {row['name']} | {row['tried']:,} | {row['survived']:,} | {row['harm']:,} |")
    total = {key: sum(row[key] for row in rows) for key in ("tried", "survived", "harm")}
    lines.append(f"| **all** | {total['tried']:,} | {total['survived']:,} | {total['harm']:,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
