"""Rows that travel to the device one by one: the batch travels once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import names_in, open_script
from flashdqn.doctor.report.contents import Finding


@fixes("list-batches", "per-row-copies", "host-syncs", "made-on-cpu", "pageable-copies")
def fix_row_transfers(_: Evidence, finding: Finding) -> Iterator[Patch]:
    """`torch.stack([x.to(device) for x in rows])` becomes `torch.stack([x for x in rows]).to(device)`."""
    script = open_script(finding.file)
    if script is None:
        return
    edits = []
    for call in source.iterate_calls(script.module):
        match call:
            case ast.Call(
                func=ast.Attribute(attr="stack" | "cat"),
                args=[
                    ast.ListComp(
                        elt=ast.Call(
                            func=ast.Attribute(attr="to", value=row), args=[device], keywords=[]
                        ) as moved,
                        generators=[generator],
                    ),
                    *_,
                ],
            ) if not names_in(device) & names_in(generator.target):
                text = script.read(call)
                inner = script.read(moved)
                plain = text.replace(inner, script.read(row), 1)
                edits.append(script.replace(call, f"{plain}.to({script.read(device)})"))
    if edits:
        yield Patch(
            name="one-transfer",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=tuple(edits),
            what="one .to(device) for the batch",
        )
