"""The settings that a sweep tries: a TOML file with our own names, checked like any other settings.

[learn]
lr = { low = 1e-4, high = 3e-3, log = true }
batch_size = [64, 128, 256]

[replay]
n_step = { low = 1, high = 5 }
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.config import Config
from flashdqn.config.names import replace_short_names
from flashdqn.config.schedules import SCHEDULES
from flashdqn.config.settings import (
    apply_settings,
    flatten_keys,
    read_settings_file,
    suggest_setting,
    to_dict,
)
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import FieldRule, describe_value, list_rules
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.learn.algorithms import ALGORITHMS, apply_algorithm

#: What says how a number is drawn.
RANGE_KEYS = ("low", "high", "log", "step")
#: An algorithm is not a setting, but can be chosen like one.
ALGO = "algo"
#: These say how long and where a trial runs, or how it is measured: it would not be the same race.
REFUSED = ("preset", "steps", "episodes", "max_time", "seed", "device", "out")
REFUSED_GROUPS = ("eval.", "log.")
#: Combinations that are tried out when the space is read.
SAMPLES = 200


@dataclass(frozen=True)
class NumberRange:
    """Numbers from `low` to `high`, both included."""

    name: str
    low: float
    high: float
    whole: bool
    log: bool = False
    step: float | None = None

    def holds(self, value: Any) -> bool:
        """Whether a value lies in it."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high

    def draw(self, chance: random.Random) -> Any:
        """A value by chance, for the check of the space."""
        if self.whole:
            return chance.randrange(int(self.low), int(self.high) + 1, int(self.step or 1))
        if self.log:
            return math.exp(chance.uniform(math.log(self.low), math.log(self.high)))
        return chance.uniform(self.low, self.high)

    def describe(self) -> str:
        """The range in words."""
        return f"{self.low:g} … {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class ChoiceList:
    """Some values; lists and the like are kept as JSON, because Optuna takes only plain ones."""

    name: str
    options: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is among them."""
        return encode_option(value) in map(encode_option, self.options)

    def draw(self, chance: random.Random) -> Any:
        """A value by chance, for the check of the space."""
        return chance.choice(self.options)

    def describe(self) -> str:
        """The values in words."""
        return ", ".join(map(format_option, self.options))


Dimension = NumberRange | ChoiceList


def encode_option(value: Any) -> str:
    """An option as a text that no other option has."""
    return json.dumps(value)


def decode_option(text: str) -> Any:
    """The option that a text stands for."""
    return json.loads(text)


def format_option(value: Any) -> str:
    """A value as a person writes it: 0.0003, double, 64,64."""
    if isinstance(value, list | tuple):
        return ",".join(map(format_option, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class SearchSpace:
    """All dimensions of a sweep, in the order of their file."""

    dimensions: tuple[Dimension, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The settings that are tried."""
        return tuple(one.name for one in self.dimensions)

    def apply(self, base: Config, values: Mapping[str, Any]) -> Config:
        """The configuration of a trial."""
        rest = dict(values)
        if (algo := rest.pop(ALGO, None)) is not None:
            base = apply_algorithm(base, str(algo))
        return apply_settings(base, rest)

    def find_base_values(self, base: Config) -> dict[str, Any] | None:
        """The base's own values for the dimensions; None if one of them lies outside, or cannot be known."""
        if ALGO in self.names:
            return None
        flat = flatten_keys(json.loads(json.dumps(to_dict(base))))
        values = {one.name: flat.get(one.name) for one in self.dimensions}
        return values if all(one.holds(values[one.name]) for one in self.dimensions) else None


def read_space(path: Path, base: Config) -> SearchSpace:
    """Read and check a file; every mistake is one sentence that names the file and the setting."""
    data = read_settings_file(path)
    try:
        return make_space(data, base)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def make_space(data: Mapping[str, Any], base: Config) -> SearchSpace:
    """The space that plain data describe, checked against the settings that the trials start from."""
    found: dict[str, Dimension] = {}
    for given, value in find_leaves(data, base):
        name = next(iter(replace_short_names({given: value})))
        if name in found:
            raise ConfigError(f"'{name}' is given twice.")
        found[name] = make_dimension(name, value, base)
    if not found:
        raise ConfigError("There is nothing to try: give settings with a range or a list of choices.")
    space = SearchSpace(tuple(found.values()))
    check_combinations(space, base)
    return space


def find_leaves(data: Mapping[str, Any], config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names in a file, and what stands there: a table is a group where the settings have one."""
    for key, value in data.items():
        name = f"{prefix}{str(key).replace('-', '_')}"
        group = getattr(config, str(key).replace("-", "_"), None)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(group):
            yield from find_leaves(value, group, f"{name}.")
        else:
            yield name, value


def make_dimension(name: str, value: Any, base: Config) -> Dimension:
    """A dimension from what a file says about a setting."""
    if name == ALGO:
        return make_algorithm_choice(value)
    rule = find_rule(base, name)
    if name in REFUSED or name.startswith(REFUSED_GROUPS):
        raise ConfigError(f"'{name}' cannot be tried: all trials must run and be measured in the same way.")
    if isinstance(value, Mapping) and set(value) == {"choices"}:
        value = value["choices"]
    if isinstance(value, list):
        return make_choices(name, value)
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"'{name}' must be a range, {{ low = 1, high = 5 }}, or a list of choices, and is "
            f"{describe_value(value)}."
        )
    return make_range(name, value, rule)


def find_rule(base: Config, name: str) -> FieldRule:
    """The rule of a setting by its dotted name; an unknown name is refused with the nearest one."""
    group: Any = base
    *groups, last = name.split(".")
    for part in groups:
        if not dataclasses.is_dataclass(getattr(group, part, None)):
            raise ConfigError(f"Unknown setting {describe_value(name)}{suggest_setting(group, part)}")
        group = getattr(group, part)
    kind: Any = type(group)
    rule = next((rule for rule in list_rules(kind) if rule.name == last), None)
    if rule is None:
        raise ConfigError(f"Unknown setting {describe_value(name)}{suggest_setting(group, last)}")
    if dataclasses.is_dataclass(getattr(group, last)):
        raise ConfigError(f"'{name}' is a group of settings: give the settings in it.")
    return rule


def make_algorithm_choice(value: Any) -> ChoiceList:
    """Algorithms to choose from."""
    chosen = make_choices(ALGO, value if isinstance(value, list) else [])
    for option in chosen.options:
        if option not in ALGORITHMS:
            raise ConfigError(
                f"Unknown algorithm {describe_value(option)}{suggest_nearest(str(option), ALGORITHMS)}"
            )
    return chosen


def make_choices(name: str, options: list[Any]) -> ChoiceList:
    """A list of choices; two at least, all different."""
    if len(options) < 2:
        raise ConfigError(f"'{name}' needs a list of two choices or more, and has {len(options)}.")
    try:
        texts = [encode_option(option) for option in options]
    except (TypeError, ValueError):
        raise ConfigError(f"'{name}' has a choice that a setting cannot hold.") from None
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise ConfigError(f"'{name}' has the choice {twice} twice.")
    return ChoiceList(name, tuple(options))


def make_range(name: str, data: Mapping[str, Any], rule: FieldRule) -> NumberRange:
    """A range of numbers for a setting that is one."""
    for key in data:
        if key not in RANGE_KEYS:
            raise ConfigError(
                f"'{name}' has the unknown key {describe_value(key)}{suggest_nearest(key, RANGE_KEYS)}"
            )
    if rule.kind not in (int, float) or rule.listed:
        raise ConfigError(f"'{name}' is not a number: give a list of choices.")
    for key in ("low", "high"):
        if key not in data:
            raise ConfigError(f"'{name}' has no '{key}': a range is written {{ low = 1, high = 5 }}.")
    low, high = (read_end(name, key, data[key], rule) for key in ("low", "high"))
    share = isinstance(low, float) and name in SCHEDULES
    log, step = data.get("log", False), data.get("step")
    if not isinstance(log, bool):
        raise ConfigError(f"'{name}.log' must be true or false, and is {describe_value(log)}.")
    if not low < high:
        raise ConfigError(f"'{name}' needs low below high, and has {low:g} and {high:g}.")
    if log and (low <= 0 or step is not None):
        raise ConfigError(f"'{name}' with log needs a low above 0 and no step, and has {low:g} and {step}.")
    if step is not None:
        fits = type(step) is int if rule.kind is int and not share else type(step) in (int, float)
        if not fits or not 0 < step <= high - low:
            raise ConfigError(
                f"'{name}.step' must lie above 0 and in the range, and is {describe_value(step)}."
            )
    return NumberRange(name, low, high, rule.kind is int and not share, log, step)


def read_end(name: str, key: str, value: Any, rule: FieldRule) -> float:
    """An end of a range, if the setting may have that value; a schedule may be a share of the budget."""
    if name in SCHEDULES and isinstance(value, float) and 0 < value < 1:
        return value
    if rule.kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if fault := rule.find_fault(value):
        raise ConfigError(f"{name}: {key} {fault}")
    return int(value) if rule.kind is int else float(value)


def check_combinations(space: SearchSpace, base: Config) -> float:
    """Try combinations by chance. Refuse a space that allows none of them, or a choice that never works; returns
    the share that settings refuse."""
    chance = random.Random(0)
    works: set[tuple[str, str]] = set()
    reasons: dict[tuple[str, str], str] = {}
    refused, reason = 0, ""
    for number in range(SAMPLES):
        values = {one.name: one.draw(chance) for one in space.dimensions}
        for one in space.dimensions:  # every choice has its turn
            if isinstance(one, ChoiceList) and number < len(one.options):
                values[one.name] = one.options[number]
        chosen = {(name, encode_option(value)) for name, value in values.items()}
        try:
            space.apply(base, values)
        except ConfigError as error:
            refused, reason = refused + 1, str(error)
            reasons |= dict.fromkeys(chosen - reasons.keys(), str(error))
        else:
            works |= chosen
    if refused == SAMPLES:
        raise ConfigError(f"No combination of these settings works: {reason}")
    for one in space.dimensions:
        for option in one.options if isinstance(one, ChoiceList) else ():
            key = (one.name, encode_option(option))
            if key not in works and key in reasons:
                raise ConfigError(f"'{one.name}' never works with {format_option(option)}: {reasons[key]}")
    return refused / SAMPLES
