"""Sums that are kept up to date equal those that are counted from scratch."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.compute.threads import limit_threads
from flashdqn.envs.fuelbreaks.fire import DRY, EXTREME, downstream_sums, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.fire.downstream_sums import TILES, DownstreamSums
from flashdqn.envs.fuelbreaks.fire.single_fires import SingleFires
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape

DURATION = 120.0
#: One with a tile for every cell, and one with several cells in a tile.
SIZES = (13, TILES + 9)
TABLES = {
    size: spread_tables([fire_behavior(generate_landscape(5, size), weather) for weather in (DRY, EXTREME)])
    for size in SIZES
}


def count_from_scratch(
    size: int, table: np.ndarray, ignition: np.ndarray, weight: np.ndarray, breaks: list[int]
) -> np.ndarray:
    fires = SingleFires(TABLES[size], DURATION)
    fires.replace_breaks(np.array(breaks, dtype=np.int64))
    return np.stack(
        [
            fires.add_up_downstream(table[table == scene], ignition[table == scene], weight)
            for scene in range(2)
        ]
    )


def count_burned(
    size: int, table: np.ndarray, ignition: np.ndarray, weight: np.ndarray, breaks: list[int]
) -> np.ndarray:
    fires = SingleFires(TABLES[size], DURATION)
    fires.replace_breaks(np.array(breaks, dtype=np.int64))
    return fires.measure(table, ignition, weight)[1]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 5))
def test_after_every_break_they_equal_a_count_of_all_fires(
    size: int, seed: int, places: int, at_once: int
) -> None:
    random = np.random.default_rng(seed)
    table, ignition = random.integers(0, 2, 12), random.integers(0, size * size, 12)
    weight = random.integers(0, 10, size * size).astype(float)
    sums = DownstreamSums(TABLES[size], DURATION, table, ignition, weight)
    breaks: list[int] = []
    assert sums.total.tolist() == count_from_scratch(size, table, ignition, weight, breaks).tolist()
    for _ in range(places):
        more = random.choice(size * size, at_once, replace=False)
        if random.random() < 0.3:
            more[0] = ignition[0]
        sums.place(more)
        breaks += more.tolist()
        assert sums.total.tolist() == count_from_scratch(size, table, ignition, weight, breaks).tolist()
        assert sums.burned.tolist() == count_burned(size, table, ignition, weight, breaks).tolist()


def test_threads_share_the_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.envs.fuelbreaks.fire.single_fires.PARALLEL_FROM_CELLS", 0)
    size = SIZES[1]
    random = np.random.default_rng(1)
    table, ignition = random.integers(0, 2, 100), random.integers(0, size * size, 100)
    weight, breaks = random.integers(0, 10, size * size).astype(float), random.choice(size * size, 24, False)
    with limit_threads(1, 2):
        if numba.get_num_threads() < 2:
            pytest.skip("one core")
        sums = DownstreamSums(TABLES[size], DURATION, table, ignition, weight)
        for n in range(0, 24, 4):
            sums.place(breaks[n : n + 4])
            expected = count_from_scratch(size, table, ignition, weight, breaks[: n + 4].tolist())
            assert sums.total.tolist() == expected.tolist()


def test_where_paths_take_equally_long_the_tree_is_the_same() -> None:
    """On a plane, where very many do."""
    flat = {name: np.zeros((15, 15), dtype=np.float32) for name in LAYERS}
    plane = Landscape(**flat | {"fuel_model": np.full((15, 15), 101, dtype=np.int16)})
    tables = spread_tables([fire_behavior(plane, replace(DRY, wind_speed=0.0))])
    ignition, random = np.array([112]), np.random.default_rng(0)
    sums = DownstreamSums(tables, DURATION, np.zeros(1, np.int64), ignition, np.ones(225))
    fires = SingleFires(tables, DURATION)
    for cell in random.permutation(np.delete(np.arange(225), 112))[:60]:
        sums.place([int(cell)])
        fires.place(np.array([cell]))
        behind = fires.add_up_downstream(np.zeros(1, np.int64), ignition, np.ones(225))
        assert np.array_equal(sums.total[0], behind)
    assert 0 < behind[112] < 165


def test_no_breaks_change_nothing() -> None:
    sums = DownstreamSums(TABLES[13], DURATION, np.zeros(2, np.int64), np.array([20, 90]), np.full(169, 0.1))
    before = sums.total
    sums.place([])
    assert np.array_equal(sums.total, before)
    assert before.max() > 0


@pytest.mark.parametrize("kept_bytes", [0, 20_000, 400_000_000])
def test_broken_weights_add_up_too(kept_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream_sums, "KEPT_BYTES", kept_bytes)
    random = np.random.default_rng(3)
    table, ignition, weight = random.integers(0, 2, 20), random.integers(0, 169, 20), random.random(169)
    sums = DownstreamSums(TABLES[13], DURATION, table, ignition, weight)
    breaks = random.choice(169, 30, replace=False)
    for cell in breaks:
        sums.place([int(cell)])
    assert sums.total == pytest.approx(
        count_from_scratch(13, table, ignition, weight, breaks.tolist()), abs=1e-3
    )
    assert sums.burned == pytest.approx(count_burned(13, table, ignition, weight, breaks.tolist()), abs=1e-3)
