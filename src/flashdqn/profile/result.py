"""What a profile found, as plain frozen data that JSON can hold."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

#: What an experiment does to learning. same: nothing; trade: it learns from less, or from something else; more: it
#: learns from more; bound: not a way to train, but it shows the largest possible gain.
Role = Literal["baseline", "same", "trade", "more", "bound"]

Verdict = Literal["baseline", "faster", "slower", "no difference", "too few rounds"]


@dataclass(frozen=True)
class RoundSpread:
    """The median, the lowest and the highest over the rounds; of seven or more, without the two at the ends."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class TimedPhase:
    """A part of every iteration."""

    name: str
    microseconds: float  # per transition
    share: float  # of the training time
    about: str


@dataclass(frozen=True)
class Aside:
    """What happens now and then, measured by itself: its time is not training time."""

    name: str
    seconds: float  # each time
    every: int | None  # transitions between two; None: once
    microseconds: float | None  # per transition, spread over those; None: over how many is not known
    about: str


@dataclass(frozen=True)
class Apart:
    """Parts of CUDA graphs, each measured by itself, beside the graphs that hold them."""

    whole: str  # which graph
    parts: tuple[TimedPhase, ...]  # their shares are of the whole
    sum_microseconds: float
    whole_microseconds: float


@dataclass(frozen=True)
class Arithmetic:
    """The products of an update, beside one large product on the same machine."""

    flops: int  # of an update: two for each multiplication and addition
    passes: int  # forward passes that they are counted as; a gradient is two
    seconds: float  # of an update
    flops_per_second: float
    product_flops_per_second: float
    product: str  # its number format
    share: float  # of the product's rate


@dataclass(frozen=True)
class Spent:
    """Where the time of the user's own configuration goes."""

    seconds: float
    iterations: int  # steps of all environments
    transitions: int
    updates: int
    transitions_per_second: float
    updates_per_second: float
    ratio_asked: float
    ratio_done: float
    batch: int  # transitions in a gradient step
    reuse: float  # batch x gradient steps per transition
    phases: tuple[TimedPhase, ...]
    fused: tuple[str, ...]  # what cannot be measured separately, and why
    asides: tuple[Aside, ...]
    apart: tuple[Apart, ...]
    not_apart: str  # why graphs were not split, where they were not
    arithmetic: Arithmetic | None = None  # None: without updates


@dataclass(frozen=True)
class Outcome:
    """One experiment beside the baseline."""

    name: str
    group: str
    settings: dict[str, Any]  # what is changed
    flags: str  # the same on the command line
    role: Role
    learning: str  # what it does to learning, in words
    verdict: Verdict
    speed_up: RoundSpread | None  # of transitions per second, by round; None: never beside the baseline
    transitions_per_second: RoundSpread
    updates_per_second: float
    ratio_asked: float
    ratio_done: float
    relative_ratio: float  # updates per transition asked for, against the baseline's; 1 where both have none
    mode: str
    threads: tuple[int, int]  # PyTorch's, and the games'
    rounds: int
    remark: str  # what else is different


@dataclass(frozen=True)
class LeftOut:
    """An experiment that was not measured to its end."""

    name: str
    reason: str


@dataclass(frozen=True)
class Suggestion:
    """Flags and their speed-up."""

    flags: str
    speed_up: RoundSpread
    learning: str


@dataclass(frozen=True)
class Advice:
    """What to do to make it faster."""

    same: tuple[Suggestion, ...]  # single flags that change nothing about learning
    together: Suggestion | None  # several of those at once, measured as one
    trades: tuple[Suggestion, ...]  # flags that learn from less, or from something else
    bargains: tuple[Suggestion, ...]  # flags that learn from more, and cost little
    words: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """The whole profile: what was measured, on what, and the advice."""

    preset: str
    date: str
    hardware: dict[str, Any]
    device: str
    config: dict[str, Any]
    mode: str
    mode_why: str
    threads: tuple[int, int]
    warm_up_seconds: float
    spent: Spent
    outcomes: tuple[Outcome, ...]
    left_out: tuple[LeftOut, ...]
    rounds_done: int
    rounds_asked: int
    turn_seconds: float
    interrupted: bool
    advice: Advice

    def to_json(self) -> dict[str, Any]:
        """The profile as plain data."""
        return dataclasses.asdict(self)
