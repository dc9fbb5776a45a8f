"""What a user's code raised, as text for one sentence: its kind, a short message, and where.

Everything counts, also `SystemExit` and a `KeyboardInterrupt` that no signal caused. A true Ctrl-C and our own
errors pass as they are.
"""

from __future__ import annotations

import opcode
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from flashdqn.core.errors import EnvFailureError, FlashDQNError
from flashdqn.core.text import clean_line

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
#: Where Python and its packages lie: a user's own file is a better place to name.
INSTALLED = tuple({str(Path(path)) for path in sysconfig.get_paths().values()} | {sys.prefix, "<frozen"})
#: Longer messages are cut.
MOST_LETTERS = 300
RAISE = opcode.opmap["RAISE_VARARGS"]

T = TypeVar("T")


class Failure(NamedTuple):
    """An error as plain text: the error itself may hold anything, and may not be picklable.

    Of our own errors only the message is there: it is a whole sentence.
    """

    kind: str
    message: str
    where: str

    @property
    def reason(self) -> str:
        """Kind and message."""
        return f"{self.kind}: {self.message}" if self.message else self.kind

    def __str__(self) -> str:
        return f"{self.reason} (in {self.where})."


def describe_failure(error: BaseException) -> Failure:
    """What was raised, and where; this itself raises nothing."""
    if is_kind(error, FlashDQNError):
        return Failure("", str(error), "")
    return Failure(type(error).__name__, read_message(error), find_place(error.__traceback__))


def read_message(error: BaseException) -> str:
    """The message in one short line that any terminal can show."""
    try:
        text = str(error)
    except BaseException as problem:  # the user's own code
        if belongs_to_us(problem):
            raise
        return "(its message cannot be read)"
    return clean_line(text, MOST_LETTERS)


def find_place(trace: TracebackType | None) -> str:
    """File and line: the innermost of the user's own files, else the innermost of all."""
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(trace)
        if not frame.f_code.co_filename.startswith(PACKAGE)
    ]
    if not places:
        return "compiled code"
    own = [place for place in places if not place[0].startswith(INSTALLED)]
    file, line = (own or places)[-1]
    return f"{clean_line(file, MOST_LETTERS)}, line {line}"


def is_kind(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Like `isinstance`, which asks `error.__class__` too: that may be the user's own code."""
    return issubclass(type(error), kinds)


def belongs_to_us(error: BaseException) -> bool:
    """Whether an error is not the user's code's: our own, or a Ctrl-C."""
    if is_kind(error, FlashDQNError):
        return True
    return not is_kind(error, Exception, GeneratorExit) and came_from_signal(error)


def came_from_signal(error: BaseException | None) -> bool:
    """Whether a signal caused an error, or one before it.

    A handler of ours raises in our own code. Python's own handler for Ctrl-C raises between two instructions, and
    not by a `raise`.
    """
    while error is not None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            code = trace.tb_frame.f_code
            raised = code.co_code[trace.tb_lasti : trace.tb_lasti + 1] == bytes([RAISE])
            ours = code.co_filename.startswith(PACKAGE)
            if is_kind(error, KeyboardInterrupt) and (ours or not raised):
                return True
        error = error.__context__
    return False


def call_user_code(call: Callable[[], T], complain: Callable[[Failure], FlashDQNError]) -> T:
    """Call it; whatever it raises becomes the error that `complain` makes."""
    try:
        return call()
    except BaseException as error:
        if belongs_to_us(error):
            raise
        raise complain(describe_failure(error)) from error


def env_error(name: str, doing: str, failure: Failure) -> EnvFailureError:
    """The error for an environment that failed while doing something."""
    if not failure.kind:
        return EnvFailureError(failure.message)
    return EnvFailureError(f"{name} {PHRASES.get(doing, 'raised')} {failure}")


#: How an error's sentence goes on after the name of the environment.
PHRASES = {
    "make": "cannot be made:",
    "import": "cannot be imported:",
    "close": "cannot be closed:",
    "render": "cannot draw itself:",
}
