"""The columns of a run's tables: the name, the kind of number and the unit of each.

Most columns are the same in every run. Each task names its own outcomes, so their kinds are written into the run
folder (columns.json) when the tables are made. An unknown column has the kind `OTHER`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ColumnKind(StrEnum):
    """What a number means: it decides how windows are combined and how a column is drawn."""

    COUNTER = "counter"  # a total since the start, or a ratio of two: the last value counts
    SETTING = "setting"  # what a schedule has chosen: the last value counts
    MEMORY = "memory"  # the last value counts
    COUNT = "count"  # how often something happened in the window
    RATE = "rate"  # transitions per second
    MEAN = "mean"  # over the updates of the window
    EPISODE = "episode"  # a mean over the episodes that ended in the window
    SCORE = "score"  # the same, and what the task calls a good game
    ERROR = "error"  # the standard error of the score
    OUTCOME = "outcome"  # a mean over episodes, of a number that the task names
    CAUSE = "cause"  # the share of the episodes that ended in this way; an episode ends in one way at most
    PHASE = "phase"  # the time of one phase
    TOTAL = "total"  # the time of all phases
    OTHER = "other"  # unknown: a series of numbers


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: ColumnKind
    unit: str = ""
    about: str = ""

    @property
    def label(self) -> str:
        """The name in charts."""
        return self.about or self.name

    def to_json(self) -> dict[str, str]:
        """The column as plain data."""
        return {"name": self.name, "kind": str(self.kind), "unit": self.unit, "about": self.about}


STEP = Column("step", ColumnKind.COUNTER, "transitions", "transitions since the start")
UPDATES = Column("updates", ColumnKind.COUNTER, "updates", "gradient steps since the start")
EPISODES = Column("episodes", ColumnKind.COUNTER, "episodes", "episodes since the start")
SECONDS = Column("seconds", ColumnKind.COUNTER, "s", "training time since the start")
STEPS_PER_SECOND = Column("steps_per_second", ColumnKind.RATE, "transitions/s", "throughput of the window")
RATIO = Column("ratio", ColumnKind.COUNTER, "updates per transition", "train ratio since the start")
EPS = Column("eps", ColumnKind.SETTING, "", "ε, mean over the boards")
LR = Column("lr", ColumnKind.SETTING, "", "learning rate")
LOSS = Column("loss", ColumnKind.MEAN, "", "loss")
Q = Column("q", ColumnKind.MEAN, "", "mean Q-value of a batch")
GRAD_NORM = Column("grad_norm", ColumnKind.MEAN, "", "norm of the gradient before it is clipped")
WINDOW_EPISODES = Column("window_episodes", ColumnKind.COUNT, "episodes", "episodes that ended in the window")
RETURN = Column("return", ColumnKind.EPISODE, "", "mean return of an episode")
LENGTH = Column("length", ColumnKind.EPISODE, "steps", "mean length of an episode")
SCORE = Column("score", ColumnKind.SCORE, "", "mean score of an episode")
MEMORY_MB = Column("memory_mb", ColumnKind.MEMORY, "MB", "memory in use")
GPU_PERCENT = Column("gpu_percent", ColumnKind.MEAN, "%", "time in which the GPU was busy")
POLICY_LAG = Column("policy_lag", ColumnKind.MEAN, "updates", "gradient steps between acting and learning")
LONGEST_LAG = Column("longest_lag", ColumnKind.MEAN, "updates", "the longest policy lag of the window")
US_TOTAL = Column("us_total", ColumnKind.TOTAL, "µs per transition", "training time")

GAMES = Column("episodes", ColumnKind.COUNT, "games", "games that ended")
UNFINISHED = Column("unfinished", ColumnKind.COUNT, "games", "games that were cut off")
MEAN_SCORE = Column("mean_score", ColumnKind.SCORE, "", "mean score of a game")
SCORE_ERROR = Column("score_error", ColumnKind.ERROR, "", "standard error of the mean score")
MEAN_RETURN = Column("mean_return", ColumnKind.EPISODE, "", "mean return of a game")
MEAN_LENGTH = Column("mean_length", ColumnKind.EPISODE, "steps", "mean length of a game")

#: What a step of the loop consists of; a CUDA graph is timed as a whole.
PHASES = ("act", "step", "append", "sample", "update")
GRAPHS = ("collect", "learn", "iterate")
PHASE_PREFIX = "us_"
PHASE_ABOUT = {
    "act": "choosing actions",
    "step": "the games",
    "append": "storing transitions",
    "sample": "drawing batches",
    "update": "gradient steps",
    "collect": "act, step and append, as one CUDA graph",
    "learn": "sample and update, as CUDA graphs",
    "iterate": "all of them, several times, as one CUDA graph",
}


def make_phase_column(phase: str) -> Column:
    """The column that holds the time of a phase."""
    return Column(f"{PHASE_PREFIX}{phase}", ColumnKind.PHASE, "µs per transition", PHASE_ABOUT.get(phase, ""))


#: Before the task's outcomes and after them, in the order of the file.
METRICS_HEAD = (
    STEP, UPDATES, EPISODES, SECONDS, STEPS_PER_SECOND, RATIO, EPS, LR, LOSS, Q, GRAD_NORM, WINDOW_EPISODES,
    RETURN, LENGTH,
)  # fmt: skip
METRICS_TAIL = (*map(make_phase_column, (*PHASES, *GRAPHS)), MEMORY_MB, US_TOTAL)
EVALUATION_HEAD = (STEP, GAMES, UNFINISHED, MEAN_SCORE, SCORE_ERROR, MEAN_RETURN, MEAN_LENGTH)

#: Where workers collect by themselves.
COLLECTORS = (POLICY_LAG, LONGEST_LAG)
#: Every column that is the same in all runs; a task has a score or not, and so does a GPU its use.
METRICS = (*METRICS_HEAD, SCORE, *METRICS_TAIL, GPU_PERCENT, *COLLECTORS)
EVALUATIONS = EVALUATION_HEAD
#: Names that a task's outcomes cannot have.
RESERVED = frozenset(column.name for column in (*METRICS, *EVALUATIONS)) - {SCORE.name}


@dataclass(frozen=True)
class Columns:
    """The columns of one table, in the order of the file."""

    all: tuple[Column, ...]

    def find(self, name: str) -> Column:
        """The column with this name; of kind `OTHER` if it is unknown."""
        return next((column for column in self.all if column.name == name), Column(name, ColumnKind.OTHER))

    def of_kind(self, *kinds: ColumnKind) -> list[Column]:
        """All columns of these kinds."""
        return [column for column in self.all if column.kind in kinds]

    def to_json(self) -> list[dict[str, str]]:
        """The columns as plain data."""
        return [column.to_json() for column in self.all]


def make_metrics_columns(
    outcomes: Sequence[str], causes: Sequence[str], gpu: bool = False, collectors: bool = False
) -> Columns:
    """The columns of metrics.csv, for a task with these outcomes; with or without the use of a GPU, and the lag of
    workers that collect by themselves."""
    tail = (*METRICS_TAIL, *((GPU_PERCENT,) * gpu), *(COLLECTORS * collectors))
    return Columns((*METRICS_HEAD, *_make_outcome_columns(outcomes, causes), *tail))


def make_evaluation_columns(outcomes: Sequence[str], causes: Sequence[str]) -> Columns:
    """The columns of evaluations.csv, for a task with these outcomes."""
    own = [column for column in _make_outcome_columns(outcomes, causes) if column != SCORE]
    return Columns((*EVALUATION_HEAD, *own))


def _make_outcome_columns(outcomes: Sequence[str], causes: Sequence[str]) -> list[Column]:
    found = []
    for name in outcomes:
        cause = Column(name, ColumnKind.CAUSE, "share of the episodes")
        found.append(
            SCORE if name == SCORE.name else cause if name in causes else Column(name, ColumnKind.OUTCOME)
        )
    return found


def parse_columns(data: Any) -> Columns:
    """Read what `Columns.to_json` gave, or raise ValueError; a kind from a later version becomes `OTHER`."""
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        raise ValueError("columns are a list of objects")
    kinds = {str(kind): kind for kind in ColumnKind}
    return Columns(
        tuple(
            Column(
                str(one.get("name", "")),
                kinds.get(str(one.get("kind")), ColumnKind.OTHER),
                str(one.get("unit", "")),
                str(one.get("about", "")),
            )
            for one in data
        )
    )


def complete_columns(names: Sequence[str], recorded: Columns, fixed: Sequence[Column]) -> Columns:
    """The columns that a file has: the fixed ones, and the others as the run recorded them."""
    known = {column.name: column for column in (*recorded.all, *fixed)}
    return Columns(tuple(known.get(name, Column(name, ColumnKind.OTHER)) for name in names))


def infer_columns(values: Mapping[str, Sequence[float]], fixed: Sequence[Column]) -> Columns:
    """The columns of a run of 0.1.0.dev0, which recorded no kinds.

    A column that is neither fixed nor a time is an outcome; if the outcomes sum to 1 in every row, they are causes.
    """
    known = {column.name: column for column in fixed}
    outcomes = [name for name in values if name not in known and not name.startswith(PHASE_PREFIX)]
    totals = [sum(row) for row in zip(*(values[name] for name in outcomes), strict=True)]
    finite = [total for total in totals if math.isfinite(total)]
    kind = (
        ColumnKind.CAUSE if finite and all(abs(total - 1) < 1e-3 for total in finite) else ColumnKind.OUTCOME
    )
    own = {name: Column(name, kind) for name in outcomes}
    return Columns(
        tuple(
            known.get(name) or own.get(name) or make_phase_column(name.removeprefix(PHASE_PREFIX))
            for name in values
        )
    )
