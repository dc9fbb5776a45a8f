"""Demonstrations on the CPU, for a learner on a GPU.

An expert's episodes come one after the other on a few boards. A core plays such a board many times faster than a
thread of a GPU, and nothing has to be launched. Games that are written as kernels play the same on both, bit by
bit. So a copy of them is played on the CPU, and ring, games and figures move to the GPU afterwards.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from flashdqn.compute.seeds import purpose_seed
from flashdqn.config import Config
from flashdqn.envs import build_env
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.compile_games import wants_host


def plays_on_host(config: Config, parts: Parts) -> bool:
    """Whether the demonstrations of a training on a GPU are played on the CPU."""
    simple = parts.sampler.uniform is not None and parts.collector.normalizer is None
    return parts.learner.device.type == "cuda" and simple and wants_host(config)


def make_host_parts(config: Config) -> Parts:
    """A ring and games on the CPU, just before their first step; the learner is not used."""
    plain = replace(config, demos=replace(config.demos, keep=0))
    parts = assemble_parts(plain, build_env(config.env, config.envs, torch.device("cpu")))
    parts.collector.start(purpose_seed(config.seed, "envs"))
    return parts


def take_over(parts: Parts, played: Parts) -> None:
    """Continue with what was played: ring, games, figures and counts."""
    for mine, other in (
        (parts.ring, played.ring),
        (parts.env, played.env),
        (parts.metrics, played.metrics),
    ):
        mine.load_state_dict(other.state_dict())
    parts.counts.load(played.counts.transitions, played.counts.episodes)
    parts.collector.resume()
