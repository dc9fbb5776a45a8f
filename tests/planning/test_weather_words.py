"""Weather and times as they are written on a command line."""

from __future__ import annotations

import pytest

from flashdqn.core.errors import ConfigError
from flashdqn.planning.weather_words import parse_duration, parse_weather_words


@pytest.mark.parametrize(
    ("words", "weights"),
    [
        ((), [0.25] * 4),
        (("dry",), [1.0]),
        (("dry@90", "extreme@225/60=0.3"), [0.7, 0.3]),
        (("dry", "mild", "extreme=0.5"), [0.25, 0.25, 0.5]),
        (("dry=3", "mild=1"), [0.75, 0.25]),
        (("dry=.2", "mild"), [0.2, 0.8]),
    ],
)
def test_weights_sum_to_one(words: tuple[str, ...], weights: list[float]) -> None:
    scenarios = parse_weather_words(words)
    assert [scenario.weight for scenario in scenarios] == pytest.approx(weights)
    assert [scenario.name for scenario in scenarios] == [
        word.partition("=")[0] for word in words
    ] or not words


def test_the_weather_is_the_one_that_is_named() -> None:
    (scenario,) = parse_weather_words(["extreme@225/60=0.3"])
    assert (scenario.weather.wind_from, scenario.weather.wind_speed) == (225.0, 60.0)
    assert scenario.name == "extreme@225/60"


@pytest.mark.parametrize("words", [("dry=x",), ("dry=0",), ("dry=-1",), ("dry=1", "mild"), ("foggy",), ("",)])
def test_nonsense_is_one_sentence(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        parse_weather_words(words)


@pytest.mark.parametrize(
    ("text", "minutes"), [("4h", 240), ("1.5 h", 90), ("90min", 90), ("90m", 90), ("2H", 120)]
)
def test_durations(text: str, minutes: float) -> None:
    assert parse_duration(text) == minutes


@pytest.mark.parametrize("text", ["", "h", "4", "45", "4 days", "-4h", "0", "169h", "nan"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--duration|week"):
        parse_duration(text)
