"""Evaluations that run once only: what a training would cost without them."""

from __future__ import annotations

import ast
from pathlib import Path

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit, apply_edits, read_indent
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.injections_output import FIRST_RESULT


def mark_evaluations(evidence: Evidence, finding: Finding) -> dict[str, str]:
    """New texts of the user's own files, in which the functions that the finding's line calls are marked."""
    module = source.parse_file(finding.file)
    if module is None:
        return {}
    first, last = source.find_statement_lines(finding.file, finding.line)
    called = {
        source.get_called_name(call) for call in source.iterate_calls(module) if first <= call.lineno <= last
    }
    files = {frame.file for frame in evidence.record.frames if not frame.plumbing} | {finding.file}
    texts = {}
    for file in sorted(file for file in files if "site-packages" not in file):
        text = mark_functions(file, called)
        if text:
            texts[file] = text
    return texts


def mark_functions(file: str, names: set[str]) -> str:
    """A file's text with a mark above each plain function or method of these names; empty if there is none."""
    module = source.parse_file(file)
    found = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)] if module else []
    marked = [node for node in found if node.name in names and not node.name.startswith("__")]
    marked = [
        node for node in marked if not any(isinstance(p, ast.Yield | ast.YieldFrom) for p in ast.walk(node))
    ]
    if not marked:
        return ""
    text = Path(file).read_text(encoding="utf-8")
    # Below its own decorators: a static method stays one.
    marks = [(node.lineno, f"{read_indent(text, node)}@{FIRST_RESULT}\n") for node in marked]
    return apply_edits(text, [Edit.before_line(text, line, mark) for line, mark in marks])
