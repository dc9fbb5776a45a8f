"""What a cure would gain, measured on copies of the script's network after the script has ended.

Each probe times the same work in two ways, in turns, and reports both; the doctor computes from the shares what
the whole would gain. Nothing here touches the script's tensors or its random numbers.
"""

from __future__ import annotations

import io
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

from . import counters as tally
from .counters import Forward, describe_failure
from .machine import read_busy_seconds
from .probe_copies import (
    budget,
    copy_inputs,
    copy_network,
    copy_optimizer,
    sum_outputs,
    time_each_turn,
    time_in_turns,
)
from .probe_launches import GraphTools, add_compiled, probe_launches
from .schema import ProbeResults, ProbeTimes, ThreadTimes
from .subnormal import treats_subnormals_as_zero
from .torch_hooks import optimizers

BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Batch sizes for the curve of acting time."""
MOST = 12.0
"""Seconds after which no other probe is begun."""


def probe_all(cores: int, seconds: float) -> ProbeResults:
    """Run every probe that applies, `seconds` each; one that does not work is left out."""
    torch = sys.modules["torch"]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return ProbeResults()  # the other processes would wait for this one
    budget[0] = seconds
    with preserve_random_state(torch), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return probe_each(torch, cores)


@contextmanager
def preserve_random_state(torch: Any) -> Iterator[None]:
    """Restore all random states afterwards: a script that was stopped may still have something to do."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(states[0])
        if numpy:
            numpy.random.set_state(states[1])


def probe_each(torch: Any, cores: int) -> ProbeResults:
    """Run the probes one after the other."""
    found: dict[str, Any] = {}
    failed = []
    learner, actor = find_learning_forward(), find_acting_forward()
    optimizer = max(optimizers.held.values(), key=lambda o: optimizers.steps[id(o)], default=None)
    probes: dict[str, Callable[[], Any]] = {
        "threads": lambda: probe_threads(learner, cores),
        "optimizer": lambda: probe_optimizer(optimizer),
        "flush": lambda: probe_flush(learner, optimizer),
        "no_grad": lambda: probe_no_grad(actor),
        "acting": lambda: probe_acting(actor),
        "launches": lambda: probe_launches(learner, optimizer, actor, GraphTools()),
        "flops": probe_matmul,
    }  # by the fields of ProbeResults
    end = perf_counter() + MOST
    for name, probe in probes.items():
        try:
            if perf_counter() > end:
                raise TimeoutError("the probes before it took too long")
            # The script may have been stopped inside a block without gradients.
            with torch.inference_mode(False), torch.enable_grad():
                found[name] = probe()
        except Exception as error:  # a network that cannot be copied must not end the other probes
            failed.append(describe_failure(name, error))
    return ProbeResults(**found, failed=tuple(failed))


def probe_compiling(results: ProbeResults) -> ProbeResults:
    """Add what an update on a GPU takes when it is compiled: apart, because compiling may take a minute."""
    torch = sys.modules["torch"]
    learner = find_learning_forward()
    optimizer = max(optimizers.held.values(), key=lambda o: optimizers.steps[id(o)], default=None)
    if results.launches is None or learner is None:
        return results
    with preserve_random_state(torch), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with torch.inference_mode(False), torch.enable_grad():
            return replace(results, launches=add_compiled(results.launches, learner, optimizer, GraphTools()))


def find_learning_forward() -> Forward | None:
    """The line that spent the most time on calling a network for learning."""
    fitting = [
        f for f in tally.forwards.values() if f.graded and (f.learning > f.acting or f.given_gradients)
    ]
    return max(filter(is_usable_forward, fitting), key=lambda f: f.seconds, default=None)


def find_acting_forward() -> Forward | None:
    """The line that spent the most time on calling a network for acting."""
    fitting = [f for f in tally.forwards.values() if f.acting > f.learning]
    return max(filter(is_usable_forward, fitting), key=lambda f: f.seconds, default=None)


def is_usable_forward(forward: Forward) -> bool:
    """Whether there is a network with parameters, and an input for it."""
    return (
        forward.module is not None
        and hasattr(forward.data, "detach")
        and next(forward.module.parameters(), None) is not None
    )


def probe_threads(forward: Forward | None, cores: int) -> dict[int, ThreadTimes] | None:
    """A forward and backward pass with the current threads, with one, and with one for each core."""
    torch = sys.modules["torch"]
    now = torch.get_num_threads()
    if forward is None or next(iter(forward.module.parameters())).is_cuda:
        return None
    network, data = copy_network(forward.module), copy_inputs(forward)

    def update(threads: int) -> Callable[[], object]:
        def run() -> None:
            torch.set_num_threads(threads)
            sum_outputs(network(data)).backward()

        return run

    numbers = sorted({now, 1, cores})
    busy, start = read_busy_seconds(), perf_counter()
    own = process_time()
    try:
        turns = time_each_turn(*map(update, numbers), seconds=2 * budget[0])
    finally:
        torch.set_num_threads(now)
    others = None
    after = read_busy_seconds()
    if busy is not None and after is not None:
        others = max(after - busy - (process_time() - own), 0.0) / max(perf_counter() - start, 1e-9)
    return {number: summarize_turns(times, others) for number, times in zip(numbers, turns)}  # noqa: B905


def summarize_turns(times: list[float], others: float | None) -> ThreadTimes:
    """The mean of some turns, with its interval."""
    mean = statistics.fmean(times)
    spread = 2.0 * statistics.stdev(times) / len(times) ** 0.5 if len(times) > 1 else mean
    return ThreadTimes(mean, max(mean - spread, min(times)), mean + spread, others)


def probe_optimizer(optimizer: Any) -> ProbeTimes | None:
    """A step as it is, and with torch's fused kernel."""
    if optimizer is None or "fused" not in optimizer.param_groups[0] or optimizer.param_groups[0]["fused"]:
        return None
    now, fused = copy_optimizer(optimizer), copy_optimizer(optimizer, fused=True, foreach=False)
    return ProbeTimes(*time_in_turns(now.step, fused.step))


def probe_flush(forward: Forward | None, optimizer: Any) -> ProbeTimes | None:
    """An update on the numbers as they are, with and without flushing subnormal ones to zero."""
    torch = sys.modules["torch"]
    if forward is None or optimizer is None or next(iter(forward.module.parameters())).is_cuda:
        return None
    network, data = copy_network(forward.module), copy_inputs(forward)

    def update(flush: bool) -> Callable[[], object]:
        # Each way has its own copy: flushed numbers would be gone in the turns of the other way too.
        mine = copy_optimizer(optimizer)

        def run() -> None:
            torch.set_flush_denormal(flush)
            sum_outputs(network(data)).backward()
            mine.step()

        return run

    was = treats_subnormals_as_zero(torch)
    try:
        return ProbeTimes(*time_in_turns(update(False), update(True)))
    finally:
        torch.set_flush_denormal(was)


def probe_no_grad(forward: Forward | None) -> ProbeTimes | None:
    """Acting with a graph, and without."""
    torch = sys.modules["torch"]
    if forward is None:
        return None
    network, data = copy_network(forward.module), copy_inputs(forward)

    def act(context: Callable[[], Any]) -> Callable[[], object]:
        def run() -> None:
            with context():
                network(data)

        return run

    return ProbeTimes(*time_in_turns(act(nullcontext), act(torch.no_grad)))


def probe_acting(forward: Forward | None) -> dict[int, float] | None:
    """Seconds of acting by the number of environments: the batch of one call."""
    torch = sys.modules["torch"]
    if forward is None or not has_rows(forward.data):
        return None
    network = copy_network(forward.module)

    def act(batch: int) -> Callable[[], object]:
        data = copy_inputs(forward, batch)

        def run() -> None:
            with torch.no_grad():
                network(data)

        return run

    return dict(zip(BATCHES, time_in_turns(*map(act, BATCHES))))  # noqa: B905 (from Python 3.10 on)


def has_rows(data: Any) -> bool:
    """Whether an input has rows, or is one: a single axis of whole numbers may be a batch of indexes."""
    return data.dim() > 1 or (data.dim() == 1 and bool(data.is_floating_point()))


def probe_matmul() -> float:
    """The most operations per second that this machine can do: a square product on the CPU, with the current
    threads."""
    torch = sys.modules["torch"]
    size = 384
    matrix = torch.full((size, size), 0.5, dtype=torch.float32, device="cpu")
    (seconds,) = time_in_turns(lambda: matrix @ matrix, rounds=2)
    return 2 * size**3 / seconds
