"""Which lines a look may stand for.

Python handles a signal only at certain instructions: after a call, at a jump back, at a function's start. A look
that was asked for during `c = a @ b` happens at the next of these, perhaps some lines below. So a look stands
for the whole stretch of instructions since the one before, and of these only some can take long: operators,
subscripts,
comparisons, `in`, and the call itself. If they are all on one line, that is the line; otherwise it is a range.
"""

from __future__ import annotations

import dis
import sys
from collections import deque
from types import CodeType

CHECKS = (
    "RESUME",
    "JUMP_BACKWARD",
    "CALL",
    "CALL_FUNCTION_EX",
    "CALL_KW",
    "PRECALL",
    "JUMP_BACKWARD_NO_INTERRUPT",
)
"""Where signals are handled, from Python 3.11 on; before, almost everywhere."""
CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")
HEAVY = {
    *("BINARY_OP", "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "BINARY_SLICE", "STORE_SLICE"),
    *("COMPARE_OP", "CONTAINS_OP", "FOR_ITER", "GET_ITER", "LIST_EXTEND", "DICT_UPDATE", "SET_UPDATE"),
    *("UNPACK_SEQUENCE", "UNPACK_EX", "FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING", "UNARY_NEGATIVE"),
    *("UNARY_INVERT", "LIST_TO_TUPLE", "IMPORT_NAME"),
}  # fmt: skip
SILENT = {"len", "isinstance", "type", "append"}
"""Calls of these are done by instructions of their own, which do not look for signals."""
LATEST_START = 32
"""A function's first instructions make its cells and its generator; then it resumes."""
RANGES = sys.version_info >= (3, 11)

_instructions: dict[CodeType, list[tuple[int, str, int]]] = {}


def find_lines(code: CodeType, instruction: int, line: int) -> tuple[int, int]:
    """The first and the last line that a look at this instruction may stand for."""
    if not RANGES:
        return line, line
    known = read_instructions(code)
    at = next((i for i in reversed(range(len(known))) if known[i][0] <= instruction), None)
    if at is None:
        return line, line
    lines = [known[at][2]] if known[at][1] in CALLS or known[at][1] in HEAVY else []
    for _, name, number in reversed(known[:at]):
        if name == "PRECALL":
            continue
        if name in CHECKS:
            break
        if name in HEAVY:
            lines.append(number)
    found = [number for number in lines if number > 0]
    return (min(found), max(found)) if found else (line, line)


def find_lines_before_call(code: CodeType, instruction: int) -> tuple[int, int] | None:
    """The lines of the operations since the last check before a call, without the call; None if there are none.
    A look at the very start of the called function stands for them: it was asked for before."""
    known = read_instructions(code)
    at = next((i for i in reversed(range(len(known))) if known[i][0] <= instruction), None)
    if at is None or not RANGES:
        return None
    lines = []
    for _, name, number in reversed(known[:at]):
        if name in CHECKS and name != "PRECALL":
            break
        if name in HEAVY:
            lines.append(number)
    return (min(lines), max(lines)) if lines else None


def is_at_start(code: CodeType, instruction: int) -> bool:
    """Whether a function has only begun."""
    return RANGES and instruction < LATEST_START and code.co_code[instruction] == dis.opmap["RESUME"]


def read_instructions(code: CodeType) -> list[tuple[int, str, int]]:
    """Offset, name and line of each instruction."""
    known = _instructions.get(code)
    if known is None:
        line, known = code.co_firstlineno, []
        loaded: deque[str] = deque(maxlen=6)
        for part in dis.get_instructions(code):
            number = part.positions.lineno if part.positions is not None else None
            line = number or line
            silent = part.opname in CALLS and not SILENT.isdisjoint(loaded)
            known.append((part.offset, "SILENT_CALL" if silent else part.opname, line))
            if part.opname.startswith("LOAD_") and isinstance(part.argval, str):
                loaded.append(part.argval)
            elif part.opname in CALLS:
                loaded.clear()
        _instructions[code] = known
    return known
