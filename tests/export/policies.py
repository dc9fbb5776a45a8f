"""Policies of every kind with fresh weights, and real observations for them."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from flashdqn.agent.description import Description
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.envs import build_evaluation_env
from flashdqn.export.observations import Observations
from flashdqn.export.policy import GreedyPolicy
from flashdqn.export.to_onnx import write_onnx
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.learn.learner import build_learner
from flashdqn.networks.noisy import NoisyLinear

pytest.importorskip("onnxscript", reason="needs the extra `export`")

#: name → preset, algorithm, settings: every head, torso and observation dtype
KINDS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "dueling-mlp": ("snake-flood", "dueling", {}),
    "rainbow-noisy-c51": ("snake", "rainbow", {"network.hidden": [16, 16]}),
    "quantile": ("snake", "qr-dqn", {"network.hidden": [16], "network.layer_norm": True}),
    "iqn": ("snake", "iqn", {"network.hidden": [16, 16]}),
    "cnn-uint8": ("snake-grid", None, {"network.torso": "cnn", "network.channels": [4, 8], "env.size": 5}),
    "resnet-uint8-iqn": ("snake-grid", "iqn", {"network.channels": [4, 8], "env.size": 5}),
    "cells-decoded": (
        "fuelbreaks-small",
        None,
        {"network.channels": [4], "network.attention": 0, "network.hidden": [8]},
    ),
    "noisy-branches-c51-masked": (
        "sfc-paper",
        "c51",
        {
            "network.noisy": True,
            "network.branches": ["14:16", "6x13:8/16", "6x10:8/"],
            "network.hidden": [16],
        },
    ),
}


def make(kind: str) -> tuple[Config, GreedyPolicy]:
    """The configuration and its policy, in evaluation mode, with noise that must not show."""
    preset, algo, changes = KINDS[kind]
    config = base_config(preset)
    config = apply_settings(config if algo is None else apply_algorithm(config, algo), changes)
    env = build_evaluation_env(config.env, 1, torch.device("cpu"))
    learner = build_learner(config, env, torch.device("cpu"))
    network = learner.online.requires_grad_(False).eval()
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            module.noise_in.fill_(3.0)
            module.noise_out.fill_(-2.0)
    return config, GreedyPolicy(network, learner.head)


def seen(config: Config, boards: int = 40, steps: int = 25) -> Observations:
    """Observations of random legal play."""
    env = build_evaluation_env(config.env, boards, torch.device("cpu"))
    generator = torch.Generator().manual_seed(3)
    obs, mask = env.reset(5), env.mask
    for _ in range(steps):
        weight = torch.ones(boards, env.num_actions) if mask is None else mask.float()
        step = env.step(torch.multinomial(weight, 1, generator=generator)[:, 0])
        obs, mask = step.obs, step.mask
    decoder = getattr(env, "decoder", None)
    decode = None if decoder is None else lambda array: decoder(torch.from_numpy(array)).numpy()
    return Observations(obs.numpy().copy(), None if mask is None else mask.numpy().copy(), decode)


@dataclass(frozen=True)
class Exported:
    """A policy and its file."""

    policy: GreedyPolicy
    observations: Observations
    about: Description
    file: Path


@functools.cache
def exported(kind: str) -> Exported:
    """One kind as an ONNX file, written once for all tests; the files go with the process."""
    folder = Path(tempfile.mkdtemp(prefix="flashdqn-policies-"))
    atexit.register(shutil.rmtree, folder)
    config, policy = make(kind)
    observations = seen(config)
    actions = policy(*map(torch.from_numpy, observations.part(slice(0, 1)).inputs().values()))[1].shape[1]
    about = describe(observations, actions)
    write_onnx(policy, observations, folder / f"{kind}.onnx", about.to_texts())
    return Exported(policy, observations, about, folder / f"{kind}.onnx")


def describe(observations: Observations, actions: int) -> Description:
    """A description that fits."""
    few = observations.part(slice(0, 1)).read()
    return Description(
        task="test",
        preset="test",
        env={"size": 5},
        observation_shape=few.shape[1:],
        observation_dtype=str(few.dtype),
        actions=tuple(map(str, range(actions))),
        first_action=0,
        masked=observations.mask is not None,
        head="scalar",
        precision="float32",
        score=None,
        steps=7,
        weights="0" * 16,
        version="1",
    )
