"""The number format that networks compute in. Losses, targets and parameters are always float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

Precision = Literal["fp32", "bf16"]


def with_precision(
    network: Callable[[Tensor], Tensor], precision: Precision, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """The network as it is, or computing in bfloat16 where that is safe (autocast); it returns float32."""
    if precision == "fp32":
        return network

    def cast(obs: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            output = network(obs)
        return output.to(torch.float32)

    return cast


@contextmanager
def allow_tf32(device: torch.device) -> Iterator[None]:
    """TF32 for float32 products on GPUs that have it: ten bits of mantissa in, float32 sums. The CPU ignores it."""
    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn
