"""The train ratio: exact at every moment, whatever arrives at once."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import ceil, floor

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.training.ratio import TrainRatio

ratios = st.one_of(
    st.floats(0, 4),
    st.decimals(0, 4, places=4).map(float),
    st.sampled_from([0.004, 0.03125, 0.0625, 0.1, 0.125, 0.25, 0.3, 1 / 3, 1.0, 2.5, 4.0]),
)
arrivals = st.lists(st.integers(0, 5000), max_size=30)
starts_ = st.integers(0, 20_000)


def run(ratio: float, starts: int, counts: list[int]) -> list[int]:
    """Updates done so far, after each arrival."""
    train_ratio, updates, history = TrainRatio(ratio, starts), 0, []
    for transitions in accumulate(counts):
        updates += train_ratio.due(transitions, updates)
        history.append(updates)
    return history


@given(ratio=ratios, starts=starts_, counts=arrivals)
def test_updates_are_exact_at_every_moment(ratio: float, starts: int, counts: list[int]) -> None:
    exact = Fraction(repr(ratio))  # 0.1 means one tenth, not the float nearest to it
    for transitions, updates in zip(accumulate(counts), run(ratio, starts, counts), strict=True):
        assert updates == floor(exact * max(0, transitions - starts))


@given(ratio=ratios, starts=starts_, counts=arrivals)
def test_nothing_is_caught_up_in_a_burst(ratio: float, starts: int, counts: list[int]) -> None:
    """An arrival of m transitions never brings more than ⌈m · ratio⌉ updates, the first one included."""
    before = 0
    for arrived, updates in zip(counts, run(ratio, starts, counts), strict=True):
        assert updates - before <= ceil(arrived * Fraction(repr(ratio)))
        before = updates


@given(ratio=ratios, starts=starts_, data=st.data())
def test_the_number_of_environments_changes_nothing(ratio: float, starts: int, data: st.DataObject) -> None:
    one, other = data.draw(st.integers(1, 64)), data.draw(st.integers(1, 64))
    total = one * other * data.draw(st.integers(1, 5))
    steps = [[envs] * (total // envs) for envs in (one, other, 1)]
    assert len({run(ratio, starts, counts)[-1] for counts in steps}) == 1


@given(ratio=ratios, starts=starts_, counts=arrivals, stop=st.integers(0, 30))
def test_a_resumed_run_needs_nothing_but_the_two_counters(
    ratio: float, starts: int, counts: list[int], stop: int
) -> None:
    whole = run(ratio, starts, counts)
    transitions, updates = sum(counts[:stop]), whole[:stop][-1] if whole[:stop] else 0
    resumed = TrainRatio(ratio, starts)
    for arrived, expected in zip(counts[stop:], whole[stop:], strict=True):
        transitions += arrived
        updates += resumed.due(transitions, updates)
        assert updates == expected


def test_a_tenth_is_a_tenth_for_ever() -> None:
    ratio = TrainRatio(0.1, starts=0)
    assert ratio.due(10**15, 0) == 10**14
    assert ratio.due(10**15 - 1, 0) == 10**14 - 1


def test_updates_ahead_of_the_ratio_are_not_taken_back() -> None:
    assert TrainRatio(0.5, starts=0).due(transitions=10, updates=9) == 0


def test_achieved_is_measured_from_where_learning_started() -> None:
    ratio = TrainRatio(0.25, starts=1000)
    assert ratio.achieved(1000, 0) == 0.0
    assert ratio.achieved(500, 0) == 0.0
    assert ratio.achieved(1400, 100) == 0.25
    assert ratio.achieved(1400, 50) == 0.125


@pytest.mark.parametrize("ratio", [1, numpy.float64(0.25), numpy.float32(0.25), 1e-05])
def test_any_kind_of_number_will_do(ratio: float) -> None:
    assert TrainRatio(ratio, starts=0).due(400_000, 0) == round(400_000 * float(ratio))
