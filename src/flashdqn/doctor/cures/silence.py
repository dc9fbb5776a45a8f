"""Take the hot prints out of a script's source, so that their texts are not made either."""

from __future__ import annotations

import ast
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.fixes.edits import Edit, apply_edits
from flashdqn.doctor.watch.kinds import EventKind
from flashdqn.doctor.watch.schema import WatchRecord

HOT = 50
"""Prints from fewer calls cost nothing."""


def remove_prints(record: WatchRecord) -> dict[str, str]:
    """New texts of the files whose hot print statements can be left out safely, by path."""
    lines: dict[str, set[int]] = {}
    for site in record.kinds(EventKind.PRINT):
        if site.count >= HOT:
            lines.setdefault(site.file, set()).add(site.line)
    texts = {}
    for file, hot in lines.items():
        module = source.parse_file(file)
        if module is None or "site-packages" in file:
            continue
        text = Path(file).read_text(encoding="utf-8")
        edits = [
            Edit.of_node(text, node, "pass")
            for node in ast.walk(module)
            if is_plain_print(node) and any(source.covers_line(node, line) for line in hot)
        ]
        if edits:
            texts[file] = apply_edits(text, edits)
    return texts


def is_plain_print(node: ast.AST) -> bool:
    """Whether a statement only prints: what it formats changes nothing, as far as its source can say."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "print"
        and not any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in ast.walk(node))
        and all(is_harmless(part) for part in ast.walk(node) if isinstance(part, ast.Call))
    )


def is_harmless(call: ast.Call) -> bool:
    """Calls that are known to change nothing."""
    harmless = {"print", "len", "sum", "min", "max", "round", "abs", "mean", "std", "item", "tolist", "str"}
    harmless |= {"float", "int", "format", "join", "time", "perf_counter", "repr", "numpy", "cpu", "detach"}
    return source.get_called_name(call) in harmless
