"""Where the time goes: shares of given durations, and a very short real training."""

from __future__ import annotations

from pathlib import Path

import pytest
from profile_tiny import tiny

from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.profile.graph_phases import GraphPart, compare_with_graph
from flashdqn.profile.phases import describe_fused_phases, measure_time_spent, summarize_turn
from flashdqn.profile.ready import TurnResult, prepare_training
from flashdqn.training.progress import Silent


def test_phases_per_transition() -> None:
    seconds = {"act": 1.0, "update": 6.0, "report": 100.0, "evaluate": 50.0}
    spent = summarize_turn(
        TurnResult(transitions=2_000_000, updates=100_000, seconds=10.0, iterations=8_000), seconds, 0.05, 64
    )
    found = {phase.name: (phase.microseconds, phase.share) for phase in spent.phases}
    assert found == {
        "act": (pytest.approx(0.5), 0.1),
        "update": (pytest.approx(3.0), 0.6),
        "loop": (pytest.approx(1.5), pytest.approx(0.3)),
    }
    assert (spent.transitions_per_second, spent.updates_per_second) == (200_000, 10_000)
    assert (spent.ratio_asked, spent.ratio_done) == (0.05, 0.05)
    assert (spent.batch, spent.reuse) == (64, pytest.approx(3.2))


def test_samples_that_sum_to_more_than_there_was() -> None:
    """On CUDA phases are extrapolated from one iteration in seven."""
    spent = summarize_turn(TurnResult(1000, 10, 1.0), {"collect": 0.8, "learn": 0.4}, 0.01, 64)
    assert sum(phase.share for phase in spent.phases) == pytest.approx(1.0)
    assert spent.phases[-1].name == "loop"
    assert spent.phases[-1].microseconds == pytest.approx(0.0)


def test_what_is_fused_is_said() -> None:
    assert "one compiled pass" in describe_fused_phases(ExecutionPlan("eager"), cuda=False)[0]
    assert any(
        "written by hand" in word for word in describe_fused_phases(ExecutionPlan("native"), cuda=False)
    )
    assert any(
        "one compiled function" in word for word in describe_fused_phases(ExecutionPlan("compile"), cuda=True)
    )
    assert any(
        "CUDA graph" in word for word in describe_fused_phases(ExecutionPlan("native", graph=True), cuda=True)
    )
    assert describe_fused_phases(ExecutionPlan("eager"), cuda=True) == ()


def test_a_sum_stands_beside_its_whole() -> None:
    parts = [GraphPart(name, lambda: None, (), 1, "") for name in ("sample", "update")]
    apart = compare_with_graph(
        "learn", dict(zip(parts, (2e-3, 6e-3), strict=True)), per_transition=1e-3, whole=10.0
    )
    assert [phase.microseconds for phase in apart.parts] == [pytest.approx(2.0), pytest.approx(6.0)]
    assert [phase.share for phase in apart.parts] == [pytest.approx(0.2), pytest.approx(0.6)]
    assert apart.sum_microseconds == pytest.approx(8.0)
    assert apart.whole_microseconds == 10.0


@pytest.mark.parametrize("algo", ["double", "pqn"])
def test_a_real_training(algo: str, tmp_path: Path) -> None:
    from flashdqn.learn.algorithms import apply_algorithm

    config = apply_algorithm(tiny(runtime__mode="eager", pqn__rollout=8, pqn__minibatches=4), algo)
    config = tiny(runtime__mode="eager") if algo == "double" else config
    ready = prepare_training(config, tmp_path / "run", Silent())
    spent = measure_time_spent(ready, 0.05)
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
    ready = prepare_training(tiny(runtime__mode="eager"), tmp_path / "run", Silent())
    for _ in range(3):
        turn = ready.turn(0.0, least=50)
        assert turn.iterations == 50
        assert abs(turn.updates - turn.transitions * 0.125) <= 1
    ready.close()
    assert ready.notes == []
    assert ready.mode == "eager"
