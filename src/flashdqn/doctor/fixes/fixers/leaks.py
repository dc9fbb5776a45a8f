"""Losses kept with their graphs; and means of a whole history, computed again at every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, open_script, same_expression
from flashdqn.doctor.report.contents import Finding

MEANS = {"mean", "fmean", "average"}


@fixes("graph-leak")
def fix_graph_leak(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`.detach()` where a value is kept."""
    script = open_script(finding.file)
    statement = script.find_statement(finding.line) if script is not None else None
    kept = find_kept_value(statement) if statement is not None else None
    if script is None or kept is None or not isinstance(kept, ast.Name | ast.Attribute):
        return
    yield Patch(
        name="detach",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(script.replace(kept, f"{script.read(kept)}.detach()"),),
        what=f"{script.read(kept)}.detach() where it is kept",
    )


def find_kept_value(statement: ast.stmt) -> ast.expr | None:
    """The value in `x.append(value)`, `x += value` or `x = x + value`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value], keywords=[])):
            return value
        case ast.AugAssign(op=ast.Add(), value=value):
            return value
        case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=value)):
            return value if same_expression(target, left) else None
    return None


@fixes("growing-buffer")
def fix_running_mean(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`np.mean(history)` after every `history.append(x)`: the sum is carried along."""
    script = open_script(finding.file)
    statement = script.find_statement(finding.line) if script is not None else None
    if script is None or statement is None:
        return
    means = [c for c in source.iterate_calls(statement) if is_mean(c)]
    if len(means) != 1 or not isinstance(means[0].args[0], ast.Name | ast.Attribute):
        return
    history = means[0].args[0]
    edits = carry_sum(script, statement, means[0], history)
    if edits:
        yield Patch(
            name="running-mean",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what=f"the sum of {script.read(history)} is carried along",
            changes="the mean's last digits",
        )


def is_mean(call: ast.Call) -> bool:
    """Whether this is np.mean(x) with nothing else."""
    return source.get_called_name(call) in MEANS and len(call.args) == 1 and not call.keywords


def carry_sum(script: ScriptText, statement: ast.stmt, mean: ast.Call, history: ast.expr) -> list[Edit]:
    """The edits, if the history is made once as an empty list, appended to once, and changed nowhere else."""
    found = find_maker_and_append(script, statement, history)
    if found is None or not all(map(script.stands_alone, found)):
        return []
    maker, append = found
    if append not in (block := script.find_block(statement)) or block.index(append) > block.index(statement):
        return []
    assert isinstance(append, ast.Expr)
    assert isinstance(append.value, ast.Call)
    name, value = script.read(history), append.value.args[0]
    total = f"{name}_sum"
    if (
        not isinstance(value, ast.Name | ast.Attribute | ast.Constant)
        or total.rpartition(".")[2] in script.text
    ):
        return []
    return [
        Edit.after_line(script.text, maker.end_lineno or 0, f"{script.indent(maker)}{total} = 0.0\n"),
        Edit.after_line(
            script.text, append.end_lineno or 0, f"{script.indent(append)}{total} += {script.read(value)}\n"
        ),
        replace_mean(script, mean, f"{total} / len({name})"),
    ]


def find_maker_and_append(
    script: ScriptText, statement: ast.stmt, history: ast.expr
) -> tuple[ast.stmt, ast.stmt] | None:
    """The only `history = []` and the only `history.append(x)`; None if anything else changes the history."""
    home = find_home(script, statement, history)
    nodes = list(ast.walk(home)) if home is not None else []
    makers = [n for n in nodes if isinstance(n, ast.Assign) and is_empty_start(n, history)]
    appends = [n for n in nodes if isinstance(n, ast.stmt) and is_append(n, history)]
    uses = [n for n in nodes if type(n) is type(history) and same_expression(n, history)]
    changed = [n for n in uses if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
    others = [
        n
        for n in nodes
        if isinstance(n, ast.Attribute) and same_expression(n.value, history) and n.attr != "append"
    ]
    if len(makers) != 1 or len(appends) != 1 or len(changed) != 1 or others:
        return None
    if isinstance(history, ast.Name) and script.find_scope(makers[0]) is not script.find_scope(appends[0]):
        return None
    return makers[0], appends[0]


def is_empty_start(node: ast.Assign, history: ast.expr) -> bool:
    """Whether this is `history = []`."""
    return (
        len(node.targets) == 1
        and same_expression(node.targets[0], history)
        and isinstance(node.value, ast.List)
        and not node.value.elts
    )


def replace_mean(script: ScriptText, mean: ast.Call, quotient: str) -> Edit:
    """A quotient in the place of a mean, in parentheses where it is part of something."""
    alone = isinstance(script.parents[mean], ast.Assign)
    return script.replace(mean, quotient if alone else f"({quotient})")


def find_home(script: ScriptText, statement: ast.stmt, history: ast.expr) -> ast.AST | None:
    """Where all changes of a history are: the class of `self.x`, if nobody else changes an `x`; the module of a
    name. None for other objects' attributes."""
    if isinstance(history, ast.Name):
        return script.module
    if not isinstance(history, ast.Attribute) or not is_self(history.value):
        return None
    home = next((node for node in script.enclosing(statement) if isinstance(node, ast.ClassDef)), None)
    for node in ast.walk(script.module):
        if isinstance(node, ast.Attribute) and node.attr == history.attr and not is_self(node.value):
            parent = script.parents[node]
            if isinstance(node.ctx, ast.Store | ast.Del) or isinstance(parent, ast.Attribute):
                return None
    return home


def is_self(node: ast.expr) -> bool:
    """Whether this is `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def is_append(node: ast.AST, history: ast.expr) -> bool:
    """Whether this statement is `history.append(x)`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=target), args=[_], keywords=[])):
            return same_expression(target, history)
    return False
