"""The residual torso's features by the kernels, with their gradient; and where that works."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from flashdqn.core.errors import ExecutionError
from flashdqn.networks.boards.check import compare_with_twin
from flashdqn.networks.boards.kernels import CHANNELS, BoardShape, load_kernels
from flashdqn.networks.boards.operators import (
    act_on_boards,
    find_shape,
    go_back_through_boards,
    read_boards,
)
from flashdqn.networks.boards.packing import (
    pack_layers,
    pack_stem,
    pack_transposed,
    unpack_biases,
    unpack_layers,
    unpack_stem,
)

if TYPE_CHECKING:
    from flashdqn.networks.torsos import ResNet


class BoardWeights:
    """The parameters of a residual torso as three tensors, which the operators take."""

    def __init__(self, torso: ResNet) -> None:
        layers: list[Any] = [
            getattr(block, name) for block in torso.blocks for name in ("convolution1", "convolution2")
        ]
        norms: list[Any] = [getattr(block, name) for block in torso.blocks for name in ("norm1", "norm2")]
        convolutions: list[Any] = [torso.stem, *layers]
        rows = zip(convolutions, (*norms, torso.norm), strict=True)
        self.stem = torso.stem.weight
        self.layers = torch.stack([layer.weight for layer in layers])
        vectors = [vector for c, n in rows for vector in (c.bias, n.weight, n.bias)]
        self.constants = torch.stack(vectors).view(-1, 3, CHANNELS)


def compute_features(torso: ResNet, obs: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """[B, C, H, W] → [B, cells · 64], as `ResNet` computes them before its MLP, in `dtype`."""
    weights = BoardWeights(torso)
    stem, layers, constants = weights.stem, weights.layers, weights.constants
    obs = obs.to(torch.float32).contiguous()
    with torch.no_grad():
        packed = pack_stem(stem.detach(), dtype), pack_layers(layers.detach(), dtype)
    if not torch.is_grad_enabled():
        return act_on_boards(obs, *packed, constants)  # type: ignore[no-any-return]
    features: Tensor = BoardFeatures.apply(obs, *packed, stem, layers, constants)[0]  # type: ignore[no-untyped-call]
    return features


class BoardFeatures(torch.autograd.Function):
    """`read_boards` with its gradient; in the form that torch.func and torch.compile can follow."""

    @staticmethod
    def forward(
        obs: Tensor, packed_stem: Tensor, packed: Tensor, stem: Tensor, layers: Tensor, constants: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Features of boards, and `SavedBoards`. The gradient goes to `stem`, `layers` and `constants`."""
        return read_boards(obs, packed_stem, packed, constants)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what the gradient needs."""
        obs, _, packed, _, layers, constants = inputs
        ctx.sizes, ctx.number_format = list(find_shape(obs, packed)), packed.dtype
        ctx.save_for_backward(layers, constants, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # otherwise large tensors of zeros are made for what is only saved

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *unused: object) -> tuple[Tensor | None, ...]:
        """The gradient of the parameters."""
        layers, constants, *saved = ctx.saved_tensors
        packed = pack_transposed(layers, ctx.number_format)
        parts = go_back_through_boards(gradient.contiguous(), packed, constants, *saved, ctx.sizes)
        norms, layer_parts, stem_parts, biases = parts
        stem = unpack_stem(stem_parts, ctx.sizes[2])
        rows = unpack_biases(biases, *layer_parts.shape[:2])
        constants = torch.cat((rows[:, None], norms.sum(0)), 1)
        return None, None, None, stem, unpack_layers(layer_parts), constants


def fits_boards(torso: ResNet, obs: Tensor) -> bool:
    """Whether the kernels may do this: they are ready, and it is in bfloat16 and without a gradient of the
    observation."""
    if not torso.uses_kernels or obs.device.type != "cuda" or obs.requires_grad:
        return False
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


def board_shape(shape: tuple[int, ...], channels: tuple[int, ...], layer_norm: bool) -> BoardShape | None:
    """What the kernels would be compiled for; None for a torso that they do not know: they know boards of up to
    10x10 cells and 8 planes, 64 channels everywhere, and normalization."""
    inputs, rows, columns = shape
    board = BoardShape(rows, columns, inputs, len(channels))
    fits = layer_norm and set(channels) == {CHANNELS} and inputs <= 8 and len(channels) <= 6
    return board if fits and board.positions <= 112 else None


def use_kernels(network: nn.Module, device: torch.device) -> None:
    """Let every torso of a network that the kernels know use them on this device, if they run there."""
    for module in network.modules():
        shape = getattr(module, "board_shape", None)
        if shape is not None and device.type == "cuda":
            module.uses_kernels = can_run_kernels(shape, device.index or 0)  # type: ignore[assignment]


@functools.cache
def can_run_kernels(shape: BoardShape, device: int) -> bool:
    """Whether the kernels compile and answer as their twin here: on a Hopper GPU. It takes a second or two."""
    if torch.cuda.get_device_capability(device) != (9, 0):
        return False
    try:
        load_kernels(shape, device)
        compare_with_twin(shape, torch.device("cuda", device))
    except ExecutionError as error:
        warnings.warn(f"The torso runs by PyTorch, because {error}.", stacklevel=2)
        return False
    return True
