"""Workers as Ray actors: a real Ray on this machine, where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from conftest import tiny_config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ConfigError
from flashdqn.show.report import RUN_PAGES

SETTINGS: dict[str, Any] = {
    "steps": 600,
    "envs": 4,
    "device": "cpu",
    "train_ratio": 0.5,
    "env.collect": "async",
    "env.transport": "ray",
    "env.workers": 2,
    "network.hidden": [16],
    "replay.capacity": 4000,
    "learn.batch_size": 16,
    "learn.starts": 50,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "log.game": False,
    "runtime.mode": "eager",
    "runtime.threads": 1,
    "runtime.warmup": False,
}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def ray_config(out: Path, **changes: Any) -> Any:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return apply_settings(base_config("gym:worker_envs:make_telling"), SETTINGS | {"out": str(out)} | named)


def test_a_missing_ray_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"env.transport ray needs Ray: pip install 'flashdqn\[ray\]'"):
        flashdqn.train(ray_config(tmp_path), progress=False)
    assert not list(tmp_path.iterdir())
    assert tiny_config().env.collectors is None  # the built-in games have no workers


@pytest.mark.parametrize("mood", ["", "crash", "hang", "raise"])
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_actors_play_and_are_replaced(tmp_path: Path, mood: str) -> None:
    pytest.importorskip("ray")
    kwargs = {"moods": str(tmp_path), "when": 60, "seconds": 0.005}
    if mood:
        (tmp_path / mood).touch()
    steps = 3000 if mood == "hang" else 900
    config = ray_config(tmp_path / "runs", steps=steps, env__kwargs=kwargs, env__timeout=2.0)
    run = flashdqn.train(config, progress=False)
    assert run.finished
    assert run.summary["updates"] == (run.summary["steps"] - 50) // 2
    assert run.summary["collectors"]["replaced_workers"] == (1 if mood else 0)
