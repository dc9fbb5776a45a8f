"""Which networks the kernels support, and whether the kernels can run here."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flashdqn.networks.build import QNetwork
from flashdqn.networks.torsos import MLP

WIDTHS = (32, 64, 128, 256, 512)
MOST_INPUTS, MOST_ACTIONS = 256, 32


def is_interpreted() -> bool:
    """Whether Triton runs in its interpreter, on the CPU: for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def fused_available() -> bool:
    """Whether the kernels can run here."""
    if importlib.util.find_spec("triton") is None:
        return False
    if is_interpreted():
        return True
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


@dataclass(frozen=True)
class Sizes:
    """Inputs, hidden widths and actions of a two-layer MLP."""

    inputs: int
    hidden1: int
    hidden2: int
    actions: int

    @property
    def parameters(self) -> int:
        """The number of all weights and biases."""
        d, h1, h2, a = self.inputs, self.hidden1, self.hidden2, self.actions
        return h1 * (d + 1) + h2 * (h1 + 1) + a * (h2 + 1)


def mlp_sizes(network: nn.Module) -> Sizes | None:
    """The sizes, if the kernels support the network; else None."""
    if not isinstance(network, QNetwork) or type(network.torso) is not MLP:
        return None
    if network.decoder is not None or network.normalizer is not None:
        return None
    layers = [*network.torso.layers, network.output]
    if [type(layer) for layer in layers] != [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]:
        return None
    first, second, third = (layer for layer in layers if isinstance(layer, nn.Linear))
    parameters = list(network.parameters())
    if len(parameters) != 6 or any(parameter.dtype != torch.float32 for parameter in parameters):
        return None
    sizes = Sizes(first.in_features, first.out_features, second.out_features, third.out_features)
    known = sizes.hidden1 in WIDTHS and sizes.hidden2 in WIDTHS
    return sizes if known and sizes.inputs <= MOST_INPUTS and sizes.actions <= MOST_ACTIONS else None


def flat_view(network: nn.Module) -> Tensor:
    """The vector that the parameters are views of; they must lie in it side by side, in their order."""
    parameters = [parameter.detach() for parameter in network.parameters()]
    place = parameters[0].data_ptr()
    for parameter in parameters:
        if parameter.data_ptr() != place or not parameter.is_contiguous():
            raise ValueError("The network's parameters must lie side by side, as `Flat` places them.")
        place += 4 * parameter.numel()
    return parameters[0].as_strided((sum(parameter.numel() for parameter in parameters),), (1,))
