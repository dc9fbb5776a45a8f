"""Evaluations and logs that come too often: ten times as rarely."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import find_counter, open_script
from flashdqn.doctor.report.contents import Finding

RARER = 10


@fixes("evaluation-share", "logging")
def fix_frequency(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`if step % n == 0:` around the line becomes `if step % (10 * n) == 0:`, or is put around its statement."""
    script = open_script(finding.file)
    statement = script.find_statement(finding.line) if script is not None else None
    if script is None or statement is None:
        return
    what = "evaluates" if finding.name == "evaluation-share" else "logs"
    edits = []
    for node in script.enclosing(statement):
        if isinstance(node, ast.FunctionDef | ast.For | ast.While):
            break
        if isinstance(node, ast.If):
            period = find_period(node.test)
            if period is not None:
                text = script.read(period)
                plain = isinstance(period, ast.Constant | ast.Name | ast.Attribute)
                edits.append(script.replace(period, f"({RARER} * {text if plain else f'({text})'})"))
                break
    if not edits and isinstance(statement, ast.Expr):
        loops = script.find_loops(statement)
        counter = find_counter(script, loops[0]) if loops else None
        edits = script.wrap([statement], f"if {counter} % {RARER} == 0:") if counter else []
    if edits:
        yield Patch(
            name=f"{what[:-1]}-rarely" if what != "evaluates" else "evaluate-rarely",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what=f"{what} {RARER} times as rarely",
            changes="fewer evaluations, and what they draw from random numbers"
            if what == "evaluates"
            else "",
            changes_learning=what == "evaluates",
            unit="updates" if what == "evaluates" else "",  # evaluations make transitions, too
        )


def find_period(test: ast.expr) -> ast.expr | None:
    """`n` of a condition with `x % n == 0`."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(
                left=ast.BinOp(op=ast.Mod(), right=period),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ):
                return period
            case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod(), right=period)):
                return period
    return None
