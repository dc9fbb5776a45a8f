"""Gains over the same work, their intervals, and whether the numbers stayed the same."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trial_records import make_digests, make_trial

from flashdqn.doctor.cures.same_numbers import Sameness, compare_numbers
from flashdqn.doctor.cures.same_work import (
    compute_interval,
    find_common_work,
    measure_gains,
    measure_noise,
    measure_seconds,
)
from flashdqn.doctor.watch.trial_rows import Digest

rates = st.floats(500.0, 20_000.0)


@settings(deadline=None)
@given(rates, rates, st.floats(0.1, 4.0), st.floats(0.1, 4.0))
def test_the_gain_is_the_quotient_of_the_rates(slow: float, fast: float, one: float, two: float) -> None:
    untouched, cured = make_trial(slow, start=one), make_trial(fast, start=two)
    (gain,) = measure_gains([untouched, untouched], [cured])
    assert gain == pytest.approx(fast / slow, rel=0.05)


def test_only_common_work_counts() -> None:
    work = find_common_work([make_trial(1000.0), make_trial(4000.0)])
    assert work is not None
    assert (work.unit, round(work.last, -2)) == ("transitions", 10_000)
    assert measure_seconds(make_trial(1000.0), work) == pytest.approx(9.0, rel=0.02)
    assert measure_seconds(make_trial(4000.0), work) == pytest.approx(9.0 / 4, rel=0.02)


def test_updates_count_where_there_are_no_environments() -> None:
    trial = make_trial(1000.0)
    blind = replace(trial, series=tuple(replace(row, transitions=0) for row in trial.series))
    work = find_common_work([blind, trial])
    assert work is not None
    assert work.unit == "updates"


def test_compilation_is_not_part_of_the_work() -> None:
    compiled = replace(make_trial(1000.0), compiled=6.0)
    work = find_common_work([compiled, make_trial(1000.0)])
    assert work is not None
    assert work.first > 5_000


def test_runs_that_do_not_overlap_say_nothing() -> None:
    late = replace(make_trial(1000.0), compiled=10.99)
    assert find_common_work([late, make_trial(100.0)]) is None
    assert measure_gains([make_trial(100.0)] * 2, [late]) == []


def test_the_drift_of_a_machine_goes_out_between_two_untouched_runs() -> None:
    before, after = make_trial(1000.0), make_trial(2000.0)  # the machine got faster
    (gain,) = measure_gains([before, after], [make_trial(math.sqrt(2) * 1000.0)])
    assert gain == pytest.approx(1.0, rel=0.02)
    assert measure_noise([before, after]) == [pytest.approx(2.0, rel=0.02)]


@settings(deadline=None)
@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8))
def test_an_interval_holds_its_middle_and_grows_with_the_spread(gains: list[float]) -> None:
    interval = compute_interval(gains)
    assert interval.low <= interval.middle * 1.000001
    assert interval.high >= interval.middle * 0.999999
    assert not (interval.is_faster and interval.is_slower)
    wider = compute_interval([gain**2 for gain in gains])
    assert wider.high / wider.low >= interval.high / interval.low * 0.999


def test_one_pair_says_nothing_about_chance() -> None:
    interval = compute_interval([3.0])
    assert (interval.low, interval.high) == (0.0, math.inf)
    assert not interval.is_faster


def test_equal_numbers() -> None:
    found = compare_numbers([make_trial(), make_trial()], [make_trial()])
    assert (found.sameness, found.words) == (Sameness.EQUAL, "equal bit by bit through update 4")


def test_a_script_that_differs_from_itself_cannot_be_judged() -> None:
    found = compare_numbers([make_trial(codes="abc"), make_trial(codes="xyz")], [make_trial()])
    assert found.sameness is Sameness.UNKNOWN
    assert "differs from itself" in found.words


def test_numbers_are_judged_as_far_as_the_script_repeats_itself() -> None:
    untouched = [make_trial(codes="abc"), make_trial(codes="abz")]
    assert compare_numbers(untouched, [make_trial(codes="abq")]).sameness is Sameness.EQUAL
    assert compare_numbers(untouched, [make_trial(codes="aqq")]).sameness is not Sameness.EQUAL


@pytest.mark.parametrize(("apart", "sameness"), [(1e-8, Sameness.ROUNDED), (1e-2, Sameness.DIFFERENT)])
def test_rounding_is_not_another_result(apart: float, sameness: Sameness) -> None:
    untouched = [make_trial(), make_trial()]
    cured = replace(make_trial(), digests=make_digests("axx", (1.0 + apart, 2.0)))
    assert compare_numbers(untouched, [cured]).sameness is sameness


def test_other_shapes_are_other_numbers() -> None:
    cured = replace(make_trial(), digests=(Digest(0, 1, "q", (1.0,)),))
    assert compare_numbers([make_trial(), make_trial()], [cured]).sameness is Sameness.DIFFERENT


def test_without_updates_nothing_is_judged() -> None:
    none = replace(make_trial(), digests=())
    assert compare_numbers([none, none], [none]).sameness is Sameness.UNKNOWN
