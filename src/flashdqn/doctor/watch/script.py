"""Run a script as if it had been started directly, and write the record."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import FrameType, ModuleType

from . import children, main_module, sampler, subnormal
from . import counters as tally
from .classes import watch_class, watch_module_classes
from .clerk import Clerk
from .counters import catch_failures, describe_failure
from .describe import count_process_cores, describe_watch, find_other_framework
from .device_profile import DeviceProfile
from .duty_cycle import Turns
from .frames import HERE
from .glances import Glances
from .growth import Census
from .health import add_dead_units, health, look_at_update, watch_health
from .kinds import Ending
from .loaders import watch_loaders
from .on_import import AfterImport
from .op_profile import Operations
from .prints import watch_prints
from .probes import probe_all, probe_compiling
from .sampler import Looks, yield_alarm_to_script
from .schema import WatchPlan, WatchRecord
from .settings import watch_garbage
from .torch_hooks import hide_from_compiler, optimizers, watch_torch

FOREIGN = 3.0
"""Seconds after which a script with another framework, and without torch, is not watched any longer."""


class Stop(BaseException):
    """The time is up. Not an Exception, so that a script does not handle it as its own error."""


class ScriptWatch:
    """The plan, and what belongs to one run of a script."""

    def __init__(self, plan: WatchPlan) -> None:
        self.plan = plan
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.census = Census()
        self.operations = Operations() if plan.deep else None
        self.looks = Looks(plan.interval)
        self.turns = Turns()
        self.glances = Glances()
        self.device = DeviceProfile() if plan.deep else None
        chores = [self.turns.take, self.ask_to_look, self.flush, self.check_time]
        self.clerk = Clerk(self.looks, plan.window, chores)
        self.ended = Ending.KILLED  # stays in the record if nothing can be written later
        self.error = ""
        self.code = 0
        self.done = False
        self._flushed = self._foreign_since = perf_counter()

    def begin(self) -> None:
        """Set everything up before the script's first line."""
        watch_prints()
        watch_garbage()
        if self.plan.health:
            watch_health()
        main_module.install_class_callback(watch_class)
        special = {
            "torch": self.torch_imported,
            "torch.utils.data.dataloader": watch_loaders,
            "torch._dynamo.eval_frame": catch_failures(hide_from_compiler),
        }
        sys.meta_path.insert(0, AfterImport(special, watch_module_classes))
        yield_alarm_to_script(self.looks)
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self.follow_fork)
        tally.started = perf_counter()
        self.looks.start()
        self.clerk.start()
        self.glances.start()

    def begin_in_child(self) -> None:
        """Set up what a child needs: its own looks and windows, but no census, no probes and no end of its own."""
        self.clerk.chores = [self.turns.take, self.flush, self.end_with_parent]
        children.call_at_end(self.finish)
        self.looks.start()
        self.clerk.start()

    @catch_failures
    def follow_fork(self) -> None:
        """Watch a process that the script forked, in a record of its own."""
        latest = sampler.current[0]
        if latest.gave_way or children.is_over(self.plan):
            latest.give_way()
            return
        children.reset_after_fork()
        child = ScriptWatch(children.make_child_plan(self.plan, "fork"))
        child.turns.costs = self.turns.costs
        sampler.current[0] = child.looks
        child.begin_in_child()

    def end_with_parent(self) -> None:
        """Stop to watch when the script's time is up."""
        if children.is_over(self.plan):
            self.finish()

    @catch_failures
    def torch_imported(self, torch: ModuleType) -> None:
        """Start to count what torch does."""
        watch_torch(torch)
        self.turns.calibrate(torch)
        if self.operations is not None:
            self.operations.start(torch)

    def ask_to_look(self) -> None:
        """Ask for a look at the next update's optimizer, and at what grows, on the script's thread."""
        if subnormal.is_check_due():
            optimizers.look = subnormal.count_subnormals
        elif health.is_due():
            optimizers.look = look_at_update
        if self.device is not None and self.device.is_due():
            optimizers.look = self.device.step
        if self.census.due():
            self.looks.errand = self.census.take

    def flush(self) -> None:
        """Write the record now and then, in case of a sudden end."""
        now = perf_counter()
        if now - self._flushed > self.plan.flush and not self.done:
            self._flushed = now
            self.write_now()

    @catch_failures
    def write_now(self) -> None:
        """Write the record while the script runs; if the script changes it meanwhile, only the next write works."""
        self.write(describe_watch(self))

    def check_time(self) -> None:
        """End the script when its time is up, or when it turns out to train with another framework."""
        if self.done or not (self.is_time_up() or self.is_foreign()):
            return
        first, self.ended = self.ended is not Ending.STOPPED, Ending.STOPPED
        if first:
            self.write_now()  # in case it never ends
        if self.looks.gave_way:
            if first:  # a second one might interrupt the script's clean-up
                stop = ctypes.py_object(Stop)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), stop)
        else:
            self.looks.errand = self.time_is_up
            signal.siginterrupt(signal.SIGALRM, True)  # also out of a call that waits: input(), a pipe
            signal.pthread_kill(self.thread, signal.SIGALRM)

    def is_time_up(self) -> bool:
        """Whether the script has had its time."""
        return perf_counter() - tally.started > self.plan.seconds

    def is_foreign(self) -> bool:
        """Whether it has imported another framework some seconds ago, and still not torch."""
        if not find_other_framework():
            self._foreign_since = perf_counter()
        return perf_counter() - self._foreign_since > FOREIGN

    def time_is_up(self, _: FrameType | None) -> None:
        """Stop the script, on its thread; measure and write first, because a script may refuse to stop."""
        if not self.done:
            self.finish()
            raise Stop

    @catch_failures
    def finish(self) -> None:
        """Write the record, once, and only in the watched process."""
        if self.done or os.getpid() != self.process:
            return
        self.done = True
        self.looks.stop()
        self.glances.stop()
        self.clerk.stop()
        if children.process.how:
            self.write(describe_watch(self))
            return
        self.turns.take()
        if self.operations is not None:
            self.operations.stop()
        record = add_dead_units(
            describe_watch(self)
        )  # before the probes, which call the script's network too
        self.write(record)
        if "torch" in sys.modules and tally.counters.updates and not trains_on_other_thread():
            Path(self.plan.record).with_suffix(".probing").touch()
            try:
                results = probe_all(count_process_cores(), self.plan.probe)
                self.write(replace(record, probes=results))
                if results.launches is not None:
                    Path(self.plan.record).with_suffix(".compiling").touch()
                    self.write(replace(record, probes=probe_compiling(results)))
            except Exception as error:
                self.write(replace(record, failures=(*record.failures, describe_failure("probes", error))))

    def write(self, record: WatchRecord) -> None:
        """Write the whole record or nothing."""
        path = Path(self.plan.record)
        text = json.dumps(record, default=vars)  # a dataclass is the dict of its fields
        path.with_suffix(".part").write_text(text, encoding="utf-8")
        path.with_suffix(".part").replace(path)


def run_script(watch: ScriptWatch) -> None:
    """Run the script, and note how it ended."""
    plan = watch.plan
    try:
        if plan.module:
            main_module.run_module(plan.script)
        else:
            main_module.run_file(plan.script)
        wait_for_threads()
        watch.ended = Ending.FINISHED
    except Stop:
        watch.ended = Ending.STOPPED
    except KeyboardInterrupt:
        watch.ended, watch.code = Ending.INTERRUPTED, 130
    except SystemExit as stop:
        watch.ended = Ending.FINISHED
        watch.code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if watch.code and not isinstance(stop.code, int):
            watch.error = str(stop.code)
            sys.stderr.write(f"{watch.error}\n")  # as Python does
    except main_module.MissingError:
        watch.ended, watch.code = Ending.MISSING, 1
    except BaseException as error:
        watch.ended, watch.code = Ending.FAILED, 1
        watch.error = format_script_traceback(error)
        if os.getpid() != watch.process:
            sys.stderr.write(watch.error)  # in a process that the script forked: nothing else prints it
        elif sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error, error.__traceback__)


def trains_on_other_thread() -> bool:
    """Whether another thread is still training: what it changes meanwhile must not be copied here."""
    busy = tally.busy_thread[0]
    return busy != threading.get_ident() and any(thread.ident == busy for thread in threading.enumerate())


def wait_for_threads() -> None:
    """Wait for the script's threads to end, as Python does."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()


def format_script_traceback(error: BaseException) -> str:
    """The traceback, with the script's frames only."""
    trace = traceback.TracebackException(type(error), error, error.__traceback__)
    strip_watch_frames(trace)
    return "".join(trace.format())


def strip_watch_frames(trace: traceback.TracebackException | None) -> None:
    """Remove the watch's own frames, here and in the causes."""
    if trace is not None:
        trace.stack[:] = [frame for frame in trace.stack if not frame.filename.startswith(HERE)]
        strip_watch_frames(trace.__cause__)
        strip_watch_frames(trace.__context__)


def enter_new_process(entry: str) -> None:
    """Watch a Python that the script has started; `entry` is what its environment says."""
    plan = children.read_entry(entry)
    if plan is None:
        return
    watch = ScriptWatch(plan)
    special = {
        "torch": watch.torch_imported,
        "torch._dynamo.eval_frame": catch_failures(hide_from_compiler),
        "multiprocessing.spawn": children.watch_main_of_child,
    }
    sys.meta_path.insert(0, AfterImport(special, watch_module_classes))
    yield_alarm_to_script(watch.looks)
    os.register_at_fork(after_in_child=watch.follow_fork)
    if not children.only_forks_others():
        watch.begin_in_child()


def main(plan_file: str) -> None:
    """Entry of the watched process."""
    plan = WatchPlan(**json.loads(Path(plan_file).read_text(encoding="utf-8")))
    sys.argv = [plan.given, *plan.arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path.cwd()) if plan.module else str(Path(plan.script).resolve().parent)
    watch = ScriptWatch(plan)
    watch.begin()
    children.leave_entry(plan, plan_file)
    run_script(watch)
    watch.finish()
    sys.exit(watch.code)
