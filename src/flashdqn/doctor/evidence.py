"""What a record says: seconds by phase, by line and by place, from the moment that training began."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from flashdqn.doctor import source
from flashdqn.doctor.phases import Namer
from flashdqn.doctor.watch.kinds import EventKind, Owner, Phase
from flashdqn.doctor.watch.rows import Frame, WatchWindow, WindowCounts
from flashdqn.doctor.watch.schema import WatchRecord, sum_counts

Key = TypeVar("Key", bound=Hashable)
Place = tuple[str, int]
HEAVY = 0.05
"""If counting took more than this share of a window, the window says little about the script's own shares."""


LEAST_WHOLE = 0.01
"""Seconds: a share of less is not a share of anything."""
ENOUGH = 3.0
"""Seconds of learning from which on a warm-up before it is left out."""
EVALUATION = re.compile(
    r"^_?(eval|evaluate|evaluation|evaluate_\w+|eval_\w+|validate|validation|run_eval\w*|test_agent|test_policy|estimate_loss)$"
)
"""What people call functions that evaluate."""


class SecondsBy(dict[Key, float]):
    """Seconds by phase, line or stack; 0.0 for a key that was not seen."""

    def __missing__(self, key: Key) -> float:
        return 0.0

    def longest(self) -> Key:
        """The key with the most seconds."""
        return max(self, key=lambda key: self[key])


def is_evaluation(function: str) -> bool:
    """Whether a function, by its qualified name, evaluates."""
    return bool(EVALUATION.match(function.rpartition(".")[2]))


@dataclass
class Evidence:
    """Everything that the finding rules can ask about a record."""

    record: WatchRecord
    namer: Namer = field(init=False)
    names: tuple[Phase, ...] = field(init=False)
    """The phase of each stack."""
    worker_seconds: float = field(init=False, default=0.0)
    """Seconds of work of the script's other processes while it trained."""
    worker_steps: int = field(init=False, default=0)
    """Steps of environments in the script's other processes."""

    def __post_init__(self) -> None:
        self.namer = Namer(self.record)
        since = self.record.began
        for child in self.record.children:
            counts = sum_counts([window for window in child.windows if window.start >= since])
            self.worker_seconds += counts.cpu
            self.worker_steps += counts.vector_steps
        self.names = tuple(self.namer.name(self.frames(number)) for number in range(len(self.record.stacks)))

    def frames(self, number: int) -> tuple[Frame, ...]:
        """A stack's frames, outermost first."""
        return tuple(self.record.frames[i] for i in self.record.stacks[number])

    @cached_property
    def by_stack(self) -> SecondsBy[int]:
        """Seconds by stack, during training."""
        seconds = SecondsBy[int]()
        for window in self.calm_windows:
            for number, spent in window.samples.items():
                seconds[number] += spent
        return seconds

    @cached_property
    def calm_windows(self) -> list[WatchWindow]:
        """The training windows in which counting cost little, so that shares are the script's own."""
        loads = zip(self.record.windows, self.record.loads, strict=False)
        heavy = {window.start for window, load in loads if load > HEAVY}
        calm = [window for window in self.training_windows if window.start not in heavy]
        return calm if len(calm) >= 3 else self.training_windows

    @cached_property
    def training_windows(self) -> list[WatchWindow]:
        """The windows that began after training did. A warm-up without updates is left out, if enough follows: a
        longer run consists of what comes after it. The watch opens a new window when training or learning
        begins."""
        windows = [window for window in self.record.windows if window.start >= self.record.began]
        learned = self.record.learning_began
        if learned is None or self.record.bursts.number < 2:
            return windows
        learning = [window for window in windows if window.start >= learned]
        return learning if sum(window.seconds for window in learning) >= ENOUGH else windows

    @cached_property
    def counts(self) -> WindowCounts:
        """What was counted in the training windows."""
        return sum_counts(self.training_windows)

    @cached_property
    def ratio(self) -> float:
        """Updates per transition, from the first update on; 0 if one of them was not seen."""
        bursts, totals = self.record.bursts, self.record.totals
        counted = bursts if bursts.transitions else totals
        if not counted.transitions:
            return 0.0
        learned_from = counted.transitions - self.evaluated
        return counted.updates / (learned_from if learned_from > 0 else counted.transitions)

    @cached_property
    def evaluated(self) -> int:
        """Transitions of evaluations, from which nothing is learned; 0 if there are no others."""
        sites = self.record.kinds(EventKind.ENV_STEP)
        found = sum(site.elements for site in sites if is_evaluation(site.function))
        return found if found < sum(site.elements for site in sites) else 0

    @cached_property
    def updates_per_step(self) -> float:
        """Updates for each step of the environments, from the first update on."""
        bursts, totals = self.record.bursts, self.record.totals
        if bursts.vector_steps:
            return bursts.updates / bursts.vector_steps
        return totals.updates / totals.vector_steps if totals.vector_steps else 0.0

    @property
    def supervised(self) -> bool:
        """Whether the script learns from data, without an environment."""
        return not self.record.totals.vector_steps and bool(self.record.totals.updates)

    @cached_property
    def others(self) -> float | None:
        """Cores that other programs kept busy while the script trained; None where it is not known."""
        known = [window for window in self.training_windows if window.machine is not None]
        seconds = sum(window.seconds for window in known)
        if not seconds:
            return None
        busy = sum(window.machine or 0.0 for window in known)
        ours = sum(window.counts.cpu for window in known) + self.worker_seconds
        return max(busy - ours, 0.0) / seconds

    @cached_property
    def seconds(self) -> float:
        """How long the calm windows are: divide seconds by stack, line and phase by this."""
        return sum(self.by_stack.values())

    @cached_property
    def watched(self) -> float:
        """How long all training windows are, whatever counting cost: divide totals by this."""
        return float(sum(window.seconds for window in self.training_windows))

    @cached_property
    def by_phase(self) -> SecondsBy[Phase]:
        """Seconds by phase, during training."""
        seconds = SecondsBy[Phase]()
        for number, spent in self.by_stack.items():
            seconds[self.names[number]] += spent
        return seconds

    def share(self, *phases: Phase) -> float:
        """The share of the training time that these phases take together: 0 to 1."""
        return compute_share(sum(self.by_phase[name] for name in phases), self.seconds)

    def phases_of(self, window: WatchWindow) -> SecondsBy[Phase]:
        """Seconds by phase in one window."""
        seconds = SecondsBy[Phase]()
        before = window.start < self.record.began
        for number, spent in window.samples.items():
            phase = self.names[number]
            if before and phase is not Phase.COMPILATION:
                phase = Phase.START_UP
            seconds[phase] += spent
        return seconds

    @cached_property
    def by_line(self) -> dict[Place, SecondsBy[Phase]]:
        """Seconds by phase, for the innermost line that is not plumbing."""
        lines: dict[Place, SecondsBy[Phase]] = {}
        for number, spent in self.by_stack.items():
            frame = find_script_frame(self.frames(number))
            if frame is not None:
                for line, part in self.split_range(frame).items():
                    lines.setdefault((frame.file, line), SecondsBy())[self.names[number]] += part * spent
        return lines

    def split_range(self, frame: Frame) -> dict[int, float]:
        """How the time of a look is divided over the lines that it may stand for: by the glances that saw the exact
        line, as far as there are as many as the time would explain; the rest stays at the last line."""
        if not frame.since or not self.record.glances_tried:
            return {frame.line: 1.0}
        seen = {
            g.line: g.count
            for g in self.record.glances
            if g.file == frame.file and frame.since <= g.line <= frame.line
        }
        expected = (
            self.ranges[frame.file, frame.since, frame.line]
            / max(self.seconds, 1e-9)
            * self.record.glances_tried
        )
        if not seen or expected <= 0:
            return {frame.line: 1.0}
        known = min(sum(seen.values()) / expected, 1.0)
        shares = {line: known * count / sum(seen.values()) for line, count in seen.items()}
        shares[frame.line] = shares.get(frame.line, 0.0) + 1.0 - known
        return shares

    @cached_property
    def ranges(self) -> SecondsBy[tuple[str, int, int]]:
        """Seconds of looks by the range of lines that they stand for."""
        seconds = SecondsBy[tuple[str, int, int]]()
        for number, spent in self.by_stack.items():
            frame = find_script_frame(self.frames(number))
            if frame is not None and frame.since:
                seconds[frame.file, frame.since, frame.line] += spent
        return seconds

    def first_line_of(self, file: str, line: int) -> int:
        """The first line of the range that the time at this line may belong to; the line itself where it is
        exact."""
        wide = [
            (seconds, first)
            for (where, first, last), seconds in self.ranges.items()
            if where == file and last == line
        ]
        exact = sum(self.by_line.get((file, line), {}).values())
        unsure = sum(
            seconds * self.split_range(Frame(file, "", line, Owner.SCRIPT, None, first)).get(line, 0.0)
            for seconds, first in wide
        )
        return min(first for _, first in wide) if wide and unsure > 0.3 * exact else line

    @cached_property
    def functions(self) -> dict[Place, str]:
        """The function of each line that was seen."""
        return {(frame.file, frame.line): frame.function for frame in self.record.frames}

    def at(self, places: Iterable[Place]) -> float:
        """Share of the time in which one of these lines was the script's innermost line."""
        wanted = set(places)
        spent = sum(sum(phases.values()) for place, phases in self.by_line.items() if place in wanted)
        return compute_share(spent, self.seconds)

    def inside(self, file: str, first: int, last: int) -> float:
        """Share of the time spent in these lines and in what they called."""
        spent = sum(self.phase_inside(file, first, last).values())
        return compute_share(spent, self.seconds)

    def phase_inside(self, file: str, first: int, last: int) -> SecondsBy[Phase]:
        """Seconds by phase in these lines and in what they called."""
        found = SecondsBy[Phase]()
        for number, seconds in self.by_stack.items():
            if any(frame.file == file and first <= frame.line <= last for frame in self.frames(number)):
                found[self.names[number]] += seconds
        return found

    def hottest(self, file: str, first: int, last: int) -> int:
        """The line of a range that took the most time."""
        inside = {
            line: sum(phases.values())
            for (where, line), phases in self.by_line.items()
            if where == file and first <= line <= last
        }
        return max(inside, key=lambda line: inside[line], default=first)

    @cached_property
    def looks(self) -> int:
        """About how many looks there were during training."""
        whole = sum(sum(window.samples.values()) for window in self.record.windows)
        return int(self.record.looks * self.seconds / whole) if whole else 0

    def line_seconds(self, windows: list[WatchWindow]) -> SecondsBy[Place]:
        """Seconds by line in some windows."""
        found = SecondsBy[Place]()
        for window in windows:
            for number, spent in window.samples.items():
                place = find_script_frame(self.frames(number))
                if place is not None:
                    found[place.file, place.line] += spent
        return found

    @cached_property
    def training_frames(self) -> set[Place]:
        """Lines that led, directly or not, to an environment's step, a backward pass or the optimizer."""
        return {
            (frame.file, frame.line)
            for number in self.by_stack
            if self.names[number] in (Phase.ENVIRONMENT, Phase.BACKWARD, Phase.OPTIMIZER)
            for frame in self.frames(number)
            if not frame.plumbing and not self.inside_env(number, frame)
        }

    def inside_env(self, number: int, frame: Frame) -> bool:
        """Whether a frame is inside an environment's step: such frames belong to the environment."""
        stack = self.frames(number)
        entries = [i for i, f in enumerate(stack) if f.phase is Phase.ENVIRONMENT]
        return bool(entries) and stack.index(frame) > entries[0]

    def leads_to_training(self, file: str, first: int, last: int) -> bool:
        """Whether these lines lead, directly or not, to environment steps or updates."""
        return any(where == file and first <= line <= last for where, line in self.training_frames)

    def update_loop(self) -> Place:
        """The loop that repeats updates after a step of the environments; without one, the call of the update."""
        env_lines = [(site.file, site.line) for site in self.record.kinds(EventKind.ENV_STEP)]
        for frame in self.update_stack():
            for loop in source.find_loops(frame.file, frame.line):
                if not any(f == frame.file and source.covers_line(loop, line) for f, line in env_lines):
                    return frame.file, source.first_line_number(loop)
        return self.update_call()

    def update_call(self) -> Place:
        """The line that calls an update, in the loop that also steps the environments."""
        env_lines = [(site.file, site.line) for site in self.record.kinds(EventKind.ENV_STEP)]
        for frame in reversed(self.update_stack()):
            for loop in source.find_loops(frame.file, frame.line):
                if any(f == frame.file and source.covers_line(loop, line) for f, line in env_lines):
                    return frame.file, frame.line
        site = max(self.record.kinds(EventKind.OPTIMIZER), key=lambda site: site.count, default=None)
        return (site.file, site.line) if site else (self.record.script, 0)

    def update_stack(self) -> list[Frame]:
        """The script's own frames of the most expensive update stack, outermost first."""
        updates = [n for n in self.by_stack if self.names[n] in (Phase.BACKWARD, Phase.OPTIMIZER)]
        best = max(updates, key=lambda n: self.by_stack[n], default=None)
        return [frame for frame in self.frames(best) if not frame.plumbing] if best is not None else []

    def find_user_line(self, file: str, line: int) -> Place | None:
        """The user's own line that leads to a library's line, by most of the time; without one, to its function."""
        function = self.functions.get((file, line), "")
        exact, near = SecondsBy[Place](), SecondsBy[Place]()
        for number, seconds in self.by_stack.items():
            stack = self.frames(number)
            users = [frame for frame in stack if not frame.plumbing and not is_library_file(frame.file)]
            if not users:
                continue
            place = users[-1].file, users[-1].line
            if any((frame.file, frame.line) == (file, line) for frame in stack):
                exact[place] += seconds
            elif any(frame.file == file and frame.function == function for frame in stack):
                near[place] += seconds
        found = exact or near
        return found.longest() if found else None

    def threads_line(self) -> Place | None:
        """Where the script sets its number of threads."""
        for file in {frame.file for frame in self.record.frames if not frame.plumbing}:
            module = source.parse_file(file)
            for call in source.iterate_calls(module) if module else ():
                if source.get_called_name(call) == "set_num_threads":
                    return file, source.first_line_number(call)
        return None


def compute_share(seconds: float, whole: float) -> float:
    """A share of the time, 0 to 1; 0 where there is not enough time to compare with."""
    return min(max(seconds / whole, 0.0), 1.0) if whole >= LEAST_WHOLE else 0.0


def is_library_file(file: str) -> bool:
    """Whether a file belongs to an installed package, not to the user."""
    return "/site-packages/" in file or "/dist-packages/" in file


def find_script_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The last frame that is not plumbing."""
    return next((frame for frame in reversed(stack) if not frame.plumbing), None)


def find_innermost_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The last frame that is not the watch's own."""
    return next((frame for frame in reversed(stack) if frame.owner is not Owner.WATCH), None)


def estimate_speedup(share: float, factor: float = float("inf")) -> float:
    """Amdahl's law: how many times faster the whole is when a share of it becomes `factor` times faster."""
    return 1.0 / max(1.0 - max(share, 0.0) * (1.0 - 1.0 / max(factor, 1.0)), 0.01)
