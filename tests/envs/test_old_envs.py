"""What environments of other packages do, and Gymnasium's documents do not foresee."""

from __future__ import annotations

import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import old_envs
import pytest
import torch
from gymnasium import spaces

import flashdqn
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.gymnasium.checked import CheckedEnv
from flashdqn.envs.gymnasium.config import GymConfig
from flashdqn.envs.gymnasium.old_api import OldEnv, translate_space
from flashdqn.envs.gymnasium.packing import PackedRows
from flashdqn.envs.gymnasium.plugins import find_plugin
from flashdqn.envs.gymnasium.task import open_gym_stage

TINY: dict[str, Any] = {
    "steps": 200,
    "device": "cpu",
    "network": {"hidden": [8]},
    "replay": {"capacity": 200},
    "learn": {"batch_size": 8, "starts": 20},
    "eval": {"every": 0, "episodes": 2},
    "log": {"tensorboard": False},
    "runtime": {"threads": 1, "warmup": False},
    "progress": False,
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---- before Gymnasium


@pytest.mark.parametrize("by_clock", [False, True])
def test_an_old_environment_ends_as_it_says(by_clock: bool) -> None:
    env = flashdqn.make_env("gym:old_envs:Old", 2, kwargs={"by_clock": by_clock})
    first = env.reset(3)
    assert env.num_actions == 3
    assert first[0, 1] != first[1, 1]
    assert torch.equal(env.reset(3), first)
    steps = [env.step(torch.tensor([0, 1])) for _ in range(4)]
    assert [bool(step.terminated[0]) for step in steps] == [False, False, False, not by_clock]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, False, by_clock]


def test_an_old_instance_is_trained_on() -> None:
    run = flashdqn.train(old_envs.Old(), **TINY)
    assert run.summary["steps"] >= 200
    assert run.agent().act(np.zeros(2, dtype=np.float32)) in range(3)


def test_an_old_environment_draws_itself() -> None:
    stage = open_gym_stage(GymConfig(id="old_envs:Old"))
    assert stage.view.picture().shape == (4, 6, 3)  # type: ignore[attr-defined]


def test_an_old_reset_inside_gymnasiums_wrappers_keeps_its_mask() -> None:
    env = flashdqn.make_env("gym:old_envs:OldReset-v0", 1)
    env.reset(0)
    assert env.mask is not None
    assert env.mask.tolist() == [[False, True]]
    steps = [env.step(torch.tensor([1])) for _ in range(3)]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, True]


def test_a_name_of_the_package_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = types.SimpleNamespace(entry_point="old_envs:Old", kwargs={"limit": 9}, max_episode_steps=2)
    gym: Any = types.ModuleType("gym")
    gym.envs = types.SimpleNamespace(registration=types.SimpleNamespace(registry={"Old-v0": spec}))
    gym.spec = {"Old-v0": spec}.__getitem__
    monkeypatch.setitem(sys.modules, "gym", gym)
    env = flashdqn.make_env("gym:old_envs:Old-v0", 1)
    env.reset(0)
    assert [bool(env.step(torch.tensor([0])).truncated[0]) for _ in range(2)] == [False, True]
    with pytest.raises(ConfigError, match="nor does it register one of that name"):
        flashdqn.make_env("gym:old_envs:Older-v0", 1)


def test_several_agents_are_refused() -> None:
    with pytest.raises(EnvError, match=r"has several agents \(PettingZoo\), and a DQN is one"):
        flashdqn.make_env("gym:old_envs:Several", 1)


def test_spaces_of_other_kinds() -> None:
    def make(kind: str, **fields: Any) -> Any:
        return type(kind, (), fields)()

    number = make("Discrete", n=3)
    assert translate_space(make("MultiDiscrete", nvec=[2, 3]), "x") == spaces.MultiDiscrete([2, 3])
    assert translate_space(make("MultiBinary", n=4), "x") == spaces.MultiBinary(4)
    assert translate_space(make("Tuple", spaces=(number,)), "x") == spaces.Tuple([spaces.Discrete(3)])
    assert translate_space(make("Dict", spaces={"a": number}), "x") == spaces.Dict({"a": spaces.Discrete(3)})
    with pytest.raises(EnvError, match=r"x has a space of the kind Odd, which is none of Gymnasium's"):
        translate_space(make("Odd"), "x")


def test_small_seeds_where_a_package_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.envs.gymnasium.checked.SMALL_SEEDS", ("old_envs",))
    inner = OldEnv(old_envs.Old(), "Old")
    inner.takes_seed, seeds = True, []
    inner.env.reset = lambda seed: seeds.append(seed) or np.zeros(2)
    CheckedEnv(inner, "Old").reset(seed=2**31 + 5)
    assert seeds == [5]


# ---- texts and rows


def test_texts_are_left_out_and_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashdqn.envs.gymnasium.text_parts._told", set())
    run = flashdqn.train(
        "gym:old_envs:Words", **TINY | {"envs": 2, "network": {"torso": "mlp", "hidden": [8]}}
    )
    assert caplog.text.count("the text 'mission' is left out of the observation") == 1
    agent, raw = run.agent(), old_envs.Words().look()
    assert agent.act(raw) in (0, 1)
    several = {"direction": np.array([0, 1]), "image": np.stack([raw["image"]] * 2), "mission": ("a", "b")}
    assert agent.act(several).shape == (2,)
    with pytest.raises(EnvError, match="have no fixed size"):
        flashdqn.make_env("gym:old_envs:Words", 1, kwargs={"only": True})


@pytest.mark.parametrize("other", [spaces.Discrete(300), spaces.Box(-1.0, 1.0, (3,))])
def test_a_row_of_any_length_is_decoded_alone_too(other: Any) -> None:
    from flashdqn.envs.gymnasium.spaces import Encoder

    space = spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "other": other})
    encoder = Encoder(space, 2)
    assert isinstance(encoder.rows, PackedRows)
    assert encoder.rows.nbytes % 4
    samples = [space.sample() for _ in range(3)]
    out = encoder.empty(3)
    encoder.write({key: np.stack([sample[key] for sample in samples]) for key in space}, out)
    rows = torch.from_numpy(out)
    both = encoder.rows(rows)
    for i in range(3):
        assert torch.equal(encoder.rows(rows[i : i + 1]), both[i : i + 1])


def test_what_cannot_be_drawn_warns_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        stage = open_gym_stage(GymConfig(id="old_envs:WordsOnRequest-v0"))
    assert stage.view.text()
    assert not [str(warning.message) for warning in said if "render" in str(warning.message)]


# ---- names


def test_environments_that_are_registered_on_request() -> None:
    assert flashdqn.make_env("gym:old_envs:WordsOnRequest-v0", 1).num_actions == 2


def test_environments_that_a_part_of_the_package_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "late_package" / "envs"
    folder.mkdir(parents=True)
    (tmp_path / "late_package" / "__init__.py").write_text("")
    line = "import gymnasium\ngymnasium.register('late/Words-v0', 'old_envs:Words')\n"
    (folder / "__init__.py").write_text(line)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert flashdqn.make_env("gym:late_package:late/Words-v0", 1).num_actions == 2


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sumo_rl", None)
    monkeypatch.delitem(gymnasium.registry, "sumo-rl-v0", raising=False)
    with pytest.raises(EnvError, match="sumo-rl-v0 needs the package sumo-rl: pip install sumo-rl"):
        flashdqn.make_env("gym:sumo-rl-v0", 1)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("MiniGrid-Empty-5x5-v0", "minigrid"),
        ("highway-fast-v0", "highway-env"),
        ("merge-v0", "highway-env"),
        ("mobile-small-central-v0", "mobile-env"),
        ("NetHackScore-v0", "nle"),
        ("CartPole-v1", None),
        ("HandMade-v0", None),
        ("flashdqn/Snake-v0", None),
    ],
)
def test_names_of_packages(name: str, package: str | None) -> None:
    plugin = find_plugin(name)
    assert (plugin.package if plugin else None) == package


@pytest.mark.parametrize("name", ["gym:old_envs:Needy", "gym:old_envs:Needy-v0"])
def test_a_missing_argument_is_asked_for(name: str) -> None:
    with pytest.raises(EnvError, match=re.escape("argument: 'df'. Give it by --env.kwargs")):
        flashdqn.make_env(name, 1)
