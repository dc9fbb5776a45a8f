"""The flags of a command: their names, what each takes, and short ways to write a value.

`1e5`, `100k` and `1M` are whole numbers, `256,256` is a list, and a few settings have short names (`--lr`).
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from flashdqn.config.names import ACCEPTED_NAMES, SHORT_NAMES, translate_accepted
from flashdqn.config.values import parse_count
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import FieldRule, describe_value, list_metadata, list_rules

#: What a number must be, in words.
NEEDS: dict[type, str] = {
    int: "a whole number such as 64, 100k or 1e6",
    float: "a number such as 0.5 or 1e-3",
}

#: The name of a field whose settings are the command's own flags, without a prefix.
TRAINING = "training"


@dataclass(frozen=True)
class Flag:
    """A flag of a command."""

    name: str
    rule: FieldRule
    value: Any  # without the flag; a dataclass's MISSING if it has none
    about: str
    metavar: str
    #: other names, without hyphens in front
    aliases: tuple[str, ...]
    #: whether a text is read by a function of its own, such as TIME
    parsed: bool

    @property
    def short(self) -> str | None:
        """Its short name."""
        return next((short for short, name in SHORT_NAMES.items() if name == self.name), None)

    @property
    def group(self) -> str:
        """The group of settings that it belongs to; empty: none."""
        return self.name.rpartition(".")[0].partition(".")[0]

    def read_value(self, word: str, shown: str) -> list[str]:
        """The words that mean the same as a value that a user has written; `shown` is the flag as it was given."""
        if self.rule.choices and word not in self.rule.choices:
            allowed = ", ".join(f"'{choice}'" for choice in self.rule.choices)
            raise ConfigError(f"{shown} takes one of {allowed}, and {describe_value(word)} is not one.")
        if (
            self.parsed
            or self.rule.kind not in (int, float)
            or (self.rule.optional and word in ("None", "none"))
        ):
            return ["None"] if self.rule.optional and word == "none" else [word]
        if self.rule.listed and not (word := word.strip("[](), ")):
            return []
        parts = word.split(",") if self.rule.listed else [word]
        return [self._read_number(part.strip(), shown) for part in parts]

    def describe_needs(self) -> str:
        """What it takes, for a message."""
        return self.metavar if self.parsed or self.rule.choices else NEEDS.get(self.rule.kind, self.metavar)

    def _read_number(self, word: str, shown: str) -> str:
        try:
            return str(parse_count(word)) if self.rule.kind is int else f"{float(word)!r}"
        except ValueError:
            kind = "whole numbers such as 256,256" if self.rule.listed else NEEDS[self.rule.kind]
            raise ConfigError(f"{shown} takes {kind}, and {describe_value(word)} is not.") from None


def list_flags(kind: Any, values: Any = None) -> list[Flag]:
    """The flags of a command's dataclass, in their order; `values` is an instance with the defaults."""
    return list(_iterate_flags(kind, values, ""))


def _iterate_flags(kind: Any, values: Any, prefix: str) -> Iterator[Flag]:
    abouts, hints = read_field_texts(kind), get_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for rule in list_rules(kind):
        value = getattr(values, rule.name) if values is not None else fields[rule.name].default
        if dataclasses.is_dataclass(value):
            inner = "" if rule.name == TRAINING else f"{prefix}{rule.name.replace('_', '-')}."
            yield from _iterate_flags(type(value), value, inner)
            continue
        options = [part for part in list_metadata(hints[rule.name]) if hasattr(part, "metavar")]
        about = next(
            (part.help for part in options if getattr(part, "help", None)), abouts.get(rule.name, "")
        )
        metavar = next((part.metavar for part in options if isinstance(part.metavar, str)), None)
        aliases = tuple(
            alias.lstrip("-") for part in options for alias in getattr(part, "aliases", None) or ()
        )
        parsed = any(hasattr(part, "instance_from_str") for part in options)
        if "Suppress" in repr(hints[rule.name]) or "Positional" in repr(hints[rule.name]):
            continue
        name = f"{prefix}{rule.name.replace('_', '-')}"
        yield Flag(name, rule, value, about, metavar or name_metavar(rule), aliases, parsed)


def name_metavar(rule: FieldRule) -> str:
    """What a flag takes, in a word; empty for a switch."""
    if rule.choices:
        return "|".join(map(str, rule.choices))
    names = {int: "N", float: "X", str: "TEXT", bool: "", dict: "JSON"}
    name = names.get(rule.kind, "FILE")
    return f"{name},{name},…" if rule.listed else name


@functools.cache
def get_hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, with what Annotated adds."""
    return get_type_hints(kind, include_extras=True)


@functools.cache
def read_field_texts(kind: Any) -> dict[str, str]:
    """The text below each field of a dataclass, on one line."""
    found: dict[str, str] = {}
    parents: list[type] = [one for one in kind.__mro__ if "__dataclass_fields__" in vars(one)]
    for parent in reversed(parents):
        body = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0]
        assert isinstance(body, ast.ClassDef)
        for pair in itertools.pairwise(body.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def replace_accepted_names(arguments: list[str], by_name: Mapping[str, Flag]) -> list[str]:
    """The words with our flag and value in place of another trainer's: `--train-freq 5` is `--train-ratio 0.2`."""
    words, rest = [], iter(arguments)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in ACCEPTED_NAMES or ACCEPTED_NAMES[name][0] not in by_name:
            words.append(word)
            continue
        ours, number = translate_accepted(f"--{name}", name, value if equals else next(rest, ""))
        words += [f"--{ours}", str(number)]
    return words


def turn_off(switch: str) -> str:
    """The name that turns a switch off."""
    return re.sub(r"([^.]+)$", r"no-\1", switch)


def replace_switch_values(arguments: list[str], opposites: Mapping[str, str]) -> list[str]:
    """The words with our switch in place of what other programs write: `--log.x false`, `--log.x=false` and
    `--no-log.x` are `--log.no-x`."""
    words, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        given, _, value = word.partition("=")
        name = re.sub(r"^no-(.*\.)([^.]+)$", r"\1no-\2", given.removeprefix("--").replace("_", "-"))
        if not given.startswith("--") or name not in opposites:
            words.append(word)
            continue
        if "=" not in word and rest and rest[0].lower() in ("true", "false"):
            value = rest.pop(0)
        if word.endswith("=") or value.lower() not in ("", "true", "false"):
            words.append(word)  # `read_arguments` says what is wrong with it
        else:
            words.append(f"--{opposites[name] if value.lower() == 'false' else name}")
    return words


def read_arguments(arguments: list[str], flags: list[Flag], refuse: Any) -> list[str]:
    """The words as the parser of the flags expects them: full names, plain numbers, lists as separate words.
    `refuse` is called with the first word that looks like a flag and is not one."""
    by_name = {flag.name: flag for flag in flags}
    arguments = replace_accepted_names(arguments, by_name)
    other_names = SHORT_NAMES | {alias: flag.name for flag in flags for alias in flag.aliases}
    switches = {flag.name for flag in flags if flag.rule.kind is bool}
    opposites = {name: turn_off(name) for name in switches - {"trust"}}
    arguments = replace_switch_values(arguments, opposites | {off: on for on, off in opposites.items()})
    switches |= {turn_off(name) for name in switches}
    words: list[str] = []
    current: tuple[Flag, str] | None = None  # the flag whose values come now, and how it was written
    waiting = False  # for the first value
    for word in arguments:
        if not is_flag(word):
            words += current[0].read_value(word, current[1]) if current is not None else [word]
            current = current if current is not None and current[0].rule.listed else None
            waiting = False
            continue
        refuse_missing_value(current if waiting else None)
        given, equals, value = word.partition("=")
        name = given[2:].replace("_", "-") if given.startswith("--") else ""
        name = name if name in by_name else other_names.get(name, name)
        if name not in by_name and name not in switches:
            refuse(given)
        current = (by_name[name], given) if name in by_name and name not in switches else None
        waiting = current is not None and not equals
        words.append(f"--{name}")
        if equals and current is not None:
            words += current[0].read_value(value, given)
            current = None
        elif equals:
            raise ConfigError(f"{given} is a switch and takes no value: {explain_switch(name, by_name)}.")
    refuse_missing_value(current if waiting else None)
    return words


def refuse_missing_value(flag: tuple[Flag, str] | None) -> None:
    """Refuse a flag at the end, or before another flag, that needs a value; a list may be empty."""
    if flag is not None and not flag[0].rule.listed:
        raise ConfigError(f"{flag[1]} needs a value: {flag[0].describe_needs()}.")


def explain_switch(name: str, flags: Mapping[str, Flag]) -> str:
    """How a switch is turned on and off."""
    plain = name if name in flags else re.sub(r"no-([^.]+)$", r"\1", name)
    return f"--{plain} turns it on" + (f", --{turn_off(plain)} off" if plain != "trust" else "")


def is_flag(word: str) -> bool:
    """Whether a word is a flag, and not a value: a negative number is a value."""
    return re.match(r"--?[^\W\d]", word) is not None
