"""`with torch.no_grad():` around the statements that build graphs nobody needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor.cures.readings import find_wasted_places
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, open_script
from flashdqn.doctor.report.contents import Finding


@fixes("no-grad-forgotten", "target-with-grad")
def fix_missing_no_grad(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """Each such statement gets the block; one patch for each file."""
    lines: dict[str, set[int]] = {}
    for file, line in find_wasted_places(evidence.record):
        lines.setdefault(file, set()).add(line)
    for file, wasted in lines.items():
        script = open_script(file)
        if script is None:
            continue
        statements = find_statements(script, wasted)
        edits: list[Edit] = []
        for group in group_neighbors(script, statements):
            edits += script.wrap(group, "with torch.no_grad():")
        if not script.imports("torch") and edits:
            edit = script.insert_after_imports("import torch\n")
            edits = [*edits, edit] if edit is not None else []
        if edits:
            yield Patch(
                name="no-grad",
                finding=finding,
                file=file,
                before=script.text,
                edits=tuple(edits),
                what=f"torch.no_grad() around {len(statements)} statement{'s' * (len(statements) != 1)}",
            )


def find_statements(script: ScriptText, lines: set[int]) -> set[ast.stmt]:
    """The statements to wrap. Inside a network's own `forward`, which also learns, those that call it to act."""
    found: set[ast.stmt] = set()
    for line in lines:
        statement = script.find_statement(line)
        if statement is None:
            continue
        inner = script.find_scope(statement)
        if isinstance(inner, ast.FunctionDef) and inner.name == "forward":
            found |= find_own_calls(script, inner)
        else:
            found.add(statement)
    return found


def find_own_calls(script: ScriptText, forward: ast.FunctionDef) -> set[ast.stmt]:
    """Statements in the other methods of a network's class that call it: `self.forward(x)` or `self(x)`."""
    found = set()
    home = script.parents[forward]
    for call in (node for node in ast.walk(home) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) in ("self", "self.forward") and script.find_scope(call) is not forward:
            statement = script.find_statement(call.lineno)
            if statement is not None:
                found.add(statement)
    return found


def group_neighbors(script: ScriptText, statements: set[ast.stmt]) -> list[list[ast.stmt]]:
    """Statements that follow one another directly, together."""
    groups: list[list[ast.stmt]] = []
    for statement in sorted(statements, key=lambda s: s.lineno):
        block = script.find_block(statement)
        before = block.index(statement) - 1
        if groups and before >= 0 and block[before] is groups[-1][-1]:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups
