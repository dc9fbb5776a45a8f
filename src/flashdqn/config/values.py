"""Values with their own notation (ratios, times), and the check that settings use."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value

#: The named train ratios, in gradient steps per transition.
RATIOS = {"debug": 0.004, "fast": 0.03125, "balanced": 0.0625, "better": 0.125, "quality": 0.25}


#: What a letter after a number of transitions and the like stands for.
COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def parse_ratio(text: str) -> float:
    """A number, or one of the five names."""
    if text in RATIOS:
        return RATIOS[text]
    try:
        return float(text)
    except ValueError:
        names = ", ".join(RATIOS)
        raise ConfigError(
            f"train_ratio must be a number or one of {names}, and is {describe_value(text)}."
        ) from None


def parse_count(text: str) -> int:
    """A whole number that is written 50000, 50_000, 1e5, 100k or 1.5M; ValueError if it is not one."""
    plain = text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text) else text
    found = re.fullmatch(r"([+-]?[\d_.]+(?:[eE][+-]?\d{1,3})?)([kKmMgGbB]?)", plain)
    if found is None:
        raise ValueError(text)
    try:
        number = Decimal(found[1]) * COUNT_UNITS[found[2].lower()]
    except ArithmeticError:
        raise ValueError(text) from None
    if number != number.to_integral_value():
        raise ValueError(text)
    return int(number)


def parse_duration(text: str) -> float:
    """Seconds of a time that is written '90', '90s', '1.5m' or '2h'."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError:
        raise ConfigError(
            f"A time is written like 90s, 1.5m or 2h, and {describe_value(text)} is not."
        ) from None


def _make_flag_spec(parse: Any, metavar: str) -> Any:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, float | int),
        str_from_instance=lambda value: [f"{value:g}"],
    )


Ratio = Annotated[float, _make_flag_spec(parse_ratio, "RATIO")]
Seconds = Annotated[float, _make_flag_spec(parse_duration, "TIME")]


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError(message)` unless the condition holds."""
    if not condition:
        raise ConfigError(message)
