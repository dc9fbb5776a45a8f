"""Training on an Atari game, from its name to a resumed run; and where its settings come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.envs import GymConfig, build_env
from flashdqn.show.report import RUN_PAGES
from flashdqn.training import summary
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.memory import describe_replay_memory, replay_bytes

pytest.importorskip("ale_py")

CPU = torch.device("cpu")

SMALL: dict[str, Any] = {
    "steps": 120,
    "envs": 2,
    "train_ratio": 0.1,
    "device": "cpu",
    "env.max_steps": 25,
    "network.hidden": [16],
    "replay.capacity": 80,
    "learn.batch_size": 8,
    "learn.starts": 40,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "runtime.threads": 1,
    "runtime.mode": "eager",
    "runtime.warmup": False,
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def test_pong_trains_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody plays a hundred games here.
    monkeypatch.setattr(summary, "find_best_checkpoint", lambda folder: None)
    first = flashdqn.train("gym:ALE/Pong-v5", progress=False, out=str(tmp_path), **SMALL)
    assert first.finished
    assert first.summary["updates"] == int((first.summary["steps"] - 40) * 0.1)
    second = flashdqn.train(resume=first.path, steps=200, progress=False)
    assert second.summary["steps"] >= 200
    agent = flashdqn.load(first.path, device="cpu")
    assert 0 <= agent.act(torch.zeros((4, 84, 84), dtype=torch.uint8)) < 6


def test_a_million_frames_are_announced_at_seven_gigabytes() -> None:
    config = apply_settings(base_config("atari"), {"envs": 2})
    env = build_env(config.env, config.envs, CPU)
    said = describe_replay_memory(config, env)
    assert said is not None
    assert "1,000,000 transitions takes 7.06 GB on cpu, each frame once for stacks of 4" in said
    small = apply_settings(config, {"replay.capacity": 3200})
    ring = assemble_parts(small, env).ring
    columns = [x for x in vars(ring).values() if isinstance(x, torch.Tensor) and x.dim() >= 2]
    assert sum(x.untyped_storage().nbytes() for x in columns) == replay_bytes(small.replay, env, masked=False)
    assert describe_replay_memory(small, env) is None


def atari(name: str) -> tuple[Config, GymConfig]:
    config = base_config(name)
    assert isinstance(config.env, GymConfig)
    return config, config.env


def test_any_game_starts_from_the_atari_preset() -> None:
    config, env = atari("gym:ALE/Seaquest-v5")
    assert env.id == "ALE/Seaquest-v5"
    assert (env.stack, env.clip_reward, env.atari.sticky, env.atari.life_loss) == (4, 1.0, 0.25, False)
    assert config.network == base_config("atari").network
    assert config.preset == "gym:ALE/Seaquest-v5"
    pong, _ = atari("gym:ALE/Pong-v5")
    assert pong.learn == base_config("atari-pong").learn


@pytest.mark.parametrize("game", ["asterix", "breakout", "freeway", "seaquest", "space-invaders"])
def test_all_five_games_of_minatar_have_a_preset(game: str) -> None:
    pytest.importorskip("minatar")
    config, env = atari(f"minatar-{game}")
    made = build_env(env, 2, CPU)
    assert made.obs_spec.stack == 1
    assert made.reset(0).shape[2:] == (10, 10)
    assert config.learn.v_max > config.learn.v_min
