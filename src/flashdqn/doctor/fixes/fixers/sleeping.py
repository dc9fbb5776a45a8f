"""Sleeps in the loop: a game's clock without a limit, and no pauses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import open_script
from flashdqn.doctor.report.contents import Finding


@fixes("sleeping")
def fix_sleep(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`clock.tick(40)` becomes `clock.tick()`, and `time.sleep(0.1)` goes."""
    script = open_script(finding.file)
    statement = script.find_statement(finding.line) if script is not None else None
    if script is None or statement is None:
        return
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="tick" | "tick_busy_loop") as method, args=[_])):
            edit = script.replace(statement.value, f"{script.read(method)}()")
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"))):
            edit = script.replace(statement, "pass")
        case _:
            return
    yield Patch(
        name="no-sleep",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(edit,),
        what="the loop does not sleep",
    )
