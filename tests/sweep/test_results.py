"""The winner, the front and the claim, against twins that are slow and plain."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.sweep.confirm import Claim, compare_means, list_fresh_seeds, read_claim
from flashdqn.sweep.results import DONE, FAILED, PRUNED, TrialPoint, TrialResult, choose_winner, find_front

points = st.builds(TrialPoint, st.integers(0, 9).map(float), st.integers(0, 9).map(float), st.integers(0, 99))


@given(st.lists(points))
def test_the_front_is_what_nobody_beats(found: list[TrialPoint]) -> None:
    def beats(one: TrialPoint, other: TrialPoint) -> bool:
        better = one.score > other.score or one.seconds < other.seconds
        return one.score >= other.score and one.seconds <= other.seconds and better

    twin = {(p.seconds, p.score) for p in found if not any(beats(other, p) for other in found)}
    front = find_front(found)
    assert {(p.seconds, p.score) for p in front} == twin
    assert [p.seconds for p in front] == sorted(p.seconds for p in front)
    assert len(front) == len(twin)


def result(
    number: int, score: float, seconds: float = 1.0, error: float = 0.0, state: str = DONE
) -> TrialResult:
    points = (TrialPoint(seconds, score, number),)
    return TrialResult(number, state, {}, score, error, seconds, points=points)


def test_the_winner_is_the_fastest_of_the_best() -> None:
    slow, fast, worse = result(0, 100.0, 9.0, error=5.0), result(1, 99.0, 3.0), result(2, 97.0, 1.0)
    assert choose_winner([slow, fast, worse]) == fast  # 97 is more than a fiftieth below
    exact = result(0, 100.0, 9.0, error=0.1)
    assert choose_winner([exact, fast, worse]) == exact
    assert choose_winner([result(3, 200.0, state=PRUNED), result(4, 300.0, state=FAILED), worse]) == worse
    assert choose_winner([result(5, math.nan)]) is None
    assert choose_winner([result(6, -5.0, 2.0), result(7, -9.0, 1.0)]).number == 6  # type: ignore[union-attr]


scores = st.lists(st.floats(-100, 100), min_size=2, max_size=6)


@given(scores, scores)
def test_the_difference_of_means(ones: list[float], others: list[float]) -> None:
    gain, half = compare_means(ones, others)
    assert gain == pytest.approx(statistics.fmean(ones) - statistics.fmean(others), abs=1e-9)
    variances = statistics.variance(ones) / len(ones) + statistics.variance(others) / len(others)
    assert 1.96 * math.sqrt(variances) <= half + 1e-9
    assert half <= 12.71 * math.sqrt(variances) + 1e-9
    again, same = compare_means(others, ones)
    assert (again, same) == (pytest.approx(-gain), pytest.approx(half))


def test_welch_by_hand() -> None:
    # means 3 and 1, variances of the means 1/3 · 1 and 1/3 · 1: 4 degrees of freedom, t = 2.776
    gain, half = compare_means([2.0, 3.0, 4.0], [0.0, 1.0, 2.0])
    assert (gain, half) == (2.0, pytest.approx(2.776 * math.sqrt(2 / 3)))


@pytest.mark.parametrize(
    ("winner", "preset", "words"),
    [
        ((10.0, 11.0, 12.0), (1.0, 2.0, 3.0), "better"),
        ((1.0, 2.0, 3.0), (10.0, 11.0, 12.0), "worse"),
        ((1.0, 5.0, 9.0), (2.0, 4.0, 6.0), "chance"),
        ((10.0,), (1.0,), "too few"),
    ],
)
def test_verdicts(winner: tuple[float, ...], preset: tuple[float, ...], words: str) -> None:
    assert words in Claim(winner, preset).verdict


def test_a_claim_needs_both_sides() -> None:
    runs = {"winner-1": {"score": 3.0}, "winner-2": {"reason": "failed"}, "preset-1": {"score": 1.0}}
    assert read_claim({"runs": runs}) == Claim((3.0,), (1.0,))
    assert read_claim({"runs": {"winner-1": {"score": 3.0}}}) is None
    assert read_claim({"runs": {"preset-1": {"score": math.nan}, "winner-1": {"score": 1.0}}}) is None
    assert read_claim({"runs": 3}) is None


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 5))
def test_fresh_seeds_are_fresh_and_allowed(seed: int, count: int) -> None:
    fresh = list_fresh_seeds(seed, count)
    assert len({seed, *fresh}) == count + 1
    assert all(-(2**63) <= one < 2**63 for one in fresh)
