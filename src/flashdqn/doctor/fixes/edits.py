"""Changes of a text at exact places: what a parsed node covers is replaced, and nothing else is touched."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class OverlapError(ValueError):
    """Two edits want the same place."""


@dataclass(frozen=True, order=True)
class Edit:
    """Characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str

    @staticmethod
    def of_node(source: str, node: ast.AST, text: str) -> Edit:
        """Replace a node."""
        start, end = locate_node(source, node)
        return Edit(start, end, text)

    @staticmethod
    def before_line(source: str, line: int, text: str) -> Edit:
        """Insert whole lines before a line."""
        place = find_line_starts(source)[line - 1]
        return Edit(place, place, text)

    @staticmethod
    def after_line(source: str, line: int, text: str) -> Edit:
        """Insert whole lines after a line."""
        starts = find_line_starts(source)
        if line < len(starts):
            return Edit(starts[line], starts[line], text)
        ending = "" if source.endswith("\n") else "\n"
        return Edit(len(source), len(source), ending + text)


def find_line_starts(source: str) -> list[int]:
    """Where each line begins."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def locate_node(source: str, node: ast.AST) -> tuple[int, int]:
    """Where a node begins and ends in the text. Python counts columns in bytes."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    starts = find_line_starts(source)
    lines = source.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    return place(first, getattr(node, "col_offset", 0)), place(last, getattr(node, "end_col_offset", 0) or 0)


def read_node(source: str, node: ast.AST) -> str:
    """The text of a node."""
    start, end = locate_node(source, node)
    return source[start:end]


def read_indent(source: str, node: ast.AST) -> str:
    """The white space before a statement."""
    line = source.splitlines()[getattr(node, "lineno", 1) - 1]
    return line[: len(line) - len(line.lstrip())]


def apply_edits(source: str, edits: Iterable[Edit]) -> str:
    """The text with all edits; OverlapError if two of them want the same place."""
    ordered = sorted(set(edits))
    result, at = [], 0
    for edit in ordered:
        if edit.start < at:
            raise OverlapError("two edits overlap")
        result.append(source[at : edit.start])
        result.append(edit.text)
        at = edit.end
    return "".join([*result, source[at:]])


def make_diff(path: Path, before: str, after: str, root: Path) -> str:
    """A unified diff that `patch -p1` applies in `root`, or `git apply`."""
    try:
        name = path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        name = path.resolve().as_posix().lstrip("/")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
