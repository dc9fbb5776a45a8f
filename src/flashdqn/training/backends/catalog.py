"""Which backend serves which way of running, on which device."""

from __future__ import annotations

import torch

from flashdqn.compute.graphs import ExecutionPlan, Way
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.backend import Backend
from flashdqn.training.backends.compiled import CompiledBackend
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.backends.cuda.backend import CudaBackend
from flashdqn.training.backends.eager import EagerBackend

#: By way and device; what is hand-written is written for one device.
BACKENDS: dict[tuple[Way, str], type[Backend]] = {
    ("eager", "cpu"): EagerBackend,
    ("eager", "cuda"): EagerBackend,
    ("compile", "cpu"): CompiledBackend,
    ("compile", "cuda"): CompiledBackend,
    ("native", "cpu"): CpuBackend,
    ("native", "cuda"): CudaBackend,
}


def find_backend(way: Way, device: torch.device) -> type[Backend]:
    """The backend of a way on a device."""
    return BACKENDS[way, device.type]


def explain_misfit(plan: ExecutionPlan, parts: Parts) -> str | None:
    """Why a plan cannot run these parts; None where it can."""
    device = parts.learner.device
    if plan.graph and device.type != "cuda":
        return "CUDA graphs need --device cuda"
    return find_backend(plan.way, device).fits(parts)
