"""Trainings with branches, parts, bins and normalization: learned, resumed, shown, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import space_envs
import torch

import flashdqn
from flashdqn.agent.agent import Agent
from flashdqn.agent.onnx import load_onnx
from flashdqn.compute.graphs import compiler_missing
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.core.user_code import Permission
from flashdqn.envs import build_env
from flashdqn.envs.stage import open_stage
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.show.play import play_turns
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.backends.compiled import CompiledBackend, WholeStep
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.summary import SessionEnd as Run

BEST = float(space_envs.STEPS)
SMALL: dict[str, Any] = {
    "steps": 1600,
    "envs": 8,
    "train_ratio": 0.25,
    "device": "cpu",
    "network.hidden": [32],
    "network.channels": [8],
    "network.part_width": 32,
    "replay.capacity": 2000,
    "learn.batch_size": 64,
    "learn.starts": 100,
    "learn.gamma": 0.0,
    "learn.lr": 5e-3,
    "learn.target_every": 50,
    "learn.v_min": -1.0,
    "learn.v_max": 2.0,
    "explore.over": 800,
    "pqn.minibatches": 4,
    "eval.every": 0,
    "eval.episodes": 20,
    "log.tensorboard": False,
    "log.every": 800,
    "log.checkpoint_every": 800,
    "log.game": False,
    "runtime.mode": "eager",
    "runtime.threads": 1,
    "runtime.warmup": False,
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def train(name: str, out: Path, algo: str | None = "dueling", **changes: Any) -> Run:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    settings = SMALL | {"out": str(out)} | named
    return flashdqn.train(f"gym:space_envs:{name}", algo=algo, progress=False, **settings)


# ---- learning


def test_branches_learn_the_best_choices(tmp_path: Path) -> None:
    run = train("Knobs", tmp_path, env__kwargs={"masked": "tuple", "far": 3})
    assert run.score > 0.95 * BEST  # chance gives about half, because one wrong choice of each is illegal


@pytest.mark.parametrize("algo", ["per", "munchausen", "qr-dqn", "rainbow", "pqn"])
def test_the_other_algorithms_take_branches_too(algo: str, tmp_path: Path) -> None:
    run = train("Switches", tmp_path, algo, steps=300, replay__n_step=1)
    assert np.isfinite(run.score)


def test_continuous_actions_are_learned_in_bins(tmp_path: Path) -> None:
    run = train("Throttle", tmp_path, env__kwargs={"count": 2}, env__action_bins=3)
    assert run.score > 0.95 * BEST


def test_an_image_is_read_by_convolutions(tmp_path: Path) -> None:
    run = train("Camera", tmp_path, "double", steps=3000, explore__over=1000, replay__capacity=3000)
    assert run.score > 0.9 * BEST  # chance gives a quarter
    weights = flashdqn.load(run.path, trust=True).network.state_dict()
    assert "torso.readers.0.convolutions.0.weight" in weights


def test_implicit_quantiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Implicit quantiles do not support actions in several parts"):
        train("Knobs", tmp_path, "iqn")


# ---- the rest of the way


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Knobs", {"env__kwargs": {"masked": "flat"}, "replay__priority": 0.5}),
        ("Camera", {"env__stack": 2}),
    ],
)
def test_a_resumed_run_is_the_same_every_time(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    weights = []
    for number in range(2):
        run = train(name, tmp_path / str(number), steps=200, log__checkpoint_every=200, **changes)
        more = flashdqn.train(resume=run.path, steps=280, progress=False, trust=True)
        weights.append(more.summary["weights"])
    assert weights[0] == weights[1]


def test_an_agent_answers_with_the_environments_own_actions(tmp_path: Path) -> None:
    run = train("Knobs", tmp_path, env__kwargs={"masked": "tuple", "far": 3})
    agent = flashdqn.load(run.path, trust=True)
    env = space_envs.Knobs(masked="tuple", far=3)
    obs, info = env.reset(seed=4)
    total, over = 0.0, False
    while not over:
        action = agent.act(obs, info["action_mask"])
        assert env.action_space.contains(action)
        obs, reward, over, _, info = env.step(action)
        total += reward
    assert total > 0.9 * BEST
    many = agent.act(np.stack([obs, obs, obs]))
    assert many.shape == (3, 3)
    assert agent.q(obs).shape == (9,)
    assert agent.branches == (3, 4, 2)


def test_an_agent_reads_what_a_dict_environment_returns(tmp_path: Path) -> None:
    run = train("Camera", tmp_path, "double", steps=300)
    agent = flashdqn.load(run.path, trust=True)
    vector = gymnasium.vector.SyncVectorEnv([space_envs.Camera] * 3)
    obs, _ = vector.reset(seed=0)
    together = agent.act(obs)
    env = space_envs.Camera()
    one, _ = env.reset(seed=0)
    assert agent.act(one) == together[0]


def test_games_are_shown_with_one_choice_for_each_part(tmp_path: Path) -> None:
    run = train("Knobs", tmp_path, steps=200)
    agent = flashdqn.load(run.path, trust=True)
    stage = open_stage(agent.config.env)
    turns = list(play_turns(agent, stage, 3))
    assert len(turns) == space_envs.STEPS + 1
    for turn in turns[:-1]:
        q = np.array(turn.q)
        assert turn.chosen == (q[:3].argmax(), 3 + q[3:7].argmax(), 7 + q[7:].argmax())
    assert stage.view.actions[2:4] == ("part 0: 2", "part 1: 0")


def test_the_first_image_of_several_parts_is_shown(tmp_path: Path) -> None:
    run = train("Camera", tmp_path, "double", steps=200)
    agent = flashdqn.load(run.path, trust=True)
    stage = open_stage(agent.config.env)
    assert stage.view.shape == (3, 8, 8)  # type: ignore[attr-defined]
    assert next(iter(play_turns(agent, stage, 3))).scene


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Knobs", {"env__kwargs": {"masked": "tuple"}, "network__normalize": True}),
        ("Camera", {"env__stack": 2}),
    ],
)
def test_an_exported_policy_chooses_the_same(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs the extra `export`")
    run = train(name, tmp_path, steps=300, **changes)
    trusted = Permission(everything=True)
    for to in ("onnx", "torchscript") if name == "Knobs" else ("onnx",):
        made = export_policy(
            Wanted(run.path, to, observations=60, episodes=8, permission=trusted)  # type: ignore[arg-type]
        )
        assert made.rows[1].agreement.actions > 0.95
        assert made.rows[1].games.mean_score == pytest.approx(made.rows[0].games.mean_score, abs=0.3)
    agent = load_onnx(run.path / "policy.onnx")
    assert agent.description.branches == ((3, 4, 2) if name == "Knobs" else ())
    obs = np.zeros(agent.description.observation_shape, np.float32)
    action = agent.act(obs)
    assert action.shape == (3,) if name == "Knobs" else isinstance(action, int)


@pytest.mark.parametrize("name", ["Knobs", "Camera"])
def test_what_is_compiled_has_the_gradient_of_autograd(name: str) -> None:
    settings = SMALL | {"env.id": f"space_envs:{name}", "network.dueling": True, "replay.capacity": 100}
    config = apply_settings(base_config("gym:CartPole-v1"), settings)
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    parts.collector.start(0)
    for _ in range(10):
        parts.collector.collect()
    batch, learner = parts.sampler.sample(16), parts.learner
    gradient, result = WholeStep(learner).gradient(batch)
    gradient = gradient.clone()  # it is the learner's own, which autograd fills next
    learner.flat.gradient.zero_()
    expected = learner.loss(batch)
    expected.loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(gradient, learner.flat.gradient)
    torch.testing.assert_close(result.priority, expected.priority)


def test_hand_written_code_says_why_it_does_not_take_branches() -> None:
    for name, more, reason in (
        ("Knobs", {}, "does not support actions in branches"),
        ("Camera", {"network.torso": "mlp"}, "observations that the network decodes"),
        (
            "Throttle",
            {"env.action_bins": 3, "network.normalize": True},
            "observations that the network normalizes",
        ),
    ):
        settings = SMALL | more | {"env.id": f"space_envs:{name}", "replay.capacity": 100}
        config = apply_settings(base_config("gym:CartPole-v1"), settings)
        parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
        assert reason in str(CpuBackend.fits(parts))
        assert CompiledBackend.fits(parts) is None or compiler_missing(torch.device("cpu"))


# ---- normalization


def test_normalized_observations_and_rewards_are_learned(tmp_path: Path) -> None:
    settings = {
        "env__kwargs": {"count": 2},
        "env__action_bins": 3,
        "env__normalize_reward": True,
        "network__normalize": True,
    }
    run = train("Throttle", tmp_path, **settings)
    assert run.score > 0.95 * BEST  # true scores
    agent = flashdqn.load(run.path, trust=True)
    mean, count = (agent.network.state_dict()[f"normalizer.{name}"] for name in ("mean", "count"))
    assert float(count) > 1600
    assert float(mean.abs().max()) < 0.3  # −2, 0 and 2 come equally often


def test_a_resumed_run_keeps_the_statistics(tmp_path: Path) -> None:
    changes = {"env__kwargs": {"masked": "flat"}, "env__normalize_reward": True, "network__normalize": True}
    found = []
    for number in range(2):
        run = train("Knobs", tmp_path / str(number), steps=200, log__checkpoint_every=200, **changes)
        before = flashdqn.load(run.path, trust=True).network.state_dict()["normalizer.count"]
        more = flashdqn.train(resume=run.path, steps=280, progress=False, trust=True)
        after = flashdqn.load(more.path / "checkpoints" / "000000000280", trust=True)
        assert after.network.state_dict()["normalizer.count"] > before
        found.append(more.summary["weights"])
    assert found[0] == found[1]


def test_a_run_from_before_parts_is_still_played(tmp_path: Path) -> None:
    run = train("Camera", tmp_path, "double", steps=300, network__torso="mlp")
    agent = flashdqn.load(run.path, trust=True)
    weights = agent.network.state_dict()
    config = apply_settings(agent.config, {"network.torso": "auto"})  # what such a run says
    again = Agent(config, weights, torch.device("cpu"))
    obs, _ = space_envs.Camera().reset(seed=2)
    assert torch.equal(again.q(obs), agent.q(obs))
