"""An environment in any form: a name, a class, a function, an instance."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import corridor_env
import gymnasium
import numpy as np
import pytest
from corridor_env import TINY_GYM, Corridor

import flashdqn
from flashdqn import ConfigError, EnvError, Run
from flashdqn.cli.main import answer_command
from flashdqn.config.given_env import start_from_env
from flashdqn.envs import live_env


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Another process, which knows none of the objects that were passed here."""
    known: dict[str, Any] = {}
    monkeypatch.setattr(live_env, "_LIVE", known)
    return known


def make_local_class() -> type[Corridor]:
    class Local(Corridor):
        pass

    return Local


def train(given: Any, **changes: Any) -> Run:
    return flashdqn.train(given, **TINY_GYM | {"envs": 2} | changes)


def test_a_class_that_can_be_imported_goes_by_its_name() -> None:
    run = train(Corridor)
    assert run.finished
    assert (run.config.preset, run.config.env.id) == (
        "gym:corridor_env:Corridor",
        "corridor_env:Corridor",
    )
    with pytest.raises(ConfigError, match="trust=True"):
        flashdqn.load(run.path)
    assert flashdqn.load(run.path, trust=True).num_actions == 2
    assert flashdqn.load(run, env=Corridor).num_actions == 2  # named by the user: no trust is needed
    assert run.agent().num_actions == 2


@pytest.mark.parametrize("form", ["class", "function", "lambda"])
def test_what_only_this_program_knows(form: str) -> None:
    forms = {
        "class": make_local_class(),
        "function": lambda: make_local_class()(),
        "lambda": lambda: Corridor(),
    }
    run = train(forms[form], steps=160)
    assert run.finished
    assert run.config.envs == 2
    assert live_env.is_live_name(run.config.env.id)
    assert str(run.config.env.id) in json.dumps(json.loads((run.path / "config.json").read_text()))
    assert flashdqn.load(run).act(np.eye(5, dtype=np.float32)).shape == (5,)


def test_another_process_needs_the_environment_again(
    forgetful: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    local = make_local_class()
    run = train(local)
    run.agent().save("agent.zip")
    forgetful.clear()
    for open_again in (
        lambda: flashdqn.load(run),
        lambda: flashdqn.load("agent.zip"),
        lambda: flashdqn.train(resume=run.path, steps=500, progress=False),
    ):
        with pytest.raises(ConfigError, match=r"Local was a Python object.*env=MyEnv"):
            open_again()
    assert answer_command(["eval", str(run.path)]) == 2
    assert "Local was a Python object" in capsys.readouterr().err
    assert Run.open(run.path).metrics()["step"][-1] >= 320  # tables need no environment
    assert flashdqn.load("agent.zip", env=local).evaluate(3).episodes == 3
    forgetful.clear()
    again = flashdqn.train(resume=run.path, env=local, steps=500, progress=False)
    assert again.summary["steps"] >= 500
    assert again.config.env == run.config.env


def test_an_instance_is_used_itself_and_stays_open() -> None:
    env = Corridor()
    run = flashdqn.train(env, **TINY_GYM)
    assert run.config.envs == 1
    assert env.resets > 5
    assert not env.closed
    before = env.resets
    result = flashdqn.evaluate(run, env=env, episodes=4)
    assert result.episodes == 4
    assert env.resets >= before + 4
    assert not env.closed
    again = run.resume(steps=400, progress=False)
    assert again.summary["steps"] >= 400


def test_an_instance_that_gymnasium_has_made_starts_from_its_preset() -> None:
    config = start_from_env(gymnasium.make("CartPole-v1"))
    assert (config.preset, config.envs, config.learn.lr) == ("CartPole-v1", 1, 2.3e-3)
    assert start_from_env("CartPole-v1").preset == "gym:CartPole-v1"
    assert flashdqn.make_env("CartPole-v1", 2).num_actions == 2


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (Corridor(), {"envs": 4}, "only one of it, not 4"),
        (Corridor(), {"env": {"vectorization": "async"}}, "an instance of this process"),
        (3, {}, "of the type int"),
        (np.zeros(3), {}, "of the type ndarray"),
        (gymnasium.make_vec("CartPole-v1", 2), {}, "vector of environments"),
        (lambda: 3, {}, "must return a gymnasium.Env, and returned a int"),
        (lambda level: Corridor(), {}, "cannot be made: TypeError"),
        ("CartPole-v99", {}, "CartPole-v"),
    ],
)
def test_what_is_refused(env: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(flashdqn.FlashDQNError, match=message):
        flashdqn.train(env, **TINY_GYM | settings)
    assert not Path("runs").exists()


def test_an_instance_that_cannot_be_copied_is_told_so() -> None:
    env = Corridor()
    env.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(EnvError, match=r"Corridor cannot be copied.*pass a class or a function"):
        flashdqn.train(env, **TINY_GYM)


def test_the_environment_is_given_once() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        flashdqn.train("cartpole", env=Corridor, **TINY_GYM)


def test_a_function_takes_its_arguments_from_the_settings() -> None:
    run = train(Corridor, env={"kwargs": {"masked": True}}, steps=160)
    agent = run.agent()
    obs = np.eye(5, dtype=np.float32)
    assert agent.masked
    assert agent.act(obs, np.tile([0, 1], (5, 1))).tolist() == [1] * 5
    assert agent.act(obs[0], [0, 1]) == 1
    assert all(agent.act(obs[0], [0, 1], eps=1.0) == 1 for _ in range(20))


def test_a_batched_game_as_a_class(tmp_path: Path) -> None:
    from flashdqn.envs.snake.config import SnakeConfig
    from flashdqn.envs.snake.env import Snake

    def make_game(num_envs: int, device: str = "cpu") -> Snake:
        return Snake(SnakeConfig(size=6), num_envs, device)

    config = start_from_env(make_game)
    assert config.env.task == "own"
    assert live_env.is_live_name(config.env.id)
    run = flashdqn.train(make_game, **TINY_GYM | {"envs": 4})
    assert run.finished
    assert run.agent().num_actions == 3


def test_names_of_objects() -> None:
    assert live_env.find_import_name(corridor_env.make_corridor) == "corridor_env:make_corridor"
    assert live_env.find_import_name(make_local_class()) is None
    assert live_env.find_import_name(Corridor.reset) is None
    local = make_local_class()
    name = live_env.name_env_object(local, False)
    assert live_env.name_env_object(local, False) == name
    assert live_env.shorten_live_name(name) == "Local"
    assert live_env.shorten_live_name(live_env.name_copies(name)) == "Local"
    assert live_env.shorten_live_name("CartPole-v1") == "CartPole-v1"


def test_an_agent_keeps_its_environment_when_another_is_passed_for_the_same_run() -> None:
    first, second = make_local_class(), make_local_class()
    second.step = lambda self, action: (np.zeros(5, np.float32), -7.0, True, False, {})  # type: ignore[assignment]
    run = train(first)
    agent = flashdqn.load(run, env=first)
    before = agent.evaluate(2).mean_return
    other = flashdqn.load(run, env=second)
    assert other.evaluate(2).mean_return == -7.0
    assert agent.evaluate(2).mean_return == run.agent().evaluate(2).mean_return == before > -7.0
    assert run.resume(steps=run.config.steps + 100, progress=False).finished
    assert flashdqn.train(resume=run, env=second, steps=run.config.steps + 400, progress=False).finished


def test_paths_of_a_file_are_not_passed_to_another_environment() -> None:
    run = train(make_local_class(), env={"kwargs": {}})
    agent = run.agent()
    config = dataclasses.replace(
        agent.config, env=dataclasses.replace(agent.config.env, id="CartPole-v1", kwargs={"log": "/etc/x"})
    )
    agent.config = config
    agent.save("agent.zip")
    with pytest.raises(ConfigError, match="asks to import '/etc/x'"):
        flashdqn.load("agent.zip", env=Corridor)
