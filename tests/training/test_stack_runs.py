"""Training on stacks of frames: a ring that keeps frames teaches what one that keeps stacks does, and resumes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn import Config, Run
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import VecEnv
from flashdqn.envs import ObsSpec
from flashdqn.envs.frame_stack import FrameStack
from flashdqn.replay.ring import ring_bytes
from flashdqn.runs import checkpoint
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.assemble import assemble_parts

CPU = torch.device("cpu")

SMALL: dict[str, Any] = {
    "steps": 500,
    "envs": 3,
    "train_ratio": 0.1,
    "device": "cpu",
    "env.stack": 3,
    "env.kwargs": {"limit": 9},
    "network.hidden": [16],
    "network.channels": [4],
    "replay.capacity": 150,
    "replay.n_step": 3,
    "learn.batch_size": 16,
    "learn.starts": 60,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "runtime.threads": 1,
    "runtime.mode": "eager",
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def small(out: Path, **changes: Any) -> Config:
    return apply_settings(base_config("gym_envs:make_screen"), SMALL | {"out": str(out)} | changes)


def train(out: Path, **changes: Any) -> Run:
    return flashdqn.train(small(out, **changes), progress=False)


class WholeStacks(FrameStack):
    """The same stacks, of which nobody is told that they are made of frames."""

    def __init__(self, env: VecEnv, stack: int) -> None:
        super().__init__(env, stack)
        self.obs_spec = ObsSpec(self.obs_spec.shape, self.obs_spec.dtype)


VARIANTS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "one step": {"replay.n_step": 1},
    "priorities": {"replay.priority": 0.6, "replay.capacity": 1200},  # so large that it does not wrap
    "pqn": {"learn.method": "pqn", "replay.n_step": 1, "pqn.rollout": 16, "pqn.minibatches": 4},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_frames_teach_what_whole_stacks_teach(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit: the same samples, of the same stacks."""
    frames = train(tmp_path / "frames", **VARIANTS[name])
    monkeypatch.setattr("flashdqn.envs.frame_stack.FrameStack", WholeStacks)
    stacks = train(tmp_path / "stacks", **VARIANTS[name])
    assert frames.summary["updates"] == stacks.summary["updates"] > 10
    assert frames.summary["weights"] == stacks.summary["weights"]


def test_the_memory_said_is_the_memory_taken(tmp_path: Path) -> None:
    config = small(tmp_path)
    env = flashdqn.envs.build_env(config.env, config.envs, CPU)
    parts = assemble_parts(config, env)
    columns = [x for x in vars(parts.ring).values() if isinstance(x, torch.Tensor) and x.dim() >= 2]
    taken = sum(column.untyped_storage().nbytes() for column in columns)
    assert taken == ring_bytes(150, 3, env.obs_spec, env.num_actions, masked=False)
    assert parts.ring.obs[0, 0].numel() * 3 == parts.env.reset(0)[0].numel()


def test_a_stopped_run_goes_on_with_its_frames(tmp_path: Path) -> None:
    """Twice from the same checkpoint gives the same, and no stack reaches over the cut."""
    first = train(tmp_path / "first", steps=300)
    ends = []
    for name in ("one", "other"):
        copy = Path(shutil.copytree(first.path, tmp_path / name))
        ends.append(flashdqn.train(resume=copy, steps=450, progress=False, trust=True))
    assert ends[0].summary["weights"] == ends[1].summary["weights"]
    assert ends[0].summary["steps"] >= 450
    points = checkpoint.list_checkpoints(ends[0].path / "checkpoints")
    state = checkpoint.load_checkpoint(points[-1], with_state=True)[1]
    assert state["ring.obs"].shape[2:] == (3, 6, 6)
    assert "ring.age" in state


def test_a_sequence_of_stacks_is_what_was_seen(tmp_path: Path) -> None:
    """Through the collector and its compiled loop, after a resume as well."""
    config = small(tmp_path)
    parts = assemble_parts(config, flashdqn.envs.build_env(config.env, config.envs, CPU))
    parts.collector.start(0)
    for number in range(120):
        parts.collector.collect()
        assert torch.equal(parts.ring.newest(), parts.collector.obs)
        if number == 60:
            parts.env.load_state_dict(parts.env.state_dict())
            parts.ring.cut_off()
            parts.metrics.cut_off()
            parts.collector.resume()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("mode", ["eager", "graph", "compile"])
def test_frames_teach_what_whole_stacks_teach_on_cuda(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"device": "cuda", "runtime.mode": mode}
    frames = train(tmp_path / "frames", **changes)
    monkeypatch.setattr("flashdqn.envs.frame_stack.FrameStack", WholeStacks)
    stacks = train(tmp_path / "stacks", **changes)
    one, other = (
        checkpoint.load_checkpoint(
            checkpoint.list_checkpoints(run.path / "checkpoints")[-1], with_state=False
        )[0]
        for run in (frames, stacks)
    )
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], rtol=1e-3, atol=1e-4)
