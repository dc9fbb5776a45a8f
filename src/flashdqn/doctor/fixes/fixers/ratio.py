"""Fewer updates for each transition: the cure of too much learning, which learns from less and says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.findings.learning import NATURE, USUAL
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, find_counter, is_pure, open_script
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import EventKind

LESS = "fewer updates for each transition: it learns from less"


@fixes("many-updates")
def fix_many_updates(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """The loop of updates after a step becomes shorter."""
    script = open_script(finding.file)
    totals = evidence.record.totals
    factor = round(totals.updates / max(totals.transitions, 1) / USUAL)
    loop = find_loop_at(script, finding.line) if script is not None else None
    if script is None or loop is None or factor < 2:
        return
    count = get_only_argument(loop.iter)
    if count is None or not is_pure(count):
        return
    text = script.read(count)
    inner = text if isinstance(count, ast.Name | ast.Attribute | ast.Constant) else f"({text})"
    yield Patch(
        name="fewer-updates",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(script.replace(count, f"max(1, {inner} // {factor})"),),
        what=f"a {factor}th of the updates",
        changes=LESS,
        changes_learning=True,
    )


def find_loop_at(script: ScriptText, line: int) -> ast.For | None:
    """The for loop that begins at a line."""
    found = [n for n in ast.walk(script.module) if isinstance(n, ast.For) and n.lineno == line]
    return found[0] if len(found) == 1 else None


def get_only_argument(call: ast.expr) -> ast.expr | None:
    """`n` of range(n)."""
    is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
    return call.args[0] if is_range and isinstance(call, ast.Call) and len(call.args) == 1 else None


@fixes("train-every-step")
def fix_train_every_step(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """An update after every fourth step, by the counter of the loop that steps the environment."""
    script = open_script(finding.file)
    statement = script.find_statement(finding.line) if script is not None else None
    if script is None or statement is None:
        return
    steps = {site.line for site in evidence.record.kinds(EventKind.ENV_STEP) if site.file == finding.file}
    loops = [loop for loop in script.find_loops(statement) if any(source.covers_line(loop, s) for s in steps)]
    counter = find_counter(script, loops[0]) if loops else None
    if counter is None:
        return
    every = round(1 / NATURE)
    edits = add_condition(script, statement, loops[0], f"{counter} % {every} == 0")
    if edits:
        yield Patch(
            name="train-rarely",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what=f"an update every {every} steps",
            changes=LESS,
            changes_learning=True,
        )


def add_condition(script: ScriptText, statement: ast.stmt, loop: ast.AST, condition: str) -> list[Edit]:
    """The condition in the `if` around the update, or in a new one around its call."""
    for node in script.enclosing(statement):
        if node is loop:
            break
        if isinstance(node, ast.If) and not node.orelse:
            test = script.read(node.test)
            test = f"({test})" if isinstance(node.test, ast.BoolOp | ast.IfExp | ast.NamedExpr) else test
            return [script.replace(node.test, f"{test} and {condition}")]
        return []
    return script.wrap([statement], f"if {condition}:") if isinstance(statement, ast.Expr) else []
