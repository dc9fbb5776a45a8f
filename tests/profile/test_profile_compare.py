"""Faster, slower, or only chance; and from turns to a table."""

from __future__ import annotations

import pytest
from profile_tiny import Pretended, Time, Told, tiny

from flashdqn.profile.compare import compute_speed_up, compute_spread, judge_speed_up
from flashdqn.profile.contest import ExperimentContest, collect_outcomes
from flashdqn.profile.experiments import AGAIN, BASELINE, Experiment, list_experiments
from flashdqn.profile.result import Outcome, RoundSpread
from flashdqn.profile.terminal import format_outcome_speed


def test_spread() -> None:
    assert compute_spread([3.0]) == RoundSpread(3.0, 3.0, 3.0)
    assert compute_spread([5.0, 1.0, 2.0]) == RoundSpread(2.0, 1.0, 5.0)
    many = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.1]
    assert compute_spread(many) == RoundSpread(3.0, 1.0, 5.0)  # the best and the worst do not count


def test_rounds_are_compared_with_themselves() -> None:
    """A machine that gets twice as slow is not a difference between two trainings."""
    assert compute_speed_up([20.0, 10.0, 5.0], [10.0, 5.0, 2.5]) == RoundSpread(2.0, 2.0, 2.0)
    # Stopped in the third round.
    assert compute_speed_up([20.0, 10.0], [10.0, 5.0, 2.5]) == RoundSpread(2.0, 2.0, 2.0)
    assert compute_speed_up([], [10.0]) is None


@pytest.mark.parametrize(
    ("found", "noise", "expected"),
    [
        (RoundSpread(1.5, 1.4, 1.6), None, "faster"),
        (RoundSpread(0.5, 0.4, 0.6), None, "slower"),
        (RoundSpread(1.2, 0.9, 1.6), None, "no difference"),
        (RoundSpread(0.9, 0.5, 1.0), None, "no difference"),
        (RoundSpread(1.05, 1.01, 1.1), RoundSpread(1.0, 0.9, 1.1), "no difference"),
        (RoundSpread(1.15, 1.01, 1.3), RoundSpread(1.0, 0.9, 1.1), "faster"),
        (None, None, "too few rounds"),
    ],
)
def test_verdicts(found: RoundSpread | None, noise: RoundSpread | None, expected: str) -> None:
    assert judge_speed_up(found, 5, noise) == expected


def test_two_rounds_say_nothing() -> None:
    assert judge_speed_up(RoundSpread(2.0, 2.0, 2.0), 2, None) == "too few rounds"


def contest_of(rates: dict[str, list[float]], rounds: int = 3) -> dict[str, Outcome]:
    time, config = Time(), tiny()
    known = {one.name: one for one in list_experiments(config, False, 2)} | {
        "baseline": BASELINE,
        "again": AGAIN,
    }

    def start(one: Experiment) -> Pretended:
        return Pretended(time, rates[one.name], one.of(config).train_ratio)

    contest = ExperimentContest(1000.0, Told(), time)
    contest.prepare([known[name] for name in rates], start)
    contest.take_turns(rounds)
    return {one.name: one for one in collect_outcomes(contest, config)}


def test_outcomes() -> None:
    found = contest_of(
        {
            "baseline": [100.0, 50.0, 200.0],
            "again": [102.0, 49.0, 199.0],
            "ratio-half": [180.0, 95.0, 350.0],
            "batch-half": [130.0, 45.0, 220.0],
            "boards-1024": [50.0, 25.0, 110.0],
        }
    )
    assert found["baseline"].verdict == found["again"].verdict == "baseline"
    assert found["baseline"].speed_up == RoundSpread(1.0, 1.0, 1.0)
    half = found["ratio-half"]
    assert half.verdict == "faster"
    assert half.speed_up == RoundSpread(1.8, 1.75, 1.9)
    assert half.transitions_per_second == RoundSpread(180.0, 95.0, 350.0)
    assert (half.relative_ratio, half.ratio_asked) == (0.5, 0.0625)
    assert half.ratio_done == pytest.approx(0.0625, rel=1e-3)
    assert half.flags == "--train-ratio 0.0625"
    assert found["batch-half"].verdict == "no difference"
    assert found["boards-1024"].verdict == "slower"
    assert format_outcome_speed(found["batch-half"]) == "no difference (0.90 … 1.30)"
    assert format_outcome_speed(half) == "1.80 (1.75 … 1.90)"


def test_another_mode_than_the_baselines_is_said() -> None:
    time, config = Time(), tiny()
    contest = ExperimentContest(1000.0, Told(), time)
    fallen = Pretended(time, [1.0])
    fallen.mode = "eager"
    boards = next(one for one in list_experiments(config, False, 2) if one.group == "boards")
    contest.prepare([BASELINE, boards], lambda one: Pretended(time, [1.0]) if one is BASELINE else fallen)
    contest.take_turns(3)
    assert [one.remark for one in collect_outcomes(contest, config)] == ["", "it ran in mode eager"]


def test_without_a_turn_of_the_baseline_there_is_nothing_to_say() -> None:
    contest = ExperimentContest(10.0, Told(), Time())
    contest.prepare([BASELINE], lambda _: Pretended(Time(), [1.0]))
    assert collect_outcomes(contest, tiny()) == []
