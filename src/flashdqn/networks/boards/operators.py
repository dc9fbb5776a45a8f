"""The kernels as operators of PyTorch, `torch.ops.flashdqn`: torch.compile and CUDA graphs can hold them. On a CPU
their twin answers. They have no gradient of their own; `torso.py` gives it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flashdqn.networks.boards.kernels import (
    CHANNELS,
    BoardShape,
    SavedBoards,
    launch_backward,
    launch_forward,
    make_saved,
    plan_backward,
)
from flashdqn.networks.boards.twin import act_twin, go_back_twin

Four = tuple[Tensor, Tensor, Tensor, Tensor]
Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]

LIBRARY: Any = torch.library.Library("flashdqn", "FRAGMENT")  # type: ignore[no-untyped-call]
LIBRARY.define("act_on_boards(Tensor obs, Tensor stem, Tensor layers, Tensor constants) -> Tensor")
LIBRARY.define(
    "read_boards(Tensor obs, Tensor stem, Tensor layers, Tensor constants) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
LIBRARY.define(
    "go_back_through_boards(Tensor gradient, Tensor layers, Tensor constants, Tensor inputs, Tensor before, "
    "Tensor after, Tensor stats, int[] sizes) -> (Tensor, Tensor, Tensor, Tensor)"
)


def find_shape(obs: Tensor, layers: Tensor) -> BoardShape:
    """What the kernels are compiled for, from their arguments."""
    _, inputs, rows, columns = obs.shape
    return BoardShape(rows, columns, inputs, len(layers) // 2)


def _act(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Tensor:
    return launch_forward(find_shape(obs, layers), obs, stem, layers, constants, save=False)[0]


def _act_on_cpu(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Tensor:
    return act_twin(obs, stem, layers, constants)[0]


def _act_shape(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Tensor:
    return obs.new_empty((len(obs), find_shape(obs, layers).cells * CHANNELS), dtype=layers.dtype)


def _read(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Five:
    features, saved = launch_forward(find_shape(obs, layers), obs, stem, layers, constants, save=True)
    assert saved is not None
    return features, *saved


def _read_on_cpu(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Five:
    features, saved = act_twin(obs, stem, layers, constants)
    return features, *saved


def _read_shape(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> Five:
    features, shape = _act_shape(obs, stem, layers, constants), find_shape(obs, layers)
    if obs.device.type == "cuda":
        return features, *make_saved(shape, len(obs), obs.device)
    planes = (len(obs), CHANNELS, shape.rows, shape.columns)
    before, after = obs.new_empty((shape.norms, *planes)), obs.new_empty((shape.layers, *planes))
    return features, torch.empty_like(obs), before, after, obs.new_empty((shape.norms, len(obs), 2))


def _go_back(
    gradient: Tensor,
    layers: Tensor,
    constants: Tensor,
    inputs: Tensor,
    before: Tensor,
    after: Tensor,
    stats: Tensor,
    sizes: list[int],
) -> Four:
    saved = SavedBoards(inputs, before, after, stats)
    return tuple(launch_backward(BoardShape(*sizes), gradient, layers, constants, saved))  # type: ignore[return-value]


def _go_back_on_cpu(
    gradient: Tensor,
    layers: Tensor,
    constants: Tensor,
    inputs: Tensor,
    before: Tensor,
    after: Tensor,
    stats: Tensor,
    sizes: list[int],
) -> Four:
    return tuple(go_back_twin(gradient, layers, constants, SavedBoards(inputs, before, after, stats)))  # type: ignore[return-value]


def _go_back_shape(
    gradient: Tensor,
    layers: Tensor,
    constants: Tensor,
    inputs: Tensor,
    before: Tensor,
    after: Tensor,
    stats: Tensor,
    sizes: list[int],
) -> Four:
    shape, slices = BoardShape(*sizes), (1, 1, 1)
    if gradient.device.type == "cuda":
        slices = plan_backward(shape, len(gradient), gradient.device)
    return (
        constants.new_empty((slices[0], shape.norms, 2, CHANNELS)),
        constants.new_empty((shape.layers, slices[1], CHANNELS, 9, CHANNELS)),
        constants.new_empty((slices[2], CHANNELS, 3, 24)),
        constants.new_empty((shape.layers * slices[1] + slices[2], 3, CHANNELS)),
    )


for _name, _cuda, _cpu, _shape in (
    ("act_on_boards", _act, _act_on_cpu, _act_shape),
    ("read_boards", _read, _read_on_cpu, _read_shape),
    ("go_back_through_boards", _go_back, _go_back_on_cpu, _go_back_shape),
):
    LIBRARY.impl(_name, _cuda, "CUDA")
    LIBRARY.impl(_name, _cpu, "CPU")
    torch.library.register_fake(f"flashdqn::{_name}", _shape, lib=LIBRARY)

act_on_boards = torch.ops.flashdqn.act_on_boards
read_boards = torch.ops.flashdqn.read_boards
go_back_through_boards = torch.ops.flashdqn.go_back_through_boards
