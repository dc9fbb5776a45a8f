"""The arithmetic of an update: how much it is, by hand, and what a profile says about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from profile_tiny import tiny

from flashdqn.profile.arithmetic import measure_product, name_product, seconds_per_update
from flashdqn.profile.phases import measure_time_spent, summarize_turn
from flashdqn.profile.ready import TurnResult, prepare_training
from flashdqn.profile.result import Apart, TimedPhase
from flashdqn.profile.terminal import describe_arithmetic, format_flops
from flashdqn.training.progress import Silent


@pytest.mark.parametrize(("algorithm", "passes"), [("greedy", 4), ("double", 5)])
def test_an_update_is_counted_by_hand(tmp_path: Path, algorithm: str, passes: int) -> None:
    config = tiny(learn__bootstrap=algorithm, runtime__mode="eager")
    ready = prepare_training(config, tmp_path, Silent())
    try:
        spent = measure_time_spent(ready, 0.05)
        inputs = ready.loop.parts.env.obs_spec.shape[0]
        actions = ready.loop.parts.env.num_actions
    finally:
        ready.close()
    found = spent.arithmetic
    assert found is not None
    assert found.passes == passes
    assert found.flops == passes * 32 * 2 * 16 * (inputs + actions)
    assert found.flops_per_second == pytest.approx(found.flops / found.seconds)
    assert found.share == pytest.approx(found.flops_per_second / found.product_flops_per_second)
    assert found.product == "float32"
    update = next(phase for phase in spent.phases if phase.name == "update")
    assert found.seconds == pytest.approx(update.microseconds * spent.transitions / spent.updates / 1e6)
    assert "% of the" in describe_arithmetic(found)


def test_the_update_inside_a_graph_is_the_one_measured_apart() -> None:
    spent = summarize_turn(TurnResult(1000, 10, 1.0), {"collect": 0.5, "learn": 0.4}, 0.01, 64)
    assert seconds_per_update(spent) == pytest.approx(0.04)
    parts = (TimedPhase("sample", 100.0, 0.25, ""), TimedPhase("update", 250.0, 0.6, ""))
    spent = replace(spent, apart=(Apart("learn", parts, 350.0, 400.0),))
    assert seconds_per_update(spent) == pytest.approx(0.025)
    nothing = summarize_turn(TurnResult(1000, 0, 1.0), {"act": 0.5}, 0.0, 64)
    assert seconds_per_update(nothing) is None


def test_a_product_has_a_rate() -> None:
    cpu = torch.device("cpu")
    assert 1e8 < measure_product(cpu, "fp32") < 1e14
    assert (name_product(cpu, "fp32"), name_product(cpu, "bf16")) == ("float32", "bfloat16")
    assert name_product(torch.device("cuda"), "fp32") == "TF32"


def test_operations_have_units() -> None:
    assert [format_flops(n) for n in (1.18e12, 790e12, 5e9, 3.25e6)] == [
        "1.18 TFLOP",
        "790 TFLOP",
        "5 GFLOP",
        "3.25 MFLOP",
    ]
