"""Put a network together from its configuration, the observations and the numbers that the head wants."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn

from flashdqn.config import NetworkConfig
from flashdqn.envs.contract import ObsSpec
from flashdqn.networks.branches import Branches
from flashdqn.networks.implicit import Fractions, ImplicitQuantiles
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.outputs import Dueling, answer, make_stream
from flashdqn.networks.torsos import CNN, MLP, MakeLinear, ResidualBlock, ResNet


class QNetwork(nn.Module):
    """Torso, then the output layer. Bytes are read as 0 … 1."""

    def __init__(self, torso: MLP | CNN | ResNet | Branches, output: nn.Module) -> None:
        super().__init__()
        self.torso = torso
        self.output = output

    def features(self, obs: Tensor) -> Tensor:
        """[B, *obs] → [B, F]."""
        numbers = obs / 255 if obs.dtype == torch.uint8 else obs.to(torch.float32)
        return self.torso(numbers)  # type: ignore[no-any-return]

    def forward(self, obs: Tensor) -> Tensor:
        """[B, *obs] → [B, A · size]; with implicit quantiles [B, 1 + n, A + 1]."""
        if isinstance(self.output, ImplicitQuantiles):
            return self.output(self.features(obs))  # type: ignore[no-any-return]
        return answer(self.output, self.features(obs))


def build_network(
    config: NetworkConfig,
    obs_spec: ObsSpec,
    num_actions: int,
    generator: torch.Generator,
    size: int = 1,
    fractions: Fractions | None = None,
) -> QNetwork:
    """A network on the CPU that gives `size` numbers per action, with weights drawn from `generator`."""
    linear: MakeLinear = nn.Linear
    if config.noisy:
        linear = functools.partial(NoisyLinear, sigma=config.noisy_sigma)
    with torch.random.fork_rng(devices=[]):  # PyTorch's own initialisation draws from the global generator
        network = _assemble(config, obs_spec.shape, num_actions, size, fractions, linear)
    initialise(network, generator)
    return network


def _assemble(
    config: NetworkConfig,
    shape: tuple[int, ...],
    num_actions: int,
    size: int,
    fractions: Fractions | None,
    linear: MakeLinear,
) -> QNetwork:
    branch = config.torso == "branches"
    convolve = config.torso in ("cnn", "resnet") or (config.torso == "auto" and len(shape) == 3)
    shared: tuple[int, ...] = config.hidden
    own: tuple[int, ...] = ()
    # As in the papers, the last hidden layer belongs to the streams of a dueling network, and comes after the
    # fractions of implicit quantiles. The only hidden layer of an MLP is shared all the same.
    if (config.dueling or fractions is not None) and (convolve or branch or len(config.hidden) > 1):
        shared, own = config.hidden[:-1], config.hidden[-1:]
    torso: MLP | CNN | ResNet | Branches
    if branch:
        torso = Branches(shape, config.branches, config.attention, shared, config.layer_norm, linear)
    elif convolve:
        kind = ResNet if config.torso == "resnet" else CNN
        torso = kind(shape, config.channels, shared, config.layer_norm, linear)
    else:
        torso = MLP(shape, shared, config.layer_norm, linear)
    output: nn.Module
    if config.dueling:
        output = Dueling(torso.features, own, num_actions, size, config.layer_norm, linear)
    else:
        output = make_stream(torso.features, own, num_actions * size, config.layer_norm, linear)
    if fractions is not None:
        output = ImplicitQuantiles(torso.features, output, config.cosines, fractions)
    return QNetwork(torso, output)


@torch.no_grad()
def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's own default, U(−1/√fan_in, 1/√fan_in), but from an explicit generator. Normalisations keep scale 1
    and shift 0, and the last convolution of a residual block starts at zero."""
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            module.initialise(generator)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            module.weight.uniform_(-bound, bound, generator=generator)
            if module.bias is not None:
                module.bias.uniform_(-bound, bound, generator=generator)
    for module in network.modules():  # after their convolutions
        if isinstance(module, ResidualBlock):
            module.start_as_skip()
