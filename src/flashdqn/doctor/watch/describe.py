"""Put what is known about a script into a record: machine, networks, optimizers, and what all parts have seen."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import children, subnormal
from . import counters as tally
from .env_step import autoreset, resets, steps_of
from .frames import get_qualified_name
from .health import describe_health
from .holdings import holdings
from .loaders import loaders
from .prints import claims
from .rows import ForwardSite, OptimizerUse
from .schema import WatchCosts, WatchRecord
from .settings import describe_settings
from .torch_hooks import optimizers

if TYPE_CHECKING:
    from .script import ScriptWatch

OFTEN = 20
"""Steps from which on an environment is one that the script trains with."""
#: Their trainings are not torch's; a script may import one of them and torch as well.
FRAMEWORKS = ("tensorflow", "keras", "mxnet", "paddle", "mindspore", "jax")


def count_environments() -> int:
    """How many environments the script trains with. One that is stepped much less often than another is for
    evaluation."""
    steps = list(steps_of.values())
    least = max(OFTEN, max(steps, default=0) / 2)
    return sum(count >= least for count in steps)


def describe_watch(watch: ScriptWatch) -> WatchRecord:
    """The record of everything that is known now."""
    frames, stacks = watch.looks.describe()
    torch = sys.modules.get("torch")
    return WatchRecord(
        script=watch.plan.script,
        arguments=watch.plan.arguments,
        ended=watch.ended,
        error=watch.error,
        code=watch.code,
        python=platform.python_version(),
        torch=getattr(torch, "__version__", ""),
        jax="jax" in sys.modules,
        device=detect_torch_device(torch),
        cores=count_process_cores(),
        threads=getattr(torch, "get_num_threads", int)(),
        training_began=tally.first_step[0] if tally.first_step else None,
        frames=frames,
        stacks=stacks,
        windows=tuple(watch.clerk.windows),
        sites=tally.describe_sites(),
        forwards=describe_forwards(),
        optimizers=describe_optimizers(),
        loads=tuple(watch.turns.loads),
        counted=replace(tally.counters.counted),
        called=replace(tally.counters.called),
        widths=dict(tally.widths),
        containers=watch.census.describe(),
        claims=tuple(claims),
        subnormals=tuple(subnormal.counts),
        operations=watch.operations.describe() if watch.operations else (),
        deep=watch.plan.deep,
        looks=watch.looks.number,
        timer_taken=watch.looks.gave_way,
        failures=(*watch.clerk.failures, *tally.failures.values()),
        costs=describe_costs(watch),
        environments=count_environments(),
        learning_began=tally.first_update[0] if tally.first_update else None,
        bursts=tally.bursts.describe(),
        device_time=watch.device.result if watch.device else None,
        health=describe_health(),
        settings=describe_settings(),
        holdings=tuple(holdings.values()),
        autoreset=autoreset[0],
        late_steps=0 if resets.inside else tally.counters.late_steps,
        glances=watch.glances.describe(),
        glances_tried=watch.glances.attempts,
        loaders=tuple(loaders.values()),
        process=children.describe_process(),
        other=find_other_framework(),
    )


def find_other_framework() -> str:
    """A framework that the script imported while it did not import torch; empty if there is none."""
    if "torch" in sys.modules:
        return ""
    return next((name for name in FRAMEWORKS if hasattr(sys.modules.get(name), "__version__")), "")


def describe_costs(watch: ScriptWatch) -> WatchCosts:
    """What the watch itself has cost so far."""
    return WatchCosts(
        hooks=watch.turns.costs.spent(),
        looks=watch.looks.seconds,
        clerk=watch.clerk.seconds,
        census=watch.census.seconds,
        subnormals=subnormal.spent[0],
        operations=watch.operations.own_seconds if watch.operations else 0.0,
    )


def count_process_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def detect_torch_device(torch: Any) -> str:
    """Where torch computes: on a GPU once CUDA is initialized."""
    cuda = getattr(torch, "cuda", None)  # torch may be only half imported
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
    for (_, line, _), entry in list(tally.forwards.items()):
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
                first=entry.first,
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
