"""Weather as people write it on a command line, with shares: dry@90 extreme@225/60=0.3."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.envs.fuelbreaks.config import parse_weather
from flashdqn.planning.problem import Scenario

_SHARE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(h|min|m)", re.IGNORECASE)
#: The weathers of a plan for which nobody names any: dry, with wind from four sides.
USUAL_WEATHER = ("dry@0", "dry@90", "dry@180", "dry@270")
#: Minutes that a fire may burn: up to a week.
LONGEST_FIRE = 7 * 24 * 60.0


def parse_weather_words(texts: Sequence[str]) -> tuple[Scenario, ...]:
    """Scenarios whose weights sum to 1. Those without a share have equal parts of what the others leave."""
    named = [_split_share(text) for text in texts or USUAL_WEATHER]
    given = [share for _, share in named if share is not None]
    free = len(named) - len(given)
    total = sum(given)
    if free and total >= 1.0:
        raise ConfigError(
            f"The shares of --weather sum to {total:g}, which leaves nothing for the {free} without a share: give "
            "a share to all, or smaller ones."
        )
    rest = (1.0 - total) / free if free else 0.0
    scale = 1.0 if free else total
    return tuple(
        Scenario(text, parse_weather(text), (rest if share is None else share) / scale)
        for text, share in named
    )


def _split_share(text: str) -> tuple[str, float | None]:
    weather, equals, share = text.strip().partition("=")
    if not equals:
        return weather, None
    if not _SHARE.fullmatch(share) or float(share) <= 0:
        raise ConfigError(
            f"A share of the fires is a number above 0, as in extreme@225/60=0.3, and {describe_value(text)} has "
            "none."
        )
    return weather, float(share)


def parse_duration(text: str) -> float:
    """The minutes of a fire: 4h or 90min. A bare number is refused: it may mean either."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"--duration is written as 4h or 90min, and {describe_value(text)} is not.")
    minutes = float(found[1]) * (60.0 if found[2].lower() == "h" else 1.0)
    if not 0 < minutes <= LONGEST_FIRE:
        raise ConfigError(
            f"A fire burns for more than 0 and at most {LONGEST_FIRE / 60:g} hours (a week), and --duration is "
            f"{describe_value(text)}."
        )
    return minutes
