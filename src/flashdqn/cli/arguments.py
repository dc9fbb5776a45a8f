"""Command-line arguments as dataclasses; each error becomes one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import os
import re
from typing import Annotated, Any

import tyro

from flashdqn.cli.flags import list_flags, read_arguments
from flashdqn.config.names import FOREIGN_NAMES, SHORT_NAMES
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import check_values, describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.core.text import clean_line
from flashdqn.core.user_code import Permission, names_code
from flashdqn.envs.tasks import TASKS

#: Flags by which other trainers are told what to train on: here it is the first word.
FIRST_WORDS = ("preset", "env", "env-id", "env-name", "game", "task", "gym")

#: Commands that take the settings of a training, after what to train on.
WITH_SETTINGS = ("train", "profile", "sweep")

#: What other commands take as words without a flag.
TAKEN_WORDS = {
    "cache": "it takes one action",
    "fuelbreaks plan": "it takes one landscape",
    "fuelbreaks score": "it takes one landscape and one plan",
}

#: Flags that people give to a command that has another word for it.
MEANT_BY_COMMAND = {
    "export": {"format": "to", "type": "to"},
    "eval": {"steps": "episodes", "n-eval-episodes": "episodes"},
    "watch": {"steps": "episodes", "n-eval-episodes": "episodes"},
}


def parse(command: str, kind: Any, arguments: list[str], known: list[str], default: Any = None) -> Any:
    """Arguments as a dataclass; tyro's complaints become one sentence."""
    more = {} if default is None else {"default": default}
    name = command if command in TAKEN_WORDS else command.split()[0]
    if not {"-h", "--help"} & set(arguments):
        flags = list_flags(kind, default)
        arguments = read_arguments(arguments, flags, lambda word: refuse_flag(name, word, known))
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed, unknown = tyro.cli(
                kind, prog=f"flashdqn {command}", args=arguments, return_unknown_args=True, **more
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        advice = f"`flashdqn {name} --help` says what is allowed"
        text = clean_line(first_paragraph(complaint.getvalue()).rstrip("."), 300)
        if found := re.match(r"Error parsing (--[\w.-]+):", text):
            text = f"{found[1]} cannot be {describe_value(find_flag_values(arguments, found[1])[-1:])[1:-1]}"
        raise ConfigError(f"{text}; {advice}.") from None
    refuse_unknown(name, unknown, known)
    check_values(parsed, "--", dashes=True)
    return parsed


def first_paragraph(box: str) -> str:
    """The first part of tyro's message box, on one line. If the output is not UTF-8, the box has no sides, and
    its rules are hyphens."""
    lines = (line.strip("│╰─╯- ") for line in box.splitlines()[1:])
    parts = itertools.groupby(lines, key=bool)
    return " ".join(next((group for is_text, group in parts if is_text), ()))


def refuse_unknown(command: str, unknown: list[str], known: list[str]) -> None:
    """Refuse the first unknown word, and suggest the flag that was probably meant."""
    if not unknown:
        return
    word = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
    if not word.startswith("-"):
        usual = "the preset comes first, then the flags" if command in WITH_SETTINGS else "it takes one run"
        order = TAKEN_WORDS.get(command, usual)
        raise ConfigError(f"{describe_value(word)} is one word too many: {order}.")
    refuse_flag(command, word, known)


def refuse_flag(command: str, word: str, known: list[str]) -> None:
    """Refuse an unknown flag, and suggest the one that was probably meant."""
    names = [*known, *(short for short, name in SHORT_NAMES.items() if name in known)]
    plain = word.lstrip("-").replace("_", "-")
    if command in WITH_SETTINGS and plain in FIRST_WORDS:
        raise ConfigError(
            f"There is no flag {describe_value(word)}: what to train on is the first word, "
            f"`flashdqn {command} CartPole-v1`; `flashdqn presets` lists more."
        )
    inside = [name for name in names if name.rpartition(".")[2] == plain]
    foreign = FOREIGN_NAMES | MEANT_BY_COMMAND.get(command, {})
    meant = plain if plain in names else foreign.get(plain, inside[0] if inside else "")
    hint = suggest_nearest(f"--{plain}", [f"--{name}" for name in names])
    if meant in names:
        hint = f"; did you mean '--{meant}'?"
    elif "did you mean" not in hint or len(plain) < 2:
        helps = "--help-all" if command in WITH_SETTINGS else "--help"
        hint = f"; `flashdqn {command} {helps}` lists them all."
    raise ConfigError(f"Unknown flag {describe_value(word)}{hint}")


def flag_names(config: Any, prefix: str = "") -> list[str]:
    """The flag names of all settings."""
    names: list[str] = []
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{prefix}{field.name.replace('_', '-')}"
        names += flag_names(value, f"{name}.") if dataclasses.is_dataclass(value) else [name]
    return names


def flag_value(arguments: list[str], flag: str) -> str | None:
    """The value of a flag that must be known before the others can be read; it may be given once."""
    values = find_flag_values(arguments, flag)
    if len(values) > 1:
        raise ConfigError(f"{flag} is given {len(values)} times: give it once.")
    return values[0] if values else None


def find_flag_values(arguments: list[str], flag: str) -> list[str]:
    """All values of a flag, in their order."""
    values = []
    for i, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            values.append(word.partition("=")[2])
        if word == flag:
            if i + 1 == len(arguments):
                raise ConfigError(f"{flag} needs a value.")
            values.append(arguments[i + 1])
    return values


#: The flags whose values may name code: a name given there is permitted.
NAMING_FLAGS = ("--network", "--env.", "--learn.", "--replay.")

TRUST_HELP = (
    "Import the code that the run or the file names as module:Name: networks, games, variants. It runs with your "
    "rights, so trust only what you know. --trust MODULE:NAME allows only this name."
)
Trust = Annotated[bool, tyro.conf.arg(help=TRUST_HELP), tyro.conf.FlagCreatePairsOff]


def read_permission(arguments: list[str], preset: bool = False) -> tuple[Permission, list[str]]:
    """What this command line permits files to import, and its words without the names after --trust.

    A name counts as the value of --trust or of a flag that names code and, where `preset` is true, as the first
    word. A path never counts: somebody may have named a run's folder `evil:Game`.
    """
    names: set[str] = set()
    settings: set[str] = set()
    rest: list[str] = []
    everything, skipped = False, -1
    if preset and arguments and not arguments[0].startswith("-"):
        task, _, rest_of_name = arguments[0].partition(":")
        names.add(rest_of_name if task in TASKS else arguments[0])
    for i, word in enumerate(arguments):
        flag, _, value = word.partition("=")
        after = value or (arguments[i + 1] if i + 1 < len(arguments) else "")
        if flag == "--trust":
            refuse_planted_flag(word)
            one = bool(value) or re.fullmatch(r"[^\W\d][\w.]*:\S+", after) is not None
            everything = everything or not one
            names |= {after} if one else set()
            skipped = i + 1 if one and not value else skipped
        elif flag.startswith("--log."):
            settings.add(flag.removeprefix("--").replace("-", "_"))
        elif flag.startswith(NAMING_FLAGS):
            names.add(after)
        if i != skipped:
            rest.append(flag if flag == "--trust" else word)
    return Permission(frozenset(filter(names_code, names)), everything, frozenset(settings)), rest


def refuse_planted_flag(word: str) -> None:
    """Refuse --trust where a file or folder has that name: `flashdqn report *` would give trust without a word of
    the user's."""
    if os.path.lexists(word):
        raise ConfigError(
            f"Something in this folder is called {describe_value(word)}, so a shell's * may have written it, and "
            "nothing was imported: rename it, or run the command in another folder."
        )


def refuse_arguments(command: str, arguments: list[str]) -> None:
    """Refuse arguments of a command that takes none."""
    if arguments and arguments[0] not in ("-h", "--help"):
        raise ConfigError(f"`flashdqn {command}` takes no arguments, and got {describe_value(arguments[0])}.")
