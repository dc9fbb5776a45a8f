"""CUDA graphs in parts: each part is captured and replayed by itself, on the same warm training.

The clock sees a replay only as a whole. So its parts are captured alone, replayed many times between two events,
and their sum is shown beside the whole: the difference is what the parts gain or lose by being together.
The training cannot be used afterwards: its counts, its ring and its games no longer match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from flashdqn.compute.graphs import Recorder
from flashdqn.profile.ready import Ready
from flashdqn.profile.result import Apart, Spent, TimedPhase
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.backend import Backend
from flashdqn.training.engine import first_error_line
from flashdqn.training.phases import make_timing_event

#: Replays between two events, and calls in one graph: a graph of one small kernel would time its own launch.
REPLAYS, CALLS = 50, 8


@dataclass(frozen=True)
class GraphPart:
    """Work that is captured alone."""

    name: str
    run: Callable[[], Any]
    generators: tuple[str, ...]  # that it draws from
    calls: int  # in one graph
    about: str


def measure_graph_parts(ready: Ready, spent: Spent) -> tuple[tuple[Apart, ...], str]:
    """The graphs of a training, each beside its parts; if there are none, the reason."""
    if not ready.choice.plan.graph:
        return (), ""
    whole = {phase.name: phase.microseconds for phase in spent.phases}
    parts, engine = ready.loop.parts, ready.loop.engine
    found, reason = list[Apart](), ""
    try:
        if "collect" in whole:
            seconds = time_parts(parts, list_collection_parts(parts, engine.backend))
            found.append(
                compare_with_graph("collect", seconds, spent.iterations / spent.transitions, whole["collect"])
            )
        if parts.rollouts is not None:
            reason = "PQN hands out a rollout's minibatches once: learning cannot be repeated by itself."
        elif "learn" in whole:
            seconds = time_parts(parts, list_learning_parts(engine.backend, engine.largest))
            per_transition = spent.ratio_done / engine.largest
            found.append(compare_with_graph("learn", seconds, per_transition, whole["learn"]))
        if "iterate" in whole:
            found.append(split_iterations(ready, spent, whole["iterate"]))
    except Exception as error:  # capture raises many kinds of errors
        reason = first_error_line(error)
    return tuple(found), reason


def split_iterations(ready: Ready, spent: Spent, whole: float) -> Apart:
    """Whole iterations, beside all their parts."""
    parts, engine = ready.loop.parts, ready.loop.engine
    collecting = time_parts(parts, list_collection_parts(parts, engine.backend))
    learning = time_parts(parts, list_learning_parts(engine.backend, engine.largest))
    share = spent.ratio_done / engine.largest  # groups of updates per transition
    each = spent.iterations / spent.transitions
    seconds = collecting | {part: time * share / each for part, time in learning.items()}
    return compare_with_graph("iterate", seconds, each, whole)


def compare_with_graph(
    graph: str, seconds: Mapping[GraphPart, float], per_transition: float, whole: float
) -> Apart:
    """Compare `seconds` of one call of each part, with `per_transition` calls per transition, to the graph's time
    in microseconds per transition."""
    times = {part: each * per_transition * 1e6 for part, each in seconds.items()}
    rows = (TimedPhase(part.name, time, time / whole, part.about) for part, time in times.items())
    return Apart(graph, tuple(rows), sum(times.values()), whole)


@torch.no_grad()
def list_collection_parts(parts: Parts, backend: Backend) -> list[GraphPart]:
    """Acting, stepping and appending, each with the input that another part would give it."""
    collector, env = parts.collector, parts.collector.env

    def act() -> torch.Tensor:
        shape, device = (2, len(collector.eps)), collector.eps.device
        draws = torch.rand(shape, generator=collector.generator, device=device)
        return backend.act(collector.obs, collector.mask, collector.eps, draws)

    action = act().clone()
    step = env.step(action)

    def append() -> None:
        backend.record(action, step, env.outcomes)
        parts.sampler.appended()

    return [
        GraphPart("act", torch.no_grad()(act), ("explore", "fractions"), CALLS, "a vector step"),
        GraphPart("step", torch.no_grad()(lambda: env.step(action)), (), CALLS, "a vector step"),
        GraphPart("append", torch.no_grad()(append), (), CALLS, "a vector step"),
    ]


def list_learning_parts(backend: Backend, count: int) -> list[GraphPart]:
    """Sampling and updating, for as many updates as the largest graph holds."""
    batches = backend.sample(count)
    about = f"a group of {count} updates"
    return [
        GraphPart("sample", lambda: backend.sample(count), ("replay",), 1, about),
        GraphPart("update", lambda: backend.update(batches), ("noise", "fractions"), 1, about),
    ]


def time_parts(parts: Parts, several: list[GraphPart]) -> dict[GraphPart, float]:
    """Seconds of one call of each, on the device."""
    recorder = Recorder(parts.learner.device)
    return {part: time_replays(recorder, part, parts.generators) for part in several}


def time_replays(recorder: Recorder, part: GraphPart, generators: Mapping[str, torch.Generator]) -> float:
    """Capture it, and replay it between two events."""
    recorder.rehearse(part.run)
    drawn = [generators[name] for name in part.generators if name in generators]
    replay = recorder.capture(lambda: [part.run() for _ in range(part.calls)], drawn)
    replay()
    first, last = make_timing_event(), make_timing_event()
    first.record()
    for _ in range(REPLAYS):
        replay()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000 / (REPLAYS * part.calls)
