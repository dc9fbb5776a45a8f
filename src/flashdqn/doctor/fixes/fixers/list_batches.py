"""Batches from lists: rows are arrays when they are remembered, or at least before torch reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.findings.rows import builds_from_list
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, open_script, same_expression
from flashdqn.doctor.report.contents import Finding

#: What makes a tensor, and numpy's type for it; empty: torch decides by the values.
MAKERS = {"tensor": "", "as_tensor": "", "FloatTensor": "float32", "Tensor": "float32", "LongTensor": "int64"}
TYPES = {"float32": "float32", "float": "float32", "long": "int64", "int64": "int64"}
HOT = 0.02
"""Lines with a smaller share of the time are left as they are."""
BESIDE = 0.3
"""So are lines that take less than this share of the hottest: columns of single numbers are cheap as they are."""


@fixes("list-batches")
def fix_list_batches(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """Two ways, the better one first; the runs decide."""
    script = open_script(finding.file)
    if script is None:
        return
    calls = find_hot_makers(evidence, script)
    for name, edits, what in (
        ("arrays-in-replay", remember_arrays(script, calls), "rows are arrays when they are remembered"),
        ("array-first", make_arrays_first(script, calls), "numpy makes the array, torch takes it over"),
    ):
        if edits:
            yield Patch(name, finding, script.file, script.text, (*edits, *bring_numpy(script)), what=what)


def find_hot_makers(evidence: Evidence, script: ScriptText) -> list[ast.Call]:
    """The calls that make tensors from lists at hot lines."""
    shares = {
        line: evidence.at([(file, line)])
        for (file, line) in evidence.by_line
        if file == script.file and builds_from_list(file, line)
    }
    least = max(HOT, BESIDE * max(shares.values(), default=0.0))
    hot = {line for line, share in shares.items() if share > least}
    return [
        call
        for call in source.iterate_calls(script.module)
        if source.get_called_name(call) in MAKERS
        and any(source.covers_line(call, line) for line in hot)
        and len(call.args) == 1
    ]


def bring_numpy(script: ScriptText) -> list[Edit]:
    """`import numpy as np`, where it is missing."""
    if script.imports("np"):
        return []
    edit = script.insert_after_imports("import numpy as np\n")
    return [edit] if edit is not None else []


def get_type(call: ast.Call) -> str | None:
    """numpy's type of what a call makes; empty if the values decide, None if it cannot be said."""
    kind = MAKERS[source.get_called_name(call)]
    for keyword in call.keywords:
        if keyword.arg != "dtype" or not isinstance(keyword.value, ast.Attribute):
            return None
        kind = TYPES.get(keyword.value.attr, "?")
    return None if kind == "?" else kind


def make_arrays_first(script: ScriptText, calls: list[ast.Call]) -> list[Edit]:
    """`torch.tensor(rows)` becomes `torch.from_numpy(np.array(rows, dtype=…))`."""
    edits = []
    named = [
        call for call in calls if get_type(call)
    ]  # the others may be of another type than torch would choose
    for call in named or calls:
        kind = get_type(call)
        if kind is None:
            continue
        rows = script.read(call.args[0])
        bare = rows if not isinstance(call.args[0], ast.GeneratorExp) else f"list({rows})"
        if kind:
            edits.append(script.replace(call, f"torch.from_numpy(np.array({bare}, dtype=np.{kind}))"))
        else:
            edits.append(script.replace(call.args[0], f"np.array({bare})"))
    return edits


def remember_arrays(script: ScriptText, calls: list[ast.Call]) -> list[Edit]:
    """Each element i that is read as `[t[i] for t in batch]` is stored as an array of float32."""
    places: dict[int, list[ast.Call]] = {}
    memories = set()
    for call in calls:
        found = read_column(script, call)
        if found is None or get_type(call) not in ("", "float32"):
            continue
        memories.add(ast.dump(found[1]))
        places.setdefault(found[0], []).append(call)
        memory = found[1]
    if len(memories) != 1:
        return []
    row = find_stored_row(script, memory)
    if row is None or max(places) >= len(row.elts):
        return []
    edits = [
        script.replace(row.elts[i], f"np.asarray({script.read(row.elts[i])}, dtype=np.float32)")
        for i in places
    ]
    for call in (call for group in places.values() for call in group):
        edits.append(script.replace(call, f"torch.from_numpy(np.stack({script.read(call.args[0])}))"))
    return edits


def read_column(script: ScriptText, call: ast.Call) -> tuple[int, ast.expr] | None:
    """The number i and the memory of `[t[i] for t in batch]`, where `batch = random.sample(memory, n)`."""
    match call.args[0]:
        case ast.ListComp(
            elt=ast.Subscript(value=ast.Name(id=read), slice=ast.Constant(value=int(i))),
            generators=[ast.comprehension(target=ast.Name(id=name), iter=ast.Name(id=batch), ifs=[])],
        ) if read == name:
            pass
        case _:
            return None
    scope = script.find_scope(call)
    for node in ast.walk(scope):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Attribute(attr="sample"), args=[memory, _]),
            ) if target == batch:
                return i, memory
    return None


def find_stored_row(script: ScriptText, memory: ast.expr) -> ast.Tuple | None:
    """The tuple of the only `memory.append((…))`."""
    found = []
    for node in ast.walk(script.module):
        match node:
            case ast.Call(func=ast.Attribute(attr="append", value=target), args=[row]) if same_expression(
                target, memory
            ):
                found.append(row)
    return found[0] if len(found) == 1 and isinstance(found[0], ast.Tuple) else None
