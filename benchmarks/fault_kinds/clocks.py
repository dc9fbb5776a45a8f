"""A clock that jumps, stands still, runs backwards, or is in another age or time zone; budgets must not notice."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fault_kinds.children import run_cases, run_command
from fault_kinds.shim import set_clock
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import EVENTS, PLAIN, Digest, digest_run, find_run, list_litter

YEAR, HOUR = 31_536_000, 3600
ZONES = ("UTC", "America/St_Johns", "Pacific/Kiritimati", "Asia/Kathmandu", "<-12>12", "not a zone")
#: Questions to the clock after which it jumps, at full effort.
JUMPS = 24


class Clock(NamedTuple):
    """A wrong clock: the arguments of `set_clock`, and a time zone."""

    name: str
    mode: int = 0
    shift: int = 0
    calls: int = 0
    zone: str = ""

    def set(self) -> None:
        """Make it this process's clock."""
        if self.zone:
            os.environ["TZ"] = self.zone
            time.tzset()
        set_clock(self.mode, self.shift, self.calls)


def list_clocks(effort: float) -> list[Clock]:
    """All wrong clocks."""
    now = int(time.time())
    ages = {"1970": 1000 - now, "2039": 2_177_456_400 - now, "9999": 253_402_300_000 - now}
    clocks = [Clock("stuck", 2), Clock("backwards", 3), Clock("stuck in 1970", 2, ages["1970"])]
    clocks += [Clock(f"in {age}", 1, shift) for age, shift in ages.items()]
    for shift in (YEAR, -YEAR, HOUR, -HOUR, -1):
        for calls in range(scale_count(JUMPS, effort)):
            clocks.append(Clock(f"jumps by {shift} s after {calls * 7} questions", 1, shift, calls * 7))
    clocks += [Clock(f"time zone {zone}", 0, 0, 0, zone) for zone in ZONES]
    return clocks if effort >= 0.1 else clocks[:: max(1, round(0.06 / effort))]


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A row for trainings, one for time budgets."""
    assert run_command(["train", *EVENTS, "--out", str(folder / "whole")]).code == 0
    run = find_run(folder / "whole")
    assert run is not None
    expected = digest_run(run)
    rows = [Tally("wrong clock: train and resume"), Tally("wrong clock: a budget of time")]
    clocks = list_clocks(effort)
    tries: list[tuple[int, Clock]] = [(0, clock) for clock in clocks]
    tries += [(1, clock) for clock in clocks[:: 4 if effort >= 0.1 else 2]]
    works: tuple[Callable[[Clock, Path], str], ...] = (
        lambda clock, place: train_twice(clock, place, expected),
        train_by_time,
    )

    def do(case: tuple[int, Clock], place: Path) -> list[object]:
        return [case[0], case[1].name, works[case[0]](case[1], place)]

    for answer in run_cases(tries, do, folder):
        if isinstance(answer, str):
            rows[0].check(False, answer)
        else:
            rows[answer[0]].check(not answer[2], f"{answer[1]}: {answer[2]}")
    return rows


def train_twice(clock: Clock, folder: Path, expected: Digest) -> str:
    """Two trainings with this clock and a resume: nothing is mixed up, and all is as with a good clock."""
    for number in range(2):
        outcome = run_command(["train", *EVENTS, "--out", str(folder)], before=clock.set)
        if outcome.crashed or outcome.code:
            return f"training {number}: {outcome}"
    runs = [path for path in folder.iterdir() if path.is_dir()]
    wrong = [digest_run(run).differs(expected) for run in runs]
    if len(runs) != 2 or any(wrong):
        return f"{len(runs)} folders, {wrong}"
    outcome = run_command(["train", "--resume", str(runs[0]), "--steps", "560"], before=clock.set)
    return str(outcome) if outcome.crashed or outcome.code else ""


def train_by_time(clock: Clock, folder: Path) -> str:
    """A budget of seconds is counted by a steady clock: neither forever nor over at once."""
    words = ["train", *PLAIN, "--max-time", "0.3s", "--out", str(folder)]
    words = [word for k, word in enumerate(words) if "--steps" not in (word, words[k - 1])]
    outcome = run_command(words, before=clock.set)
    run = find_run(folder)
    if outcome.crashed or outcome.code or run is None:
        return str(outcome)
    seconds = json.loads((run / "summary.json").read_text(encoding="utf-8"))["seconds"]
    return "" if 0.3 <= seconds < 20 and not list_litter(run) else f"it took {seconds} s"
