"""What an exchange between ranks costs, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from flashdqn.compute.device import synchronize_device
from flashdqn.compute.ranks import Ranks, time_exchange
from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.training.assemble import Parts
from flashdqn.training.engine import Engine

if TYPE_CHECKING:
    from flashdqn.training.autotune import Choice, Note

#: Updates of each size that are timed.
ROUNDS = 8
#: A rank that waits for less than this share of the time that the others wait is named as slow,
SLOW = 0.5
#: if they have waited for at least this share of the training time.
WORTH_SAYING = 0.05


def describe_waiting(ranks: Ranks) -> dict[str, float]:
    """Seconds that this rank has spent in exchanges, for the leader's summary."""
    waited = ranks.waited
    return {"gradients": round(waited.gradients, 3), "counts": round(waited.counts, 3)}


def summarize_waiting(every: list[dict[str, float]], exchanges: int, seconds: float) -> dict[str, Any]:
    """What the summary says of the ranks: seconds waited on each, and the slowest, if the others wait for it."""
    waited = [sum(own.values()) for own in every]
    summary: dict[str, Any] = {
        "count": len(every),
        "waited_seconds": [round(own, 3) for own in waited],
        "gradient_seconds": [own["gradients"] for own in every],
        "count_seconds": [own["counts"] for own in every],
        "exchanges": exchanges,
    }
    slow = find_slow_rank(waited, seconds)
    return summary if slow is None else summary | {"slow_rank": slow}


def find_slow_rank(waited: list[float], seconds: float) -> int | None:
    """The rank that all others wait for: it waits least, by far. None if nobody waits for long."""
    slowest = min(range(len(waited)), key=lambda rank: waited[rank])
    others = [own for rank, own in enumerate(waited) if rank != slowest]
    if not others or min(others) < WORTH_SAYING * seconds or waited[slowest] > SLOW * min(others):
        return None
    return slowest


def weigh_ranks(parts: Parts, choice: Choice, note: Note) -> None:
    """Say if an exchange of gradients costs more than a smaller batch saves. All ranks measure together."""
    ranks, size = parts.ranks, parts.config.update_size
    gradient = torch.zeros_like(parts.learner.flat.gradient)
    exchange = time_exchange(ranks, gradient)
    if ranks.leads and choice.saving is not None and exchange > choice.saving:
        note(
            f"{ranks.world} ranks may not pay here: averaging {gradient.numel():,} gradients takes "
            f"{1e6 * exchange:,.0f} µs by {ranks.backend}, and a batch of {size:,} instead of "
            f"{size * ranks.world:,} saves {'at most ' * ranks.captures}{1e6 * choice.saving:,.0f} µs of an update"
        )


def measure_saving(engine: Engine) -> float | None:
    """Seconds that a rank's part of a batch saves of an update, against the whole batch; None if the batch is not
    divided. Graphs, compiled code and CUDA kernels know only one size: there it is the most that could be saved."""
    parts, world = engine.parts, engine.parts.ranks.world
    if not parts.ranks.many or parts.config.learn.batch_per_rank or parts.rollouts is not None:
        return None
    if (
        engine.plan.graph
        or engine.plan.way == "compile"
        or (engine.plan.way == "native" and parts.learner.device.type == "cuda")
    ):
        rounds = [time_once(lambda: engine.learn(engine.largest), parts) for _ in range(ROUNDS)]
        return (world - 1) * min(rounds) / engine.largest
    size = parts.config.update_size
    times = []
    for rows in (size, size * world):
        batch = parts.sampler.batches(1, rows)
        times.append(min(time_once(lambda: engine.backend.update(batch), parts) for _ in range(ROUNDS)))  # noqa: B023
    return times[1] - times[0]


def time_once(work: Callable[[], object], parts: Parts) -> float:
    """Seconds of some updates."""
    parts.sampler.draw_again()
    start = time.perf_counter()
    with suppress(BadNumbersError, DivergedError):  # the run itself reports it
        work()
    synchronize_device(parts.learner.device)
    return time.perf_counter() - start
