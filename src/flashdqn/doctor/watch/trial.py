"""Run a script for some seconds, as it is or with a cure, and note only how far it comes and what it computes.

There are no looks and no probes here, and the only calls that are counted are the environments' steps and the
optimizers' updates, so both sides of a comparison pay the same little.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType
from typing import Any

from . import counters as tally
from . import main_module
from .classes import watch_class, watch_module_classes
from .counters import catch_failures, counters
from .digest import digests, note_step
from .injection import Injection
from .injections import INJECTIONS
from .kinds import Ending
from .on_import import AfterImport
from .script import format_script_traceback, wait_for_threads
from .seeds import Seeds
from .torch_hooks import count_compilations
from .trial_rows import TrialPlan, TrialProgress, TrialRecord

EVERY = 0.02
"""Seconds between two notes of the progress."""


class TrialRun(threading.Thread):
    """Notes the progress, and ends the process when its time is up."""

    def __init__(self, plan: TrialPlan) -> None:
        super().__init__(name="trial", daemon=True)
        self.plan = plan
        self.process = os.getpid()
        self.injections = [make_injection(name, settings) for name, settings in plan.injections]
        self.series: list[TrialProgress] = []
        self.ended = Ending.STOPPED
        self.error = ""
        self.over = threading.Lock()
        self._compilations = 0
        self._compiled = 0.0

    def begin(self) -> None:
        """Set everything up before the script's first line."""
        seeds = Seeds(self.plan.seed)
        seeds.begin()
        main_module.install_class_callback(watch_class)
        special: dict[str, Callable[[ModuleType], None]] = {"torch": self.torch_imported}
        for name, action in seeds.modules.items():
            special[name] = follow(special.get(name), catch_failures(action))
        for injection in self.injections:
            injection.begin()
            for name in injection.modules:
                special[name] = follow(special.get(name), injection.imported)
        sys.meta_path.insert(0, AfterImport(special, watch_module_classes))
        replace_sources(self.plan.replaced)
        atexit.register(self.finish)
        tally.started = perf_counter()
        self.start()

    @catch_failures
    def torch_imported(self, torch: ModuleType) -> None:
        """Count updates from now on."""
        optimizer = sys.modules["torch.optim.optimizer"]
        optimizer.register_optimizer_step_post_hook(self.note_update)

    def note_update(self, optimizer: Any, *_: Any) -> None:
        """After each step of an optimizer."""
        counters.updates += 1
        note_step(optimizer)

    def run(self) -> None:
        """Note the progress until the time is up."""
        began: float | None = None
        while True:
            threading.Event().wait(EVERY)  # not time.sleep, which a cure may replace
            now = self.note_progress()
            counted = (
                counters.updates if self.plan.waits_for_updates else counters.transitions + counters.updates
            )
            if began is None and counted:
                began = now
            late = began is None and now > self.plan.longest
            if late or (began is not None and now - max(began, self._compiled) > self.plan.seconds):
                break
            if now > self.plan.longest + self.plan.seconds:
                break
        self.finish()
        os._exit(0)  # a trial leaves nothing behind that would need a clean end

    def note_progress(self) -> float:
        """Add a row; returns the seconds so far."""
        now = perf_counter() - tally.started
        self.series.append(TrialProgress(now, counters.transitions, counters.updates, process_time()))
        compilations = count_compilations()
        if compilations != self._compilations:
            self._compilations, self._compiled = compilations, now
        return now

    def finish(self) -> None:
        """Write the record, once, and only in this process."""
        if os.getpid() != self.process or not self.over.acquire(blocking=False):
            return
        self.note_progress()
        record = TrialRecord(
            ended=self.ended,
            error=self.error,
            series=tuple(self.series),
            digests=tuple(digests),
            applied=tuple(sentence for injection in self.injections for sentence in injection.list_applied()),
            failed=tuple(sentence for injection in self.injections for sentence in injection.failures),
            compiled=self._compiled,
            load=os.getloadavg()[0],
        )
        path = Path(self.plan.record)
        path.with_suffix(".part").write_text(json.dumps(record, default=vars), encoding="utf-8")
        path.with_suffix(".part").replace(path)


def make_injection(name: str, settings: dict[str, Any]) -> Injection:
    """The injection of this name."""
    return INJECTIONS[name](name, settings)


def follow(
    first: Callable[[ModuleType], None] | None, then: Callable[[ModuleType], None]
) -> Callable[[ModuleType], None]:
    """Both actions, one after the other."""

    def both(module: ModuleType) -> None:
        if first is not None:
            first(module)
        then(module)

    return both


def replace_sources(replaced: dict[str, str]) -> None:
    """Run other texts in the place of some files; each module keeps its own name, path and lines' file."""
    texts = {path: Path(copy).read_bytes() for path, copy in replaced.items()}
    main_module.replaced.update(texts)
    if not texts:
        return
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = str(Path(self.get_filename(fullname)).resolve())
        return self.source_to_code(texts[path], path) if path in texts else original(self, fullname)

    loader.get_code = get_code


def main(plan_file: str) -> None:
    """Entry of the process."""
    given = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    plan = TrialPlan(**given)
    sys.argv = [plan.given, *plan.arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path.cwd()) if plan.module else str(Path(plan.script).resolve().parent)
    trial = TrialRun(plan)
    trial.begin()
    code = run_script(trial)
    trial.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_script(trial: TrialRun) -> int:
    """Run the script, and note how it ended; returns its exit code."""
    run = main_module.run_module if trial.plan.module else main_module.run_file
    try:
        run(trial.plan.script)
        wait_for_threads()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        trial.ended = Ending.FAILED if code else Ending.FINISHED
        trial.error = f"It ended with code {code}." if code else ""
        return code
    except BaseException as error:
        trial.ended, trial.error = Ending.FAILED, format_script_traceback(error)
        sys.stderr.write(trial.error)
        return 1
    trial.ended = Ending.FINISHED
    return 0
