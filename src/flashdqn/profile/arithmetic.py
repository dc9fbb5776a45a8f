"""How much arithmetic an update is, how fast it is done, and how fast this machine multiplies large matrices."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from flashdqn.compute.precision import Precision
from flashdqn.compute.threads import limit_threads
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.learner import Learner
from flashdqn.networks.flops import count_flops
from flashdqn.profile.ready import Ready
from flashdqn.profile.result import Arithmetic, Spent
from flashdqn.training.phases import make_timing_event

#: The side of the square matrices whose product is the yardstick, and how often it is repeated; the best counts.
GPU_SIDE, GPU_REPEATS = 8192, 20
CPU_SIDE, CPU_REPEATS = 1024, 30


def measure_arithmetic(ready: Ready, spent: Spent) -> Arithmetic | None:
    """The arithmetic of the updates beside that of a large product; None if there were no updates.

    A gradient is counted as two forward passes: one by the inputs of the layers, one by their weights.
    """
    seconds = seconds_per_update(spent)
    if seconds is None:
        return None
    parts, learner = ready.loop.parts, ready.loop.parts.learner
    passes = 3 + count_bootstrap_passes(ready)
    flops = spent.batch * passes * count_flops(learner.online, parts.env.obs_spec)
    compute, games = ready.threads
    by_hand = ready.choice.plan.way == "native"  # such updates use the games' threads too
    with limit_threads(max(compute, games) if by_hand else compute, games):
        return compare_arithmetic(flops, passes, seconds, learner)


def compare_arithmetic(flops: int, passes: int, seconds: float, learner: Learner) -> Arithmetic:
    """The rate of an update beside that of a product."""
    rate, product = flops / seconds, measure_product(learner.device, learner.precision)
    name = name_product(learner.device, learner.precision)
    return Arithmetic(flops, passes, seconds, rate, product, name, rate / product)


def seconds_per_update(spent: Spent) -> float | None:
    """The time of an update without sampling where that is known; inside a graph its parts were measured apart."""
    times = {phase.name: phase.microseconds for apart in spent.apart for phase in apart.parts}
    times |= {phase.name: phase.microseconds for phase in spent.phases}
    found = times.get("update") or times.get("learn")
    return found / spent.ratio_done / 1e6 if found and spent.ratio_done else None


def count_bootstrap_passes(ready: Ready) -> int:
    """Forward passes for the targets of a batch, by counting the calls of the networks."""
    parts = ready.loop.parts
    learner = parts.learner
    if parts.rollouts is not None:
        return 0  # PQN has its targets before the update
    calls = 0

    def counted(network: Net) -> Net:
        def call(obs: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return network(obs)

        return call

    batch = parts.sampler.sample(parts.config.update_size)
    with torch.no_grad():
        learner.bootstrap(counted(learner.online), counted(learner.target), batch.transition, learner.head)
    return calls


def measure_product(device: torch.device, precision: Precision) -> float:
    """Operations per second of a product of two large square matrices, in the format that the networks use."""
    side, repeats = (GPU_SIDE, GPU_REPEATS) if device.type == "cuda" else (CPU_SIDE, CPU_REPEATS)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    generator = torch.Generator(device).manual_seed(1)  # zeros would be faster than real numbers
    left, right = (torch.randn(side, side, generator=generator, device=device).to(dtype) for _ in range(2))
    out = torch.mm(left, right)
    best = min(time_product(left, right, out) for _ in range(repeats))
    return 2.0 * side**3 / best


def time_product(left: Tensor, right: Tensor, out: Tensor) -> float:
    """Seconds of one product."""
    if left.device.type == "cuda":
        first, last = make_timing_event(), make_timing_event()
        first.record()
        torch.mm(left, right, out=out)
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000
    begun = time.perf_counter()
    torch.mm(left, right, out=out)
    return time.perf_counter() - begun


def name_product(device: torch.device, precision: Precision) -> str:
    """The number format of the product."""
    if precision == "bf16":
        return "bfloat16"
    return "TF32" if device.type == "cuda" else "float32"
