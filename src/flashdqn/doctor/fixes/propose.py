"""Which patches fit the findings of a report: every file of `fixers/` is asked."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes import fixers
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.report.contents import Finding

Fixer = Callable[[Evidence, Finding], Iterator[Patch]]

_fixers: dict[str, list[Fixer]] = {}


def fixes(*findings: str) -> Callable[[Fixer], Fixer]:
    """Register a fixer for some findings, by name."""

    def register(fixer: Fixer) -> Fixer:
        for name in findings:
            _fixers.setdefault(name, []).append(fixer)
        return fixer

    return register


def list_fixers() -> dict[str, list[Fixer]]:
    """All fixers, by the finding that they answer."""
    for module in pkgutil.iter_modules(fixers.__path__):
        importlib.import_module(f"{fixers.__name__}.{module.name}")
    return _fixers


def propose_patches(evidence: Evidence, findings: tuple[Finding, ...]) -> list[Patch]:
    """Every patch that fits exactly, the largest predicted gain first; what cannot be compiled is no patch."""
    known = list_fixers()
    found: dict[tuple[str, str], Patch] = {}
    for finding in findings:
        for fixer in known.get(finding.name, ()):
            for patch in fixer(evidence, finding):
                if is_sound(patch):
                    found.setdefault((patch.name, patch.after), patch)
    return name_apart(list(found.values()))


def is_sound(patch: Patch) -> bool:
    """Whether the patched text is Python, and another text than before."""
    try:
        compile(patch.after, patch.file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return patch.after != patch.before


def name_apart(patches: list[Patch]) -> list[Patch]:
    """Patches with names of their own: a second one of a name gets a number."""
    seen: dict[str, int] = {}
    named = []
    for patch in patches:
        count = seen[patch.name] = seen.get(patch.name, 0) + 1
        named.append(patch if count == 1 else replace(patch, name=f"{patch.name}-{count}"))
    return named
