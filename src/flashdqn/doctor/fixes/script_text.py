"""A script's text and its parsed form together, and the small questions that every patch asks of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.fixes.edits import Edit, find_line_starts, read_indent, read_node

Loop = ast.For | ast.While
Simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


@dataclass(frozen=True)
class ScriptText:
    """One source file of the user's own."""

    file: str
    text: str
    module: ast.Module

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that each node is a part of."""
        return {child: node for node in ast.walk(self.module) for child in ast.iter_child_nodes(node)}

    def read(self, node: ast.AST) -> str:
        """A node's own text."""
        return read_node(self.text, node)

    def indent(self, node: ast.AST) -> str:
        """The white space before a statement."""
        return read_indent(self.text, node)

    def replace(self, node: ast.AST, text: str) -> Edit:
        """An edit that replaces a node."""
        return Edit.of_node(self.text, node, text)

    def find_statement(self, line: int) -> ast.stmt | None:
        """The simple statement at a line, if it has its lines for itself."""
        found = [n for n in ast.walk(self.module) if isinstance(n, Simple) and source.covers_line(n, line)]
        if len(found) != 1 or not self.stands_alone(found[0]):
            return None
        return found[0]

    def stands_alone(self, node: ast.stmt) -> bool:
        """Whether nothing else stands on a statement's lines (a comment may), and no text runs over lines."""
        first = self.text.splitlines()[node.lineno - 1]
        if len(first.encode()[: node.col_offset].strip()):
            return False
        last = self.text.splitlines()[(node.end_lineno or node.lineno) - 1]
        rest = last.encode()[node.end_col_offset or 0 :].decode().strip()
        runs_over = any(
            isinstance(part, ast.Constant | ast.JoinedStr) and part.end_lineno != part.lineno
            for part in ast.walk(node)
        )
        return (not rest or rest.startswith("#")) and not runs_over

    def find_block(self, node: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement is in."""
        for body in source.iterate_bodies(self.parents[node]):
            if node in body:
                return body
        return [node]

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def find_scope(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        return next((n for n in self.enclosing(node) if isinstance(n, kinds)), self.module)

    def find_loops(self, node: ast.AST) -> list[Loop]:
        """The loops around a node within its function, the innermost first."""
        loops: list[Loop] = []
        for outer in self.enclosing(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                break
            if isinstance(outer, Loop):
                loops.append(outer)
        return loops

    def wrap(self, statements: list[ast.stmt], head: str) -> list[Edit]:
        """Put statements that follow one another into a block: `head` above them, and one indent more."""
        indent = self.indent(statements[0])
        starts = find_line_starts(self.text)
        first, last = statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno
        edits = [Edit(starts[first - 1], starts[first - 1], f"{indent}{head}\n{self.unit}")]
        edits += [
            Edit(starts[line - 1], starts[line - 1], self.unit)
            for line in range(first + 1, last + 1)
            if self.text[starts[line - 1] :].split("\n", 1)[0].strip()
        ]
        return edits

    @cached_property
    def unit(self) -> str:
        """One step of indentation, as this file has it."""
        for node in ast.walk(self.module):
            if isinstance(node, ast.FunctionDef | ast.For | ast.If | ast.With | ast.While | ast.ClassDef):
                inner, outer = read_indent(self.text, node.body[0]), read_indent(self.text, node)
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    def imports(self, name: str) -> bool:
        """Whether the module imports `name` under that name, at its top level."""
        return any(
            alias.asname == name or (alias.asname is None and alias.name == name)
            for node in self.module.body
            if isinstance(node, ast.Import)
            for alias in node.names
        )

    def insert_after_imports(self, lines: str) -> Edit | None:
        """Whole lines after the first imports; None if the file begins otherwise."""
        last = None
        for node in self.module.body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.Import | ast.ImportFrom):
                last = node
            elif not is_text and last is not None:
                break
        if last is None:
            return None
        return Edit.after_line(self.text, last.end_lineno or last.lineno, lines)


def open_script(file: str) -> ScriptText | None:
    """A file that a patch may change; None for libraries, and for what cannot be read."""
    if any(f"/{folder}/" in file for folder in ("site-packages", "dist-packages", "lib/python3")):
        return None
    try:
        text = Path(file).read_bytes().decode("utf-8")
        module = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return None
    return None if "\r" in text or "\f" in text else ScriptText(file, text, module)


def find_counter(script: ScriptText, loop: Loop) -> str | None:
    """A name that counts a loop's turns: of `for i in range(…)`, or one that the loop's own body adds 1 to."""
    if isinstance(loop, ast.For):
        call = loop.iter
        counts = isinstance(call, ast.Call) and source.get_called_name(call) in ("range", "count", "trange")
        if counts and isinstance(loop.target, ast.Name):
            return loop.target.id if loop.target.id != "_" else None
        numbered = isinstance(call, ast.Call) and source.get_called_name(call) == "enumerate"
        if numbered and isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
            return loop.target.elts[0].id
        if isinstance(call, ast.Call) and source.get_called_name(call) == "tqdm" and call.args:
            inner = call.args[0]
            if isinstance(inner, ast.Call) and source.get_called_name(inner) == "range":
                return loop.target.id if isinstance(loop.target, ast.Name) and loop.target.id != "_" else None
    for node in loop.body:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
        ):
            return node.target.id
    return None


def names_in(node: ast.AST) -> set[str]:
    """All plain names in a node."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def same_expression(one: ast.AST, other: ast.AST) -> bool:
    """Whether two expressions are written the same."""
    return ast.dump(strip_context(one)) == ast.dump(strip_context(other))


def strip_context(node: ast.AST) -> ast.AST:
    """The same expression, read and not written."""
    copy = ast.parse(ast.unparse(node), mode="eval") if not isinstance(node, ast.stmt) else node
    return copy


def is_pure(node: ast.AST) -> bool:
    """Whether an expression only reads names, attributes and numbers."""
    allowed = (
        ast.Name,
        ast.Attribute,
        ast.Constant,
        ast.Load,
        ast.BinOp,
        ast.UnaryOp,
        ast.operator,
        ast.unaryop,
    )
    return all(isinstance(part, allowed) for part in ast.walk(node))
