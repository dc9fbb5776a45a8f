"""Where the fused operations may be used: on a GPU with Triton, after a comparison with the plain layers."""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashdqn.compute.compile_ahead import FUSED_LAYERS, wait_for
from flashdqn.compute.tool_caches import guard_tool_cache
from flashdqn.core.errors import ExecutionError
from flashdqn.networks.fused.operations import AddContext, AddResidual, NormalizeCells, NormalizeRows

#: Relative distances from the plain layers, in float32, that rounding does not explain.
APART = 1e-3


def use_fused(network: nn.Module, device: torch.device) -> None:
    """Let every layer of a network that has a fused form use it on this device, if it works there."""
    for module in network.modules():
        if hasattr(module, "fused_on"):
            module.fused_on = device.type if can_fuse(device) else None  # type: ignore[assignment]


@contextmanager
def use_plain_layers(network: nn.Module) -> Iterator[None]:
    """Every layer is called by itself in here."""
    before = [(module, module.fused_on) for module in network.modules() if hasattr(module, "fused_on")]
    for module, _ in before:
        module.fused_on = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, device in before:
            module.fused_on = device


def has_fused_layers(network: nn.Module) -> bool:
    """Whether the network has convolutions, and all the work around them is fused."""
    return any(getattr(module, "fused_on", None) is not None for module in network.modules()) and any(
        isinstance(module, nn.Conv2d) for module in network.modules()
    )


def follows_plain() -> bool:
    """Whether torch.compile or torch.func follows the operations one by one: then the plain layers do it."""
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


@functools.cache
def can_fuse(device: torch.device) -> bool:
    """Whether the operations work here and answer as the plain layers do. It takes a second or two, once."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"  # on the CPU, for tests
    if importlib.util.find_spec("triton") is None or device.type != ("cpu" if interpreted else "cuda"):
        return False
    if not interpreted:
        if torch.cuda.get_device_capability(device) < (8, 0):
            return False
        guard_tool_cache("triton")
        wait_for(FUSED_LAYERS)  # a helper may have begun to compile them
    try:
        compare_with_plain(device)
    except Exception as error:  # Triton raises many kinds
        warnings.warn(f"Layers run one by one, because {error}.", stacklevel=2)
        return False
    return True


def compare_with_plain(device: torch.device) -> None:
    """Raise ExecutionError if an operation and the plain layers differ on random numbers."""
    generator = torch.Generator().manual_seed(1)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(device).requires_grad_()

    x, y, gradient = (draw(3, 17, 5, 24) for _ in range(3))
    leaves = [x, y, *(draw(24) for _ in range(3))]
    _, _, shift, weight, bias = leaves
    answers = []
    for fused in (False, True):
        if fused:
            cells = NormalizeCells.apply(x, shift, weight, bias, 1e-5)  # type: ignore[no-untyped-call]
            rows = NormalizeRows.apply(cells + y, weight, bias, 1e-5)  # type: ignore[no-untyped-call]
            joined = AddResidual.apply(rows, y, shift)  # type: ignore[no-untyped-call]
            joined = AddContext.apply(joined, y[:, 0, 0])  # type: ignore[no-untyped-call]
        else:
            normal = F.layer_norm(x + shift, x.shape[1:], eps=1e-5)
            cells = torch.relu(torch.addcmul(bias, normal, weight))
            rows = torch.relu(F.layer_norm(cells + y, (24,), weight, bias, 1e-5))
            joined = rows + y + shift + y[:, :1, :1]
        total = (
            joined * gradient.detach()
        ).sum()  # given a gradient, PyTorch would load a library for shapes
        answers.append([joined.detach(), *torch.autograd.grad(total, leaves)])
    for plain, ours in zip(*answers, strict=True):
        apart = float((ours - plain).norm() / plain.norm())
        if not apart < APART:  # NaN is not less either
            raise ExecutionError(f"a kernel and the plain layers differ by {apart:.1%} on this device")
