"""Training on fuel breaks, end to end: the family of algorithms on derived masks, and a ring that stays small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.envs import build_env
from flashdqn.envs.fuelbreaks import FuelBreaksConfig
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Ring, ring_bytes
from flashdqn.training.assemble import assemble_parts

TINY: dict[str, Any] = {
    "device": "cpu",
    "envs": 4,
    "train_ratio": 0.25,
    "steps": 120,
    "env": {
        "size": 8,
        "landscapes": 3,
        "held_out": 1,
        "weathers": ["dry"],
        "budget": 5.0,
        "least_budget": 2.0,
    }
    | {"fires": 4, "duration": 120.0},
    "network": {"channels": [4], "hidden": [8], "attention": 1},
    "learn": {"starts": 40, "batch_size": 8},
    "replay": {"capacity": 1000},
    "pqn": {"rollout": 8, "minibatches": 4},
    "eval": {"every": 0, "episodes": 4},
    "log": {"tensorboard": False, "every": 100, "checkpoint_every": 0},
    "runtime": {"mode": "eager", "threads": 1},
    "demos": {"source": "none", "episodes": 0, "pretrain_steps": 0},
}


@pytest.mark.parametrize("algo", ["dueling", "c51", "qr-dqn", "munchausen", "rainbow", "pqn"])
def test_the_family_learns_on_cells(algo: str, tmp_path: Path) -> None:
    run = flashdqn.train("fuelbreaks-small", algo=algo, progress=False, out=str(tmp_path), **TINY)
    assert run.finished
    assert run.summary["updates"] > 0
    assert 0 <= run.score <= 100
    agent = flashdqn.load(run.path, "cpu")
    env = flashdqn.make_env("fuelbreaks-small", 3, **TINY["env"])
    action = agent.act(env.reset(0), env.mask)
    assert env.mask.gather(1, action[:, None]).all()  # type: ignore[union-attr]


def test_implicit_quantiles_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"does not go with learn\.head iqn"):
        flashdqn.train("fuelbreaks-small", algo="iqn", progress=False, **TINY)


def test_masks_worked_out_are_the_masks_that_would_have_been_stored() -> None:
    config = apply_settings(base_config("fuelbreaks-small"), TINY)
    env = build_env(config.env, 4, torch.device("cpu"))
    parts = assemble_parts(config, env)
    assert parts.ring.mask is None
    stored = Ring(1000, 4, env.obs_spec, env.num_actions, torch.device("cpu"), masked=True)
    obs, generator = env.reset(7), torch.Generator().manual_seed(0)
    for ring in (parts.ring, stored):
        ring.start(obs, env.mask)
    for _ in range(40):
        assert env.mask is not None
        action = torch.multinomial(env.mask.float(), 1, generator=generator).squeeze(1)
        step = env.step(action)
        for ring in (parts.ring, stored):
            ring.append(action, step)
    index = torch.arange(0, 4 * 36)
    for n in (1, 3):
        derived, kept = (gather_transitions(ring, index, n, 0.9) for ring in (parts.ring, stored))
        for a, b in zip(derived, kept, strict=True):
            assert torch.equal(a, b)


def test_a_ring_is_as_small_as_it_says() -> None:
    env = FuelBreaksConfig(size=50, landscapes=1, held_out=0, weathers=("dry",), budget=5, fires=1)
    games = build_env(env, 8, torch.device("cpu"))
    ring = Ring(10_000, 8, games.obs_spec, 2500, torch.device("cpu"), legal=games.decoder.legal)  # type: ignore[attr-defined]
    columns = (ring.obs, ring.action, ring.reward, ring.kind)
    said = ring_bytes(10_000, 8, games.obs_spec, 2500, masked=False)
    assert said == sum(column.nbytes for column in columns)
    assert said / 10_000 < 330, "bytes per transition: the planes alone would be 140,000"


@pytest.mark.parametrize("key", ["ring.obs", "env.obs"])
def test_stored_scenes_that_there_are_not(key: str) -> None:
    config = apply_settings(base_config("fuelbreaks-small"), TINY)
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    parts.collector.start(0)
    weights, state = parts.learner.weights(), parts.state_dict()
    counters = {"updates": 0, "transitions": 0, "episodes": 0}
    parts.load(weights, state, counters)
    state[key][..., 1] = 200
    with pytest.raises(CheckpointError, match="the scene of an observation must be from 0 to"):
        parts.load(weights, state, counters)
