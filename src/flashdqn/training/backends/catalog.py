"""Which backend runs which way on which device."""

from __future__ import annotations

import torch

from flashdqn.compute.graphs import ExecutionPlan, Way
from flashdqn.core.contract import is_capturable
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.backend import Backend
from flashdqn.training.backends.compiled import CompiledBackend
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.backends.cuda.backend import CudaBackend
from flashdqn.training.backends.cuda.resident_backend import ResidentBackend
from flashdqn.training.backends.eager import EagerBackend

#: By way and device; hand-written code is for one device.
BACKENDS: dict[tuple[Way, str], type[Backend]] = {
    ("eager", "cpu"): EagerBackend,
    ("eager", "cuda"): EagerBackend,
    ("compile", "cpu"): CompiledBackend,
    ("compile", "cuda"): CompiledBackend,
    ("native", "cpu"): CpuBackend,
    ("native", "cuda"): CudaBackend,
}


def find_backend(way: Way, device: torch.device, several: bool = False) -> type[Backend]:
    """The backend of a way on a device; that of `several` iterations without the host is always the same."""
    return ResidentBackend if several else BACKENDS[way, device.type]


def explain_misfit(plan: ExecutionPlan, parts: Parts) -> str | None:
    """Why a plan cannot run these parts; None if it can."""
    device = parts.learner.device
    if plan.graph and device.type != "cuda":
        return "CUDA graphs need --device cuda"
    if plan.graph and not parts.ranks.capturable:
        return "gloo, which carries the gradients between ranks, does not run inside a CUDA graph"
    if plan.several and not (is_capturable(parts.env) and parts.collector.env is parts.env):
        return "the environments do not run inside a CUDA graph"
    return find_backend(plan.way, device, plan.several).fits(parts)
