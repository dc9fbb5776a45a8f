"""Training on CUDA: run on a machine that has one; CI has none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.compute.kernels import cuda_available
from flashdqn.core.types import Step
from flashdqn.envs.host_env import HostEnv
from flashdqn.learn.algorithms import ALGORITHMS
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.samplers import choose_uniform_slots
from flashdqn.training.assemble import assemble_parts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TINY: dict[str, Any] = {
    "device": "cuda",
    "envs": 64,
    "train_ratio": 0.0625,
    "progress": False,
    "learn": {"starts": 1000, "batch_size": 64},
    "replay": {"capacity": 20_000, "n_step": 3},
    "network": {"hidden": [32, 32]},
    "eval": {"every": 0, "episodes": 8},
    "log": {"tensorboard": False},
}


def test_a_run_trains_keeps_its_ratio_and_resumes(tmp_path: Path) -> None:
    first = flashdqn.train("snake", steps=20_000, out=str(tmp_path), **TINY)
    assert first.finished
    assert first.summary["updates"] == math.floor((first.summary["steps"] - 1000) * 0.0625)
    second = flashdqn.train(resume=first.path, steps=30_000, progress=False)
    assert second.summary["steps"] >= 30_000
    assert second.summary["updates"] == math.floor((second.summary["steps"] - 1000) * 0.0625)
    assert flashdqn.load(first.path, "cpu").evaluate(4).episodes == 4


def test_games_run_on_the_cpu_where_numba_cuda_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashdqn.envs.host_env.cuda_available", lambda: False)
    env = flashdqn.make_env("snake", 4, "cuda")
    assert isinstance(env, HostEnv)
    assert env.reset(0).device.type == "cuda"
    assert flashdqn.train("snake", steps=4000, out=str(tmp_path), **TINY).finished


@pytest.mark.skipif(not cuda_available(), reason="needs numba-cuda")
def test_ring_and_sampler_agree_with_the_cpu_bit_by_bit() -> None:
    settings = {"envs": 32, "replay": {"capacity": 32 * 20, "n_step": 3}}
    config = flashdqn.config.settings.apply_settings(flashdqn.presets.base_config("snake-flood"), settings)
    cpu, cuda = (
        assemble_parts(config, flashdqn.make_env("snake-flood", 32, device)) for device in ("cpu", "cuda")
    )
    for parts in (cpu, cuda):
        parts.collector.start(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(100):
        action = torch.randint(3, (32,), generator=generator)
        for parts in (cpu, cuda):
            step: Step = parts.env.step(action.to(parts.env.device))
            parts.ring.append(action.to(parts.env.device), step)
    bits = torch.empty((4, 512), dtype=torch.int64).random_(generator=generator)
    batches = []
    for parts in (cpu, cuda):
        index, weight = choose_uniform_slots(parts.ring, 3, bits.to(parts.env.device))
        batches.append((index, weight, *gather_transitions(parts.ring, index, 3, 0.99)[:5]))
    for ours, theirs in zip(*batches, strict=True):
        torch.testing.assert_close(ours, theirs.cpu(), rtol=1e-6, atol=1e-6)
    for name in ("obs", "action", "reward", "kind", "head", "filled"):
        assert torch.equal(getattr(cpu.ring, name), getattr(cuda.ring, name).cpu())


def test_the_same_weights_give_the_same_update_within_rounding() -> None:
    config = flashdqn.config.settings.apply_settings(
        flashdqn.presets.base_config("snake-flood"), {"envs": 64}
    )
    cpu, cuda = (
        assemble_parts(config, flashdqn.make_env("snake-flood", 64, device)) for device in ("cpu", "cuda")
    )
    cpu.collector.start(0)
    for _ in range(20):
        cpu.collector.collect()
    for batch in cpu.sampler.batches(5, 128):
        cpu.learner.update(batch)
        moved = batch._replace(
            transition=type(batch.transition)(*(None if x is None else x.cuda() for x in batch.transition)),
            weight=batch.weight.cuda(),
            index=batch.index.cuda(),
        )
        cuda.learner.update(moved)
    theirs = cuda.learner.weights()
    for name, ours in cpu.learner.weights().items():
        torch.testing.assert_close(ours, theirs[name].cpu(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("algo", sorted(ALGORITHMS))
def test_every_algorithm_trains_on_cuda(algo: str, tmp_path: Path) -> None:
    settings = TINY | {"replay": {"capacity": 20_000}}
    run = flashdqn.train("snake-flood", algo=algo, steps=3000, out=str(tmp_path), **settings)
    assert run.finished
    if algo == "pqn":
        assert run.summary["updates"] == 2 * 32  # for one complete rollout of 32 · 64 transitions
    else:
        assert run.summary["updates"] == math.floor((run.summary["steps"] - 1000) * 0.0625)


@pytest.mark.skipif(not cuda_available(), reason="needs numba-cuda")
@pytest.mark.parametrize("task", ["sfc", "fuelbreaks-small"])
def test_tasks_with_masks_compile_on_cuda(task: str, tmp_path: Path) -> None:
    """Kept masks, and masks that follow from observations: neither may send the mode down its ladder."""
    settings = TINY | {"network": {}, "runtime": {"mode": "compile"}, "replay": {"capacity": 20_000}}
    settings |= {"demos": {"source": "none"}}
    if task == "fuelbreaks-small":
        settings["env"] = {"landscapes": 4, "held_out": 2, "fires": 3}
    run = flashdqn.train(task, steps=2000, out=str(tmp_path), **settings)
    assert run.finished
    assert run.summary["mode"] == "compile"


@pytest.mark.skipif(not cuda_available(), reason="needs numba-cuda")
def test_graphs_learn_from_kept_demonstrations_as_eager_updates_do(tmp_path: Path) -> None:
    """The margin loss and the mixed batches, as replays of a CUDA graph: the same values within rounding."""
    demos = {"source": "makes-room", "episodes": 64, "pretrain_steps": 50, "keep": 5000, "share": 0.5}
    settings = TINY | {"demos": demos | {"margin": 0.2, "margin_weight": 0.5}}
    settings["env"] = {"max_dcs": 3, "max_bundles": 1}
    values, obs = [], flashdqn.make_env("sfc", 8, "cpu", **settings["env"]).reset(3)
    for mode in ("eager", "graph"):
        settings["runtime"] = {"mode": mode}
        run = flashdqn.train("sfc-shown", steps=1300, out=str(tmp_path / mode), **settings)
        assert run.summary["mode"].startswith(mode)
        values.append(flashdqn.load(run.path, "cpu").q(obs))
    torch.testing.assert_close(values[0], values[1], rtol=1e-2, atol=1e-2)
