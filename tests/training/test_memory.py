"""What a training will allocate is computed first, and refused in one sentence if the machine has not got it."""

from __future__ import annotations

import dataclasses
import gc
import resource
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from flashdqn.compute import device, threads
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.training import memory
from flashdqn.training.prepared import check_settings

CPU = torch.device("cpu")
GIGABYTES = 16 * 10**9


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 16 GB, whatever this one has."""
    from flashdqn.envs.fuelbreaks import scenes
    from flashdqn.networks import build

    for module in (memory, build, scenes):
        monkeypatch.setattr(module, "free_bytes", lambda device: GIGABYTES)


LARGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "wide layers": ("snake", {"network.hidden": [10**6, 10**6]}, "--network.hidden"),
    "wide convolutions": ("snake-grid", {"network.channels": [10**5, 10**5]}, "--network.channels"),
    "noisy layers": ("snake", {"network.hidden": [10**5, 10**5], "network.noisy": True}, "--network.hidden"),
    "a batch": ("snake", {"learn.batch_size": 2**24}, "lower --learn.batch-size"),
    "pairs of quantiles": (
        "snake",
        {"learn.head": "quantile", "learn.quantiles": 10**4},
        "--learn.batch-size",
    ),
    "a ring": ("snake", {"replay.capacity": 10**12}, "use --replay.capacity"),
    "environments": (
        "snake",
        {"envs": 2**24, "replay.capacity": 2**24},
        "lower --envs|use --replay.capacity",
    ),
    "games": ("cartpole", {"eval.episodes": 10**6}, "lower --eval.episodes"),
    "demonstrations": (
        "snake",
        {"demos.source": "greedy", "demos.episodes": 1, "demos.keep": 10**12},
        "lower --demos.keep",
    ),
    "landscapes": ("fuelbreaks-small", {"env.landscapes": 65_536, "env.size": 255}, "lower env.landscapes"),
    "fires": (
        "fuelbreaks-small",
        {"env.fires": 1000, "env.landscapes": 1, "env.held_out": 1, "envs": 2**14},
        "lower --envs",
    ),
    "a rollout": ("snake", {"learn.method": "pqn", "pqn.rollout": 10**6, "envs": 1024}, "--pqn.rollout"),
}


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(("preset", "changes", "advice"), LARGE.values(), ids=LARGE)
def test_what_does_not_fit_is_refused_before_it_is_there(
    preset: str, changes: dict[str, Any], advice: str
) -> None:
    config = apply_settings(base_config(preset), changes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigError, match=advice) as error:
        check_settings(config, CPU)
    assert len(str(error.value)) < 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 10**6  # kB


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("preset", ["snake", "snake-grid", "sfc", "fuelbreaks-small"])
def test_presets_fit(preset: str) -> None:
    check_settings(base_config(preset), CPU)


@pytest.mark.usefixtures("free")
def test_counting_the_weights_changes_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from flashdqn.networks import build

    config = apply_settings(base_config("snake"), {"network.noisy": True, "network.dueling": True})
    env = build_evaluation_env(config.env, 1, CPU)
    torch.manual_seed(1)
    counted = build_learner(config, env, CPU).weights()
    after = torch.rand(1)
    monkeypatch.setattr(build, "check_weights_fit", lambda network: None)
    torch.manual_seed(1)
    plain = build_learner(config, env, CPU).weights()
    assert torch.equal(after, torch.rand(1))
    assert all(torch.equal(counted[name], plain[name]) for name in plain)


def test_what_a_step_keeps_is_measured() -> None:
    config = base_config("snake")
    env = build_evaluation_env(config.env, 1, CPU)
    narrow = memory.measure_kept_bytes(build_learner(config, env, CPU).online, env.obs_spec)
    network = dataclasses.replace(config.network, hidden=(1280, 1280))
    wide = build_learner(dataclasses.replace(config, network=network), env, CPU)
    assert 4 * 256 <= narrow < 8 * 1024
    assert memory.measure_kept_bytes(wide.online, env.obs_spec) > 5 * narrow


def test_limits_of_a_process_and_of_its_group_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "CGROUPS", tmp_path)
    monkeypatch.setattr(device, "_read_group_path", lambda: ["0::/a/b"])
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    for folder, most, used in ((group, "max", 0), (group.parent, "3000000", 1_500_000)):
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 500000\n")
    assert device.group_free_bytes() == 2_000_000
    assert device.free_bytes(CPU) == 2_000_000
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10**15, 10**15))
    assert 10**14 < device.process_free_bytes() < 10**15


def test_threads_are_limited_by_the_machine() -> None:
    before = torch.get_num_threads()
    assert threads.make_team(1024).most == threads.most_threads() <= max(64, 4 * threads.cores())
    with threads.limit_threads(1024, 1024):
        assert torch.get_num_threads() == min(1024, threads.most_threads())
    assert torch.get_num_threads() == before


def test_measuring_a_network_keeps_nothing_of_it() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    assert memory.measure_kept_bytes(network, ObsSpec((4,), torch.float32)) > 0
    gone = weakref.ref(network[0].weight)
    del network
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("free")
def test_an_observation_larger_than_the_memory_is_named() -> None:
    env = build_evaluation_env(base_config("snake").env, 1, CPU)
    env.obs_spec = ObsSpec((10**11,), torch.float32)
    with pytest.raises(
        ConfigError, match=r"an observation takes 400.* so that not even --replay.capacity 1 fits"
    ):
        memory.check_ring_fits(base_config("snake").replay, env, masked=False)
