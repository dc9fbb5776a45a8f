"""The advice: flags that change nothing about learning, and separately those that trade learning for speed."""

from __future__ import annotations

import io

from profile_tiny import outcome
from rich.console import Console

from flashdqn.profile.advice import make_advice, select_safe_gains
from flashdqn.profile.result import Outcome

BASELINE = outcome("baseline", (1.0, 1.0, 1.0), role="baseline", verdict="baseline")
HALF = outcome("ratio-half", (1.9, 1.8, 2.0), role="trade", learning="learns from half as many updates")
NONE = outcome("no-training", (27.0, 26.0, 28.0), role="bound", learning="learns nothing")


def test_nothing_to_gain() -> None:
    same = outcome("boards-1024", (1.3, 0.9, 1.6))
    slower = outcome("mode-eager", (0.6, 0.5, 0.7))
    advice = make_advice([BASELINE, same, slower, HALF])
    assert advice.same == ()
    assert advice.together is None
    assert advice.words[0].startswith("Nothing to gain without changing what is learned")


def test_a_gain_too_small_for_a_flag_is_none() -> None:
    assert (
        make_advice([BASELINE, outcome("boards-64", (1.03, 1.02, 1.04))])
        .words[0]
        .startswith("Nothing to gain")
    )


def test_what_was_not_measured_for_long_enough_is_not_judged() -> None:
    early = outcome("boards-1024", (1.5, 1.5, 1.5), verdict="too few rounds", rounds=1)
    assert "long enough" in make_advice([BASELINE, early]).words[0]
    assert "long enough" in make_advice([BASELINE, HALF]).words[0]
    assert make_advice([BASELINE]).words == ()


def test_trades_are_kept_apart() -> None:
    boards = outcome("boards-1024", (1.4, 1.3, 1.5))
    advice = make_advice([BASELINE, NONE, HALF, boards])
    assert [one.flags for one in advice.same] == ["--boards-1024"]
    assert [one.flags for one in advice.trades] == ["--ratio-half"]
    assert advice.trades[0].learning == "learns from half as many updates"
    assert advice.words[0] == "Use --boards-1024: 1.40 times (1.30 … 1.50) as fast; same learning."
    assert "27.00 times" in advice.words[1]
    assert "cannot give more than that" in advice.words[1]
    assert not [one for one in (*advice.same, *advice.trades) if "no-training" in one.flags]


def test_where_training_costs_nothing() -> None:
    free = outcome("no-training", (1.0, 0.9, 1.1), role="bound")
    assert "the time goes into collecting" in make_advice([BASELINE, free]).words[1]


def test_the_best_of_each_group() -> None:
    found = [
        outcome("boards-64", (1.2, 1.1, 1.3)),
        outcome("boards-1024", (1.4, 1.3, 1.5)),
        outcome("threads-2", (1.6, 1.5, 1.7)),
    ]
    assert [one.name for one in select_safe_gains(found)] == ["threads-2", "boards-1024"]


def several(together: Outcome | None = None) -> tuple[str, ...]:
    found = [BASELINE, outcome("boards-1024", (1.4, 1.3, 1.5)), outcome("threads-2", (1.6, 1.5, 1.7))]
    return make_advice(found + ([] if together is None else [together])).words


def test_several_flags_are_not_multiplied() -> None:
    words = " ".join(several())
    assert "2.24" not in words
    assert "do not multiply" in words
    assert "were not measured" in words


def test_several_flags_are_measured_together() -> None:
    both = outcome("recommended", (1.9, 1.8, 2.0), flags="--envs 1024 --runtime.threads 2")
    words = several(both)
    assert words[0].startswith(
        "Use --envs 1024 --runtime.threads 2: 1.90 times (1.80 … 2.00) as fast, measured"
    )
    assert "1.60 times" in words[0]


def test_several_flags_that_are_no_faster_than_one() -> None:
    both = outcome("recommended", (1.3, 1.2, 1.4))
    words = several(both)
    assert words[0].startswith("Use --threads-2: 1.60 times")
    assert "not more" in words[0]


def test_more_learning_for_little() -> None:
    cheap = outcome(
        "ratio-double", (0.9, 0.85, 0.95), role="more", learning="learns from twice as many updates"
    )
    dear = outcome("batch-double", (0.6, 0.5, 0.9), role="more")
    advice = make_advice([BASELINE, cheap, dear])
    assert [one.flags for one in advice.bargains] == ["--ratio-double"]


def test_what_was_stopped_says_so() -> None:
    assert "stopped" in make_advice([BASELINE, HALF], complete=False).words[-1]


def test_advice_is_printed_with_the_trades_marked() -> None:
    from flashdqn.profile import terminal as profile_report

    console = Console(file=io.StringIO(), width=120)
    advice = make_advice([BASELINE, HALF, outcome("boards-1024", (1.4, 1.3, 1.5))])
    profile_report.print_advice(console, advice)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("Changes nothing about learning") < text.index("TRADES LEARNING FOR SPEED")
    assert "--ratio-half" in text.split("TRADES")[1]
    assert "--boards-1024" not in text.split("TRADES")[1]
