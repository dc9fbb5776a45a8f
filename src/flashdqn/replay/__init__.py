"""Replay: a ring that holds each observation once, n-step returns gathered when read, and samplers."""

from flashdqn.replay.demonstrations import Shown, WithShown, replay_sampler
from flashdqn.replay.prioritized import PrioritizedSampler
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import Sampler, UniformSampler

__all__ = [
    "Kind",
    "PrioritizedSampler",
    "Ring",
    "Sampler",
    "Shown",
    "UniformSampler",
    "WithShown",
    "replay_sampler",
]
