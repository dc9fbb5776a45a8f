"""A task is one object: a toy one, entered in the list, works in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from toy_task import HELD_OUT_LIMIT, LIMIT, TINY, WalkConfig

import flashdqn
from flashdqn.as_gymnasium.single import OneGame
from flashdqn.cli.main import dispatch_command
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.core.errors import ConfigError
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.envs.stage import open_stage
from flashdqn.envs.tasks import TASKS, TaskEntry, find_task, iterate_tasks
from flashdqn.profile.experiments import list_experiments

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more line in the list of tasks: all that a new task takes."""
    monkeypatch.setitem(TASKS, "walk", TaskEntry("toy_task", "WALK"))


@pytest.fixture(scope="module")
def walk_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on the toy, from the command line, with demonstrations of its expert."""
    out = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "walk", TaskEntry("toy_task", "WALK"))
        demos = ["--demos.source", "walks-right", "--demos.episodes", "8", "--demos.pretrain-steps", "50"]
        flags = ["--env.states", "4", "--device", "cpu", "--out", str(out), *demos]
        assert dispatch_command(["train", "walk", *flags]) == 0
    return next(out.iterdir())


def test_a_run_names_its_task_and_its_settings(walk_run: Path) -> None:
    config = json.loads((walk_run / "config.json").read_text(encoding="utf-8"))["config"]
    assert config["env"] == {"task": "walk", "states": 4}
    assert config["preset"] == "walk"


def test_the_expert_shows_how(walk_run: Path) -> None:
    shown = json.loads((walk_run / "summary.json").read_text(encoding="utf-8"))["demonstrations"]
    assert shown["source"] == "walks-right"
    assert shown["mean_return"] == 1.0
    assert shown["transitions"] == 3 * shown["episodes"]  # the shortest way


def test_an_expert_that_the_task_does_not_have_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"no expert 'walks-left' for demos\.source; it has random, walks-right"
    ):
        flashdqn.train("walk", progress=False, demos={"source": "walks-left", "episodes": 1})


def test_a_users_own_game_may_have_its_own_expert(tmp_path: Path) -> None:
    shown = {"source": "own-guide", "episodes": 4}
    settings = dict(TINY.settings) | {"steps": 100, "device": "cpu", "out": str(tmp_path), "demos": shown}
    run = flashdqn.train("toy_task:GuidedWalk", progress=False, **settings)
    assert run.summary["demonstrations"]["mean_return"] == 1.0
    assert run.summary["demonstrations"]["transitions"] == 4 * run.summary["demonstrations"]["episodes"]


def test_the_agent_is_loaded_and_evaluated(walk_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch_command(["eval", str(walk_run), "--episodes", "5", "--device", "cpu"]) == 0
    assert "score" in capsys.readouterr().out
    agent = flashdqn.load(walk_run, "cpu")
    assert agent.num_actions == 2
    assert agent.evaluate(3, seed=1).mean_score == 1.0  # it saw the right way before anything else


def test_watching_draws_its_own_view(
    walk_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "walk.png"
    words = ["watch", str(walk_run), "--png", str(picture), "--seed", "1", "--device", "cpu"]
    assert dispatch_command(words) == 0
    with Image.open(picture) as image:
        assert image.width == 640
    assert dispatch_command(["watch", str(walk_run), "--seed", "1", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "...@" in out
    assert "home after 3 steps" in out


def test_export_names_the_actions(walk_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "walk.onnx"
    assert (
        dispatch_command(
            ["export", str(walk_run), "--out", str(file), "--episodes", "4", "--observations", "64"]
        )
        == 0
    )
    policy = flashdqn.load_onnx(file)
    assert policy.description.actions == ("left", "right")
    assert policy.description.task == "walk"


def test_commands_list_it(capsys: pytest.CaptureFixture[str]) -> None:
    dispatch_command(["envs"])
    envs = capsys.readouterr().out
    assert (
        "walk  walk to the right\n    --env.states 5\n    experts for --demos.source: walks-right\n" in envs
    )
    dispatch_command(["presets"])
    assert "a longer walk" in capsys.readouterr().out


def test_presets_and_names_lead_to_it() -> None:
    assert base_config("walk-far").env == WalkConfig(states=7)
    assert base_config("walk-far").envs == 8
    assert "walk-far" in PRESETS
    assert flashdqn.make_env("walk", 3, states=6).obs_spec.shape == (6,)
    with pytest.raises(ConfigError, match=r"Unknown setting 'env\.size'"):
        flashdqn.make_env("walk", 3, size=6)


def test_a_file_may_name_the_task(tmp_path: Path) -> None:
    file = tmp_path / "walk.json"
    file.write_text(json.dumps({"preset": "walk", "env": {"task": "walk", "states": 3}}))
    flags = ["--config", str(file), "--device", "cpu", "--out", str(tmp_path / "runs"), "--steps", "100"]
    assert dispatch_command(["train", *flags]) == 0


def test_evaluation_asks_for_held_out_games() -> None:
    config = WalkConfig()
    assert build_env(config, 2, CPU).episodes.time_limit == LIMIT  # type: ignore[attr-defined]
    assert build_evaluation_env(config, 2, CPU).episodes.time_limit == HELD_OUT_LIMIT  # type: ignore[attr-defined]


def test_gymnasium_draws_it_too() -> None:
    game = OneGame("walk", render_mode="ansi")
    game.reset(seed=1)
    assert game.render() == "@...."


def test_the_profiler_asks_what_suits_it() -> None:
    found = {one.name: one for one in list_experiments(base_config("walk"), cuda=False, cores=2)}
    assert found["shorter"].settings == {"env.states": 4}
    assert "boards-64" in found
    assert "boards-256" not in found  # more than eight times as many


@pytest.mark.parametrize("name", TASKS)
def test_list_and_object_agree(name: str) -> None:
    task = find_task(name)
    assert task.name == name
    assert task.config.task == name
    assert task.about
    assert task.naming is None or task.naming.start("some:Game").settings["env"]["id"] == "some:Game"


def test_no_two_tasks_have_a_preset_of_one_name() -> None:
    names = [name for task in iterate_tasks() for name in task.presets]
    assert len(names) == len(set(names)) == len(PRESETS)


@pytest.mark.parametrize("name", ["snake", "sfc", "fuelbreaks"])
def test_a_view_has_a_name_for_every_action(name: str) -> None:
    small = {"fuelbreaks": {"size": 10, "landscapes": 1, "held_out": 0}}.get(name, {})
    task = find_task(name)
    config = task.config(**small)
    stage = open_stage(config)
    count = stage.env.num_actions
    assert len(stage.view.actions) == count
    assert len(task.name_actions(config, count)) == count
    assert task.actions is None or stage.view.actions == task.name_actions(config, count)
