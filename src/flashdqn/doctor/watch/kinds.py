"""The words of a record: the phases of a training, what is counted, how a script ended, whose code a frame runs.

Shared by the watch, which writes them, and the doctor, which reads them; see `schema.py`.
"""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):  # noqa: UP042 (StrEnum begins with Python 3.11, and the script may have an older one)
    """Members are their own text: in JSON, as keys and in sentences."""

    def __str__(self) -> str:
        return str(self.value)


class Phase(Word):
    """What a script does with its time."""

    ENVIRONMENT = "environment"
    ACTING = "acting"
    REPLAY = "replay"
    LOADING = "loading"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    DATA_MOVEMENT = "data movement"
    LEARNING_REST = "learning (rest)"
    PRINTING = "printing"
    LOGGING = "logging"
    COMPILATION = "compilation"
    WAITING = "waiting"
    START_UP = "start-up"
    PYTHON_REST = "python (rest)"


class EventKind(Word):
    """What is counted line by line."""

    ITEM = "item"
    TOLIST = "tolist"
    CPU = "cpu"
    NUMPY = "numpy"
    TO = "to"
    CUDA = "cuda"
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    PRINT = "print"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    ENV_STEP = "env step"


class Ending(Word):
    """How a script ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """Its time was up."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"
    """It ended without warning."""
    MISSING = "missing"
    """There is no such module to run."""


class Owner(Word):
    """Whose code a frame runs."""

    SCRIPT = "script"
    PLUMBING = "plumbing"
    """Libraries whose own lines say nothing about what is wrong."""
    WATCH = "watch"


#: Values taken out of tensors by a method that the source names, and tensors moved.
NAMED_COPIES = (
    *(EventKind.ITEM, EventKind.TOLIST, EventKind.CPU, EventKind.NUMPY),
    *(EventKind.TO, EventKind.CUDA),
)
#: Conversions without a method's name in the source: `if tensor`, `int(tensor)`.
IMPLICIT_COPIES = (EventKind.BOOL, EventKind.INT, EventKind.FLOAT)
COPIES = NAMED_COPIES + IMPLICIT_COPIES
