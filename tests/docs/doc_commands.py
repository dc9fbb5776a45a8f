"""Check a command of the docs with the very parser that would read it, without doing what it says.

`flashdqn …` goes through the real command line, with the real presets and files, up to where the work would start.
`python FILE …` is run up to the end of its `parse_args`; a program without a parser takes no arguments, and is run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import itertools
import pkgutil
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from doc_pages import ROOT, Command

from flashdqn import Config
from flashdqn import cli as cli_package
from flashdqn.cli import main as cli
from flashdqn.cli.arguments import flag_value, parse
from flashdqn.config.rank_share import check_share
from flashdqn.config.settings import list_named_code
from flashdqn.core.contract import close_env
from flashdqn.core.errors import FlashDQNError
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import build_learner

#: names that pages use for a run folder: RUN, runs/snake-20261115-120000, runs/my_game-…
RUN = re.compile(r"^(?:RUN|runs/[^/\s]*(?:\d{8}-\d{6}|…|\*))(?=/|$)|^runs/…$")
#: other words in place of something of the reader's
PLACEHOLDERS = {"PRESET": "snake", "ALGO": "dqn", "N": "1", "STEP": "1000"}


class Reached(Exception):  # noqa: N818 - no error: the parser is content
    """The work would start here."""


def fill_in(words: tuple[str, ...], run: Path) -> list[str]:
    """A run folder for the one that the page names, and something for other words in capitals."""
    filled = [RUN.sub(str(run), word) for word in words if word not in ("…", "...")]
    return [PLACEHOLDERS.get(word, word) for word in filled]


def check(command: Command, run: Path) -> str | None:
    """What is wrong with a command; None if nothing is."""
    words = fill_in(command.words, run)
    wrong = check_words(words)
    # `flashdqn train --resume`: of which, all know
    if wrong and command.mention and words[-1].startswith("-"):
        return None if check_words([*words, str(run)]) is None else wrong
    return wrong


def check_words(words: list[str]) -> str | None:
    """By program."""
    program, rest = words[0], words[1:]
    checks: dict[str, Callable[[list[str]], str | None]] = {
        "flashdqn": check_flashdqn,
        "python": check_python,
        "python3": check_python,
        "torchrun": check_torchrun,
        "make": check_make,
        "pip": check_pip,
        "cd": lambda rest: None if (ROOT / rest[0]).is_dir() else f"there is no folder {rest[0]}",
        "source": lambda rest: None if rest == [".venv/bin/activate"] else f"nobody knows {rest}",
    }
    if program not in checks:
        return f"no test knows how to check '{program}': put <!-- not run: why --> above the block"
    return checks[program](rest)


def check_flashdqn(arguments: list[str]) -> str | None:
    """By the command line itself, up to where a run would be opened or started."""
    if (file := flag_value(arguments, "--config")) and not Path(file).exists():
        Path(file).write_text("{}" if file.endswith(".json") else "", encoding="utf-8")  # the reader's own
    try:
        with stopped_after_parsing(), contextlib.redirect_stdout(io.StringIO()):
            code = cli.dispatch_command(arguments)
    except Reached:
        return None
    except FlashDQNError as error:
        return str(error)
    except SystemExit as stop:  # --help
        code = stop.code
    return None if code in (0, None) else f"it ended with exit code {code}"


@contextlib.contextmanager
def stopped_after_parsing() -> Iterator[None]:
    """Trainings stop where they would start, the other commands when their arguments have been read."""
    session = importlib.import_module("flashdqn.training.session")
    changed: list[tuple[Any, str, Any]] = []

    def put(home: Any, name: str, value: Any) -> None:
        changed.append((home, name, getattr(home, name)))
        setattr(home, name, value)

    def reached(config: Config, *_: Any) -> Any:
        if names_something_of_the_readers(config):
            build(config)
        raise Reached

    def launched(config: Config, _: list[str], count: int) -> Any:
        check_share(config, count)
        raise Reached

    def parsed(*arguments: Any, **named: Any) -> Any:
        read = original(*arguments, **named)
        if arguments[0].split()[0] == "train":
            return read
        raise Reached

    original, path = parse, list(sys.path)
    put(session, "start_run", reached)
    put(session, "resume_run", reached)
    put(importlib.import_module("flashdqn.cli.train"), "launch_ranks", launched)
    for name in command_modules():
        put(importlib.import_module(name), "parse", parsed)
    try:
        yield
    finally:
        for home, name, value in reversed(changed):
            setattr(home, name, value)
        sys.path[:] = path  # where the command line looks for modules of the user's


def names_something_of_the_readers(config: Config) -> bool:
    """A game, a network, a variant or tables of their own: only building it says whether the page is right."""
    return bool(list_named_code(config) or getattr(config.env, "tables", ""))


def build(config: Config) -> None:
    """The games and the network, as a training would."""
    games = build_evaluation_env(config.env, 2, torch.device("cpu"))
    build_learner(config, games, torch.device("cpu"))
    close_env(games)


def command_modules() -> list[str]:
    """The files of the command line that read arguments of their own."""
    names = [f"flashdqn.cli.{found.name}" for found in pkgutil.iter_modules(cli_package.__path__)]
    return [name for name in names if hasattr(importlib.import_module(name), "parse")]


def check_python(arguments: list[str]) -> str | None:
    """A program of ours, up to the end of its own parser."""
    if arguments[:2] == ["-m", "flashdqn"]:
        return check_flashdqn(arguments[2:])
    if not arguments or arguments[0].startswith("-"):
        return f"no test knows how to check 'python {' '.join(arguments)}'"
    file = ROOT / arguments[0]
    if not file.is_file():
        return f"there is no file {arguments[0]}"
    if "parse_args" not in file.read_text(encoding="utf-8"):
        return None if len(arguments) == 1 else f"{arguments[0]} takes no arguments"
    said = io.StringIO()
    try:
        with as_program(file, arguments[1:]), contextlib.redirect_stderr(said):
            runpy.run_path(str(file), run_name="__main__")
    except Reached:
        return None
    except SystemExit:
        return (
            said.getvalue().strip().splitlines()[-1]
            if said.getvalue()
            else "it ended before it parsed anything"
        )
    return "it ended without looking at its arguments"


@contextlib.contextmanager
def as_program(file: Path, arguments: list[str]) -> Iterator[None]:
    """`python file arguments`, whose `parse_args` is the last thing that it does."""
    words, path, parse_args = sys.argv, list(sys.path), argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *given: Any, **named: Any) -> Any:
        parse_args(self, *given, **named)
        raise Reached

    sys.argv, sys.path[:0] = [str(file), *arguments], [str(file.parent)]
    argparse.ArgumentParser.parse_args = parsed  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = words, path
        argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]


def check_torchrun(arguments: list[str]) -> str | None:
    """What torchrun would start; its own flags are not ours to check."""
    if ("-m", "flashdqn") not in itertools.pairwise(arguments):
        return "it does not start flashdqn"
    return check_flashdqn(arguments[arguments.index("-m") + 2 :])


def check_make(arguments: list[str]) -> str | None:
    """make itself says whether it knows how."""
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def check_pip(arguments: list[str]) -> str | None:
    """The extras that are asked for exist; what else is installed is not ours to check."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = set(project["optional-dependencies"])
    for word in arguments:
        asked = re.fullmatch(r"(?:\.|flashdqn)\[([\w,-]+)\]", word)
        missing = set(asked[1].split(",")) - known if asked else set()
        if missing:
            return f"pyproject.toml has no extra {', '.join(sorted(missing))}"
    return None if arguments[:1] == ["install"] else f"no test knows how to check 'pip {' '.join(arguments)}'"
