"""Optimizers and gradients: fused kernels, and gradients that are let go instead of filled with zeros."""

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

CAN_FUSE = ("Adam", "AdamW", "SGD", "Adagrad")


@fixes("unfused-optimizer", "launch-bound")
def fix_unfused_optimizer(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """`fused=True` where the script makes its optimizers."""
    used = {use.name for use in evidence.record.optimizers} & set(CAN_FUSE)
    for file in list_own_files(evidence):
        script = open_script(file)
        if script is None:
            continue
        edits = [
            add_keyword(script, call, "fused=True")
            for call in source.iterate_calls(script.module)
            if source.get_called_name(call) in used and can_add_flag(call)
        ]
        if edits:
            yield Patch(
                name="fused-optimizer",
                finding=finding,
                file=file,
                before=script.text,
                edits=tuple(edits),
                what=f"fused=True in {len(edits)} optimizer{'s' * (len(edits) != 1)}",
                changes="rounding",
            )


def list_own_files(evidence: Evidence) -> list[str]:
    """The user's own files that were seen, the script first."""
    seen = {frame.file for frame in evidence.record.frames if not frame.plumbing}
    seen |= {site.file for site in evidence.record.sites}
    return sorted({*seen, evidence.record.script}, key=lambda file: (file != evidence.record.script, file))


def can_add_flag(call: ast.Call) -> bool:
    """Whether a call makes an optimizer, and says nothing yet about how it steps."""
    said = {keyword.arg for keyword in call.keywords}
    return bool(call.args or "params" in said) and not said & {"fused", "foreach", "differentiable", None}


def add_keyword(script: ScriptText, call: ast.Call, keyword: str) -> Edit:
    """One more keyword after the last argument of a call."""
    given = [*call.args, *(part.value for part in call.keywords)]
    last = max(given, key=lambda part: (part.end_lineno or 0, part.end_col_offset or 0))
    end = script.replace(last, "").end
    return Edit(end, end, f", {keyword}")


@fixes("zero-grad-memset")
def fix_zero_grad(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """`set_to_none=False` goes: torch's default lets gradients go."""
    script = open_script(finding.file)
    if script is None:
        return
    edits = []
    for call in source.iterate_calls(script.module):
        match call:
            case ast.Call(
                func=ast.Attribute(attr="zero_grad") as method,
                args=[],
                keywords=[ast.keyword(arg="set_to_none", value=ast.Constant(value=False))],
            ):
                edits.append(script.replace(call, f"{script.read(method)}()"))
    if edits:
        yield Patch(
            name="set-to-none",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what="zero_grad() lets gradients go",
        )
