"""Several iterations in one launch, with real kernels and graphs: run on a machine with a GPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.envs import build_env
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.backends.cuda.acting import ActingKernel, SetRates
from flashdqn.training.backends.cuda.recording import RecordingKernel, make_decision
from flashdqn.training.engine import Engine
from flashdqn.training.iterations import Iterations
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.ratio import TrainRatio
from flashdqn.training.schedules import Schedules
from flashdqn.training.warmup import clone_tensors, restore_after

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PLAN = ExecutionPlan("native", graph=True, several=True)
SETTINGS: dict[str, Any] = {
    "device": "cuda",
    "envs": 10,
    "steps": 6000,
    "train_ratio": 0.1,
    "network.hidden": (120, 84),
    "replay.capacity": 3000,
    "learn": {"batch_size": 128, "starts": 400, "target_every": 7, "lr_end": 1e-5, "lr_over": 4000},
    "explore.over": 3000,
    "eval": {"every": 2500, "episodes": 4},
    "log": {"every": 1500, "tensorboard": False, "checkpoint_every": 2000},
}
KINDS: dict[str, dict[str, Any]] = {
    "ten": {},
    "three layers": {"network.hidden": (48, 200, 72), "envs": 64, "train_ratio": 1 / 64},
    "many updates": {
        "network.hidden": (256, 256),
        "envs": 256,
        "learn.batch_size": 64,
        "train_ratio": 1 / 32,
    },
}


def make_config(preset: str = "snake", **changes: Any) -> Config:
    return apply_settings(apply_settings(base_config(preset), SETTINGS), changes)


def make_parts(config: Config, device: str = "cuda") -> Parts:
    return assemble_parts(config, build_env(config.env, config.envs, torch.device(device)))


def make_loop(config: Config, folder: Path, largest: int | None = None) -> tuple[Loop, list[Any]]:
    """A warm loop and a list of what happens in it; `largest`: not more iterations than these in one launch."""
    parts = make_parts(config)
    engine = Engine(config, parts)
    with restore_after(config, parts):
        warm_up_plan(engine, PLAN)
    assert isinstance(engine._iterations, Iterations)
    if largest is not None:
        engine._iterations.largest = largest
    folder.joinpath("checkpoints").mkdir(parents=True, exist_ok=True)
    games = build_env(config.env, config.eval.episodes, torch.device("cuda"))
    loop, seen = Loop(config, parts, RunFolder(folder), Silent(), games, engine), list[Any]()
    for name in ("report", "evaluate", "save"):
        setattr(loop, name, note_call(loop, name, seen))
    loop.start()
    return loop, seen


def note_call(loop: Loop, name: str, seen: list[Any]) -> Any:
    function = getattr(loop, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        weights = float(loop.parts.learner.flat.values.double().sum())
        seen.append((name, int(loop.parts.counts.board[0]), weights))
        return function(*args, **kwargs)

    return noted


def read_state(parts: Parts) -> dict[str, torch.Tensor]:
    found = clone_tensors(parts.learner.weights()) | clone_tensors(parts.state_dict())
    return found | {"board": parts.counts.board.clone()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    different = [name for name, tensor in one.items() if not torch.equal(tensor, other[name])]
    assert not different


@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_iterations_equal_single_ones(kind: str, tmp_path: Path) -> None:
    config = make_config(**KINDS[kind])
    one, first = make_loop(config, tmp_path / "one", largest=1)
    many, second = make_loop(config, tmp_path / "many")
    assert one.run()
    assert many.run()
    assert first == second
    assert_same(read_state(one.parts), read_state(many.parts))
    transitions, updates = int(many.parts.counts.board[0]), many.parts.learner.updates
    assert updates == int(many.parts.counts.board[2]) == int(many.parts.learner.adam.steps)
    assert updates == many.ratio.due(transitions, 0) > 50


def test_stopped_and_resumed_equals_never_stopped(tmp_path: Path) -> None:
    config = make_config()
    whole, _ = make_loop(config, tmp_path / "whole")
    assert whole.run()
    first, _ = make_loop(config, tmp_path / "first")
    first.fill()
    for _ in range(7):
        first.iterate()
    path = first.save(timed=True)
    second, _ = make_loop(config, tmp_path / "first")
    second.resume(path)
    assert second.run()
    assert_same(read_state(second.parts), read_state(whole.parts))


@pytest.mark.parametrize("envs", [10, 300, 5000])
def test_recording_equals_the_collector(envs: int) -> None:
    config = make_config(envs=envs, **{"replay.capacity": 20 * envs})
    plain, other = make_parts(config), make_parts(config)
    record = RecordingKernel(other)
    due = torch.zeros(1, dtype=torch.int32, device="cuda")
    ratio = TrainRatio(0.1, 60)
    for parts in (plain, other):
        parts.collector.start(3)
    generator = torch.Generator("cuda").manual_seed(5)
    updates = 0
    for _ in range(60):
        action = torch.randint(3, (envs,), device="cuda", generator=generator)
        step = plain.env.step(action)
        plain.collector.record(action, step, plain.env.outcomes)
        record(action, step, plain.env.outcomes, make_decision(ratio, 10**6, due))
        updates += ratio.due(int(plain.counts.totals[0]), updates)
        assert int(other.counts.board[2]) == updates
    assert torch.equal(plain.counts.totals, other.counts.totals)
    assert_same(plain.ring.state_dict(), other.ring.state_dict())
    assert torch.equal(plain.metrics.running, other.metrics.running)
    torch.testing.assert_close(plain.metrics.sums, other.metrics.sums, rtol=1e-4, atol=1e-3)
    assert torch.equal(plain.collector.obs, other.collector.obs)


@pytest.mark.parametrize("hidden", [(120, 84), (48, 200, 72), (17,), (256, 256), (1024, 512)])
@pytest.mark.parametrize("envs", [10, 256, 3000])
def test_actions_equal_the_networks(hidden: tuple[int, ...], envs: int) -> None:
    parts = make_parts(make_config(envs=envs, **{"network.hidden": hidden}))
    collector = parts.collector
    collector.start(1)
    act = ActingKernel(parts)
    for eps in (0.0, 0.5):
        obs = torch.randn_like(collector.obs)
        collector.luck.uniform_(generator=collector.generator)
        collector.eps.fill_(eps)
        expected = collector.act(obs, None, collector.eps, collector.luck)
        found = act(obs, None, collector.eps, collector.luck)
        q = parts.learner.online(obs)
        ties = q.topk(2).values.diff().abs()[:, 0] < 1e-3  # PyTorch may round to TF32
        assert torch.equal(found[~ties], expected[~ties])
        assert float(ties.float().mean()) < 0.2


@pytest.mark.parametrize("schedule", ["linear", "exponential"])
def test_rates_equal_the_schedules(schedule: str) -> None:
    config = make_config(**{"explore.schedule": schedule, "explore.end": 0.013})
    plain, other = make_parts(config), make_parts(config)
    host = Schedules(config, plain.collector.eps, plain.learner.lr, plain.sampler)
    set_rates, act, collector = SetRates(other), ActingKernel(other), other.collector
    for k, transitions in enumerate((0, 1, 17, 333, 1999, 2500, 2999, 3000, 3999, 10**12)):
        host.write(transitions)
        other.counts.load(transitions, 0)
        if k % 2:
            set_rates()
        else:
            act(collector.obs, None, collector.eps, collector.luck, decide=True)
        assert torch.equal(plain.collector.eps, collector.eps), transitions
        assert torch.equal(plain.learner.lr, other.learner.lr), transitions


def test_a_training_chooses_it_and_keeps_its_ratio(tmp_path: Path) -> None:
    config = {name: value for name, value in SETTINGS.items() if name not in ("steps", "envs", "device")}
    nested = {"network": {"hidden": [120, 84]}, "replay": {"capacity": 3000}, "explore": {"over": 3000}}
    settings = {name: value for name, value in config.items() if "." not in name} | nested
    run = flashdqn.train(
        "snake", steps=20_000, envs=64, device="cuda", out=str(tmp_path), progress=False, **settings
    )
    assert run.finished
    assert run.summary["updates"] == math.floor((run.summary["steps"] - 400) * 0.1)
