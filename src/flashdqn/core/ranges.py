"""What a setting may be: the range of every number, the length of every text, checked in one place.

A range stands beside its field, and `check_values` reads it from there:

    batch_size: Annotated[int, Between(1, 2**24)] = 256

A message names the setting, what is allowed and what was given; what was given is shortened and cannot control a
terminal.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import reprlib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from flashdqn.core.errors import ConfigError
from flashdqn.core.text import CONTROL

#: The most of what is only counted, such as transitions.
MANY = 10**15
#: The largest reward, return or loss. Its square still fits into float32.
LARGE = 1e12
#: The largest number that float32 can hold.
FLOAT32 = 3.4028234e38
#: Seeds fit into 64 bits.
SEEDS = (-(2**63), 2**63 - 1)
#: The longest text, as the longest path of Linux.
LONGEST_TEXT = 4096
#: The most items of a list, unless its range says otherwise.
MOST_ITEMS = 1000
#: Characters of a given value that a message repeats.
SHOWN = 60


@dataclass(frozen=True)
class Between:
    """The numbers that a field may hold, also in a list or where None is allowed."""

    least: float
    most: float
    #: whether `least` itself is too small
    above: bool = False
    #: the most items, if the field is a list
    items: int = MOST_ITEMS

    def holds(self, value: float) -> bool:
        """Whether a number is allowed; NaN and infinities never are."""
        return self.least < value <= self.most if self.above else self.least <= value <= self.most

    def explain(self, value: float) -> str:
        """What a number must be, after "must", for one that is not allowed; a far bound is left out."""
        least, most = format_bound(self.least), format_bound(self.most)
        if isinstance(value, float) and not math.isfinite(value):
            return f"be a finite number in {least} … {most}"
        if self.above and value <= self.least:
            return f"be above {least}" + (f" and at most {most}" if self.is_narrow else "")
        if self.is_narrow:
            return f"lie in {least} … {most}"
        return f"be at most {most}" if value > self.most else f"be at least {least}"

    @property
    def is_narrow(self) -> bool:
        """Whether both bounds are worth saying."""
        return self.most - self.least < 256


@dataclass(frozen=True)
class FieldRule:
    """What a field may hold."""

    name: str
    #: int, float, bool, str, dict, a dataclass, or `object` for anything
    kind: type
    listed: bool = False
    optional: bool = False
    choices: tuple[Any, ...] = ()
    range: Between | None = None

    def find_fault(self, value: Any) -> str | None:
        """What is wrong with a value, after the field's name; None if nothing is."""
        if value is None and self.optional:
            return None
        if not self.listed:
            return self._find_item_fault(value)
        if not isinstance(value, tuple | list):
            return f"must be a list, and is {describe_value(value)}."
        most = MOST_ITEMS if self.range is None else self.range.items
        if len(value) > most:
            return f"may have at most {most} items, and has {len(value)}."
        return next((fault for item in value if (fault := self._find_item_fault(item))), None)

    def _find_item_fault(self, value: Any) -> str | None:
        if self.choices:
            if isinstance(value, str) and value in self.choices:
                return None
            return f"must be one of {', '.join(map(str, self.choices))}, and is {describe_value(value)}."
        if not self._has_kind(value):
            return f"must be {name_kind(self.kind)}, and is {describe_value(value)}."
        if self.kind is str or isinstance(value, Path):
            return find_text_fault(str(value), path=self.kind is not str)
        if self.range is not None and not self.range.holds(value):
            return f"must {self.range.explain(value)}, and is {describe_value(value)}."
        return None

    def _has_kind(self, value: Any) -> bool:
        if self.kind in (int, float):
            wanted = numbers.Integral if self.kind is int else numbers.Real
            return isinstance(value, wanted) and not isinstance(value, bool)
        return isinstance(value, self.kind)

    def make_plain(self, value: Any) -> Any:
        """The value as JSON can hold it: a tuple for a list, Python's number for NumPy's."""
        if self.listed and isinstance(value, list):
            return tuple(value)
        if self.kind in (int, float) and not self.listed and not isinstance(value, int | float | None):
            return self.kind(value)
        return value


def check_values(config: Any, prefix: str = "", dashes: bool = False) -> None:
    """Refuse a dataclass with a value that its fields' types and ranges do not allow; `prefix` is what the names in
    messages start with. `dashes`: write names as flags are written."""
    kind: Any = type(config)
    for rule in list_rules(kind):
        value = getattr(config, rule.name)
        if fault := rule.find_fault(value):
            name = rule.name.replace("_", "-") if dashes else rule.name
            raise ConfigError(f"{prefix}{name} {fault}")
        if (plain := rule.make_plain(value)) is not value:
            object.__setattr__(config, rule.name, plain)


@functools.cache
def list_rules(kind: type) -> tuple[FieldRule, ...]:
    """The rules of a dataclass's fields."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(make_rule(field.name, hints[field.name]) for field in dataclasses.fields(kind))


def make_rule(name: str, hint: Any) -> FieldRule:
    """The rule that a type stands for."""
    found = next((part for part in list_metadata(hint) if isinstance(part, Between)), None)
    hint, optional, listed = strip_metadata(hint), False, False
    if get_origin(hint) in (Union, types.UnionType):
        optional = type(None) in get_args(hint)
        hint = strip_metadata(next(part for part in get_args(hint) if part is not type(None)))
    if get_origin(hint) is tuple:
        hint, listed = strip_metadata(get_args(hint)[0]), True
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind = str if choices else get_origin(hint) or hint
    return FieldRule(name, kind if isinstance(kind, type) else object, listed, optional, choices, found)


def list_metadata(hint: Any) -> Iterator[Any]:
    """All that Annotated adds to a type, at any depth."""
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
    for part in get_args(hint):
        if get_origin(part) is not None:
            yield from list_metadata(part)


def strip_metadata(hint: Any) -> Any:
    """A type without what Annotated adds to it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def find_text_fault(text: str, path: bool = False) -> str | None:
    """What is wrong with a text: too long, or with characters that no setting needs. A path may be any that the
    system can have."""
    if len(text) > LONGEST_TEXT:
        return f"may have at most {LONGEST_TEXT} characters, and has {len(text)}."
    if path:
        return f"cannot hold a zero byte, and is {describe_value(text)}." if "\0" in text else None
    if not CONTROL.search(text):
        return None
    return f"must be a text without control characters, in UTF-8, and is {describe_value(text)}."


def name_kind(kind: type) -> str:
    """A type in words."""
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return names.get(kind) or ("settings by name" if kind is dict else f"a {kind.__name__}")


def format_bound(number: float) -> str:
    """A bound as it is read best: 255, 0.5, 1e12."""
    if number == 0 or abs(number) < 10**6 or number % 10**6:
        return f"{number:g}" if isinstance(number, float) else str(number)
    return f"{number:.0e}".replace("e+0", "e").replace("e+", "e")


def describe_value(value: Any) -> str:
    """A value for a message: as Python writes it, shortened, without anything that controls a terminal."""
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN else f"{value[:SHOWN]}…")
    if isinstance(value, int) and value.bit_length() > 3 * SHOWN:
        return f"a whole number of about {int(value.bit_length() * math.log10(2))} digits"
    try:
        text = _SHORTENER.repr(value)
    except (ValueError, RecursionError):  # digits or levels that Python does not write
        return f"a {type(value).__name__}"
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}…"


_SHORTENER = reprlib.Repr()
_SHORTENER.maxstring = _SHORTENER.maxother = _SHORTENER.maxlong = SHOWN
