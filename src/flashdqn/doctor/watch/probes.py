"""What a cure would gain, measured on copies of the script's network after the script has ended.

Each probe times the same work in two ways, in turns, and reports both; the doctor computes from the shares what
the whole would gain. Nothing here touches the script's tensors or its random numbers.
"""

from __future__ import annotations

import copy
import io
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from time import perf_counter
from typing import Any

from . import counters as tally
from .counters import Forward, describe_failure
from .schema import BatchTimes, ProbeResults, ProbeTimes
from .subnormal import treats_subnormals_as_zero
from .torch_hooks import optimizers

ROUNDS = 15
ENVIRONMENTS = 16

budget = [1.0]
"""Seconds for each probe."""


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
        "batch": lambda: probe_batch(actor),
        "flops": probe_matmul,
    }  # by the fields of ProbeResults
    for name, probe in probes.items():
        try:
            # The script may have been stopped inside a block without gradients.
            with torch.inference_mode(False), torch.enable_grad():
                found[name] = probe()
        except Exception as error:  # a network that cannot be copied must not end the other probes
            failed.append(describe_failure(name, error))
    return ProbeResults(**found, failed=tuple(failed))


def find_learning_forward() -> Forward | None:
    """The line that spent the most time on calling a network for learning."""
    fitting = [f for f in tally.forwards.values() if f.learning > f.acting and f.graded]
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


def time_in_turns(*ways: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The median seconds of each way, timed in turns."""
    torch = sys.modules["torch"]
    times: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way()
    end = perf_counter() + budget[0]
    for _ in range(rounds * 20):
        for number, way in enumerate(ways):
            start = perf_counter()
            way()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            times[number].append(perf_counter() - start)
        if perf_counter() > end:
            break
    return [statistics.median(values) for values in times]


def copy_inputs(forward: Forward, batch: int | None = None) -> Any:
    """A copy of the network's input, or a batch of copies of its first row."""
    data = forward.data.detach().clone()
    return data if batch is None else data[:1].repeat(batch, *(1 for _ in data.shape[1:]))


def probe_threads(forward: Forward | None, cores: int) -> dict[int, float] | None:
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
    try:
        return dict(zip(numbers, time_in_turns(*map(update, numbers))))  # noqa: B905 (from Python 3.10 on)
    finally:
        torch.set_num_threads(now)


def copy_network(module: Any) -> Any:
    """A copy that a probe may change."""
    return copy.deepcopy(module).requires_grad_(True)


def sum_outputs(result: Any) -> Any:
    """One number from whatever a network returns."""
    return result.float().sum() if hasattr(result, "sum") else sum(sum_outputs(part) for part in result)


def copy_optimizer(optimizer: Any, **changes: Any) -> Any:
    """An optimizer of the same kind and state, on copies of the parameters."""
    torch = sys.modules["torch"]
    groups = []
    pairs = []
    for group in optimizer.param_groups:
        parameters = []
        for old in group["params"]:
            new = torch.nn.Parameter(old.detach().clone())
            new.grad = torch.zeros_like(new) if old.grad is None else old.grad.detach().clone()
            parameters.append(new)
            pairs.append((old, new))
        groups.append({**group, "params": parameters, **changes})
    made = type(optimizer)(groups)
    for old, new in pairs:
        made.state[new] = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in optimizer.state.get(old, {}).items()
        }
    return made


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


def probe_batch(forward: Forward | None) -> BatchTimes | None:
    """Acting for one environment, and for several at once."""
    torch = sys.modules["torch"]
    if forward is None or len(forward.data.shape) < 2 or forward.data.shape[0] != 1:
        return None
    network = copy_network(forward.module)
    one, many = copy_inputs(forward), copy_inputs(forward, ENVIRONMENTS)

    def act(data: Any) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                network(data)

        return run

    alone, together = time_in_turns(act(one), act(many))
    return BatchTimes(alone, together, ENVIRONMENTS)


def probe_matmul() -> float:
    """The most operations per second that this machine can do: a square product on the CPU, with the current
    threads."""
    torch = sys.modules["torch"]
    size = 384
    matrix = torch.full((size, size), 0.5, dtype=torch.float32, device="cpu")
    (seconds,) = time_in_turns(lambda: matrix @ matrix, rounds=2)
    return 2 * size**3 / seconds
