"""`%load_ext flashdqn.doctor`, then `%%doctor` above a cell: why is this cell slow?"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.doctor.examine import build_report
from flashdqn.doctor.record import read_record
from flashdqn.doctor.report.contents import Report, write_report_json
from flashdqn.doctor.report.page import render_doctor_page, write_doctor_page
from flashdqn.doctor.report.terminal import show_report
from flashdqn.doctor.run import WATCH, gpu_meter
from flashdqn.doctor.watch.schema import WatchPlan
from flashdqn.show.page import escape

NAME = "_flashdqn_watch"
FOREVER = 1e9
HEIGHT = 700


@dataclass(frozen=True)
class CellOptions:
    """What stands behind `%%doctor`."""

    seconds: float = FOREVER
    """End the cell after so many seconds; without it, the cell runs to its end."""
    html: Path | None = None
    json: Path | None = None


def register(shell: Any) -> None:
    """Make `%%doctor` known."""
    shell.register_magic_function(lambda line, cell: run_magic(shell, line, cell), "cell", "doctor")


def run_magic(shell: Any, line: str, cell: str) -> None:
    """Run a cell under the watch, and show the report below it. An error of the cell's own is raised as usual."""
    try:
        options = read_options(line)
        report, error = examine_cell(shell, cell, options)
    except FlashDQNError as mistake:
        Console(stderr=True).print(f"doctor: {mistake}", highlight=False, markup=False)
        return
    show(shell, report)
    if options.html is not None:
        write_doctor_page(report, options.html)
    if options.json is not None:
        write_report_json(report, options.json)
    if error is not None:
        raise error


def read_options(line: str) -> CellOptions:
    """`--seconds 60 --html report.html --json report.json`."""
    options = CellOptions()
    words = shlex.split(line)
    for flag, value in zip(words[::2], [*words[1::2], None], strict=False):
        if flag not in ("--seconds", "--html", "--json") or value is None:
            raise ConfigError(
                f"`%%doctor` takes --seconds TIME, --html FILE and --json FILE, and '{flag}' is not understood. "
                "--try and --fix run a script again from its start, so they need a script."
            )
        if flag == "--seconds":
            options = replace(options, seconds=read_seconds(value))
        elif flag == "--html":
            options = replace(options, html=Path(value))
        else:
            options = replace(options, json=Path(value))
    return options


def read_seconds(text: str) -> float:
    """A number of seconds above zero; 90s and 2m are understood."""
    scale = {"s": 1.0, "m": 60.0}.get(text[-1:], 0.0)
    try:
        seconds = float(text[:-1]) * scale if scale else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"--seconds takes a time such as 60, 90s or 2m, and '{text}' is not one.")
    return seconds


def examine_cell(shell: Any, cell: str, options: CellOptions) -> tuple[Report, BaseException | None]:
    """Watch a cell, and make the report."""
    source = shell.transform_cell(cell)
    name = str(Path.cwd() / f"cell-{shell.execution_count}.py")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    watch = load_watch()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        plan = vars(make_plan(name, path, options.seconds))
        with gpu_meter() as meter:
            schema = importlib.import_module(f"{NAME}.schema")
            error = watch.watch_cell(schema.WatchPlan(**plan), source.encode(), shell.user_ns)
        if not path.exists():
            raise ConfigError("The cell could not be watched: no record was written.")
        record = read_record(path.read_text(encoding="utf-8"))
    if not record.torch:
        raise ConfigError("The cell never used torch: the doctor is for trainings with PyTorch.")
    return build_report(replace(record, utilization=meter.mean(record.training_began))), error


def make_plan(name: str, record: Path, seconds: float) -> WatchPlan:
    """The plan for the watch."""
    return WatchPlan(
        script=name,
        given=name,
        module=False,
        arguments=(),
        record=str(record),
        seconds=seconds,
        interval=0.01,
        window=1.0,
        flush=FOREVER,
        probe=1.0,
        deep=False,
    )


def load_watch() -> ModuleType:
    """A fresh copy of the watch: its counters begin at zero in each cell."""
    for module in [module for module in sys.modules if module.partition(".")[0] == NAME]:
        del sys.modules[module]
    spec = importlib.util.spec_from_file_location(f"{NAME}_entry", WATCH)
    assert spec is not None
    assert spec.loader is not None
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    entry.load()
    return importlib.import_module(f"{NAME}.cell")


def show(shell: Any, report: Report) -> None:
    """The page below the cell in a notebook; text in a terminal."""
    if type(shell).__name__ != "ZMQInteractiveShell":
        show_report(report, Console())
        return
    display = importlib.import_module("IPython.display")
    page = escape(render_doctor_page(report))
    frame = f'<div><iframe srcdoc="{page}" width="100%" height="{HEIGHT}" frameborder="0"></iframe></div>'
    display.display(display.HTML(frame))
