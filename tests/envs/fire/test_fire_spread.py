"""The spread of fire against Dijkstra in plain Python, and against the level set of pyretechnics."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from fire_twin import burn, random_tables
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import BURN, KEEP, Spread, Weather, fire_behavior, spread_tables
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape

HERE = Path(__file__).parent
ROWS, COLUMNS = 6, 7
CELLS = ROWS * COLUMNS
SHAPES = [(16, False), (16, True), (8, True), (32, False)]


@pytest.fixture(scope="module", params=SHAPES, ids=lambda p: f"{p[0]} directions{', ties' if p[1] else ''}")
def tables(request) -> SpreadTables:
    kinds, whole = request.param
    return random_tables(np.random.default_rng(kinds), ROWS, COLUMNS, 3, kinds, whole)


@pytest.fixture(scope="module")
def spread(tables: SpreadTables) -> Spread:
    return Spread(tables, num_boards=3, fires=2, duration=12.0)


def check(spread: Spread, breaks: list[set[int]]) -> None:
    """Everything equals the twin's, to the last bit."""
    tables, (rows, columns) = spread.tables, spread.tables.shape
    for b in range(spread.num_boards):
        assert set(torch.nonzero(spread.breaks[b]).flatten().tolist()) == breaks[b]
        for f in range(spread.fires):
            ignition = int(spread.ignition[b, f])
            twin = burn(tables, int(spread.table[b]), breaks[b], ignition, spread.duration)
            assert spread.arrival[b, f].tolist() == twin
            worth = tables.worth[int(spread.table[b])].tolist()
            burned = (cost for cost, time in zip(worth, twin, strict=True) if math.isfinite(time))
            assert spread.burned[b, f] == sum(burned)
            check_parents(spread, b, f, rows * columns)


def check_parents(spread: Spread, b: int, f: int, cells: int) -> None:
    """Each cell's time is that of the cell it was reached from, plus the way; of equal ways the lowest counts."""
    ignition, arrival = int(spread.ignition[b, f]), spread.arrival[b, f]
    for cell in range(cells):
        by = int(spread.parent[b, f, cell])
        if by < 0:
            lit = cell == ignition and arrival[cell] == 0
            assert lit or arrival[cell] == math.inf
        else:
            as_fast = [move for move in range(spread.tables.directions) if comes_by(spread, b, f, cell, move)]
            assert by == min(as_fast)


def comes_by(spread: Spread, b: int, f: int, cell: int, move: int) -> bool:
    """Whether the fire can have come to a cell by this move at its time of arrival."""
    source, table = cell - int(spread.step[move]), int(spread.table[b])
    if not (0 <= source < CELLS and int(spread._arrays.passable[b, source]) >> move & 1):
        return False
    way = spread.tables.times[table, source, move]
    if source == spread.ignition[b, f]:
        length = {1: 1.0, 2: math.sqrt(2), 5: math.sqrt(5), 10: math.sqrt(10), 13: math.sqrt(13)}[
            square(cell, source)
        ]
        return bool(spread.arrival[b, f, cell] == way * torch.tensor(1.0 - 0.5 / length))
    return bool(spread.arrival[b, f, cell] == spread.arrival[b, f, source] + way)


def square(cell: int, source: int) -> int:
    return (cell // COLUMNS - source // COLUMNS) ** 2 + (cell % COLUMNS - source % COLUMNS) ** 2


cells = st.integers(0, CELLS - 1)


@settings(max_examples=25, deadline=None)
@given(
    table=st.tuples(*[st.integers(0, 2)] * 3),
    ignition=st.lists(st.integers(-1, CELLS - 1), min_size=6, max_size=6),
    breaks=st.lists(st.sets(cells, max_size=8), min_size=3, max_size=3),
    placed=st.lists(st.tuples(*[st.one_of(cells, st.just(KEEP))] * 3), max_size=6),
)
def test_fires_and_breaks_equal_dijkstra(spread: Spread, table, ignition, breaks, placed) -> None:
    spread.table.copy_(torch.tensor(table))
    spread.ignition.copy_(torch.tensor(ignition).view(3, 2))
    spread.breaks.zero_()
    for b, some in enumerate(breaks):
        spread.breaks[b, list(some)] = True
    spread.command.fill_(BURN)
    spread.launch()
    check(spread, breaks)
    for commands in placed:
        breaks = [some | {c} if c != KEEP else some for some, c in zip(breaks, commands, strict=True)]
        spread.command.copy_(torch.tensor(commands))
        spread.launch()
        check(spread, breaks)


def scene(seed: int = 2, size: int = 20) -> SpreadTables:
    return spread_tables(
        [fire_behavior(generate_landscape(seed, size), Weather(wind_speed=w)) for w in (5.0, 30.0)]
    )


def lit(tables: SpreadTables, boards: int, fires: int, seed: int = 0, duration: float = 240.0) -> Spread:
    """Boards by turns on the tables, with fires lit at random where something burns."""
    spread = Spread(tables, boards, fires, duration)
    spread.table.copy_(torch.arange(boards) % len(tables.times))
    generator = torch.Generator().manual_seed(seed)
    chance = tables.burnable.float()[spread.table.long()]
    spread.ignition.copy_(torch.multinomial(chance, fires, replacement=True, generator=generator))
    spread.command.fill_(BURN)
    spread.launch()
    return spread


def test_savings_are_what_a_break_then_saves() -> None:
    spread = lit(scene(), 4, 3)
    for _ in range(2):
        before, arrival = spread.burned.clone(), spread.arrival.clone()
        saved = spread.savings().clone()
        assert torch.equal(spread.arrival, arrival)
        assert torch.equal(spread.burned, before)
        for cell in range(0, 400, 9):
            again = lit(spread.tables, 4, 3)
            again.breaks.copy_(spread.breaks)
            again.breaks[:, cell] = True
            again.launch()
            gone = (before - again.burned).sum(1)
            allowed = spread.tables.burnable[spread.table.long(), cell] & ~spread.breaks[:, cell]
            assert torch.equal(saved[:, cell], torch.where(allowed, gone, 0).int())
        best = saved.argmax(1)
        spread.command.copy_(best)
        spread.launch()
        assert torch.equal((before - spread.burned).sum(1), saved.gather(1, best[:, None]).flatten())


def test_many_breaks_one_by_one_equal_all_at_once() -> None:
    spread = lit(scene(size=30), 6, 4)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        spread.command.copy_(torch.randint(900, (6,), generator=generator))
        spread.launch()
    arrival, burned = spread.arrival.clone(), spread.burned.clone()
    spread.command.fill_(BURN)
    spread.launch()
    assert torch.equal(arrival, spread.arrival)
    assert torch.equal(burned, spread.burned)
    assert spread.breaks.sum() > 300


def test_a_board_is_left_alone_and_can_start_anew() -> None:
    spread = lit(scene(), 3, 2)
    before = spread.arrival.clone()
    spread.command.copy_(torch.tensor([KEEP, 37, BURN]))
    spread.ignition[2] = -1
    spread.launch()
    assert torch.equal(spread.arrival[0], before[0])
    assert spread.breaks.sum(1).tolist() == [0, 1, 0]
    assert spread.burned[2].tolist() == [0, 0]


def test_a_wall_of_breaks_holds_also_along_a_diagonal() -> None:
    layers = {name: np.zeros((12, 12)) for name in LAYERS} | {"fuel_model": np.full((12, 12), 1)}
    spread = Spread(
        spread_tables([fire_behavior(Landscape(**layers), Weather(wind_speed=0.0))]), 1, 1, 10_000.0
    )
    spread.ignition.fill_(11 * 12)  # the south-west corner
    spread.breaks.view(12, 12).fill_diagonal_(True)
    spread.command.fill_(BURN)
    spread.launch()
    assert spread.burned.item() == 66  # below the diagonal
    spread.breaks[0, 5 * 12 + 5] = False
    spread.launch()
    assert spread.burned.item() == 66 + 1 + 66


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    monkeypatch.setattr("flashdqn.envs.fuelbreaks.fire.spread.PARALLEL_FROM", 1)
    before, results = numba.get_num_threads(), []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        spread = lit(scene(), 5, 3)
        spread.command.fill_(45)
        spread.launch()
        results.append((spread.arrival.clone(), spread.burned.clone(), spread.savings().clone()))
    numba.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


def test_impossible_fires_are_refused() -> None:
    tables = scene()
    with pytest.raises(EnvError, match="at least one board and one fire; got 0 boards"):
        Spread(tables, 0, 1)
    for duration in (0.0, math.nan, 1e6):
        with pytest.raises(EnvError, match="more than 0 and at most 10080 minutes"):
            Spread(tables, 1, 1, duration)


def test_burned_areas_agree_with_the_level_set() -> None:
    with np.load(HERE / "reference" / "fires.npz") as file:
        data = dict(file)
    overlap, ratio = [], []
    for i in range(len(data["duration"])):
        layers = {name: data[name][i] for name in LAYERS if name != "elevation"}
        landscape = Landscape(elevation=np.zeros_like(layers["slope"]), **layers)
        weather = Weather(**{field.name: float(data[field.name][i]) for field in fields(Weather)})
        spread = Spread(spread_tables([fire_behavior(landscape, weather)]), 1, 1, float(data["duration"][i]))
        spread.ignition.fill_(int(data["ignition"][i] @ (50, 1)))
        spread.command.fill_(BURN)
        spread.launch()
        ours = spread.arrival.view(50, 50).isfinite().numpy()
        theirs = np.unpackbits(data["burned"][i], axis=-1, count=50).astype(bool)
        overlap.append((ours & theirs).sum() / (ours | theirs).sum())
        ratio.append(ours.sum() / theirs.sum())
    assert len(overlap) == 28
    assert np.median(overlap) >= 0.9
    assert np.quantile(overlap, 0.25) >= 0.8
    assert abs(np.median(ratio) - 1.0) <= 0.05


@pytest.mark.parametrize("ties", ["", "ties"])
def test_the_cuda_source_equals_the_cpus_in_the_simulator(ties: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "simulated_cuda.py"), "2", ties],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal, ")
    assert int(done.stdout.split()[1]) > 0
