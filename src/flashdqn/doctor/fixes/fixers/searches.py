"""Breadth-first searches in Python: a set for what was seen, a deque for what is next."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, open_script
from flashdqn.doctor.report.contents import Finding

Function = ast.FunctionDef | ast.AsyncFunctionDef


@fixes("python-env", "row-loop", "slow-down")
def fix_searches(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """Every function of the file that took time and searches in lists."""
    script = open_script(finding.file)
    if script is None:
        return
    hot = [line for (file, line) in evidence.by_line if file == script.file]
    edits: list[Edit] = []
    needs_deque = False
    for node in ast.walk(script.module):
        if isinstance(node, Function) and any(source.covers_line(node, line) for line in hot):
            for name in list_local_lists(node):
                edits += use_set(script, node, name)
                queue = use_deque(script, node, name)
                needs_deque = needs_deque or bool(queue)
                edits += queue
    if needs_deque and not imports_deque(script):
        edit = script.insert_after_imports("from collections import deque\n")
        edits = [*edits, edit] if edit is not None else []
    if edits:
        yield Patch(
            name="search-in-set",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what="a set for what was seen, a deque for what is next",
        )


def imports_deque(script: ScriptText) -> bool:
    """Whether the name `deque` is there."""
    return any(
        isinstance(node, ast.ImportFrom)
        and any((alias.asname or alias.name) == "deque" for alias in node.names)
        for node in script.module.body
    )


def list_local_lists(function: Function) -> list[str]:
    """Names that are assigned once in a function, a list."""
    made: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made[node.id] = made.get(node.id, 0) + 1
    lists = [
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.List)
    ]
    return [name for name in lists if made[name] == 1]


def collect_uses(script: ScriptText, function: Function, name: str) -> list[tuple[str, ast.AST]]:
    """How a name is used: the kind of each use, and the node that a patch would change."""
    uses: list[tuple[str, ast.AST]] = []
    for node in ast.walk(function):
        if not (isinstance(node, ast.Name) and node.id == name):
            continue
        parent = script.parents[node]
        above = script.parents.get(parent)
        match parent:
            case ast.Assign() if isinstance(node.ctx, ast.Store):
                uses.append(("made", parent.value))
            case ast.Attribute(attr=method) if isinstance(above, ast.Call) and above.func is parent:
                takes_first = method == "pop" and [ast.unparse(part) for part in above.args] == ["0"]
                uses.append(("pop(0)" if takes_first else method, above))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[right]) if right is node:
                uses.append(("in", parent))
            case ast.Call(func=ast.Name(id="len"), args=[_]):
                uses.append(("len", parent))
            case ast.While(test=test) | ast.If(test=test) if test is node:
                uses.append(("truth", parent))
            case _:
                uses.append(("other", parent))
    return uses


def use_set(script: ScriptText, function: Function, name: str) -> list[Edit]:
    """A list that is only asked whether something is in it becomes a set."""
    uses = collect_uses(script, function, name)
    kinds = {kind for kind, _ in uses}
    if not {"in", "append"} <= kinds or not kinds <= {"made", "in", "append", "len", "truth"}:
        return []
    edits = []
    for kind, node in uses:
        if kind == "made":
            assert isinstance(node, ast.List)
            inner = ", ".join(script.read(part) for part in node.elts)
            edits.append(script.replace(node, f"{{{inner}}}" if inner else "set()"))
        elif kind == "append":
            assert isinstance(node, ast.Call)
            edits.append(script.replace(node.func, f"{name}.add"))
    return edits


def use_deque(script: ScriptText, function: Function, name: str) -> list[Edit]:
    """A list whose first element is taken again and again becomes a deque."""
    uses = collect_uses(script, function, name)
    kinds = {kind for kind, _ in uses}
    if "pop(0)" not in kinds or not kinds <= {"made", "append", "extend", "pop(0)", "len", "truth"}:
        return []
    edits = []
    for kind, node in uses:
        if kind == "made":
            text = script.read(node)
            edits.append(script.replace(node, "deque()" if text == "[]" else f"deque({text})"))
        elif kind == "pop(0)":
            edits.append(script.replace(node, f"{name}.popleft()"))
    return edits
