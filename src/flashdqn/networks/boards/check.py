"""The kernels beside their twin on random boards, before a training relies on them."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.core.errors import ExecutionError
from flashdqn.networks.boards.kernels import CHANNELS, BoardShape
from flashdqn.networks.boards.operators import go_back_through_boards, read_boards
from flashdqn.networks.boards.packing import (
    pack_layers,
    pack_stem,
    pack_transposed,
    unpack_biases,
    unpack_layers,
    unpack_stem,
)

#: More than the warp groups of a block, so that some carry two boards and some none.
BOARDS = 5
#: Relative distances that rounding does not explain: another order of sums opens or closes a ReLU now and then.
FEATURES_APART, GRADIENTS_APART = 0.02, 0.25


def compare_with_twin(shape: BoardShape, device: torch.device) -> None:
    """Raise ExecutionError if the kernels on a device answer otherwise than their twin on the CPU."""
    wanted, found = (compute_all(shape, where) for where in (torch.device("cpu"), device))
    for k, (right, ours) in enumerate(zip(wanted, found, strict=True)):
        apart = float((ours - right).norm() / right.norm())
        if not apart < (GRADIENTS_APART if k else FEATURES_APART):  # NaN is not less either
            raise ExecutionError(f"its kernels and their twin differ by {apart:.1%} on this GPU")


def compute_all(shape: BoardShape, device: torch.device) -> list[Tensor]:
    """Features and gradients of the same random numbers on any device: stem, layers, biases, normalizations."""
    generator = torch.Generator().manual_seed(1)

    def draw(*size: int, scale: float = 1.0) -> Tensor:
        return (scale * torch.randn(size, generator=generator)).to(device)

    obs = draw(BOARDS, shape.inputs, shape.rows, shape.columns)
    stem = draw(CHANNELS, shape.inputs, 3, 3, scale=(9 * shape.inputs) ** -0.5)
    layers = draw(shape.layers, CHANNELS, CHANNELS, 3, 3, scale=(9 * CHANNELS) ** -0.5)
    constants = draw(shape.norms, 3, CHANNELS, scale=0.3)
    constants[:, 1] += 1
    gradient = draw(BOARDS, shape.cells * CHANNELS).to(torch.bfloat16)
    features, *saved = read_boards(obs, pack_stem(stem), pack_layers(layers), constants)
    norms, layer_parts, stem_parts, biases = go_back_through_boards(
        gradient, pack_transposed(layers), constants, *saved, list(shape)
    )
    results = (
        features,
        unpack_stem(stem_parts, shape.inputs),
        unpack_layers(layer_parts),
        unpack_biases(biases, *layer_parts.shape[:2]),
        norms.sum(0),
    )
    return [result.float().cpu() for result in results]
