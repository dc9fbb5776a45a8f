"""Environments of other packages, where these are installed: `make packages` does it (docs/environments.md)."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

import flashdqn

# Packages warn of much, and are not ours to cure.
pytestmark = pytest.mark.filterwarnings("ignore")

MLP = {"network": {"torso": "mlp", "hidden": [16]}}
CROP = {"kwargs": {"observation_keys": ["glyphs_crop", "blstats"]}}
#: the module that must be there, the name, and settings
PACKAGES: list[tuple[str, str, dict[str, Any]]] = [
    ("mobile_env", "gym:mobile-small-central-v0", {}),
    ("JSSEnv", "gym:jss-v1", {"env": {"max_steps": 50}}),
    ("minigrid", "gym:MiniGrid-Empty-5x5-v0", MLP),
    ("highway_env", "gym:highway-fast-v0", {"steps": 60, "env": {"kwargs": {"config": {"duration": 5}}}}),
    ("gym_trading_env", "gym:package_envs:make_trading", {}),
    ("grid2op", "gym:package_envs:make_grid", {"steps": 60, "env": {"max_steps": 10}}),
    ("popgym", "gym:popgym-RepeatPreviousEasy-v0", {"env": {"stack": 5}}),
    ("flappy_bird_gymnasium", "gym:FlappyBird-v0", {}),
    ("tetris_gymnasium", "gym:tetris_gymnasium/Tetris", MLP),
    ("gym_anytrading", "gym:stocks-v0", {"env": {"max_steps": 50}}),
    ("gymnasium_robotics", "gym:FetchReach-v4", {"env": {"action_bins": 3}}),
    ("minihack", "gym:MiniHack-Room-5x5-v0", {"env": CROP}),
    ("gym_pusht", "gym:gym_pusht/PushT-v0", {"env": {"action_bins": 9, "max_steps": 50}}),
    ("slimevolleygym", "gym:slimevolleygym:SlimeVolley-v0", {"env": {"max_steps": 50}}),
    ("crafter", "crafter:Env", MLP | {"env": {"max_steps": 50}}),
]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train_shortly(name: str, settings: dict[str, Any]) -> None:
    """Train, open the run again, and act."""
    tiny: dict[str, Any] = {
        "steps": 200,
        "envs": 2,
        "device": "cpu",
        "network": {"hidden": [16]},
        "replay": {"capacity": 300},
        "learn": {"batch_size": 8, "starts": 20},
        "eval": {"every": 0, "episodes": 1},
        "log": {"tensorboard": False},
        "runtime": {"threads": 1, "warmup": False},
    }
    run = flashdqn.train(name, progress=False, **tiny | settings)
    assert run.summary["steps"] >= (tiny | settings)["steps"]
    agent = flashdqn.load(run.path, trust=True)
    assert flashdqn.evaluate(agent, episodes=1).episodes == 1


@pytest.mark.parametrize(("module", "name", "settings"), PACKAGES, ids=[name for _, name, _ in PACKAGES])
def test_a_package_trains(module: str, name: str, settings: dict[str, Any]) -> None:
    pytest.importorskip(module)
    train_shortly(name, settings)


def test_sumo_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    sumo = pytest.importorskip("sumo")
    monkeypatch.setenv("SUMO_HOME", sumo.SUMO_HOME)
    package = pytest.importorskip("sumo_rl")
    roads = Path(package.__file__).parent / "nets/2way-single-intersection/single-intersection"
    kwargs = {
        "net_file": f"{roads}.net.xml",
        "route_file": f"{roads}-vhvh.rou.xml",
        "single_agent": True,
        "num_seconds": 100,
        "additional_sumo_cmd": "--no-step-log",
    }
    train_shortly("gym:sumo-rl-v0", {"steps": 40, "envs": 1, "env": {"kwargs": kwargs}})


def test_every_package_of_the_list_is_there() -> None:
    """With FLASHDQN_PACKAGES, as `make packages` sets it, nothing is skipped in silence."""
    if "FLASHDQN_PACKAGES" not in os.environ:
        pytest.skip("the packages are not installed on purpose")
    for module, _, _ in PACKAGES:
        importlib.import_module(module)
