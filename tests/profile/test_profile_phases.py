"""Where the time goes: shares of given durations, and a real training of a blink."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from profile_tiny import tiny

from flashdqn.compute.graphs import Plan
from flashdqn.profile.graph_phases import Part, beside
from flashdqn.profile.phases import fused_in_words, measure_spent, spent_of
from flashdqn.profile.ready import Turn, start
from flashdqn.training.progress import Silent


def test_phases_per_transition() -> None:
    seconds = {"act": 1.0, "update": 6.0, "report": 100.0, "evaluate": 50.0}
    spent = spent_of(
        Turn(transitions=2_000_000, updates=100_000, seconds=10.0, iterations=8_000), seconds, 0.05
    )
    found = {phase.name: (phase.microseconds, phase.share) for phase in spent.phases}
    assert found == {
        "act": (pytest.approx(0.5), 0.1),
        "update": (pytest.approx(3.0), 0.6),
        "loop": (pytest.approx(1.5), pytest.approx(0.3)),
    }
    assert (spent.transitions_per_second, spent.updates_per_second) == (200_000, 10_000)
    assert (spent.ratio_asked, spent.ratio_done) == (0.05, 0.05)


def test_samples_that_sum_to_more_than_there_was() -> None:
    """On CUDA phases are extrapolated from one iteration in seven."""
    spent = spent_of(Turn(1000, 10, 1.0), {"collect": 0.8, "learn": 0.4}, 0.01)
    assert sum(phase.share for phase in spent.phases) == pytest.approx(1.0)
    assert spent.phases[-1].name == "loop"
    assert spent.phases[-1].microseconds == pytest.approx(0.0)


def test_what_is_fused_is_said() -> None:
    assert "one compiled pass" in fused_in_words(Plan("eager"), cuda=False)[0]
    assert any("written by hand" in word for word in fused_in_words(Plan("written"), cuda=False))
    assert any("one compiled function" in word for word in fused_in_words(Plan("compile"), cuda=True))
    assert any("CUDA graph" in word for word in fused_in_words(Plan("written", graph=True), cuda=True))
    assert fused_in_words(Plan("eager"), cuda=True) == ()


def test_a_sum_stands_beside_its_whole() -> None:
    parts = [Part(name, lambda: None, (), 1, "") for name in ("sample", "update")]
    apart = beside("learn", dict(zip(parts, (2e-3, 6e-3), strict=True)), per_transition=1e-3, whole=10.0)
    assert [phase.microseconds for phase in apart.parts] == [pytest.approx(2.0), pytest.approx(6.0)]
    assert [phase.share for phase in apart.parts] == [pytest.approx(0.2), pytest.approx(0.6)]
    assert apart.sum_microseconds == pytest.approx(8.0)
    assert apart.whole_microseconds == 10.0


@pytest.mark.parametrize("algo", ["double", "pqn"])
def test_a_real_training(algo: str, tmp_path: Path) -> None:
    from flashdqn.learn.algorithms import with_algorithm

    config = with_algorithm(tiny(runtime__mode="eager", pqn__rollout=8, pqn__minibatches=4), algo)
    config = tiny(runtime__mode="eager") if algo == "double" else config
    ready = start(config, torch.device("cpu"), tmp_path / "run", Silent())
    spent = measure_spent(ready, 0.05)
    ready.close()
    names = [phase.name for phase in spent.phases]
    assert names == ["act", "step", "append", "sample", "update", "loop"]
    assert sum(phase.share for phase in spent.phases) == pytest.approx(1.0)
    assert [aside.name for aside in spent.asides] == ["warm-up", "report", "evaluation", "checkpoint"]
    assert spent.transitions > 0
    assert spent.updates > 0
    assert spent.apart == ()
    assert spent.ratio_asked == ready.ratio_asked


def test_turns_do_the_updates_that_they_earn(tmp_path: Path) -> None:
    ready = start(tiny(runtime__mode="eager"), torch.device("cpu"), tmp_path / "run", Silent())
    for _ in range(3):
        turn = ready.turn(0.0, least=50)
        assert turn.iterations == 50
        assert abs(turn.updates - turn.transitions * 0.125) <= 1
    ready.close()
    assert ready.notes == []
    assert ready.mode == "eager"
