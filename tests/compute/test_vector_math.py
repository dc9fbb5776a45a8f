"""exp and log against NumPy in float64."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from flashdqn.compute.vector_math import exp_float, log_float

Floats = npt.NDArray[np.float32]


@numba.njit(error_model="numpy")
def exp_all(x: Floats, y: Floats) -> None:
    for i in range(len(x)):
        y[i] = exp_float(x[i])


@numba.njit(error_model="numpy")
def log_all(x: Floats, y: Floats) -> None:
    for i in range(len(x)):
        y[i] = log_float(x[i])


def test_exp() -> None:
    x = np.linspace(-86.9, 87.9, 100_001).astype(np.float32)
    y = np.empty_like(x)
    exp_all(x, y)
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=2e-7)


def test_log() -> None:
    drawn = np.random.default_rng(0).uniform(-86, 87, 100_000)
    x = np.concatenate([np.exp(drawn), np.linspace(0.5, 2.0, 100_001)]).astype(np.float32)
    y = np.empty_like(x)
    log_all(x, y)
    np.testing.assert_allclose(y, np.log(x.astype(np.float64)), rtol=2e-7, atol=1e-7)


def test_what_is_at_the_ends() -> None:
    """Nothing overflows, 0 log 0 is 0, and NaN is not lost."""
    x, y = np.array([-np.inf, -1000, 0, 1000, np.nan], dtype=np.float32), np.zeros(5, dtype=np.float32)
    exp_all(x, y)
    assert 0 <= y[0] == y[1] < 1e-37
    assert y[2] == 1.0
    assert 1e38 < y[3] < np.inf
    assert np.isnan(y[4])
    x = np.array([0, 1, np.nan], dtype=np.float32)
    log_all(x, y)
    assert -90 < y[0] < -80
    assert y[1] == 0.0
    assert np.isnan(y[2])
