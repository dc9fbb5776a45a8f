"""A report over time: its windows as series, the beginning against the rest, and what grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flashdqn.doctor.report.contents import Report, Window
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.show.bars import split_into_slices
from flashdqn.show.numbers import format_bytes, format_rate

#: A last window that is shorter than this share of the others was cut off by the end of the script.
UNFINISHED = 0.9


@dataclass(frozen=True)
class Course:
    """One quantity over the windows."""

    name: str
    values: tuple[float, ...]
    first: float
    """Over the first windows."""
    rest: float
    """Over all others; for memory, at the end."""
    text: Callable[[float], str]


def per_second(number: float, seconds: float) -> float:
    """A rate per second; NaN if no time passed."""
    return number / seconds if math.isfinite(seconds) and seconds > 0 else math.nan


def mean_episode_length(windows: Iterable[Window]) -> float:
    """The mean over all episodes that ended; each counts once."""
    known = [
        (w.episodes, w.episode_length) for w in windows if w.episodes and math.isfinite(w.episode_length)
    ]
    episodes = sum(number for number, _ in known)
    return sum(number * length for number, length in known) / episodes if episodes else math.nan


def drop_unfinished_window(windows: Sequence[Window]) -> list[Window]:
    """The windows without the last one if the script ended in it: it is short, and not all of it was training. It
    would look like a drop."""
    known = sorted(window.seconds for window in windows[:-1] if math.isfinite(window.seconds))
    if not known or windows[-1].seconds >= UNFINISHED * known[len(known) // 2]:
        return list(windows)
    return list(windows[:-1])


def drop_start_up(windows: Sequence[Window]) -> list[Window]:
    """The windows from the first step or update on: imports are not the first tenth of a training."""
    first = next((i for i, window in enumerate(windows) if window.vector_steps or window.updates), 0)
    return list(windows[first:])


def merge_windows(windows: Sequence[Window], most: int) -> list[Window]:
    """At most `most` windows, with neighbors merged."""
    return [_combine_windows(windows[piece]) for piece in split_into_slices(len(windows), most)]


def count_first_windows(windows: Sequence[Window]) -> int:
    """How many windows are the first ones: a tenth of them, at least one."""
    return max(1, round(len(windows) / 10)) if windows else 0


def build_courses(windows: Sequence[Window]) -> list[Course]:
    """The courses worth showing: throughput, episodes, memory."""
    found = [
        _make_rate_course("transitions/s", windows, lambda w: w.transitions),
        _make_rate_course("updates/s", windows, lambda w: w.updates),
        _make_rate_course("episodes/s", windows, lambda w: w.episodes),
        _make_length_course(windows),
        _make_memory_course("memory", windows, lambda w: w.memory),
        _make_memory_course("device memory", windows, lambda w: w.device_memory),
    ]
    return [course for course in found if any(value > 0 for value in course.values)]


def list_phase_names(report: Report) -> list[Phase]:
    """Every phase that took time, the longest first."""
    known = [phase for phase in report.phases if phase.seconds > 0 or phase.share > 0]
    return [phase.name for phase in sorted(known, key=lambda phase: -_finite_or_zero(phase.share))]


def compute_window_shares(window: Window, names: Sequence[Phase]) -> list[float]:
    """The share of each phase in a window's time."""
    seconds = [max(0.0, _finite_or_zero(window.phases.get(name, 0.0))) for name in names]
    total = sum(seconds)
    return [value / total if total > 0 else 0.0 for value in seconds]


def _make_rate_course(name: str, windows: Sequence[Window], number: Callable[[Window], float]) -> Course:
    def over(some: Sequence[Window]) -> float:
        return per_second(sum(number(w) for w in some), sum(w.seconds for w in some))

    first = count_first_windows(windows)
    values = tuple(per_second(number(w), w.seconds) for w in windows)
    return Course(name, values, over(windows[:first]), over(windows[first:]), format_rate)


def _make_length_course(windows: Sequence[Window]) -> Course:
    first = count_first_windows(windows)
    values = tuple(w.episode_length if w.episodes else math.nan for w in windows)
    return Course(
        "episode length",
        values,
        mean_episode_length(windows[:first]),
        mean_episode_length(windows[first:]),
        format_rate,
    )


def _make_memory_course(name: str, windows: Sequence[Window], number: Callable[[Window], float]) -> Course:
    values = tuple(float(number(w)) for w in windows)
    first = count_first_windows(windows)
    begin = values[first - 1] if values else math.nan
    return Course(name, values, begin, values[-1] if len(values) > first else math.nan, format_bytes)


def _combine_windows(windows: Sequence[Window]) -> Window:
    last = windows[-1]
    names = {name for window in windows for name in window.phases}
    return Window(
        start=windows[0].start,
        seconds=sum(w.seconds for w in windows),
        transitions=sum(w.transitions for w in windows),
        vector_steps=sum(w.vector_steps for w in windows),
        updates=sum(w.updates for w in windows),
        episodes=sum(w.episodes for w in windows),
        episode_length=mean_episode_length(windows),
        memory=last.memory,
        device_memory=last.device_memory,
        phases={
            name: sum(_finite_or_zero(w.phases.get(name, 0.0)) for w in windows) for name in sorted(names)
        },
    )


def _finite_or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0
