"""The Python interface: train, load, act, make_env."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import flashdqn
from flashdqn import Agent, Config, ConfigError, EnvError, Run
from flashdqn.envs import check_env
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint
from flashdqn.runs.tables import read_table


@pytest.fixture(scope="module")
def agent(finished_run: Run) -> Agent:
    return flashdqn.load(finished_run.path, "cpu")


def test_train_returns_the_run(finished_run: Run) -> None:
    assert finished_run.finished
    assert finished_run.config.preset == "snake"
    assert finished_run.summary["steps"] >= 5000
    assert finished_run.score == finished_run.summary["evaluation"]["mean_score"] >= 0
    names = {path.name for path in finished_run.path.iterdir()}
    assert {"config.json", "metrics.csv", "evaluations.csv", "summary.json", "checkpoints"} <= names
    assert {"curve.png", "report.html"} <= names


def test_the_ratio_is_exact(finished_run: Run) -> None:
    learned = finished_run.summary["steps"] - finished_run.config.learn.starts
    assert finished_run.summary["updates"] == int(learned * finished_run.config.train_ratio)


def test_train_takes_names_nested_dotted_and_keywords(tmp_path: Path) -> None:
    run = flashdqn.train(
        "snake",
        steps=300,
        train_ratio="debug",
        envs=4,
        env={"size": 5},
        progress=False,
        out=str(tmp_path),
        **{"eval.episodes": 2, "network.hidden": [8], "replay.capacity": 500, "log.tensorboard": False},
    )
    config = run.config
    assert (config.env.size, config.train_ratio, config.network.hidden) == (5, 0.004, (8,))
    assert run.path.parent == tmp_path
    assert flashdqn.load(run.path).config == config


def test_train_takes_a_configuration_of_ones_own(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(preset="mine", steps=300)
    assert run.path.name.startswith("mine-")
    assert flashdqn.load(run.path).config == run.config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "snak"}, "did you mean 'snake'"),
        ({"stepz": 3}, "did you mean 'steps'"),
        ({"env": {"sise": 3}}, "env.sise.*did you mean 'size'"),
        ({"env": 3}, "group of settings"),
        ({"envs": "many"}, "'envs' must be a whole number"),
        ({"envs": True}, "'envs' must be a whole number"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_train_refuses_what_it_does_not_know(
    settings: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        flashdqn.train(**{"progress": False, "out": str(tmp_path / "out")} | settings)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_run_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="--steps, --episodes or --max-time"):
        flashdqn.train(Config(), progress=False)


def test_episodes_end_a_run(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(steps=None, episodes=40)
    assert run.config.steps is None
    assert 40 <= run.summary["episodes"] < 40 + run.config.envs


@pytest.mark.parametrize("checkpoint_every", [0, 1000, 1500])
def test_the_last_evaluation_is_not_done_twice(tiny_run: Callable[..., Run], checkpoint_every: int) -> None:
    run = tiny_run(steps=3000, log__every=1500, log__checkpoint_every=checkpoint_every)
    for name in ("metrics.csv", "evaluations.csv"):
        steps = [int(row["step"]) for row in read_table(run.path / name)]
        assert len(steps) == 2
        assert steps[-1] == run.summary["steps"]
    newest = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-1]
    assert int(newest.name) == run.summary["steps"]


def test_act_on_one_and_on_many(agent: Agent) -> None:
    obs = flashdqn.make_env("snake", 7, size=6).reset(3).clone()
    actions = agent.act(obs)
    assert isinstance(actions, torch.Tensor)
    assert actions.shape == (7,)
    assert torch.equal(actions, agent.q(obs).argmax(1))
    from_numpy = agent.act(obs.numpy())
    assert isinstance(from_numpy, np.ndarray)
    assert from_numpy.tolist() == actions.tolist()
    assert agent.act(obs.double().numpy()).tolist() == actions.tolist()
    assert agent.act(obs.tolist()).tolist() == actions.tolist()
    for i in range(7):
        for single in (obs[i], obs[i].numpy(), obs[i].tolist()):
            action = agent.act(single)
            assert type(action) is int
            assert action == int(actions[i])


def test_act_on_what_cannot_be_written(agent: Agent) -> None:
    obs = np.zeros((2, *agent.obs_spec.shape), dtype=np.float32)
    obs.setflags(write=False)
    assert agent.act(obs).shape == (2,)


def test_act_keeps_to_the_mask(agent: Agent) -> None:
    obs = torch.rand(50, *agent.obs_spec.shape)
    for only in range(agent.num_actions):
        mask = torch.zeros(50, agent.num_actions, dtype=torch.bool)
        mask[:, only] = True
        assert agent.act(obs, mask).tolist() == [only] * 50
        assert agent.act(obs[0], mask[0]) == only


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 2, 11)])
def test_act_says_which_shape_it_reads(agent: Agent, shape: tuple[int, ...]) -> None:
    with pytest.raises(EnvError, match=r"shape \[11\].*got"):
        agent.act(np.zeros(shape, dtype=np.float32))


def test_evaluate_is_deterministic(agent: Agent, finished_run: Run) -> None:
    first, again, other = agent.evaluate(20), agent.evaluate(20), agent.evaluate(20, seed=5)
    assert first == again != other
    assert agent.evaluate(20, seed=5) == other
    assert first.episodes == 20
    games = finished_run.summary["evaluation"]["episodes"]
    assert agent.evaluate(games).mean_score == finished_run.score


def test_load_takes_the_best_or_the_one_named(finished_run: Run, agent: Agent) -> None:
    folder = finished_run.path / "checkpoints"
    best = find_best_checkpoint(folder)
    assert best is not None
    assert finished_run.summary["best_checkpoint"] == best[0].name
    hashes = {}
    for path in checkpoint.list_checkpoints(folder):
        named = flashdqn.load(path)
        hashes[path] = checkpoint.hash_weights(named.network.state_dict())
    assert len(set(hashes.values())) == len(hashes)
    assert checkpoint.hash_weights(agent.network.state_dict()) == hashes[best[0]]
    assert hashes[max(hashes)] == finished_run.summary["weights"]


def test_load_refuses_what_is_no_run(tmp_path: Path, finished_run: Run) -> None:
    with pytest.raises(flashdqn.CheckpointError, match="is not a run folder"):
        flashdqn.load(tmp_path)
    with pytest.raises(flashdqn.CheckpointError, match="does not exist"):
        flashdqn.load(tmp_path / "nowhere")
    with pytest.raises(flashdqn.CheckpointError, match="is not a checkpoint"):
        flashdqn.load(finished_run.path / "checkpoints" / "000000000001")


def test_load_names_a_spoilt_config(run_copy: Path) -> None:
    for text in ("", "{", "[]", "{}", '{"config": 3}', '{"config": {"envs": "x"}}', '{"config": {"no": 1}}'):
        (run_copy / "config.json").write_text(text)
        with pytest.raises(flashdqn.FlashDQNError, match=r"config\.json|envs|'no'"):
            flashdqn.load(run_copy)


def test_make_env_by_name_and_by_preset() -> None:
    env = flashdqn.make_env("snake", num_envs=5, size=7, actions="absolute")
    assert env.reset(0).shape[0] == env.num_envs == 5
    assert env.num_actions == 4
    grid = flashdqn.make_env("snake-grid", 2, size=12)
    assert grid.reset(0).shape == (2, 3, 12, 12)
    assert flashdqn.make_env("snake-flood", 1).obs_spec != flashdqn.make_env("snake", 1).obs_spec


@pytest.mark.parametrize(
    ("name", "count", "settings", "message"),
    [
        ("snak", 1, {}, "did you mean 'snake'"),
        ("chess", 1, {}, "known are"),
        ("snake", 0, {}, "at least 1"),
        ("snake", 1, {"sise": 3}, "did you mean 'size'"),
        ("snake", 1, {"size": 3}, "4 … 32"),
        ("snake", 1, {"size": "big"}, "whole number"),
        ("snake", 1, {"features": "all"}, "basic, flood, selective, enhanced, grid"),
    ],
)
def test_make_env_refuses(name: str, count: int, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        flashdqn.make_env(name, count, **settings)


@pytest.mark.parametrize("actions", ["relative", "absolute"])
@pytest.mark.parametrize("features", ["basic", "flood", "selective", "enhanced", "grid"])
def test_every_snake_keeps_the_contract(features: str, actions: str) -> None:
    env = flashdqn.make_env("snake", 8, size=6, features=features, actions=actions, hunger=0.5)
    report = check_env(env, steps=300)
    assert report.steps == 300
    assert report.terminated > 0
    assert report.truncated > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: flashdqn.train(None),  # type: ignore[arg-type]
        lambda: flashdqn.train(["snake"]),  # type: ignore[arg-type]
        lambda: flashdqn.train("snake", algo=5),  # type: ignore[arg-type]
        lambda: flashdqn.train(resume=5),  # type: ignore[arg-type]
        lambda: flashdqn.make_env(None, 1),  # type: ignore[arg-type]
        lambda: flashdqn.make_env("snake", 2.5),  # type: ignore[arg-type]
        lambda: flashdqn.make_env("snake", "2"),  # type: ignore[arg-type]
        lambda: flashdqn.make_env("snake", True),
        lambda: flashdqn.make_env("snake", 10**13),
        lambda: flashdqn.make_env("snake", 2**70),
        lambda: flashdqn.make_env("snake", 1, device="nonsense"),
        lambda: flashdqn.make_env("snake", 1, device="meta"),
    ],
)
def test_wrong_arguments_are_one_sentence(call: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("episodes", [0, -1, 1.5, "3", None])
def test_an_agent_refuses_a_wrong_number_of_games(agent: Agent, episodes: int) -> None:
    with pytest.raises(ConfigError, match="episodes must be a whole number of at least 1"):
        agent.evaluate(episodes)
