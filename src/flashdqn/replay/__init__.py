"""Replay: a ring that holds each observation once, n-step returns gathered when read, and samplers."""

from flashdqn.replay.demonstrations import DemonstrationBuffer, MixedSampler
from flashdqn.replay.prioritized import PrioritizedSampler
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import Sampler, SamplerBase, UniformSampler

__all__ = [
    "DemonstrationBuffer",
    "Kind",
    "MixedSampler",
    "PrioritizedSampler",
    "Ring",
    "Sampler",
    "SamplerBase",
    "UniformSampler",
]
