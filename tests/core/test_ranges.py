"""Values that no setting may have: they are refused where they are given, by a message that stays short."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import Between, check_values, describe_value, format_bound

DEEP: Any = []
for _ in range(5000):
    DEEP = [DEEP]


@dataclass(frozen=True)
class Sample:
    count: Annotated[int, Between(1, 10**6)] = 1
    share: Annotated[float | None, Between(0, 1, above=True)] = None
    widths: Annotated[tuple[int, ...], Between(1, 100, items=3)] = (1,)
    names: tuple[str, ...] = ()
    kind: Literal["a", "b"] = "a"
    text: str = ""
    file: Path | None = None
    on: bool = False

    def __post_init__(self) -> None:
        check_values(self, "some.")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"count": 0}, "some.count must be at least 1, and is 0."),
        ({"count": 10**6 + 1}, "some.count must be at most 1e6, and is 1000001."),
        ({"count": 10**400}, "some.count must be at most 1e6, and is a whole number of about 400 digits."),
        ({"count": 1.0}, "some.count must be a whole number, and is 1.0."),
        ({"count": True}, "some.count must be a whole number, and is True."),
        ({"share": math.nan}, "some.share must be a finite number in 0 … 1, and is nan."),
        ({"share": -math.inf}, "some.share must be a finite number in 0 … 1, and is -inf."),
        ({"share": 0}, "some.share must be above 0 and at most 1, and is 0."),
        ({"share": 2}, "some.share must lie in 0 … 1, and is 2."),
        ({"share": 10**400}, "some.share must lie in 0 … 1, and is a whole number of about 400 digits."),
        ({"widths": (1, 101)}, "some.widths must lie in 1 … 100, and is 101."),
        ({"widths": (1,) * 4}, "some.widths may have at most 3 items, and has 4."),
        ({"widths": 3}, "some.widths must be a list, and is 3."),
        ({"names": ("x",) * 1001}, "some.names may have at most 1000 items, and has 1001."),
        ({"names": (3,)}, "some.names must be a text, and is 3."),
        ({"kind": "c"}, "some.kind must be one of a, b, and is 'c'."),
        ({"kind": ["a"]}, "some.kind must be one of a, b, and is ['a']."),
        ({"text": "x" * 5000}, "some.text may have at most 4096 characters, and has 5000."),
        (
            {"text": "a\0b"},
            r"some.text must be a text without control characters, in UTF-8, and is 'a\x00b'.",
        ),
        ({"text": "\x1b[2J"}, r"and is '\x1b[2J'."),
        ({"text": "\udcff"}, r"and is '\udcff'."),
        ({"file": Path("a\0b")}, r"some.file cannot hold a zero byte, and is 'a\x00b'."),
        ({"on": 1}, "some.on must be true or false, and is 1."),
        ({"on": DEEP}, "some.on must be true or false, and is [[[[[[[...]]]]]]]."),
    ],
)
def test_what_is_not_allowed_is_named(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        Sample(**wrong)
    assert says in str(error.value)


def test_what_is_allowed_becomes_plain() -> None:
    sample = Sample(count=np.int64(7), share=np.float32(0.5), widths=[1, 2], text="Å ε 日本")  # type: ignore[arg-type]
    assert (type(sample.count), type(sample.share), sample.widths) == (int, float, (1, 2))


LONG: dict[str, Any] = {
    "a text": "x" * 10**6,
    "a number": 10**5000,
    "a number in a list": [10**5000],
    "nested": DEEP,
    "by name": {"x" * 10**5: "y" * 10**5},
    "a list": list(range(10**5)),
    "codes": "\x1b" * 999,
}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_a_message_never_repeats_much(value: Any) -> None:
    shown = describe_value(value)
    assert len(shown) < 300
    assert shown.isprintable()


def test_bounds_are_short() -> None:
    assert [format_bound(x) for x in (255, 0.5, 10**15, 1e12, -1e12, 2**24, 1e-30)] == [
        "255", "0.5", "1e15", "1e12", "-1e12", "16777216", "1e-30",
    ]  # fmt: skip
