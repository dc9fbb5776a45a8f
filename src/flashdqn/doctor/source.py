"""Read a script's source: its lines, and the loops, functions and blocks around a line."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator

Loop = ast.For | ast.While | ast.AsyncFor
Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = (
    ast.For | ast.While | ast.If | ast.With | ast.Try | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
)


@functools.lru_cache(maxsize=512)
def parse_file(file: str) -> ast.Module | None:
    """The parsed file, or None where it cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def read_line(file: str, line: int) -> str:
    """A line of a file, stripped; empty if there is no such line."""
    return linecache.getline(file, line).strip()


def read_lines_around(file: str, line: int, reach: int = 3) -> tuple[tuple[int, str], ...]:
    """The lines around a line, with their numbers."""
    lines = linecache.getlines(file)
    first, last = max(1, line - reach), min(len(lines), line + reach)
    return tuple((number, lines[number - 1].rstrip("\n")) for number in range(first, last + 1))


@functools.lru_cache(maxsize=4096)
def find_enclosing_nodes(file: str, line: int) -> tuple[ast.AST, ...]:
    """Statements and comprehensions that contain a line, the innermost last."""
    module = parse_file(file)
    if module is None:
        return ()
    found = [node for node in ast.walk(module) if covers_line(node, line)]
    return tuple(sorted(found, key=lambda node: (first_line_number(node), -last_line_number(node))))


def covers_line(node: ast.AST, line: int) -> bool:
    """Whether a node contains a line."""
    return hasattr(node, "lineno") and first_line_number(node) <= line <= last_line_number(node)


def first_line_number(node: ast.AST) -> int:
    """The node's first line; 0 if it has none."""
    return int(getattr(node, "lineno", 0))


def last_line_number(node: ast.AST) -> int:
    """The node's last line; its first line if the last is not known."""
    return int(getattr(node, "end_lineno", None) or first_line_number(node))


def find_loops(file: str, line: int) -> list[Loop]:
    """The loops around a line within its own function, the innermost last."""
    return [node for node in find_nodes_in_function(file, line) if isinstance(node, Loop)]


def find_nodes_in_function(file: str, line: int) -> list[ast.AST]:
    """The nodes that enclose a line, from its function (or class, or module) inward."""
    chain = list(find_enclosing_nodes(file, line))
    starts = [
        i for i, node in enumerate(chain) if isinstance(node, Function) and first_line_number(node) != line
    ]
    return chain[starts[-1] + 1 :] if starts else chain


def find_function(file: str, line: int) -> Function | None:
    """The function that a line belongs to."""
    found = [node for node in find_enclosing_nodes(file, line) if isinstance(node, Function)]
    return found[-1] if found else None


def find_statement_lines(file: str, line: int) -> tuple[int, int]:
    """First and last line of the simple statement that a line belongs to."""
    simple = [
        node
        for node in find_enclosing_nodes(file, line)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
    ]
    return (first_line_number(simple[-1]), last_line_number(simple[-1])) if simple else (line, line)


def find_common_block(file: str, lines: list[int]) -> tuple[int, int] | None:
    """The smallest block of statements that contains all of these lines."""
    module = parse_file(file)
    if module is None or not lines:
        return None
    best: tuple[int, int] | None = None
    for node in ast.walk(module):
        for body in iterate_bodies(node):
            first, last = first_line_number(body[0]), last_line_number(body[-1])
            if (
                first <= min(lines)
                and max(lines) <= last
                and (best is None or last - first < best[1] - best[0])
            ):
                best = first, last
    return best


def iterate_bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a node."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body:
            yield body


def iterate_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Every call in a node, in no particular order."""
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


def get_called_name(call: ast.Call) -> str:
    """`tensor` for torch.tensor(…), `append` for x.y.append(…)."""
    target = call.func
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""
