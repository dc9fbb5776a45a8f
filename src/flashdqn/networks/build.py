"""Put a network together from its configuration, the observations and the head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from flashdqn.config import NetworkConfig
from flashdqn.envs.contract import ObsSpec
from flashdqn.networks.torsos import CNN, MLP


class QNetwork(nn.Module):
    """Torso, then one linear layer to the head's numbers. Bytes are read as 0 … 1."""

    def __init__(self, torso: MLP | CNN, outputs: int) -> None:
        super().__init__()
        self.torso = torso
        self.output = nn.Linear(torso.features, outputs)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, *obs] → [B, outputs]."""
        numbers = obs.to(self.output.weight.dtype)
        if obs.dtype == torch.uint8:
            numbers = numbers / 255
        return self.output(self.torso(numbers))  # type: ignore[no-any-return]


def build_network(
    config: NetworkConfig, obs_spec: ObsSpec, outputs: int, generator: torch.Generator
) -> QNetwork:
    """A network on the CPU, with weights drawn from `generator`."""
    shape = obs_spec.shape
    with torch.random.fork_rng(devices=[]):  # PyTorch's own initialisation draws from the global generator
        if config.torso == "cnn" or (config.torso == "auto" and len(shape) == 3):
            torso: MLP | CNN = CNN(shape, config.channels, config.hidden, config.layer_norm)
        else:
            torso = MLP(shape, config.hidden, config.layer_norm)
        network = QNetwork(torso, outputs)
    initialise(network, generator)
    return network


@torch.no_grad()
def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's own default, U(−1/√fan_in, 1/√fan_in), but from an explicit generator."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            module.weight.uniform_(-bound, bound, generator=generator)
            if module.bias is not None:
                module.bias.uniform_(-bound, bound, generator=generator)
