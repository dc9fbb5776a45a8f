"""Windows cover a landscape once; a local network gives the same values in windows as on the whole grid."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import make_problem
from torch import Tensor

from flashdqn.envs.fuelbreaks.observation import CHANNELS
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.agent_values import GainMap, NetworkValues
from flashdqn.planning.ground import build_ground
from flashdqn.planning.tiles import lay_windows
from flashdqn.planning.window_view import WindowView

PROBLEM = make_problem(rows=40, columns=52)
GROUND = build_ground(PROBLEM)
KERNEL = torch.randn((1, len(CHANNELS), 3, 3), generator=torch.Generator().manual_seed(0))
KERNEL[:, CHANNELS.index("elevation")] = 0.0  # it is counted from the window's mean


def evaluate_locally(planes: Tensor) -> Tensor:
    return torch.nn.functional.conv2d(planes, KERNEL, padding=1).flatten(1)


LOCAL = NetworkValues(evaluate_locally, gamma=0.0, trained_size=20, sees=1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(8, 40), st.integers(0, 3))
def test_cores_cover_every_cell_once(rows: int, columns: int, size: int, halo: int) -> None:
    covered = np.zeros((rows, columns), dtype=int)
    for window in lay_windows((rows, columns), size, halo):
        covered[window.core_rows, window.core_columns] += 1
        assert window.shape == (min(rows, size), min(columns, size))
        pairs = ((window.rows, window.core_rows, rows), (window.columns, window.core_columns, columns))
        for seen, core, length in pairs:
            assert core.start - seen.start >= halo or seen.start == 0
            assert seen.stop - core.stop >= halo or seen.stop == length
    assert (covered == 1).all()


def find_values(gains: GainMap, breaks: np.ndarray) -> np.ndarray:
    """Values without the factor that makes windows comparable."""
    gains.update(
        breaks, np.ones(GROUND.cells, dtype=np.bool_), 0.25
    )  # whole numbers of breaks in all windows
    values = gains.gain.copy()
    for window in gains.windows:
        importance = WindowView(GROUND, window).importance
        assert np.allclose(importance[0], importance[1])  # the same cells burn in both scenarios
        values[window.core_rows, window.core_columns] /= importance[0]
    return values


@pytest.mark.parametrize("size", [12, 20, 32])
def test_a_local_network_sees_the_same_in_windows(size: int) -> None:
    breaks = np.random.default_rng(0).random(GROUND.cells) < 0.1
    whole = find_values(GainMap(GROUND, LOCAL, 52, 0), breaks)
    windows = find_values(GainMap(GROUND, LOCAL, size, 2), breaks)
    assert np.abs(whole).max() > 0.1
    assert np.allclose(windows, whole, atol=1e-4)


def test_only_windows_that_see_a_new_break_are_computed_again() -> None:
    sizes: list[int] = []

    def count(planes: Tensor) -> Tensor:
        sizes.append(len(planes))
        return evaluate_locally(planes)

    gains = GainMap(GROUND, NetworkValues(count, 0.0, 20, 1), 14, 3)
    breaks, free = np.zeros(GROUND.cells, dtype=np.bool_), np.ones(GROUND.cells, dtype=np.bool_)
    gains.update(breaks, free, 0.05)
    assert sum(sizes) == 2 * len(gains.windows)  # in two scenarios
    sizes.clear()
    cell = 20 * 52 + 30
    breaks[cell] = True
    gains.note_breaks([cell])
    touched = [
        w
        for w in gains.windows
        if w.rows.start <= 20 < w.rows.stop and w.columns.start <= 30 < w.columns.stop
    ]
    assert len(gains.list_stale(0.05)) == len(touched) < len(gains.windows)
    changed = gains.update(breaks, free, 0.05).copy()
    assert sum(sizes) == 2 * len(touched)
    fresh = GainMap(GROUND, LOCAL, 14, 3).update(breaks, free, 0.05)
    assert np.allclose(changed, fresh)


def test_values_are_computed_again_when_the_budget_shrinks() -> None:
    gains = GainMap(GROUND, LOCAL, 14, 3)
    breaks, free = np.zeros(GROUND.cells, dtype=np.bool_), np.ones(GROUND.cells, dtype=np.bool_)
    gains.update(breaks, free, 0.05)
    assert len(gains.list_stale(0.03)) == 0
    assert len(gains.list_stale(0.02)) == len(gains.windows)


def test_importance_is_the_share_of_fires_times_what_can_be_lost() -> None:
    problem = make_problem(rows=40, columns=52, maps=True)
    ground = build_ground(problem)
    assert problem.stakes.value is not None
    assert problem.stakes.ignition is not None
    window = lay_windows((40, 52), 20, 2)[3]
    found = WindowView(ground, window).importance
    inside = np.zeros((40, 52), dtype=np.bool_)
    inside[window.rows, window.columns] = True
    held = problem.stakes.value[inside].sum() / problem.stakes.value.sum()
    for s in range(2):
        lit = ground.burnable[s].reshape(40, 52) * problem.stakes.ignition
        assert found[s] == pytest.approx(held * lit[inside].sum() / lit.sum(), rel=1e-5)


def test_windows_where_nothing_burns_or_starts_or_is_lost() -> None:
    fuel = PROBLEM.landscape.fuel_model.copy()
    fuel[:20, :20] = 98
    land = dataclasses.replace(PROBLEM.landscape, fuel_model=fuel)
    value, ignition = np.ones((40, 52), dtype=np.float32), np.ones((40, 52), dtype=np.float32)
    value[:, 26:], ignition[20:] = 0.0, 0.0
    ground = build_ground(dataclasses.replace(PROBLEM, landscape=land, stakes=Stakes(value, ignition)))
    gain = GainMap(ground, LOCAL, 12, 2).update(
        np.zeros(ground.cells, dtype=np.bool_), ground.allowed.copy(), 0.05
    )
    grid = gain.reshape(40, 52)
    assert np.isfinite(grid).all()
    assert (grid[:14, :14] == 0).all()
    assert (grid[30:, 40:] == 0).all()
    assert np.abs(grid).max() > 0
