"""Values taken out of tensors one by one: all of them once, before the loop; and one push for all rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.fixers.batched_push import make_batched_push
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.row_reads import RowRead, find_row_reads, is_changed_in
from flashdqn.doctor.fixes.script_text import ScriptText, open_script
from flashdqn.doctor.report.contents import Finding


@fixes("per-row-copies", "host-syncs")
def fix_row_copies(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """One copy for all rows, and where the replay fits, one push for all rows."""
    script = open_script(finding.file)
    loop = find_row_loop(script, finding.line) if script is not None else None
    if script is None or loop is None or not isinstance(loop.target, ast.Name):
        return
    reads = [read for read in find_row_reads(loop) if not is_changed_in(loop, read.rows)]
    if not reads:
        return
    batched = make_batched_push(script, loop, reads)
    if batched:
        yield Patch(
            name="batched-push",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(batched),
            what="one push for all rows",
        )
    yield Patch(
        name="one-copy",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=tuple(hoist_reads(script, loop, reads)),
        what="one copy for all rows, before the loop",
    )


def find_row_loop(script: ScriptText, line: int) -> ast.For | None:
    """The innermost loop over numbers of rows around a line."""
    found = [
        node
        for node in ast.walk(script.module)
        if isinstance(node, ast.For)
        and node.lineno <= line <= (node.end_lineno or 0)
        and isinstance(node.target, ast.Name)
        and isinstance(node.iter, ast.Call)
        and isinstance(node.iter.func, ast.Name)
        and node.iter.func.id == "range"
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def hoist_reads(script: ScriptText, loop: ast.For, reads: list[RowRead]) -> list[Edit]:
    """The edits: a line for each tensor above the loop, and an index into it in the loop."""
    indent, names = script.indent(loop), dict[tuple[str, str], str]()
    edits = []
    for read in reads:
        rows = script.read(read.rows)
        name = f"{rows.replace('.', '_').removeprefix('self_')}_{'array' if read.as_array else 'list'}"
        names[name, f"{rows}{read.whole}"] = name
        edits.append(script.replace(read.node, read.rewrite(f"{name}[{script.read(loop.target)}]")))
    lines = "".join(f"{indent}{name} = {whole}\n" for name, whole in names)
    return [Edit.before_line(script.text, loop.lineno, lines), *edits]


@fixes("per-row-copies", "host-syncs")
def fix_item_comprehension(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`[x.item() for x in tensor]` becomes `tensor.tolist()`."""
    script = open_script(finding.file)
    if script is None:
        return
    edits = []
    for node in ast.walk(script.module):
        match node:
            case ast.ListComp(
                elt=ast.Call(func=ast.Attribute(attr="item", value=ast.Name(id=read)), args=[]),
                generators=[ast.comprehension(target=ast.Name(id=name), iter=rows, ifs=[], is_async=0)],
            ) if read == name and isinstance(rows, ast.Name | ast.Attribute):
                if node.lineno <= finding.line <= (node.end_lineno or 0):
                    edits.append(script.replace(node, f"{script.read(rows)}.tolist()"))
    if edits:
        yield Patch(
            name="tolist",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what="one .tolist() for all values",
        )
