"""Normalization and ReLU as one operation, beside the plain layers. On the CPU these tests run in Triton's
interpreter, started by `test_fused_interpreted.py`."""

from __future__ import annotations

import copy
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from flashdqn.networks.cells import CellNet
from flashdqn.networks.fused.fit import can_fuse, has_fused_layers, use_fused
from flashdqn.networks.fused.operations import (
    MOST_PARTS,
    AddContext,
    AddResidual,
    NormalizeCells,
    NormalizeRows,
    cut_cells,
    sum_over_rows,
)
from flashdqn.networks.torsos import MLP, ResNet, fits_fused

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
needs_kernels = pytest.mark.skipif(
    not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or Triton's interpreter"
)
pytestmark = [needs_kernels] if INTERPRETED else [needs_kernels, pytest.mark.cuda]


def draw(seed: int, *sizes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(DEVICE).requires_grad_() for size in sizes]


def assert_close(found: Tensor, wanted: Tensor, apart: float = 1e-4) -> None:
    error = (found.detach().double() - wanted.detach().double()).norm()
    assert float(error) <= apart * float(wanted.detach().double().norm()) + 1e-4


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40), st.booleans(),
    st.sampled_from([0.0, 100.0]), st.integers(0, 99),
)  # fmt: skip
def test_cells_equal_the_plain_layers(
    samples: int, rows: int, columns: int, channels: int, shifted: bool, far: float, seed: int
) -> None:
    size = samples, rows, columns, channels
    x, shift, weight, bias, gradient = draw(seed, size, (channels,), (channels,), (channels,), size)
    given_shift = shift if shifted else None
    moved = x + far
    ours = NormalizeCells.apply(moved, given_shift, weight, bias, 1e-5)
    leaves = [x, weight, bias, *[shift] * shifted]
    inner = moved + shift if shifted else moved
    if rows * columns * channels == 1:
        return  # a single number has no spread: only rounding is left of it
    plain = torch.relu(torch.addcmul(bias, F.layer_norm(inner, inner.shape[1:]), weight))
    apart = 1e-3 if far else 1e-4
    assert_close(ours, plain, apart)
    if not far:  # a ReLU that opens by rounding changes more
        for found, wanted in zip(
            torch.autograd.grad(ours, leaves, gradient),
            torch.autograd.grad(plain, leaves, gradient),
            strict=True,
        ):
            assert_close(found, wanted, 2e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(2, 70), st.integers(0, 99))
def test_rows_equal_layer_norm(count: int, width: int, seed: int) -> None:
    x, weight, bias, gradient = draw(seed, (2, count, width), (width,), (width,), (2, count, width))
    ours = NormalizeRows.apply(x, weight, bias, 1e-5)
    plain = torch.relu(F.layer_norm(x, (width,), weight, bias, 1e-5))
    assert_close(ours, plain)
    for found, wanted in zip(
        torch.autograd.grad(ours, [x, weight, bias], gradient),
        torch.autograd.grad(plain, [x, weight, bias], gradient),
        strict=True,
    ):
        assert_close(found, wanted, 2e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 130), st.integers(0, 99))
def test_sums_over_rows_are_those_of_pytorch(count: int, width: int, seed: int) -> None:
    (x,) = draw(seed, (count, width))
    assert_close(sum_over_rows(x.detach()), x.detach().double().sum(0), 1e-4)


def test_a_context_is_added_to_every_cell_of_its_sample() -> None:
    x, context, gradient = draw(2, (3, 4, 5, 6), (3, 6), (3, 4, 5, 6))
    ours, plain = AddContext.apply(x, context), x + context[:, None, None]
    assert_close(ours, plain, 1e-6)
    found, wanted = (torch.autograd.grad(answer, [x, context], gradient) for answer in (ours, plain))
    assert_close(found[0], wanted[0], 1e-6)
    assert_close(found[1], wanted[1], 1e-5)


@pytest.mark.skipif(not INTERPRETED, reason="needs Triton's interpreter")
@pytest.mark.parametrize("rows", [4, 5])
def test_the_interpreter_tells_of_a_read_past_the_end(rows: int) -> None:
    """The context has 4 numbers; the kernel is told that it has one for each of `rows` rows."""
    from flashdqn.networks.fused import row_kernels

    x, context, out = torch.zeros(5, 1), torch.zeros(4, 1), torch.zeros(5, 1)

    def add() -> None:
        row_kernels.add_context[(1,)](x, context, out, rows, 1, 1, ROWS=8, WIDTH=1)

    if rows == 4:
        add()
    else:
        with pytest.raises(Exception, match="reads 1 of 5 numbers outside"):
            add()


def test_a_residual_sum_has_the_bias_and_its_gradient() -> None:
    x, y, bias, gradient = draw(1, (2, 3, 5, 7), (2, 3, 5, 7), (7,), (2, 3, 5, 7))
    ours = AddResidual.apply(x, y, bias)
    assert_close(ours, x + y + bias, 1e-6)
    for found, wanted in zip(
        torch.autograd.grad(ours, [x, y, bias], gradient),
        torch.autograd.grad(x + y + bias, [x, y, bias], gradient),
        strict=True,
    ):
        assert_close(found, wanted, 1e-5)


@pytest.mark.parametrize("samples", [1, 32, 256, 5000])
@pytest.mark.parametrize(("cells", "channels"), [(1, 1), (400, 64), (2500, 256), (40_000, 256), (9, 4096)])
def test_every_cell_belongs_to_one_part(samples: int, cells: int, channels: int) -> None:
    cut = cut_cells(samples, cells, channels)
    assert cut["SPAN"] % cut["ROWS"] == 0
    assert -(-cells // cut["SPAN"]) <= MOST_PARTS
    assert cut["WIDTH"] >= channels


@pytest.mark.parametrize("kind", ["resnet", "cells", "mlp"])
def test_a_network_learns_the_same_by_fused_layers(kind: str) -> None:
    torch.manual_seed(3)
    network: nn.Module
    if kind == "mlp":
        network, shape = MLP((6,), (16, 24), layer_norm=True), (5, 6)
    elif kind == "resnet":
        network, shape = ResNet((3, 5, 4), (8, 12), (16,), layer_norm=True), (5, 3, 5, 4)
    else:
        network, shape = CellNet((3, 5, 4), (8, 8, 12), 2, (16,), layer_norm=True), (5, 3, 5, 4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    network.to(DEVICE)
    fused = copy.deepcopy(network)
    use_fused(fused, DEVICE)
    assert can_fuse(DEVICE)
    assert has_fused_layers(fused) is (kind != "mlp")
    assert not has_fused_layers(network)
    obs = torch.randn(shape).to(DEVICE)
    answers = [net(obs) for net in (network, fused)]
    assert_close(answers[1], answers[0], 1e-4)
    weights = torch.randn(answers[0].shape).to(DEVICE)
    gradients = [
        torch.autograd.grad((answer * weights).sum(), list(net.parameters()))
        for answer, net in zip(answers, (network, fused), strict=True)
    ]
    for found, wanted in zip(gradients[1], gradients[0], strict=True):
        assert_close(found, wanted, 5e-3)


def test_torch_func_follows_the_plain_layers() -> None:
    network = ResNet((3, 5, 4), (8,), (16,), layer_norm=True).to(DEVICE)
    use_fused(network, DEVICE)
    values, obs = dict(network.named_parameters()), torch.randn(2, 3, 5, 4).to(DEVICE)
    loss = lambda given: torch.func.functional_call(network, given, (obs,)).sum()  # noqa: E731
    found = torch.func.grad(loss)(values)
    wanted = torch.autograd.grad(loss(values), list(values.values()))
    for name, right in zip(values, wanted, strict=True):
        assert_close(found[name], right, 5e-3)


def test_a_network_that_moves_to_another_device_has_plain_layers() -> None:
    network = ResNet((3, 5, 4), (8,), (16,), layer_norm=True).to(DEVICE)
    use_fused(network, DEVICE)
    elsewhere = torch.zeros(1, 8, 5, 4, device="meta")
    assert not fits_fused(network.norm, elsewhere)
    assert fits_fused(network.norm, elsewhere.new_zeros(1, device=DEVICE))
