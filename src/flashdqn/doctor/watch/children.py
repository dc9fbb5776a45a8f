"""Follow the script's other processes: forked ones, and those that start a Python of their own.

A forked process has the watch in it already, and begins a record of its own. A new Python finds the watch by a
`sitecustomize` in a folder that the environment's PYTHONPATH names: so multiprocessing's spawn and forkserver,
joblib and Ray are followed, and whatever else starts Python. Each process writes its own file beside the record.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

from . import counters as tally
from . import env_step
from .classes import watch_module_classes
from .counters import catch_failures
from .rows import ProcessInfo
from .schema import WatchPlan

VARIABLE = "FLASHDQN_DOCTOR_PLAN"
FLUSH = 2.0
#: Helpers of Python and torch that do nothing for a training.
NOT_FOLLOWED = ("resource_tracker", "semaphore_tracker", "compile_worker", "nvidia-smi")
ENTRY = '''"""Let the doctor watch this process too; then do what another sitecustomize would do."""
import importlib.util, os, sys
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != _here]
_me = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    if _me is not None:
        sys.modules["sitecustomize"] = _me
try:
    _spec = importlib.util.spec_from_file_location({name!r}, {init!r}, submodule_search_locations=[{folder!r}])
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[{name!r}] = _module
    _spec.loader.exec_module(_module)
    importlib.import_module({name!r} + ".script").enter_new_process(os.environ[{variable!r}])
except Exception:
    pass
'''

process = ProcessInfo()
"""What this process is; the script's own has no way of starting."""


def leave_entry(plan: WatchPlan, plan_file: str) -> None:
    """Make every Python that the script starts enter the watch."""
    folder = Path(__file__).resolve().parent
    entry = Path(plan_file).with_name("enter")
    entry.mkdir(exist_ok=True)
    text = ENTRY.format(
        name=__name__.rpartition(".")[0],
        init=str(folder / "__init__.py"),
        folder=str(folder),
        variable=VARIABLE,
    )
    (entry / "sitecustomize.py").write_text(text, encoding="utf-8")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{entry}{os.pathsep}{before}" if before else str(entry)
    os.environ[VARIABLE] = json.dumps([plan_file, tally.started])


def read_entry(text: str) -> WatchPlan | None:
    """The plan for this new process; None if it is not to be followed."""
    words = " ".join(getattr(sys, "orig_argv", sys.argv))
    plan_file, started = json.loads(text)
    if any(word in words for word in NOT_FOLLOWED) or not Path(plan_file).exists():
        return None
    tally.started = started  # the same clock as in the script's own process
    return make_child_plan(WatchPlan(**json.loads(Path(plan_file).read_text(encoding="utf-8"))), "spawn")


def make_child_plan(plan: WatchPlan, how: str) -> WatchPlan:
    """The same plan, with a record of its own."""
    global process
    process = ProcessInfo(pid=os.getpid(), parent=os.getppid(), how=how)
    record = Path(plan.record).with_name(f"child-{os.getpid()}.json")
    return replace(plan, record=str(record), flush=FLUSH, deep=False)


def describe_process() -> ProcessInfo:
    """What this process is called by now: multiprocessing names it after it has started."""
    module = sys.modules.get("multiprocessing.process")
    current: Any = getattr(module, "current_process", None)
    name = current().name if current is not None else ""
    words = getattr(sys, "orig_argv", sys.argv)
    return replace(
        process,
        name="" if name == "MainProcess" else name,
        command=" ".join(words)[:300],
        rank=os.environ.get("RANK", "") if process.how else "",
    )


def reset_after_fork() -> None:
    """Forget what the parent has counted."""
    for table in (
        tally.sites,
        tally.by_instruction,
        tally.forwards,
        tally.forwards_by_instruction,
        tally.widths,
    ):
        table.clear()
    vars(tally.counters).update(vars(tally.Counters()))
    vars(tally.bursts).update(vars(tally.Bursts()))
    env_step.steps_of.clear()
    env_step.began_at.clear()
    tally.first_step.clear()
    tally.first_update.clear()
    tally.failures.clear()
    tally.busy_thread[:] = tally.busy_native[:] = [0]
    tally.local.in_env = tally.local.in_module = 0
    tally.local.pending.clear()


def call_at_end(action: Callable[[], None]) -> None:
    """Call something when this process ends, also the way in which multiprocessing ends it."""
    atexit.register(action)
    end = os._exit

    def stand_in(code: int) -> Any:
        action()
        return end(code)

    os._exit = stand_in  # type: ignore[assignment]


@catch_failures
def watch_main_of_child(spawn: ModuleType) -> None:
    """Look at the classes of the script's file, which multiprocessing runs again in a new process."""
    original = spawn.prepare

    def prepare(data: Any) -> None:
        original(data)
        main = sys.modules.get("__mp_main__")
        if main is not None:
            watch_module_classes(main)

    setattr(spawn, "prepare", prepare)  # noqa: B010 (a module, to the type checker)


def only_forks_others() -> bool:
    """Whether this is multiprocessing's server, which waits for orders, with signals of its own."""
    return "multiprocessing.forkserver" in " ".join(getattr(sys, "orig_argv", sys.argv))


def is_over(plan: WatchPlan) -> bool:
    """Whether the time of watching is up: what a process does while its parent is examined does not count."""
    return perf_counter() - tally.started > plan.seconds
