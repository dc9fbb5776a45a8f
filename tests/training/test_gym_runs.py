"""Training on Gymnasium environments: learning, resuming, failing, and how they are named."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import EnvError
from flashdqn.envs import GymConfig, build_env
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind
from flashdqn.runs.folder import RunFolder
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.assemble import Parts, assemble_parts

SMALL: dict[str, Any] = {
    "steps": 600,
    "envs": 4,
    "device": "cpu",
    "network.hidden": [16],
    "replay.capacity": 400,
    "learn.batch_size": 16,
    "learn.starts": 50,
    "explore.over": 300,
    "eval.every": 0,
    "eval.episodes": 4,
    "log.tensorboard": False,
    "log.every": 200,
    "log.checkpoint_every": 200,
    "runtime.threads": 1,
    "runtime.warmup": False,
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def small(name: str, out: Path, **changes: Any) -> Config:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return apply_settings(base_config(name), SMALL | {"out": str(out)} | named)


# ---- learning


def test_it_learns_to_repeat(tmp_path: Path) -> None:
    settings = {
        "steps": 3000,
        "learn.lr": 5e-3,
        "learn.gamma": 0.5,
        "learn.target_every": 50,
        "replay.capacity": 3000,
    }
    run = flashdqn.train("gym_envs:make_repeat", progress=False, **SMALL | settings, out=str(tmp_path))
    assert run.score == 10.0  # of 10; chance gives 5


def test_cartpole_balances_longer_than_by_chance(tmp_path: Path) -> None:
    settings = {"steps": 8000, "explore.over": 4000, "eval.episodes": 20, "log.checkpoint_every": 0}
    run = flashdqn.train("cartpole", progress=False, out=str(tmp_path), device="cpu", **settings)
    assert run.score > 60  # chance gives 22
    again = flashdqn.load(run.path).evaluate(episodes=20)
    assert again.mean_length == again.mean_score  # one point for each step


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    runs = [
        flashdqn.train(small("gym:Acrobot-v1", tmp_path, seed=s, env__max_steps=20), progress=False)
        for s in (1, 1, 2)
    ]
    weights = [run.summary["weights"] for run in runs]
    assert weights[0] == weights[1] != weights[2]


def test_processes_learn_the_same(tmp_path: Path) -> None:
    settings = {"env__kwargs": {"masked": True}, "steps": 300}
    runs = [
        flashdqn.train(
            small("gym_envs:make_walk", tmp_path, env__vectorization=how, **settings), progress=False
        )
        for how in ("sync", "async")
    ]
    assert runs[0].summary["weights"] == runs[1].summary["weights"]


# ---- resuming


def make_parts(n_step: int, masked: bool) -> Parts:
    config = small(
        "gym_envs:make_walk", Path(), replay__n_step=n_step, env__kwargs={"limit": 6, "masked": masked}
    )
    return assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("before", [1, 2, 7, 40, 150])
def test_no_transition_crosses_a_resume(n_step: int, masked: bool, before: int) -> None:
    """A walk observes its own clock, so that every transition can be checked by itself."""
    old = make_parts(n_step, masked)
    old.collector.start(seed=1)
    for _ in range(before):
        old.collector.collect()
    new = make_parts(n_step, masked)
    counters = {"updates": 0, "transitions": 0, "episodes": 0}
    new.load(old.learner.weights(), {k: v.clone() for k, v in old.state_dict().items()}, counters)
    cut = int(new.ring.head)
    new.collector.collect()
    row = new.ring.kind[cut]
    assert (row == Kind.RESET).all()
    assert torch.equal(new.ring.obs[int(new.ring.head)], torch.tensor([[0.0, -1.0]]).expand(4, 2))
    for _ in range(30):
        new.collector.collect()
    complete = torch.arange(max(0, before - 60), int(new.ring.filled) - n_step + 1)
    index = (((new.ring.head - 1 - complete) % new.ring.rows)[:, None] * 4 + torch.arange(4)).view(-1)
    newest = ((new.ring.head - torch.arange(1, n_step)) % new.ring.rows).tolist()  # windows not yet complete
    index = index[[int(i) // 4 not in newest for i in index]]
    index = index[new.ring.kind.view(-1)[index] != Kind.RESET]
    sample = gather_transitions(new.ring, index, n_step, gamma=1.0)
    taken = sample.next_obs[:, 0] - sample.obs[:, 0]
    assert (taken >= 1).all()
    assert (taken <= n_step).all()
    clocks = sample.obs[:, 0]
    expected = sum(torch.where(taken > k, clocks + 1 + k, 0.0) for k in range(n_step))
    assert torch.equal(sample.reward, expected)
    assert torch.equal(sample.discount == 0, sample.next_obs[:, 1] == 2)  # terminated by STOP alone


def test_episode_figures_start_anew_after_a_resume() -> None:
    old, new = make_parts(1, False), make_parts(1, False)
    old.collector.start(seed=1)
    for _ in range(9):
        old.collector.collect()
    new.load(old.learner.weights(), old.state_dict(), {"updates": 0, "transitions": 36, "episodes": 5})
    new.metrics.read()
    for _ in range(40):
        new.collector.collect()
    figures = new.metrics.read()
    # the return is the metrics' sum, the score the environment's own
    assert figures.return_ == figures.outcomes["score"]
    assert figures.length <= 6


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        first = flashdqn.train(small("gym:Acrobot-v1", tmp_path, env__max_steps=20), progress=False)
        runs.append(flashdqn.train(resume=first.path, steps=1200, progress=False))
    assert runs[0].finished
    assert runs[0].summary["steps"] >= 1200
    assert runs[0].config.env == GymConfig(id="Acrobot-v1", max_steps=20)
    assert runs[0].summary["weights"] == runs[1].summary["weights"]


# ---- failing


@pytest.mark.parametrize("how", ["raise", "die"])
def test_a_worker_that_fails_leaves_a_checkpoint(tmp_path: Path, how: str) -> None:
    config = small(
        "gym_envs:make_faulty",
        tmp_path,
        env__vectorization="async",
        env__kwargs={"how": how},
        envs=2,
        learn__starts=1,
    )
    with pytest.raises(EnvError, match=r"gym_envs:make_faulty.* go on with: flashdqn train --resume"):
        flashdqn.train(config, progress=False)
    (run,) = tmp_path.iterdir()
    assert RunFolder.open(run).resume_point(run).name == f"{4:012d}"


def test_interrupts_are_the_trainers_business() -> None:
    env = flashdqn.make_env("gym_envs:make_walk", 2, vectorization="async")
    env.reset(0)
    for process in env.vector.env.processes:  # type: ignore[attr-defined]
        os.kill(process.pid, signal.SIGINT)
    env.step(torch.zeros(2, dtype=torch.int64))
    env.close()  # type: ignore[attr-defined]


def test_without_gymnasium_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(EnvError, match=r"Gymnasium is not installed: pip install 'flashdqn\[gym\]'"):
        flashdqn.make_env("gym:CartPole-v1", 2)
