"""What counts as growing, on series made by hand."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from soak_slopes import extrapolate_day, measure_slope

SECONDS = [10.0 * at for at in range(180)]  # half an hour


def test_a_leak_is_found_in_noise() -> None:
    noise = random.Random(0)
    slope = measure_slope(SECONDS, [500 + 20 * second / 3600 + noise.gauss(0, 0.5) for second in SECONDS])
    assert slope is not None
    assert slope.low < 20 < slope.high
    assert slope.grows(is_count=False)


@pytest.mark.parametrize("seed", range(2, 7))
def test_noise_alone_is_flat(seed: int) -> None:
    noise = random.Random(seed)
    slope = measure_slope(SECONDS, [500 + noise.gauss(0, 1) for _ in SECONDS])
    assert slope is not None
    assert not slope.grows(is_count=False)


def test_what_settles_in_the_warm_up_is_flat() -> None:
    slope = measure_slope(SECONDS, [500.0 if second > 500 else 300.0 for second in SECONDS])
    assert slope is not None
    assert not slope.grows(is_count=False)


def test_a_handle_every_ten_minutes_grows() -> None:
    slope = measure_slope(SECONDS, [12.0 + second // 600 for second in SECONDS])
    assert slope is not None
    assert slope.grows(is_count=True)


def test_a_constant_is_flat_and_two_values_say_nothing() -> None:
    slope = measure_slope(SECONDS, [7.0] * len(SECONDS))
    assert slope is not None
    assert not slope.grows(is_count=True)
    assert measure_slope([0.0, 10.0], [1.0, 2.0]) is None


def test_a_day_on_paper() -> None:
    day = extrapolate_day(1000.0, {"rows": 200.0}, {"rows": 10_000.0})["rows"]
    assert day["count"] == pytest.approx(8640)
    assert day["mb_per_day"] == pytest.approx(8640 * 200 / 1e6)
    assert day["mb_per_million"] == pytest.approx(100 * 200 / 1e6)
