"""For the record: the machine, the networks that were called, the optimizers that were stepped."""

from __future__ import annotations

import os
from typing import Any

from . import counters as tally
from .frames import get_qualified_name
from .rows import ForwardSite, OptimizerUse
from .torch_hooks import optimizers


def count_process_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def detect_torch_device(torch: Any) -> str:
    """Where torch computes: on a GPU once it was asked for."""
    cuda = getattr(torch, "cuda", None)  # torch may have been imported by half only
    return "cuda" if getattr(cuda, "is_initialized", bool)() else "cpu"


def describe_forwards() -> tuple[ForwardSite, ...]:
    """Each line that called a network."""
    trained = {
        id(parameter)
        for optimizer in optimizers.held.values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    rows = []
    for (_, line), entry in list(tally.forwards.items()):
        code = entry.code
        parameters = list(entry.module.parameters()) if entry.module is not None else []
        rows.append(
            ForwardSite(
                file=code.co_filename,
                line=line,
                function=get_qualified_name(code),
                count=entry.count,
                seconds=entry.seconds,
                acting=entry.acting,
                learning=entry.learning,
                graded=entry.graded,
                batch=max(entry.batches, key=lambda size: entry.batches[size], default=0),
                shape=tuple(getattr(entry.data, "shape", ())),
                network=type(entry.module).__name__,
                parameters=sum(parameter.numel() for parameter in parameters),
                trained=any(id(parameter) in trained for parameter in parameters),
                given_gradients=entry.given_gradients,
            )
        )
    return tuple(rows)


def describe_optimizers() -> tuple[OptimizerUse, ...]:
    """Each optimizer that was stepped."""
    return tuple(
        OptimizerUse(
            name=type(optimizer).__name__,
            fused=bool(optimizer.param_groups[0].get("fused")),
            can_fuse="fused" in optimizer.param_groups[0],
            tensors=sum(len(group["params"]) for group in optimizer.param_groups),
            elements=sum(p.numel() for group in optimizer.param_groups for p in group["params"]),
            steps=optimizers.steps[key],
            seconds=optimizers.seconds[key],
        )
        for key, optimizer in list(optimizers.held.items())
        if optimizer.param_groups
    )
