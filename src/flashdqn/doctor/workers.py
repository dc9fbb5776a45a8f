"""The script's other processes: what they did while it trained, and who waited for whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from flashdqn.doctor.evidence import (
    Evidence,
    Place,
    SecondsBy,
    compute_share,
    find_script_frame,
    is_library_file,
)
from flashdqn.doctor.phases import get_path_in_library
from flashdqn.doctor.report.contents import WorkerShare
from flashdqn.doctor.watch.kinds import Owner
from flashdqn.doctor.watch.rows import Frame
from flashdqn.doctor.watch.schema import WatchRecord


class Activity(StrEnum):
    """What a process does, seen from the others."""

    WORK = "work"
    WAIT = "wait"
    """For a message, a lock or another process."""
    MESSAGE = "message"
    """Packing, sending and unpacking."""


#: Files of libraries, and the functions in them that say what a process does; None: all of the file's functions.
SIGNS: tuple[tuple[re.Pattern[str], re.Pattern[str] | None, Activity], ...] = tuple(
    (re.compile(file), re.compile(function) if function else None, activity)
    for file, function, activity in (
        (r"/multiprocessing/connection\.py$", r"(^|\.)(recv|send|_send\w*|send_bytes)$", Activity.MESSAGE),
        (r"/multiprocessing/connection\.py$", r"", Activity.WAIT),
        (r"/multiprocessing/(reduction|shared_memory|heap|sharedctypes)\.py$", r"", Activity.MESSAGE),
        (r"/(pickle|copyreg)\.py$|/cloudpickle/|/torch/multiprocessing/reductions\.py$", r"", Activity.MESSAGE),
        (r"/multiprocessing/queues\.py$", r"put|_feed", Activity.MESSAGE),
        (r"/multiprocessing/(queues|synchronize|popen_\w+|pool|managers)\.py$", r"", Activity.WAIT),
        (r"/(threading|queue|selectors|subprocess)\.py$|/concurrent/futures/", r"", Activity.WAIT),
        (r"/joblib/parallel\.py$", r"retrieve|result|wait", Activity.WAIT),
        (r"/loky/(process_executor|_base)\.py$", r"result|wait|_process_worker", Activity.WAIT),
        (r"/ray/_private/worker\.py$", r"(^|\.)(get|get_objects|wait|main_loop|put\w*)$", Activity.WAIT),
    )
)  # fmt: skip
LOADER = re.compile(r"/torch/utils/data/")


def classify_stack(stack: tuple[Frame, ...]) -> Activity:
    """What a process does, by the innermost frame that says something; the script's own code is work."""
    for frame in reversed(stack):
        if frame.owner is Owner.WATCH:
            continue
        if not frame.plumbing and not is_library_file(frame.file):
            return Activity.WORK
        path = get_path_in_library(frame.file)
        for file, function, activity in SIGNS:
            if file.search(path) and (function is None or function.search(frame.function)):
                return activity
    return Activity.WORK


def is_loading(stack: tuple[Frame, ...]) -> bool:
    """Whether a stack goes through a DataLoader."""
    return any(LOADER.search(get_path_in_library(frame.file)) for frame in stack)


@dataclass
class WorkerProcess:
    """One of the script's other processes, during the training."""

    record: WatchRecord
    since: float

    @cached_property
    def stacks(self) -> SecondsBy[int]:
        """Seconds by stack."""
        seconds = SecondsBy[int]()
        for window in self.record.windows:
            if window.start >= self.since:
                for number, spent in window.samples.items():
                    seconds[number] += spent
        return seconds

    def frames(self, number: int) -> tuple[Frame, ...]:
        """A stack's frames, outermost first."""
        return tuple(self.record.frames[i] for i in self.record.stacks[number])

    @cached_property
    def activities(self) -> SecondsBy[Activity]:
        """Seconds by what it did; it cannot have worked longer than its CPU time, whatever the looks say."""
        seconds = SecondsBy[Activity]()
        for number, spent in self.stacks.items():
            seconds[classify_stack(self.frames(number))] += spent
        active = seconds[Activity.WORK] + seconds[Activity.MESSAGE]
        return seconds if active <= 0 else self.limit_to_cpu(seconds, active)

    def limit_to_cpu(self, seconds: SecondsBy[Activity], active: float) -> SecondsBy[Activity]:
        """Count as waiting what was neither work nor messages by its CPU time. Ready to run, without a core, is
        work that others have delayed."""
        real = min(active, self.cpu + self.queued)
        limited = SecondsBy[Activity]()
        for activity in (Activity.WORK, Activity.MESSAGE):
            limited[activity] = seconds[activity] * real / active
        limited[Activity.WAIT] = seconds[Activity.WAIT] + active - real
        return limited

    @cached_property
    def seconds(self) -> float:
        """How long it was seen."""
        return sum(self.stacks.values())

    @cached_property
    def cpu(self) -> float:
        """Seconds of all cores that it used."""
        return sum(window.counts.cpu for window in self.record.windows if window.start >= self.since)

    @cached_property
    def queued(self) -> float:
        """Seconds in which it was ready to run, and got no core."""
        return sum(window.counts.queued for window in self.record.windows if window.start >= self.since)

    @cached_property
    def steps(self) -> int:
        """Steps of environments in it."""
        return sum(window.counts.vector_steps for window in self.record.windows if window.start >= self.since)

    @cached_property
    def updates(self) -> int:
        """Steps of optimizers in it."""
        return sum(window.counts.updates for window in self.record.windows if window.start >= self.since)

    @property
    def loads(self) -> bool:
        """Whether it is a DataLoader's worker."""
        return any(is_loading(self.frames(number)) for number in self.stacks)

    def share(self, activity: Activity) -> float:
        """The share of its time that it did this."""
        return compute_share(self.activities[activity], self.seconds)

    def work_lines(self) -> SecondsBy[Place]:
        """Seconds of work by the innermost line that is not plumbing."""
        lines = SecondsBy[Place]()
        for number, spent in self.stacks.items():
            stack = self.frames(number)
            own = find_script_frame(stack)
            if own is not None and classify_stack(stack) is Activity.WORK:
                lines[own.file, own.line] += spent
        return lines


def find_workers(evidence: Evidence) -> list[WorkerProcess]:
    """The processes that were seen while the script trained, for more than a moment."""
    windows = evidence.training_windows
    if not windows:
        return []
    found = [WorkerProcess(child, windows[0].start) for child in evidence.record.children]
    return [worker for worker in found if worker.seconds > 0.5]


def iterate_waits(evidence: Evidence) -> Iterator[tuple[tuple[Frame, ...], float, Activity]]:
    """The main process's stacks that wait for others or exchange messages with them, and their seconds."""
    for number, seconds in evidence.by_stack.items():
        stack = evidence.frames(number)
        activity = classify_stack(stack)
        if activity is not Activity.WORK:
            yield stack, seconds, activity


def find_user_place(stack: tuple[Frame, ...]) -> Place | None:
    """The user's own innermost line."""
    for frame in reversed(stack):
        if not frame.plumbing and not is_library_file(frame.file):
            return frame.file, frame.line
    return None


def summarize_workers(evidence: Evidence) -> tuple[WorkerShare, ...]:
    """What the script's other processes did, by kind."""
    kinds: dict[str, list[WorkerProcess]] = {}
    for worker in find_workers(evidence):
        kinds.setdefault(name_kind(worker), []).append(worker)
    return tuple(summarize_kind(name, workers) for name, workers in sorted(kinds.items()))


def name_kind(worker: WorkerProcess) -> str:
    """What a process is, in words."""
    if worker.loads:
        return "DataLoader workers"
    if "ray" in worker.record.process.command.split("/")[-1]:
        return "Ray workers"
    if worker.updates:
        return "processes that train"
    return "workers" if worker.record.process.name else "other processes"


def summarize_kind(name: str, workers: list[WorkerProcess]) -> WorkerShare:
    """The mean shares of some processes."""
    lines = SecondsBy[Place]()
    for worker in workers:
        for place, seconds in worker.work_lines().items():
            lines[place] += seconds
    most = lines.longest() if lines else None

    def mean(activity: Activity) -> float:
        return sum(worker.share(activity) for worker in workers) / len(workers)

    return WorkerShare(
        name=name,
        number=len(workers),
        steps=sum(worker.steps for worker in workers),
        working=mean(Activity.WORK),
        waiting=mean(Activity.WAIT),
        messages=mean(Activity.MESSAGE),
        busiest=max(worker.share(Activity.WORK) for worker in workers),
        place=f"{most[0]}:{most[1]}" if most else "",
    )
