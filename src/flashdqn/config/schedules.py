"""Schedules that follow the budget: ε, the learning rate and β change over a share of `steps`.

A setting such as `explore.over` is a number of transitions. It can be given as a share of the budget instead (`50%`
or 0.5), and a preset's own numbers are for the preset's own budget: with another number of steps they are scaled.
Both happen once, when the settings are read. So a run's config.json holds transitions, and a resumed run keeps the
schedules that it started with, whatever its new budget is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

from flashdqn.config.training import Config
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value

#: The settings that say over how many transitions something changes.
SCHEDULES = ("explore.over", "learn.lr_over", "replay.beta_over")
#: Of a budget that is not the preset's, at most one part in this many is collected before the first gradient step.
LONGEST_START = 10
#: The largest share; above 1, a schedule is not over when the training is.
LARGEST_SHARE = 10
#: The most characters of a share.
LONGEST_SHARE = 40


def parse_share(value: Any) -> Fraction | None:
    """The share of the budget that a value stands for ("50%", "0.5", 0.5); None if it is not meant as one."""
    text = value.strip() if isinstance(value, str) else repr(value) if isinstance(value, float) else ""
    percent = text.endswith("%")
    if len(text) > LONGEST_SHARE or re.search(r"e[-+]?[\d_]{3}", text, re.IGNORECASE):
        return None  # a fraction would have as many digits as the exponent says
    try:
        share = Fraction(text.removesuffix("%").strip()) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        return None
    return share if percent or 0 < share < 1 else None


def take_shares(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Fraction]]:
    """Nested settings without the schedules that are given as shares; and these, by name."""
    rest, shares = dict(changes), {}
    for name in SCHEDULES:
        group, _, key = name.partition(".")
        inner = rest.get(group)
        if not isinstance(inner, Mapping):
            continue
        found = next((word for word in (key, key.replace("_", "-")) if word in inner), None)
        share = parse_share(inner[found]) if found is not None else None
        if share is not None:
            shares[name] = share
            rest[group] = {word: value for word, value in inner.items() if word != found}
    return rest, shares


def apply_shares(config: Config, shares: Mapping[str, Fraction]) -> Config:
    """Turn shares of the budget into transitions."""
    if not shares:
        return config
    for name, share in shares.items():
        if not 0 < share <= LARGEST_SHARE:
            raise ConfigError(
                f"{name} must be a share of 1 % … {100 * LARGEST_SHARE} %, and is {float(share):.0%}."
            )
    if config.steps is None:
        shown = describe_value(f"{float(next(iter(shares.values()))):.4g}")
        raise ConfigError(
            f"{next(iter(shares))} {shown} is a share of the budget in steps: give --steps, too."
        )
    return set_settings(config, {name: max(1, round(share * config.steps)) for name, share in shares.items()})


def scale_schedules(config: Config, before: int | None, given: Collection[str]) -> Config:
    """The schedules of a preset for `before` steps, scaled to the steps of this configuration; those that are given
    stay. A budget in episodes or seconds scales nothing."""
    if before is None or config.steps is None or config.steps == before:
        return config
    share = Fraction(config.steps, before)
    scaled = {
        name: max(1, round(share * get_setting(config, name))) for name in SCHEDULES if name not in given
    }
    if "learn.starts" not in given:
        scaled["learn.starts"] = min(config.learn.starts, config.steps // LONGEST_START)
    return set_settings(config, scaled)


def get_setting(config: Config, name: str) -> int:
    """A setting of a group, by its dotted name."""
    group, _, key = name.partition(".")
    value: int = getattr(getattr(config, group), key)
    return value


def set_settings(config: Config, changes: Mapping[str, int]) -> Config:
    """A copy with some settings of groups changed."""
    groups: dict[str, Any] = {}
    for name, value in changes.items():
        group, _, key = name.partition(".")
        groups[group] = dataclasses.replace(groups.get(group, getattr(config, group)), **{key: value})
    return dataclasses.replace(config, **groups)
