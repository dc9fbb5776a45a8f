"""A replay that is written row by row: a second method that writes many rows, where the first fits exactly."""

from __future__ import annotations

import ast

from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.row_reads import RowRead
from flashdqn.doctor.fixes.script_text import ScriptText, same_expression


def make_batched_push(script: ScriptText, loop: ast.For, reads: list[RowRead]) -> list[Edit]:
    """The edits, if the loop does nothing but push every row into a ring of arrays."""
    match loop.body:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=replay), args=args, keywords=[]))]:
            pass
        case _:
            return []
    if loop.orelse or len(reads) != len(args) or not args or [read.node for read in reads] != list(args):
        return []
    method = find_only_method(script, name)
    lines = (
        write_many(script, method) if method is not None and len(method.args.args) == len(args) + 1 else []
    )
    many = f"{name}_many"
    if method is None or not lines or many in script.text:
        return []
    indent = script.indent(method)
    names = ", ".join(argument.arg for argument in method.args.args)
    text = "\n".join([f"\n{indent}def {many}({names}):", *(f"{indent}{script.unit}{line}" for line in lines)])
    whole = [f"{script.read(read.rows)}{read.whole if read.as_array else '.cpu().numpy()'}" for read in reads]
    call = f"{script.read(replay)}.{many}({', '.join(whole)})"
    return [
        Edit.after_line(script.text, method.end_lineno or 0, text + "\n"),
        script.replace(loop, call),
    ]


def find_only_method(script: ScriptText, name: str) -> ast.FunctionDef | None:
    """The only method of this name in the file, with plain arguments."""
    found = [
        node
        for node in ast.walk(script.module)
        if isinstance(node, ast.FunctionDef)
        and node.name == name
        and isinstance(script.parents[node], ast.ClassDef)
    ]
    if len(found) != 1 or found[0].decorator_list:
        return None
    given = found[0].args
    plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults)
    return found[0] if plain else None


def write_many(script: ScriptText, method: ast.FunctionDef) -> list[str]:
    """The body for many rows; empty unless every statement of the method is one of a ring's."""
    parameters = [argument.arg for argument in method.args.args[1:]]
    place: ast.expr | None = None
    alias = ""
    lines: list[str] = []
    after: list[str] = []
    for statement in method.body:
        match statement:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Attribute() as place):
                continue
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute() as column, slice=index)],
                value=ast.Name(id=value),
            ) if value in parameters:
                place = place or index
                if not is_place(index, place, alias):
                    return []
                lines.append(f"{script.read(column)}[places] = {value}")
            case ast.Assign(targets=[ast.Attribute() as counter], value=value_node):
                text = advance(script, counter, value_node, place, alias)
                if not text:
                    return []
                after.append(text)
            case _:
                return []
    capacity = find_capacity(script, after)
    if place is None or not lines or not after or capacity is None:
        return []
    first = f"places = [({script.read(place)} + row) % {capacity} for row in range(count)]"
    return [f"count = len({parameters[0]})", first, *lines, *after]


def is_place(index: ast.expr, place: ast.expr, alias: str) -> bool:
    """Whether an index is where the next row goes."""
    return (isinstance(index, ast.Name) and index.id == alias) or same_expression(index, place)


def advance(
    script: ScriptText, counter: ast.expr, value: ast.expr, place: ast.expr | None, alias: str
) -> str:
    """`position = (place + 1) % capacity` or `size = min(size + 1, capacity)`, for many rows."""
    match value:
        case ast.BinOp(
            left=ast.BinOp(left=start, op=ast.Add(), right=ast.Constant(value=1)),
            op=ast.Mod(),
            right=capacity,
        ) if place is not None and is_place(start, place, alias) and same_expression(counter, place):
            return f"{script.read(counter)} = ({script.read(counter)} + count) % {script.read(capacity)}"
        case ast.Call(
            func=ast.Name(id="min"),
            args=[ast.BinOp(left=size, op=ast.Add(), right=ast.Constant(value=1)), capacity],
        ) if same_expression(size, counter):
            return f"{script.read(counter)} = min({script.read(size)} + count, {script.read(capacity)})"
    return ""


def find_capacity(script: ScriptText, after: list[str]) -> str | None:
    """What the place is taken modulo of."""
    found = {line.rpartition(" % ")[2] for line in after if " % " in line}
    return found.pop() if len(found) == 1 else None
