"""Configuration files with familiar names, and pictures of landscapes and plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from flashdqn.cli.other_tools import translate_settings
from flashdqn.cli.train import resolve_base_config
from flashdqn.core.errors import ConfigError
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.pictures import burn_probability, draw_layers, draw_plan

FAMILIAR: dict[str, Any] = {
    "grid_size": 30,
    "num_landscapes": 7,
    "num_episodes": 500,
    "num_parallel_envs": 16,
    "steps_per_episode": 12,
    "train_frequency": 4,
    "memory_simulations": 100,
    "fire_simulation_max_duration": 180,
    "pretrain_steps": 50,
    "learning_rate": 1e-4,
    "gamma": 0.95,
    "epsilon_start": 0.9,
    "epsilon_end": 0.05,
    "epsilon_decay_steps": 10_000,
    "buffer_size": 1e5,
    "batch_size": 64,
    "target_update_frequency": 1000,
    "checkpoint_frequency": 50,
    "output_dir": "results",
    "raster_dir": "rasters",
}


def test_familiar_names_become_our_settings_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seed.json"
    path.write_text(json.dumps(FAMILIAR))
    config, _, _ = resolve_base_config(["--config", str(path)])
    assert config.preset == "fuelbreaks"
    env = config.env
    assert isinstance(env, FuelBreaksConfig)
    assert (env.size, env.landscapes, env.most_breaks, env.fewest_breaks) == (30, 7, 12, 12)
    assert (env.fires, env.duration, env.rasters) == (100, 180.0, "rasters")
    assert (config.episodes, config.steps, config.envs, config.train_ratio) == (500, None, 16, 0.25)
    assert (config.demos.source, config.demos.pretrain_steps) == ("domirank", 50)
    assert (config.learn.lr, config.learn.gamma, config.learn.batch_size) == (1e-4, 0.95, 64)
    assert (config.explore.schedule, config.explore.start, config.explore.over) == ("linear", 0.9, 10_000)
    assert (config.replay.capacity, config.learn.target_every) == (100_000, 1000)
    assert (config.log.checkpoint_every, config.out) == (600, "results")
    said = capsys.readouterr().out
    assert all(f"{name} " in said for name in FAMILIAR)
    assert "steps_per_episode 12 → env.budget 12" in said


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid_size": 20, "num_epsiodes": 5}, "Unknown setting 'num_epsiodes'; did you mean 'num_episodes'"),
        ({"grid_size": "large"}, "'grid_size' must be a whole number, and is 'large'"),
        ({"train_frequency": 0}, "'train_frequency' must be a number above 0"),
        ({"epsilon_end": 0.1, "epsilon_min": 0.2}, "says again"),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translate_settings(settings)


def test_our_own_names_may_stand_among_them() -> None:
    settings, notes = translate_settings({"grid_size": 20, "seed": 7, "learn": {"lr": 1e-3}, "env.fires": 5})
    assert settings == {"env.size": 20, "seed": 7, "learn": {"lr": 1e-3}, "env.fires": 5}
    assert len(notes) == 1


def test_pictures(tmp_path: Path) -> None:
    config = FuelBreaksConfig(size=10, landscapes=1, held_out=0, weathers=("extreme",), budget=4, fires=2)
    scenes = FuelBreaks(config, 1).scenes
    breaks = scenes.places[0, :30:3].tolist()
    before, after = (burn_probability(scenes, 0, chosen, fires=60) for chosen in ([], breaks))
    assert before.shape == (10, 10)
    assert 0 < after.sum() < before.sum()
    assert not after.reshape(-1)[breaks].any(), "a break does not burn"
    assert not before.reshape(-1)[~scenes.burnable[0].numpy()].any()
    draw_layers(scenes.landscapes[0], tmp_path / "layers.png")
    q = np.random.default_rng(0).random((10, 10))
    draw_plan(scenes, 0, breaks, tmp_path / "plan.png", "a plan", q)
    for name in ("layers", "plan"):
        image = Image.open(tmp_path / f"{name}.png")
        assert min(image.size) > 200
        assert len(np.unique(np.asarray(image.convert("L")))) > 20


def test_given_episodes_start_where_they_are_told() -> None:
    config = FuelBreaksConfig(size=10, landscapes=2, held_out=0, weathers=("dry",), budget=9, fires=2)
    env = FuelBreaks(config, 2)
    env.step(env.mask.to(torch.uint8).argmax(1))
    scene, fires = torch.tensor([1, 0]), env.scenes.places[[1, 0], :2]
    obs = env.begin(scene, fires, budget=3)
    assert obs[:, 0].tolist() == [1, 0]
    assert obs[:, 2].tolist() == [3, 3]
    assert not obs[:, 4:].any()
    assert torch.equal(env.mask, env.scenes.burnable[[1, 0]])
    for k in range(3):
        step = env.step(env.mask.to(torch.uint8).argmax(1))
        assert bool(step.terminated.all()) == (k == 2)
