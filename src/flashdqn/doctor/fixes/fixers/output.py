"""Prints in a hot loop: every so many turns; and speeds that a script counts twice."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.cures.silence import HOT
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.fixers.no_grad import group_neighbors
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, find_counter, open_script
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import EventKind

NUMBER_OF_ENVS = re.compile(
    r"^(num|n|number_of)_?(envs?|environments|boards)$|^(envs?|environments)_?(count|number)$", re.I
)


@fixes("printing")
def fix_prints(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """`if step % 1000 == 0:` around the hot prints, by the loop's own counter."""
    lines: dict[str, set[int]] = {}
    most = 0
    for site in evidence.record.kinds(EventKind.PRINT):
        if site.count >= HOT:
            lines.setdefault(site.file, set()).add(site.line)
            most = max(most, site.count)
    every = 10 ** max(1, math.ceil(math.log10(max(most / max(evidence.watched, 1.0), 1.0))))
    for file, hot in lines.items():
        script = open_script(file)
        edits = thin_prints(script, hot, every) if script is not None else []
        if script is not None and edits:
            yield Patch(
                name="print-rarely",
                finding=finding,
                file=file,
                before=script.text,
                edits=tuple(edits),
                what=f"prints every {every:,} turns",
            )


def thin_prints(script: ScriptText, lines: set[int], every: int) -> list[Edit]:
    """The edits; prints without a counter stay as they are."""
    found = {s for line in lines if (s := script.find_statement(line)) is not None and is_print(s)}
    edits: list[Edit] = []
    for group in group_neighbors(script, found):
        counters = [find_counter(script, loop) for loop in script.find_loops(group[0])]
        counter = next((name for name in counters if name is not None), None)
        if counter is not None:
            edits += script.wrap(group, f"if {counter} % {every} == 0:")
    return edits


def is_print(statement: ast.stmt) -> bool:
    """Whether a statement is a call of `print`, and nothing else."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "print"
    )


@fixes("throughput-claim")
def fix_claim(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """A speed that counts the environments twice: the second factor goes."""
    script = open_script(finding.file)
    width = evidence.record.width
    wrong = read_wrong_factor(finding)
    if script is None or width < 2 or wrong is None or not 0.8 < wrong / width < 1.25:
        return
    statement = script.find_statement(finding.line)
    if statement is None:
        return
    sources = [statement, *find_assignments(script, statement)]
    products = [p for part in sources for p in ast.walk(part) if is_double_count(p)]
    if len(products) != 1:
        return
    product = products[0]
    assert isinstance(product, ast.BinOp)
    keep = product.left if is_env_number(product.right) else product.right
    yield Patch(
        name="count-once",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(script.replace(product, script.read(keep)),),
        what="each transition is counted once",
    )


def read_wrong_factor(finding: Finding) -> float | None:
    """By how much the claim is too high, from the finding's title."""
    match = re.search(r"([\d.,]+) times faster", finding.title)
    return float(match[1].replace(",", "")) if match else None


def find_assignments(script: ScriptText, statement: ast.stmt) -> list[ast.stmt]:
    """The assignments of the names that a statement prints, in its own block."""
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    return [
        other
        for other in script.find_block(statement)
        if isinstance(other, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in other.targets)
    ]


def is_double_count(node: ast.AST) -> bool:
    """Whether this is a product with the number of environments, above a line of division."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and is_env_number(node.left) != is_env_number(node.right)
    )


def is_env_number(node: ast.AST) -> bool:
    """Whether a name says that it is the number of environments."""
    if isinstance(node, ast.Call):
        return source.get_called_name(node) == "len" and is_env_number(node.args[0]) if node.args else False
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return NUMBER_OF_ENVS.match(name) is not None
