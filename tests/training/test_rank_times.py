"""Who waits for whom: the arithmetic and the words."""

from __future__ import annotations

from typing import Any

import pytest

from flashdqn.show.rank_waits import describe_ranks
from flashdqn.training.rank_times import find_slow_rank, summarize_waiting


@pytest.mark.parametrize(
    ("waited", "seconds", "slow"),
    [
        ([10.0, 1.0, 11.0], 60.0, 1),  # all wait for rank 1
        ([1.0, 9.0], 60.0, 0),
        ([10.0, 9.0, 11.0], 60.0, None),  # all wait alike: the exchange itself is slow
        ([0.2, 0.0, 0.3], 60.0, None),  # nobody waits for long
        ([10.0, 1.0, 1.5], 60.0, None),  # two slow ones: no single rank holds up the others
        ([5.0], 60.0, None),
    ],
)
def test_the_rank_that_waits_least_by_far_is_the_slow_one(
    waited: list[float], seconds: float, slow: int | None
) -> None:
    assert find_slow_rank(waited, seconds) == slow


def test_the_summary_names_it() -> None:
    every = [{"gradients": 8.0, "counts": 2.0}, {"gradients": 0.5, "counts": 0.25}]
    summary = summarize_waiting(every, 1000, 40.0)
    assert summary["waited_seconds"] == [10.0, 0.75]
    assert summary["slow_rank"] == 1
    lines = list(describe_ranks({"ranks": summary}))
    assert lines[0] == "Time in exchanges, mostly waiting for other ranks: rank 0 10.0 s, rank 1 0.8 s"
    assert lines[1].startswith("Rank 1 is the slowest: the others have waited up to 10.0 s")


@pytest.mark.parametrize(
    "ranks",
    [None, 3, {}, {"waited_seconds": "x"}, {"waited_seconds": [None]}, {"waited_seconds": [float("inf")]}],
)
def test_a_strangers_summary_is_not_believed(ranks: Any) -> None:
    assert list(describe_ranks({"ranks": ranks})) == []


def test_a_slow_rank_that_is_not_there() -> None:
    assert len(list(describe_ranks({"ranks": {"waited_seconds": [1.0, 2.0], "slow_rank": 7}}))) == 1
