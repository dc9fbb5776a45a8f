"""Numbers too small for full precision: a CPU is many times slower with them.

They are counted now and then in an optimizer's tensors. This happens on the script's own thread, because flushing
them to zero is a setting of each thread.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from . import counters as tally
from .rows import SubnormalCount

SMALLEST_NORMAL = 1.1754944e-38
EVERY = 5.0
MOST_TENSORS = 32
MOST_VALUES = 1 << 16
"""Values per tensor: the first ones represent the rest."""

counts: list[SubnormalCount] = []
spent = [0.0]
_last = [0.0]


def is_check_due() -> bool:
    """Whether it is time to look again."""
    return perf_counter() - _last[0] > EVERY


def count_subnormals(optimizer: Any) -> None:
    """Count them in the parameters, gradients and moments of an optimizer on the CPU."""
    if not optimizer.param_groups:
        return
    start = _last[0] = perf_counter()
    torch = sys.modules["torch"]
    small = total = 0
    with torch.no_grad():
        for tensor in select_optimizer_tensors(optimizer):
            size = tensor.reshape(-1)[:MOST_VALUES].abs()
            small += int(((size > 0) & (size < SMALLEST_NORMAL)).sum())
            total += size.numel()
    flushed = treats_subnormals_as_zero(torch)
    counts.append(SubnormalCount(start - tally.started, small, total, flushed))
    spent[0] += perf_counter() - start


def treats_subnormals_as_zero(torch: Any) -> bool:
    """Whether this thread treats them as zero. A comparison would flush them too, so it reads a product's bits."""
    product = torch.full((1,), 2e-38, dtype=torch.float32, device="cpu") * 0.1
    return not bool(product.view(torch.int32)[0])


def select_optimizer_tensors(optimizer: Any) -> list[Any]:
    """Its largest float32 tensors on the CPU."""
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            candidates = [parameter, parameter.grad, *(v for v in state.values() if hasattr(v, "numel"))]
            found += [t for t in candidates if t is not None and is_dense_cpu_float(t)]
    return sorted(found, key=lambda t: -t.numel())[:MOST_TENSORS]


def is_dense_cpu_float(tensor: Any) -> bool:
    """Whether a tensor is dense, on the CPU, and of the usual precision."""
    kind = str(tensor.dtype), str(tensor.device), str(tensor.layout)
    return kind == ("torch.float32", "cpu", "torch.strided")
