"""When a run is over, and when something is due."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.config import Config
from flashdqn.training.budget import Budget, crosses_doubling, crosses_multiple
from flashdqn.training.counts import Counts


def counts(transitions: int, episodes: int) -> Counts:
    result = Counts(torch.device("cpu"))
    result.load(transitions, episodes)
    return result


@pytest.mark.parametrize(
    ("budget", "transitions", "episodes", "seconds", "share"),
    [
        (Budget(None, None, None), 10**9, 10**9, 1e9, 0.0),
        (Budget(100, None, None), 25, 99, 99.0, 0.25),
        (Budget(None, 10, None), 10**6, 4, 99.0, 0.4),
        (Budget(None, None, 8.0), 10**6, 99, 6.0, 0.75),
        (Budget(100, 10, 8.0), 25, 4, 6.0, 0.75),
        (Budget(100, 10, 8.0), 25, 9, 6.0, 0.9),
        (Budget(100, 10, 8.0), 100, 0, 0.0, 1.0),
        (Budget(100, None, None), 356, 0, 0.0, 1.0),
    ],
)
def test_the_limit_that_is_nearest_counts(
    budget: Budget, transitions: int, episodes: int, seconds: float, share: float
) -> None:
    assert budget.share(counts(transitions, episodes), seconds) == pytest.approx(share)


@given(limit=st.integers(1, 10**12), done=st.integers(0, 2 * 10**12))
def test_a_run_is_over_exactly_when_its_limit_is_reached(limit: int, done: int) -> None:
    """No rounding ends it a transition early, or late."""
    assert (Budget(limit, None, None).share(counts(done, 0), 0.0) >= 1.0) == (done >= limit)
    assert Budget(limit, None, None).share(counts(limit - 1, 0), 0.0) < 1.0
    assert Budget(None, limit, None).share(counts(0, limit), 0.0) == 1.0


def test_the_limits_come_from_the_configuration() -> None:
    assert Budget.of(Config(steps=5, episodes=6, max_time=7.5)) == Budget(5, 6, 7.5)
    assert Budget.of(Config()) == Budget(None, None, None)


@given(every=st.integers(0, 50), before=st.integers(0, 300), more=st.integers(0, 120))
def test_crossed_means_a_multiple_was_passed(every: int, before: int, more: int) -> None:
    passed = any(every and number % every == 0 for number in range(before + 1, before + more + 1))
    assert crosses_multiple(every, before, before + more) == passed


@given(every=st.integers(1, 50), jumps=st.lists(st.integers(0, 40), max_size=30))
def test_steps_no_longer_than_the_period_meet_every_multiple_once(every: int, jumps: list[int]) -> None:
    position, met = 0, 0
    for jump in (min(jump, every) for jump in jumps):
        met += crosses_multiple(every, position, position + jump)
        position += jump
    assert met == position // every


@given(st.integers(0, 50), st.integers(0, 5000), st.integers(0, 5000))
def test_doubled_finds_every_power_of_two(first: int, before: int, steps: int) -> None:
    after = before + steps
    powers = [first << k for k in range(20)] if first else []
    assert crosses_doubling(first, before, after) == any(before < power <= after for power in powers)
