"""The residual torso on small boards: packed weights and the kernels' twin against the plain network, and
the kernels against their twin."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from flashdqn.compute import cuda_module
from flashdqn.core.errors import ExecutionError
from flashdqn.networks.boards.check import compare_with_twin, compute_all
from flashdqn.networks.boards.kernels import BoardShape, list_options, multiply_function, write_source
from flashdqn.networks.boards.packing import pack_layers, pack_transposed
from flashdqn.networks.boards.torso import (
    board_shape,
    can_run_kernels,
    compute_features,
    fits_boards,
    use_kernels,
)
from flashdqn.networks.boards.twin import convolve
from flashdqn.networks.outputs import Dueling, apply_joined, apply_output_layer, join_rounded
from flashdqn.networks.torsos import ResNet, to_cells


def has_hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def make_torso(shape: tuple[int, int, int], blocks: int, seed: int = 0) -> ResNet:
    """A torso whose every parameter is different from its start."""
    generator = torch.Generator().manual_seed(seed)
    torso = ResNet(shape, (64,) * blocks, (), layer_norm=True)
    with torch.no_grad():
        for parameter in torso.parameters():
            size = 0.3 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
            parameter.mul_(parameter.dim() == 1).add_(
                size * torch.randn(parameter.shape, generator=generator)
            )
    return torso


def plain_features(torso: ResNet, obs: Tensor) -> Tensor:
    return to_cells(torch.relu(torso.norm(torso.blocks(torso.stem(obs))))).flatten(1)


def relative_error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm())


@settings(max_examples=12, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 7), st.integers(1, 7)),
    blocks=st.integers(1, 2),
    batch=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_features_and_gradients_are_the_plain_networks(
    shape: tuple[int, int, int], blocks: int, batch: int, seed: int
) -> None:
    torso = make_torso(shape, blocks, seed)
    generator = torch.Generator().manual_seed(seed)
    obs = torch.randn((batch, *shape), generator=generator)
    wanted, found = plain_features(torso, obs), compute_features(torso, obs, torch.float32)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(compute_features(torso, obs, torch.float32), found.detach())
    weights = torch.randn(wanted.shape, generator=generator)
    parameters = list(torso.parameters())
    for a, b in zip(
        torch.autograd.grad(found, parameters, weights),
        torch.autograd.grad(wanted, parameters, weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * (1e-3 + float(b.abs().max())))


def test_bfloat16_is_as_near_as_autocast() -> None:
    torso, obs = make_torso((3, 10, 10), 3), torch.rand(8, 3, 10, 10)
    weights = torch.randn(8, 6400)
    parameters = list(torso.parameters())
    exact = plain_features(torso, obs)
    exact_gradients = torch.autograd.grad(exact, parameters, weights)
    with torch.autocast("cpu", torch.bfloat16):
        usual = plain_features(torso, obs)
    usual_gradients = torch.autograd.grad(usual, parameters, weights)
    found = compute_features(torso, obs)
    assert found.dtype == torch.bfloat16
    gradients = torch.autograd.grad(found, parameters, weights.bfloat16())
    assert relative_error(found, exact) < 1.2 * relative_error(usual, exact) < 0.02
    for ours, theirs, right in zip(gradients, usual_gradients, exact_gradients, strict=True):
        assert relative_error(ours, right) < 2 * relative_error(theirs, right) + 0.01


def test_packed_weights_are_convolutions() -> None:
    weights, planes = torch.randn(4, 64, 64, 3, 3), torch.randn(2, 64, 4, 5)
    for layer, packed in zip(weights, pack_layers(weights, torch.float32), strict=True):
        wanted = nn.functional.conv2d(planes, layer, padding=1)
        torch.testing.assert_close(convolve(planes, packed), wanted, rtol=1e-4, atol=1e-3)
    for layer, packed in zip(weights.flip(0), pack_transposed(weights, torch.float32), strict=True):
        wanted = nn.functional.conv_transpose2d(planes, layer, padding=1)
        torch.testing.assert_close(convolve(planes, packed), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # torch.compile's own doing
@pytest.mark.parametrize("compiled", [False, True])
def test_a_whole_step_can_be_traced(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the compiled update does it: functional parameters, torch.func's gradient, no gradient for the target."""
    torso = make_torso((2, 4, 3), 1)
    monkeypatch.setattr("flashdqn.networks.torsos.fits_boards", lambda torso, obs: True)
    exactly = functools.partial(compute_features, dtype=torch.float32)
    monkeypatch.setattr("flashdqn.networks.torsos.compute_features", exactly)

    def call(parameters: dict[str, Tensor], obs: Tensor) -> Tensor:
        return functional_call(torso, parameters, (obs / 255,)).float()  # type: ignore[no-any-return]

    def step(parameters: dict[str, Tensor], obs: Tensor) -> Any:
        def loss(now: dict[str, Tensor]) -> Tensor:
            with torch.no_grad():
                goal = call(now, obs).roll(1, 0)
            return (call(now, obs) - goal).square().mean()

        return grad_and_value(loss)(parameters)

    parameters = {name: parameter.detach() for name, parameter in torso.named_parameters()}
    obs = torch.randint(0, 255, (5, 2, 4, 3), dtype=torch.uint8)
    run = torch.compile(step, fullgraph=True, dynamic=False, backend="aot_eager") if compiled else step
    gradients, value = run(parameters, obs)
    monkeypatch.setattr("flashdqn.networks.torsos.fits_boards", lambda torso, obs: False)
    wanted, exact = step(parameters, obs)
    assert float(value) == pytest.approx(float(exact), rel=1e-5)
    for name, gradient in wanted.items():
        assert relative_error(gradients[name], gradient) < 1e-4, name


def test_what_the_kernels_do_not_know() -> None:
    assert board_shape((3, 10, 10), (64, 64, 64), True) == BoardShape(10, 10, 3, 3)
    assert board_shape((8, 7, 15), (64,), True) == BoardShape(7, 15, 8, 1)
    for shape, channels, norm in (
        ((3, 11, 11), (64,), True),  # too large a board
        ((9, 5, 5), (64,), True),  # too many planes
        ((3, 10, 10), (32, 64), True),
        ((3, 10, 10), (64,) * 7, True),
        ((3, 10, 10), (64,), False),
    ):
        assert board_shape(shape, channels, norm) is None
    torso = make_torso((3, 5, 5), 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fits_boards(torso, torch.rand(2, 3, 5, 5))


def test_without_a_compiler_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(cuda_module.ctypes, "CDLL", fail)
    with pytest.raises(ExecutionError, match="NVRTC"):
        cuda_module.load_nvrtc()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    torso = make_torso((4, 3, 2), 1)
    with pytest.warns(UserWarning, match="by PyTorch, because"):
        use_kernels(torso, torch.device("cuda", 0))
    assert not torso.uses_kernels
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert not can_run_kernels(BoardShape(4, 4, 3, 10), 0)


def test_kernels_that_answer_otherwise_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, cpu = BoardShape(4, 3, 2, 2), torch.device("cpu")
    compare_with_twin(shape, cpu)
    right = compute_all(shape, cpu)
    for k, number in ((0, 1.03), (2, 1.5), (4, float("nan"))):
        wrong = [number * part if i == k else part for i, part in enumerate(right)]
        answers = iter((right, wrong))
        monkeypatch.setattr("flashdqn.networks.boards.check.compute_all", lambda *_, told=answers: next(told))
        with pytest.raises(ExecutionError, match="differ by"):
            compare_with_twin(shape, cpu)


def test_the_source_is_written_for_a_board() -> None:
    shape = BoardShape(10, 10, 3, 3)
    assert (shape.positions, shape.image_bytes, shape.saved_bytes) == (112, 17536, 14336)
    source = write_source(shape)
    assert "m64n112k16" in source
    assert "m64n24k16" in source
    assert "-DROWS=10" in list_options(shape)
    assert multiply_function("f", 64, True).count('"+f"') == 32


def test_the_torso_is_saved_as_before() -> None:
    names = [name for name, _ in make_torso((3, 5, 5), 1).named_parameters()]
    assert names[:4] == ["stem.weight", "stem.bias", "blocks.0.norm1.weight", "blocks.0.norm1.bias"]
    assert set(make_torso((3, 5, 5), 1).state_dict()) == set(names)


def test_joined_streams_are_the_streams() -> None:
    dueling = Dueling(24, (16,), 4, 3, layer_norm=True, linear=nn.Linear)
    features = torch.randn(5, 24)
    value, advantage = apply_joined(dueling.value, dueling.advantage, features)  # type: ignore[arg-type]
    torch.testing.assert_close(value, apply_output_layer(dueling.value, features))
    torch.testing.assert_close(advantage, apply_output_layer(dueling.advantage, features))


def test_joined_weights_are_the_same_bits_with_and_without_a_gradient() -> None:
    weights = [torch.randn(3, 7), torch.randn(5, 7)]
    learned = join_rounded(weights, torch.bfloat16)
    with torch.no_grad():
        acted = join_rounded(weights, torch.bfloat16)
    assert learned.dtype == acted.dtype == torch.bfloat16
    assert torch.equal(learned, acted)
    assert torch.equal(learned[3:], weights[1].bfloat16())


@pytest.mark.skipif(not has_hopper(), reason="needs CUDA, on a Hopper GPU")
@pytest.mark.parametrize(
    ("shape", "blocks", "batch"),
    [((3, 10, 10), 3, 401), ((1, 8, 8), 1, 3), ((8, 5, 9), 2, 1000), ((3, 10, 10), 6, 64)],
)
def test_the_kernels_are_their_twin(shape: tuple[int, int, int], blocks: int, batch: int) -> None:
    torso, obs = make_torso(shape, blocks), torch.rand((batch, *shape))
    weights = torch.randn(batch, shape[1] * shape[2] * 64).bfloat16()
    found: dict[str, list[Tensor]] = {}
    for device in ("cpu", "cuda"):
        torso.to(device)
        features = compute_features(torso, obs.to(device))
        with torch.no_grad():
            assert torch.equal(features, compute_features(torso, obs.to(device)))
        gradients = torch.autograd.grad(features, list(torso.parameters()), weights.to(device))
        found[device] = [tensor.cpu() for tensor in (features, *gradients)]
    # Sums in another order are rounded to another bfloat16 now and then, and a ReLU opens or closes.
    assert relative_error(found["cuda"][0], found["cpu"][0]) < 0.01
    for ours, theirs in zip(found["cuda"][1:], found["cpu"][1:], strict=True):
        assert relative_error(ours, theirs) < 0.02 + 0.03 * blocks
