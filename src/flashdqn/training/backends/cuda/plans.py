"""How the kernels' work is cut up: the plans that were fastest in measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flashdqn.training.backends.cuda.network import Sizes

LARGE = 2048  # from this many rows on, one program does all networks, and W2's gradient is one matrix product


@dataclass(frozen=True)
class UpdatePlan:
    """How an update is cut up. Blocks are powers of two; a block larger than the matrix is cut down to it."""

    joint: bool = (
        False  # one program takes its rows through all networks and back; else one network, some columns
    )
    rows: int = 32  # forward: rows of a program,
    columns: int = 32  # columns of the second hidden layer (joint: at a time),
    depth: int = 256  # and columns of the first at a time
    units: int = 128  # joint: columns of the first at a time, on the way back
    forward_warps: int = 4
    forward_stages: int = 2
    chunks: int = 1  # the rows are cut into this many chunks, and the gradient is the sum of theirs
    block1: tuple[int, int, int] = (64, 32, 128)  # W1's gradient: rows, units, second-layer units at a time
    block2: tuple[int, int, int] = (64, 32, 64)  # W2's gradient: rows, outputs, inputs
    block3: tuple[int, int] = (64, 32)  # W3's gradient: rows, columns
    gradient_warps: int = 8
    gradient_stages: int = 1
    reduce_size: int = 512
    adam_size: int = 512
    adam_warps: int = 4
    pdl: bool = False  # programmatic dependent launch: a kernel is put in place while the last one ends
    precision: str = "tf32"  # or tf32x3, ieee


def choose_update_plan(sizes: Sizes, batch_size: int) -> UpdatePlan:
    """The fastest plan on an H200 for this batch size (benchmarks/fused_check.py)."""
    if batch_size >= LARGE:
        return UpdatePlan(
            joint=True, rows=64, columns=128, depth=32, forward_warps=4, forward_stages=3,
            chunks=max(1, min(32, batch_size // 256)), block2=(32, 128, 128), gradient_warps=4, gradient_stages=4,
            reduce_size=128,
        )  # fmt: skip
    narrow = UpdatePlan(rows=64, block1=(64, 16, 64), gradient_warps=4, adam_size=256, adam_warps=2)
    if batch_size <= 64:
        return replace(narrow, rows=16 if batch_size <= 16 else 64, block2=(64, 64, 64))
    return replace(narrow, depth=128, chunks=min(16, -(-batch_size // 64)))


@dataclass(frozen=True)
class PolicyPlan:
    """How the work of choosing actions is cut up."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    precision: str = "tf32"


def choose_policy_plan(sizes: Sizes, num_envs: int) -> PolicyPlan:
    """The fastest plan for this number of environments; many inputs leave less room."""
    if sizes.inputs > 64:
        return PolicyPlan(rows=32, columns=128, depth=32, warps=4, stages=2)
    if num_envs >= 8192:
        return PolicyPlan(rows=128, columns=256, depth=32, warps=8, stages=3)
    if num_envs >= 2048:
        return PolicyPlan(rows=32, columns=256, depth=32, warps=8, stages=3)
    return PolicyPlan(rows=16, columns=256, depth=64, warps=8, stages=3)
