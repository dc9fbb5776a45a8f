"""The user's own objects by name, `module:Object`: which names may be imported, and how objects are called.

Code that the user names on the command line or in Python is imported. Code that a *file* names (a run's config.json
or a `--config` file) needs a `Permission`, because a file may come from a stranger. Every way from a file into
settings calls `Permission.require` before anything is imported, and a training that a file describes calls
`Permission.require_sending` before it sends its figures anywhere (docs/trust.md).
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from flashdqn.core.errors import ConfigError, FlashDQNError, UntrustedError
from flashdqn.core.files import parse_json
from flashdqn.core.ranges import describe_value
from flashdqn.core.safe_path import release_children
from flashdqn.core.text import clean_line

#: The most characters that arguments may have as JSON, and the most levels of dicts and lists.
LARGEST_ARGUMENTS, DEEPEST = 1_000_000, 20


@dataclass(frozen=True)
class Permission:
    """What the user allows a file: to import some names, everything, or by default nothing; and to send figures,
    where the user has given the same settings again."""

    names: frozenset[str] = frozenset()
    everything: bool = False
    settings: frozenset[str] = frozenset()

    def require(self, names: Iterable[str], file: Path) -> None:
        """Refuse the names that are not allowed, in one sentence."""
        wanted = [] if self.everything else [name for name in dict.fromkeys(names) if name not in self.names]
        if wanted:
            # As repr, and shortened: a stranger's name must neither control the terminal nor fill it.
            listed = ", ".join(repr(name[:60]) for name in wanted[:3]) + (
                " and more" if len(wanted) > 3 else ""
            )
            raise UntrustedError(
                f"{file} asks to import {listed}, which you have not named, and nothing was imported: if you trust "
                "it, add --trust MODULE:NAME, or --trust for all that the file names (in Python: trust=True)."
            )

    def require_sending(self, receivers: Mapping[str, str], file: Path) -> None:
        """Refuse to send figures where a file says, unless the user says it too. `receivers` are described, by the
        setting that the user would have to give."""
        wanted = {} if self.everything else {k: v for k, v in receivers.items() if k not in self.settings}
        for setting, receiver in wanted.items():
            flag = f"--{setting.replace('_', '-')}"
            raise UntrustedError(
                f"{file} asks to send the training's figures to {receiver!r:.80}, and nothing was sent: if you "
                f"want that, add {flag} here, too, or --trust for all that the file asks (in Python: trust=True)."
            )

    def allow_working_folder(self) -> None:
        """Let Python look for modules in the current folder, as `python -m` does. Without a permission it must not:
        a file there could pass for a package that is not installed."""
        if self.everything or self.names:
            sys.path.append(str(Path.cwd()))
            release_children()


#: What a file may import if the user says nothing.
NO_PERMISSION = Permission()


def names_code(text: str) -> bool:
    """Whether a setting is written as `module:Name`."""
    return ":" in text


def find_names(data: Any) -> Iterator[str]:
    """Every text in plain data that may name code, also inside arguments of other code: all texts with a colon."""
    if isinstance(data, str):
        if names_code(data):
            yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from find_names(key)
            yield from find_names(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from find_names(value)


def find_paths(data: Any) -> Iterator[str]:
    """Every text in plain data that may be a file or a module: with a dot or a slash in it, and not a number."""
    if isinstance(data, str):
        if re.search(r"[./\\~]", data) and not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", data, re.IGNORECASE):
            yield data
    elif isinstance(data, Mapping):
        for value in data.values():
            yield from find_paths(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from find_paths(value)


def import_named(name: str, what: str) -> Any:
    """The named object; `what` says in messages what it is for: "the torso"."""
    module, _, rest = name.partition(":")
    if not module or not rest:
        raise ConfigError(f"Your own code for {what} is written module:Name, and '{name}' is not.")
    found: Any = _import_module(module, name, what)
    for part in rest.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"The module {module} has no '{rest}', which {what} '{name}' names.")
        found = getattr(found, part)
    return found


def make_named(name: str, what: str, *parts: Any, **kwargs: Any) -> Any:
    """Import the object and call it; an error that its code raises becomes one sentence."""
    make = import_named(name, what)
    try:
        return make(*parts, **kwargs)
    except FlashDQNError:
        raise
    except Exception as error:  # the user's own code
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{what.capitalize()} '{name}' cannot be made with the arguments {kwargs}: {reason}"
        ) from error


def _import_module(module: str, name: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise ConfigError(
                f"There is no module '{missing}' to take {what} '{name}' from: run the command in the folder where "
                "it is, or install it."
            ) from None
        raise ConfigError(f"{module} needs the module '{missing}', which is not installed.") from error
    except Exception as error:  # the user's own code
        raise ConfigError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error


def parse_kwargs(text: str, where: str = "") -> dict[str, Any]:
    """Arguments by name, from a JSON object; `where` names them in a message: " for env.kwargs"."""
    try:
        value = parse_json(text, unique=True)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(
            f"""Arguments{where} are written like '{{"width": 64}}', and {describe_value(text)} is not."""
        )
    return value


def make_kwargs_flag(where: str = "") -> Any:
    """How a command line writes arguments by name."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: parse_kwargs(words[0], where),
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    )


Kwargs = Annotated[dict[str, Any], make_kwargs_flag()]


def check_json_serializable(name: str, kwargs: dict[str, Any]) -> None:
    """Refuse arguments that config.json could not hold, or that are too large or too deep to be arguments."""
    try:
        size = len(json.dumps(kwargs, allow_nan=False)) if measure_depth(kwargs) <= DEEPEST else math.inf
    except (TypeError, ValueError) as error:
        reason = clean_line(str(error), 200)
        raise ConfigError(f"{name} must be plain data that JSON can hold: {reason}.") from None
    if size > LARGEST_ARGUMENTS:
        raise ConfigError(
            f"{name} may have at most {LARGEST_ARGUMENTS:,} characters as JSON, and {DEEPEST} levels."
        )


def measure_depth(data: Any) -> int:
    """How many dicts and lists lie inside each other, at most `DEEPEST` + 1."""
    level, depth = [data], 0
    while level and depth <= DEEPEST:
        inside = [
            list(x.values()) if isinstance(x, dict) else x
            for x in level
            if isinstance(x, dict | list | tuple)
        ]
        level, depth = [value for values in inside for value in values], depth + bool(inside)
    return depth
