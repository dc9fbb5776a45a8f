"""A loop over rows that fills a tensor one element at a time: the same expression for all rows at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.fixers.row_copies import find_row_loop
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, is_pure, names_in, open_script, same_expression
from flashdqn.doctor.report.contents import Finding

#: A method of a row, and the same for all rows; True: sums, which may round in another order.
REDUCTIONS = {
    "max": (".amax(1)", False),
    "amax": (".amax(1)", False),
    "min": (".amin(1)", False),
    "amin": (".amin(1)", False),
    "argmax": (".argmax(1)", False),
    "sum": (".sum(1)", True),
    "mean": (".mean(1)", True),
}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


class NoFitError(Exception):
    """An expression that has no form for all rows."""


@fixes("row-loop")
def fix_row_loop(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`for j in range(n): y[j] = f(a[j], b[j])` becomes `y[:n] = f(a[:n], b[:n])`."""
    script = open_script(finding.file)
    loop = find_row_loop(script, finding.line) if script is not None else None
    if script is None or loop is None or loop.orelse:
        return
    try:
        writer = RowWriter(script, loop)
        text = writer.write()
    except NoFitError:
        return
    yield Patch(
        name="all-rows-at-once",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(script.replace(loop, text),),
        what="one expression for all rows",
        changes="sums in another order: rounding" if writer.rounds else "",
    )


class RowWriter:
    """Writes a loop's only assignment for all rows."""

    def __init__(self, script: ScriptText, loop: ast.For) -> None:
        self.script = script
        self.loop = loop
        self.rounds = False
        assert isinstance(loop.target, ast.Name)
        self.index = loop.target.id
        assert isinstance(loop.iter, ast.Call)
        if len(loop.iter.args) != 1 or not (is_pure(loop.iter.args[0]) or is_length(loop.iter.args[0])):
            raise NoFitError
        self.count = script.read(loop.iter.args[0])

    def write(self) -> str:
        """The whole statement."""
        match self.loop.body:
            case [ast.Assign(targets=[ast.Subscript() as target], value=value)]:
                pass
            case [
                ast.If(
                    test=test,
                    body=[ast.Assign(targets=[ast.Subscript() as target], value=one)],
                    orelse=[ast.Assign(targets=[ast.Subscript() as again], value=other)],
                )
            ] if same_expression(target, again):
                value = ast.IfExp(test=test, body=one, orelse=other)
            case _:
                raise NoFitError
        if names_in(value) & names_in(target.value) - {"self"} or not self.is_row(target):
            raise NoFitError
        return f"{self.script.read(target.value)}[:{self.count}] = {self.convert(value)}"

    def is_row(self, node: ast.AST) -> bool:
        """Whether this is x[j] of a plain x."""
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Name)
            and node.slice.id == self.index
            and isinstance(node.value, ast.Name | ast.Attribute)
            and is_pure(node.value)
        )

    def convert(self, node: ast.expr) -> str:
        """An expression of one row, for all rows."""
        if self.index not in names_in(node):
            if not is_pure(node):
                raise NoFitError
            return self.script.read(node)
        match node:
            case ast.Subscript(value=rows) if self.is_row(node):
                return f"{self.script.read(rows)}[:{self.count}]"
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, OPERATORS):
                return f"{self.inner(left)} {self.symbol(operator)} {self.inner(right)}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self.inner(operand)}"
            case ast.Call(func=ast.Attribute(attr="item", value=row), args=[], keywords=[]) if self.is_row(
                row
            ):
                return self.convert(row)
            case ast.Call(func=ast.Attribute(attr=name, value=row), args=[], keywords=[]) if (
                name in REDUCTIONS and self.is_row(row)
            ):
                method, rounds = REDUCTIONS[name]
                self.rounds = self.rounds or rounds
                return f"{self.convert(row)}{method}"
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[row], keywords=[]
            ) if name in REDUCTIONS and self.is_row(row):
                method, rounds = REDUCTIONS[name]
                self.rounds = self.rounds or rounds
                return f"{self.convert(row)}{method}"
            case ast.IfExp(test=test, body=body, orelse=orelse) if self.is_row(test):
                return (
                    f"torch.where({self.convert(test)}.bool(), {self.convert(body)}, {self.convert(orelse)})"
                )
            case ast.IfExp(test=ast.UnaryOp(op=ast.Not(), operand=test), body=body, orelse=orelse) if (
                self.is_row(test)
            ):
                return (
                    f"torch.where({self.convert(test)}.bool(), {self.convert(orelse)}, {self.convert(body)})"
                )
        raise NoFitError

    def inner(self, node: ast.expr) -> str:
        """An operand, with its parentheses."""
        text = self.convert(node)
        return f"({text})" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp) else text

    def symbol(self, operator: ast.operator) -> str:
        """An operator as it is written."""
        return {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}[type(operator)]


def is_length(node: ast.expr) -> bool:
    """Whether this is len(x) of a plain x."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
            return is_pure(inner)
    return False
