"""What is counted while the script runs: by line of code, and in total.

Plain lists and dicts, because this is on the script's hot path: a note costs well under a microsecond.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from .frames import get_qualified_name, locate_script_line
from .kinds import EventKind
from .rows import CallSite, CountedTime, PartFailure, UpdateBursts

#: Kind, the code's identity, line. Never the code itself: hashing it takes longer than the rest of a note.
Key = tuple[EventKind, int, int]
COUNT, SECONDS, ELEMENTS, ON_DEVICE, CODE, FIRST = range(6)


class Local(threading.local):
    """What each thread is doing."""

    in_module = 0
    in_env = 0
    optimizer_start = 0.0
    pending: list[Forward]

    def __init__(self) -> None:
        self.pending = []


class Forward:
    """The calls of a network from one line."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.first = 0.0
        """Seconds of the first call: it often sets something up."""
        self.acting = 0
        """Calls that an environment's step followed before any backward pass."""
        self.learning = 0
        """Calls that a backward pass followed before any environment's step."""
        self.graded = 0
        """Calls whose result carries a graph."""
        self.given_gradients = False
        """Whether an update found gradients on its parameters."""
        self.batches: dict[int, int] = {}
        self.layers = 0
        """Modules within the network."""
        self.code: Any = None
        self.module: Any = None
        self.data: Any = None
        """The latest network and its input, kept to look at in the end."""
        self.output: Any = None
        """The latest output, with `--health`."""
        self.shape: Any = None
        """The data's shape: asking a tensor for it takes longer."""


class Bursts:
    """Updates that follow one another without a step of the environments between them are one burst. What comes
    before the first burst is warming up, and says nothing about how often the script trains."""

    def __init__(self) -> None:
        self.steps = -1
        """Vector steps when the latest burst began."""
        self.number = 0
        self.first = (0, 0, 0)
        """Transitions, vector steps and updates when the first burst began."""
        self.second = (0, 0, 0)
        self.latest = (0, 0, 0)

    def begin(self) -> None:
        """Note that a burst begins; its first update is counted already."""
        self.steps = counters.vector_steps
        self.latest = (counters.transitions, counters.vector_steps, counters.updates - 1)
        self.number += 1
        if self.number == 1:
            self.first = self.latest
            first_update.append(perf_counter() - started)
        elif self.number == 2:
            self.second = self.latest

    def describe(self) -> UpdateBursts:
        """The bursts, for the record: from the first one's start to the latest one's."""
        if self.number < 2:
            return UpdateBursts(self.number)
        return UpdateBursts(
            number=self.number,
            transitions=self.latest[0] - self.first[0],
            vector_steps=self.latest[1] - self.first[1],
            updates=counters.updates - self.second[2],
        )


class Counters:
    """Totals over the whole run."""

    def __init__(self) -> None:
        self.transitions = 0
        self.vector_steps = 0
        self.episodes = 0
        self.episode_steps = 0
        self.updates = 0
        self.late_steps = 0
        """Steps of an environment whose episode had ended, and that was not reset since."""
        self.hooks = 0
        """How often the watch's stand-ins were called."""
        self.layers = 0
        """Calls of layers inside networks, which the stand-ins pass on."""
        self.counted = CountedTime()
        """While tensors' methods were counted: their rates are computed from this."""
        self.called = CountedTime()
        """The same for networks' calls."""


sites: dict[Key, list[Any]] = {}
"""Count, seconds, elements, how often on the GPU, the code, kept so that its id is not used again, and the
seconds of the first time."""
by_instruction: dict[Key, list[Any]] = {}
"""The same entries by kind, code and instruction: an instruction is known at once, a line must be looked up."""
forwards: dict[tuple[int, int, bool], Forward] = {}
"""By the code's id, the line, and whether the result has a graph."""
forwards_by_instruction: dict[tuple[int, int, bool], Forward] = {}
widths: dict[int, int] = {}
"""How many transitions a step of the environments made → how often."""
counters = Counters()
frozen: list[Counters] = []
"""The totals before a calibration, while one counts calls of its own."""
bursts = Bursts()
local = Local()
started = perf_counter()
first_step: list[float] = []
"""When the first environment step or update was done: the start of training."""
first_update: list[float] = []
"""When the first update was done: the end of warming up."""
busy_thread = [0]
"""The thread that trains."""
busy_native = [0]
"""The same, by the system's number."""
failures: dict[str, PartFailure] = {}
"""The first failure of each part of the watch, by the part's name."""


def note_event(
    kind: EventKind, frame: FrameType, seconds: float, elements: int = 0, on_device: int = 0
) -> list[Any]:
    """Note an event at the line of this frame, or of the nearest frame that is not plumbing. Returns what is known
    of that line by now."""
    key = (kind, id(frame.f_code), frame.f_lasti)
    entry = by_instruction.get(key)
    if entry is None:
        code, line = locate_event(frame)
        entry = sites.setdefault((kind, id(code), line), [0, 0.0, 0, 0, code, seconds])
        if code is frame.f_code:
            by_instruction[key] = entry
    entry[COUNT] += 1
    entry[SECONDS] += seconds
    entry[ELEMENTS] += elements
    entry[ON_DEVICE] += on_device
    counters.hooks += 1
    return entry


def catch_failures(action: Callable[..., None]) -> Callable[..., None]:
    """Note an error of the watch instead of raising it in the script. Functions that may run a hundred thousand
    times a second catch their errors themselves."""

    @functools.wraps(action)
    def guarded(*args: Any) -> None:
        try:
            action(*args)
        except Exception as error:
            note_failure(action, error)

    return guarded


def note_failure(part: Callable[..., Any], error: Exception) -> None:
    """Note that a part of the watch did not work."""
    failure = describe_failure(part.__name__, error)
    failures.setdefault(failure.part, failure)


def describe_failure(part: str, error: Exception) -> PartFailure:
    """A failure, for the record."""
    return PartFailure(part, f"{type(error).__name__}: {error}"[:200])


def locate_event(frame: FrameType) -> tuple[CodeType, int]:
    """The nearest line that is not plumbing."""
    return locate_script_line(frame) or (frame.f_code, frame.f_lineno)


def note_training_start() -> None:
    """The first step or update: note when, and on which thread."""
    if not first_step:
        first_step.append(perf_counter() - started)
        busy_thread[0] = threading.get_ident()
        busy_native[0] = threading.get_native_id()


def describe_sites() -> tuple[CallSite, ...]:
    """The counted lines, for the record."""
    return tuple(
        CallSite(
            kind=kind,
            file=code.co_filename,
            line=line,
            function=get_qualified_name(code),
            count=int(entry[COUNT]),
            seconds=entry[SECONDS],
            elements=int(entry[ELEMENTS]),
            on_device=int(entry[ON_DEVICE]),
            first=entry[FIRST],
        )
        for (kind, _, line), entry in list(sites.items())
        for code in (entry[CODE],)
    )
