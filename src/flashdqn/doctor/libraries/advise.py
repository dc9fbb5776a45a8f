"""Put a library's own words into the findings of a script that uses it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace

from flashdqn.doctor import libraries
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.libraries.user_calls import is_installed
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.report.words import shorten_path

Adviser = Callable[[Evidence, Finding], "LibraryAdvice | None"]


@dataclass(frozen=True)
class LibraryAdvice:
    """What to do in a library's own words, and the user's own line for it."""

    words: str
    example: str
    place: tuple[str, int] | None = None
    """The user's own line; None: nothing of the user's own stands for it."""


@dataclass(frozen=True)
class Library:
    """A library that the doctor knows."""

    name: str
    is_used: Callable[[Evidence], bool]
    advisers: dict[str, Adviser]
    """By the name of the finding; `*` for all others in the library's own files."""


PLAIN = "PyTorch"
_known: dict[str, Library] = {}


def add_library(library: Library) -> None:
    """Register a library. A file in this folder is enough: all of them are imported."""
    _known[library.name] = library


def list_libraries() -> list[Library]:
    """Every library of every file in this folder."""
    for module in pkgutil.iter_modules(libraries.__path__):
        importlib.import_module(f"{libraries.__name__}.{module.name}")
    return list(_known.values())


def find_library(evidence: Evidence) -> Library:
    """The library that a script uses, by its own imports; without one, plain PyTorch."""
    known = list_libraries()
    return next((library for library in known if library.is_used(evidence)), _known[PLAIN])


def speak_library(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, with the advice of the library that the script uses."""
    library = find_library(evidence)
    return tuple(speak_of_finding(library, evidence, finding) for finding in findings)


def speak_of_finding(library: Library, evidence: Evidence, finding: Finding) -> Finding:
    """One finding: the library's way, at the user's own line; where it was seen becomes evidence."""
    adviser = library.advisers.get(finding.name)
    advice = adviser(evidence, finding) if adviser is not None else None
    if advice is None:
        if library.name == PLAIN or not is_installed(finding.file):
            return finding
        words = f"This line is {library.name}'s own, and no setting of it is known to the doctor. {finding.advice}"
        return replace(finding, advice=words)
    seen = (f"Seen at {shorten_path(finding.file)}:{finding.line}.",) if is_installed(finding.file) else ()
    file, line = advice.place if advice.place is not None else (finding.file, finding.line)
    moved = advice.place is not None and is_installed(finding.file)
    return replace(
        finding,
        advice=f"With {library.name}: {advice.words}" if library.name != PLAIN else finding.advice,
        example=advice.example,
        file=file if moved else finding.file,
        line=line if moved else finding.line,
        evidence=(*finding.evidence, *seen, *note_place(advice, moved, finding)),
    )


def note_place(advice: LibraryAdvice, moved: bool, finding: Finding) -> tuple[str, ...]:
    """Where the example's line stands, if the finding itself stays at another one."""
    if advice.place is None or moved or advice.place == (finding.file, finding.line):
        return ()
    return (f"What to change: {shorten_path(advice.place[0])}:{advice.place[1]}.",)
