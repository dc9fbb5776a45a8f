"""Expressions in a loop over rows that take one row out of a tensor: `x[i].item()`, `x[i].cpu().numpy()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from flashdqn.doctor.fixes.script_text import is_pure, same_expression

CHAINS = {
    ("item",): (False, ".tolist()"),
    ("tolist",): (False, ".tolist()"),
    ("numpy",): (True, ".numpy()"),
    ("cpu", "numpy"): (True, ".cpu().numpy()"),
    ("detach", "numpy"): (True, ".detach().numpy()"),
    ("detach", "cpu", "numpy"): (True, ".detach().cpu().numpy()"),
    ("cpu", "detach", "numpy"): (True, ".detach().cpu().numpy()"),
    ("detach", "item"): (False, ".tolist()"),
    ("cpu", "item"): (False, ".tolist()"),
}
"""Methods after `x[i]`, whether they make an array, and the same for all rows at once."""
WRAPPERS = ("int", "float", "bool")


@dataclass(frozen=True)
class RowRead:
    """`rows[i]` with what takes it out of the tensor."""

    node: ast.expr
    rows: ast.expr
    as_array: bool
    whole: str
    """What takes all rows out at once, after the tensor's name."""
    wrapper: str = ""
    """`int` where the source says int(x[i])."""

    def rewrite(self, row: str) -> str:
        """The same value from what was taken out before the loop."""
        return f"{self.wrapper}({row})" if self.wrapper else row


def find_row_reads(loop: ast.For) -> list[RowRead]:
    """All of them in a loop's body, the outermost expression of each."""
    found: list[RowRead] = []
    assert isinstance(loop.target, ast.Name)
    for statement in loop.body:
        found += collect_reads(statement, loop.target.id)
    return found


def collect_reads(node: ast.AST, index: str) -> Iterator[RowRead]:
    """Row reads in a node, without those inside another."""
    read = read_chain(node, index)
    if read is not None:
        yield read
        return
    for child in ast.iter_child_nodes(node):
        yield from collect_reads(child, index)


def read_chain(node: ast.AST, index: str) -> RowRead | None:
    """A node as a row read, or None."""
    match node:
        case ast.Call(func=ast.Name(id=wrapper), args=[ast.Subscript() as row], keywords=[]) if (
            wrapper in WRAPPERS
        ):
            rows = get_rows(row, index)
            return None if rows is None else RowRead(node, rows, False, ".tolist()", wrapper)
    methods: list[str] = []
    inner: ast.AST = node
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.args or inner.keywords:
            return None
        methods.insert(0, inner.func.attr)
        inner = inner.func.value
    rows = get_rows(inner, index) if isinstance(inner, ast.Subscript) else None
    known = CHAINS.get(tuple(methods))
    if rows is None or known is None:
        return None
    assert isinstance(node, ast.expr)
    return RowRead(node, rows, *known)


def get_rows(row: ast.Subscript, index: str) -> ast.expr | None:
    """`x` of x[i], where x is a plain name."""
    plain = isinstance(row.slice, ast.Name) and row.slice.id == index
    return (
        row.value
        if plain and isinstance(row.value, ast.Name | ast.Attribute) and is_pure(row.value)
        else None
    )


def is_changed_in(loop: ast.For, rows: ast.expr) -> bool:
    """Whether the loop's body assigns to the tensor or to a part of it."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value if isinstance(node, ast.Subscript) else node
            if same_expression(target, rows):
                return True
    return False
