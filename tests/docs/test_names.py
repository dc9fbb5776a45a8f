"""What the text speaks of in backquotes is there: names in the package, files of the project, flags."""

from __future__ import annotations

import dataclasses
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from doc_commands import command_modules
from doc_pages import ROOT, Command, pages, spans

from flashdqn.cli.arguments import flag_names
from flashdqn.config import Config
from flashdqn.config.names import ACCEPTED_NAMES, SHORT_NAMES
from flashdqn.envs.tasks import iterate_tasks

NAME = re.compile(r"(flashdqn(?:\.\w+)+)(?:\(.*\))?", re.S)
FILE = re.compile(r"(?!https?:)[\w.][\w./-]*\.(?:py|md|json|toml|yml|txt)")
FLAG = re.compile(r"--(?:no-)?[a-z0-9]+(?:[.-][a-z0-9]+)*")

#: files that a run, a reader or another program writes
WRITTEN = re.compile(
    r"(?:FOLDER|RUN|runs/[^/]+|\.\./theirs)/.*|my_\w+.*|your_script\.py|train\.py|SCRIPT\.py"
    r"|(?:config|columns|summary|best|agent|sweep|confirm|loggers|flashdqn|report|seed|plan|score)\.json|.*/(?:test_findings_)?waiting\.py|.*/NAME\.json"
)


@cache
def files() -> frozenset[str]:
    """Every file of the project, from its root."""
    folders = ("src", "docs", "benchmarks", "tests", "examples", "tools")
    inside = (file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file())
    return frozenset(str(file.relative_to(ROOT)) for file in (*inside, *ROOT.glob("*")))


def is_file(name: str) -> bool:
    """By its path from the root, or by how its path ends."""
    name = name.removeprefix("../").removeprefix("./")
    return any(file == name or file.endswith(f"/{name}") for file in files())


def is_name(dotted: str) -> bool:
    """A module, or something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def flags() -> frozenset[str]:
    """Every flag of our command line, and those that a program of ours adds to its parser."""
    known = {"algo", "config", "resume", "help", "version"}
    for settings in (task.config for task in iterate_tasks()):
        known.update(flag_names(dataclasses.replace(Config(), env=settings())))
    for name in command_modules():
        for kind in vars(importlib.import_module(name)).values():
            if (
                dataclasses.is_dataclass(kind)
                and isinstance(kind, type)
                and kind.__name__.endswith("Arguments")
            ):
                known.update(field.name.replace("_", "-") for field in dataclasses.fields(kind))
    for program in (*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "docs").glob("*.py")):
        known.update(re.findall(r'"--([\w.-]+)"', program.read_text(encoding="utf-8")))
    known.update(SHORT_NAMES)
    known.update(ACCEPTED_NAMES)
    return frozenset(known)


def is_flag(word: str) -> bool:
    """With `no-` before its last part or without; the name of a group (`--network`) will do."""
    name = word.removeprefix("--")
    positive = re.sub(r"(^|\.)no-([^.]*)$", r"\1\2", name)
    return bool({name, positive} & flags()) or any(flag.startswith(f"{name}.") for flag in flags())


def wrong(span: Command) -> str | None:
    """What a span names that is not there."""
    text = " ".join(span.words)
    if FILE.fullmatch(text):
        return None if is_file(text) or WRITTEN.fullmatch(text) else f"there is no file {text}"
    if (name := NAME.fullmatch(text)) and not is_name(name[1]):
        return f"there is no {name[1]}"
    if text.startswith("--"):
        return next((f"there is no flag {word}" for word in FLAG.findall(text) if not is_flag(word)), None)
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_the_text_names_is_there(page: Path) -> None:
    said = [(span, complaint) for span in spans(page) if (complaint := wrong(span))]
    assert not said, "\n".join(f"{span.where}: {complaint}" for span, complaint in said)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("flashdqn.envs.check_env(env)", True),
        ("flashdqn.envs.chek_env(env)", False),
        ("flashdqn.profile.result.Profile", True),
        ("learn/bootstraps.py", True),
        ("learn/bootstrap.py", False),
        ("--env.no-masks", True),
        ("--runtime.mode auto", True),
        ("--runtime.mood auto", False),
        ("--log.no-tensorboards", False),
    ],
)
def test_what_is_not_there_is_found(text: str, right: bool) -> None:
    assert (wrong(Command(ROOT / "README.md", 1, tuple(text.split()))) is None) == right
