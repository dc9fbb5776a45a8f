"""Random numbers drawn by compiled code: PyTorch's own, number by number, and the same state afterwards."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.compute import mersenne
from flashdqn.compute.mersenne import draw_both, is_same_generator, view_state
from flashdqn.compute.native import compile_native

WORDS, SINGLE, WHOLE = numba.uint64[::1], numba.float32[::1], numba.int64[::1]


@pytest.fixture(scope="module")
def draw() -> Any:
    return compile_native(draw_both, (WORDS, SINGLE, WHOLE))


@given(
    seed=st.integers(0, 2**63 - 1),
    before=st.integers(0, 700),
    rounds=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 700)), min_size=1, max_size=4),
)
def test_the_same_numbers_as_pytorch(
    draw: Any, seed: int, before: int, rounds: list[tuple[int, int]]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    torch.empty(before).uniform_(generator=generator)
    state = generator.get_state()
    for floats, integers in rounds:
        single, whole = np.zeros(floats, dtype=np.float32), np.zeros(integers, dtype=np.int64)
        draw(view_state(state), single, whole)
        assert torch.empty(floats).uniform_(generator=generator).tolist() == single.tolist()
        expected = torch.empty(integers, dtype=torch.int64).random_(generator=generator)
        assert expected.tolist() == whole.tolist()
    assert torch.equal(state, generator.get_state())


def test_another_generator_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_same_generator()
    monkeypatch.setattr(mersenne, "compile_native", lambda *_: lambda words, single, whole: None)
    assert not is_same_generator.__wrapped__()
    monkeypatch.setattr(mersenne, "LEAST_WORDS", 10_000)
    assert not is_same_generator.__wrapped__()
