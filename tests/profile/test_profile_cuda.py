"""A profile on CUDA: phases by events, and graphs measured apart. Needs a GPU, which CI does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from profile_tiny import Told, tiny

from flashdqn.compute.kernels import cuda_available
from flashdqn.compute.precision import allow_tf32
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.profile.phases import measure_time_spent
from flashdqn.profile.profile import Options, take_profile
from flashdqn.profile.ready import Ready, prepare_training
from flashdqn.training.progress import Silent

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and cuda_available()), reason="needs CUDA and numba-cuda"
)


def ready(folder: Path, mode: str, algo: str = "double") -> Ready:
    config = apply_algorithm(
        tiny(device="cuda", network__hidden=[32, 32], runtime__mode=mode, runtime__warmup=True), algo
    )
    return prepare_training(config, folder / "run", Silent())


@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_phases_without_a_graph(mode: str, tmp_path: Path) -> None:
    with allow_tf32(torch.device("cuda")):
        training = ready(tmp_path, mode)
        spent = measure_time_spent(training, 0.3)
        training.close()
    assert [p.name for p in spent.phases] == ["act", "step", "append", "sample", "update", "loop"]
    assert spent.apart == ()
    assert spent.not_apart == ""


@pytest.mark.parametrize("algo", ["double", "per", "noisy", "iqn", "rainbow"])
def test_graphs_are_measured_apart(algo: str, tmp_path: Path) -> None:
    with allow_tf32(torch.device("cuda")):
        training = ready(tmp_path, "graph", algo)
        spent = measure_time_spent(training, 0.3)
        training.close()
    split = {"collect": ["act", "step", "append"], "learn": ["sample", "update"]}
    if algo == "double":  # the device decides all of it
        split = {"iterate": ["act", "step", "append", "sample", "update"]}
    assert [p.name for p in spent.phases] == [*split, "loop"]
    assert spent.not_apart == ""
    assert {apart.whole: [part.name for part in apart.parts] for apart in spent.apart} == split
    for apart in spent.apart:
        assert apart.sum_microseconds > 0
        assert apart.whole_microseconds > 0
        assert apart.sum_microseconds == pytest.approx(sum(part.microseconds for part in apart.parts))


def test_the_learning_of_pqn_is_not_split(tmp_path: Path) -> None:
    with allow_tf32(torch.device("cuda")):
        training = ready(tmp_path, "graph", "pqn")
        spent = measure_time_spent(training, 0.3)
        training.close()
    assert [apart.whole for apart in spent.apart] == ["collect"]
    assert "PQN" in spent.not_apart


def test_a_whole_profile() -> None:
    config = tiny(device="cuda", network__hidden=[32, 32])
    options = Options(rounds=3, seconds=20.0, only=("ratio-half", "boards-64", "mode-eager", "mode-graph"))
    found = take_profile(config, options, Told(), Silent)
    names = [one.name for one in found.outcomes]
    assert names[:4] == ["baseline", "again", "ratio-half", "boards-64"]
    assert found.device == "cuda"
    assert not found.left_out
