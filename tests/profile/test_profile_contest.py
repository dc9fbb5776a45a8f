"""Taking turns: the order, the time budget, what is left out, and Ctrl-C. All by a clock that tests move."""

from __future__ import annotations

import pytest
import torch
from profile_tiny import Pretended, Time, Told

from flashdqn.core.errors import ConfigError, ExecutionError
from flashdqn.profile.contest import ExperimentContest, describe_error
from flashdqn.profile.experiments import AGAIN, BASELINE, Experiment


def one(name: str, **settings: object) -> Experiment:
    return Experiment(name, "group", dict(settings), "same", "same learning")


def test_everybody_takes_a_turn_in_every_round_in_another_order() -> None:
    time, told = Time(), Told()
    contest = ExperimentContest(100.0, told, time)
    contest.prepare([BASELINE, one("a"), one("b")], lambda _: Pretended(time, [1.0]))
    contest.take_turns(4)
    orders = [[name for number, name in told.turns if number == round_] for round_ in (1, 2, 3, 4)]
    assert all(sorted(order) == ["a", "b", "baseline"] for order in orders)
    assert len({tuple(order) for order in orders}) > 2
    assert [order[0] for order in orders[::2]] == ["baseline", "b"]
    assert contest.rounds == 4


def test_the_turns_share_the_time() -> None:
    time = Time()
    contest = ExperimentContest(100.0, Told(), time)
    contest.prepare([BASELINE, one("a")], lambda _: Pretended(time, [1.0]))
    contest.take_turns(5)
    # a tenth is kept for what is recommended, and a part of the rest is used before the clock of each turn starts
    assert contest.turn_seconds == pytest.approx(9.0 / 1.1)
    assert contest.left == pytest.approx(100 - 90 / 1.1)


def test_what_there_is_no_time_to_prepare_is_left_out_but_never_the_baseline() -> None:
    time, told = Time(), Told()

    def start(_: Experiment) -> Pretended:
        time.now += 50.0
        return Pretended(time, [1.0])

    contest = ExperimentContest(100.0, told, time)
    contest.prepare([BASELINE, AGAIN, one("a"), one("b")], start)
    assert [c.experiment.name for c in contest.contenders] == ["baseline", "again"]
    assert [left.name for left in contest.left_out] == ["a", "b"]
    assert "no time was left" in contest.left_out[0].reason
    assert told.notes[0].startswith("a is left out: no time was left")


def test_compiling_is_not_begun_without_time_for_it() -> None:
    time = Time()
    compiles = one("mode-compile", **{"runtime.mode": "compile"})
    for seconds, fits in ((40.0, 1), (120.0, 2)):
        contest = ExperimentContest(seconds, Told(), time)
        contest.prepare([BASELINE, compiles], lambda _: Pretended(time, [1.0]))
        assert len(contest.contenders) == fits


def test_a_slow_machine_ends_the_rounds_early_but_three_are_done() -> None:
    time = Time()

    class Slow(Pretended):
        def turn(self, seconds: float):  # type: ignore[no-untyped-def]
            time.now += 100.0
            return super().turn(seconds)

    contest = ExperimentContest(10.0, Told(), time)
    contest.prepare([BASELINE], lambda _: Slow(time, [1.0]))
    contest.take_turns(9)
    assert contest.rounds == 3
    assert contest.left == 0.0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigError("A ring of 9 transitions takes 3 GB: use less."), "A ring of 9 transitions takes 3 GB"),
        (ExecutionError("there is no C++ compiler"), "there is no C++ compiler"),
        (torch.OutOfMemoryError("CUDA out of memory.\nMore."), "OutOfMemoryError: CUDA out of memory"),
        (MemoryError(), "MemoryError: MemoryError"),
    ],
)
def test_what_cannot_be_made_ready_is_named_with_its_reason(error: Exception, reason: str) -> None:
    def start(experiment: Experiment) -> Pretended:
        if experiment.name == "a":
            raise error
        return Pretended(Time(), [1.0])

    contest = ExperimentContest(100.0, Told(), Time())
    contest.prepare([BASELINE, one("a"), one("b")], start)
    assert [c.experiment.name for c in contest.contenders] == ["baseline", "b"]
    assert contest.left_out[0].name == "a"
    assert contest.left_out[0].reason.startswith(reason)
    assert describe_error(error).startswith(reason)


def test_a_baseline_that_fails_is_no_profile() -> None:
    def fail(_: Experiment) -> Pretended:
        raise ConfigError("No such ring.")

    with pytest.raises(ConfigError, match="No such ring"):
        ExperimentContest(1.0, Told(), Time()).prepare([BASELINE], fail)


def test_one_that_fails_in_its_turn_is_left_out_and_closed() -> None:
    time = Time()

    class Breaks(Pretended):
        def turn(self, seconds: float):  # type: ignore[no-untyped-def]
            if self.asked:
                raise RuntimeError("Broken.")
            return super().turn(seconds)

    broken = Breaks(time, [1.0])
    contest = ExperimentContest(100.0, Told(), time)
    contest.prepare([BASELINE, one("a")], lambda x: broken if x.name == "a" else Pretended(time, [1.0]))
    contest.take_turns(3)
    assert [c.experiment.name for c in contest.contenders] == ["baseline"]
    assert contest.left_out[0].reason == "RuntimeError: Broken"
    assert broken.closed
    assert contest.rounds == 3


def test_ctrl_c_keeps_what_was_measured() -> None:
    time = Time()

    class Stops(Pretended):
        def turn(self, seconds: float):  # type: ignore[no-untyped-def]
            if len(self.asked) == 2:
                raise KeyboardInterrupt
            return super().turn(seconds)

    contest = ExperimentContest(100.0, Told(), time)
    contest.prepare([BASELINE, one("a")], lambda x: (Stops if x.name == "a" else Pretended)(time, [1.0]))
    with contest.stoppable():
        contest.take_turns(9)
    assert contest.interrupted
    assert [len(c.turns) for c in contest.contenders] == [3, 2]
    contest.close()
    assert all(c.training.closed for c in contest.contenders)  # type: ignore[attr-defined]
