"""One line at the start of the script: the number of threads, and numbers too small for full precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flashdqn.doctor import source
from flashdqn.doctor.cures.readings import find_main_file, read_best_threads
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import ScriptText, open_script
from flashdqn.doctor.report.contents import Finding


@fixes("too-many-threads")
def fix_threads(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """The script's own number of threads is replaced, or set at the start."""
    number = read_best_threads(finding)
    place = evidence.threads_line()
    script = open_script(place[0] if place else find_main_file(evidence.record))
    if script is None:
        return
    edit = (
        replace_thread_count(script, number)
        if place
        else add_line(script, f"torch.set_num_threads({number})")
    )
    if edit is not None:
        yield Patch(
            name="threads",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=(edit,),
            what=f"torch.set_num_threads({number})",
            changes="sums in another order: rounding",
        )


def replace_thread_count(script: ScriptText, number: int) -> Edit | None:
    """Another number in the only call that sets it."""
    calls = [c for c in source.iterate_calls(script.module) if source.get_called_name(c) == "set_num_threads"]
    if len(calls) != 1 or len(calls[0].args) != 1 or calls[0].keywords:
        return None
    return script.replace(calls[0].args[0], str(number))


def add_line(script: ScriptText, line: str) -> Edit | None:
    """A line after the imports, which brings torch if the script has it under another name."""
    first = "" if script.imports("torch") else "import torch\n"
    return script.insert_after_imports(f"{first}{line}\n")


@fixes("subnormals")
def fix_subnormals(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """Such numbers are zero from the start."""
    script = open_script(find_main_file(evidence.record))
    if script is None or any(
        isinstance(part, ast.Attribute) and part.attr == "set_flush_denormal"
        for part in ast.walk(script.module)
    ):
        return
    edit = add_line(script, "torch.set_flush_denormal(True)")
    if edit is not None:
        yield Patch(
            name="flush-subnormals",
            finding=finding,
            file=script.file,
            before=script.text,
            edits=(edit,),
            what="torch.set_flush_denormal(True)",
            changes="tiny numbers are zero",
        )
