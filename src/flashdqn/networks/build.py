"""Build a network from its configuration, the observations and the numbers that the head needs."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flashdqn.compute.device import format_bytes, free_bytes
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import Decoder, ObsPart, ObsSpec, get_parts
from flashdqn.core.errors import ConfigError
from flashdqn.networks.branches import Branches
from flashdqn.networks.cells import CellDueling, CellNet, CellOutput, SpatialAttention, require_cells
from flashdqn.networks.implicit import Fractions, ImplicitQuantiles
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.normalize import ObsNormalizer, make_normalizer
from flashdqn.networks.outputs import BranchingDueling, Dueling, apply_output_layer, make_stream
from flashdqn.networks.parts import PartNetworks
from flashdqn.networks.pixels import Impala, Nature, is_screen
from flashdqn.networks.torsos import CNN, MLP, MakeLinear, ResidualBlock, ResNet
from flashdqn.networks.user_network import build_user_torso, is_user_torso

#: What is allocated for each weight: online, target, gradient, Adam's two moments, and one while they are built.
COPIES = 6
#: A user's torso is any module with `features`.
Torso = MLP | CNN | ResNet | Nature | Impala | Branches | PartNetworks | CellNet | nn.Module


class InputSpec(NamedTuple):
    """What a network reads."""

    shape: tuple[int, ...]  # without the batch axis
    parts: tuple[ObsPart, ...] = ()  # of a Dict or a Tuple, if each is read by its own layers


class OutputSpec(NamedTuple):
    """What a head needs."""

    num_actions: int
    size: int = 1  # numbers per action
    fractions: Fractions | None = None
    branches: tuple[int, ...] = ()


class QNetwork(nn.Module):
    """Torso, then the output layer. Bytes are read as 0 … 1, unless the environment has a decoder for them."""

    def __init__(self, torso: Torso, output: nn.Module, decoder: Decoder | None = None) -> None:
        super().__init__()
        self.torso = torso
        self.output = output
        self.decoder = decoder  # not a module: no weights, and all roles share it
        self.normalizer: ObsNormalizer | None
        self.register_module("normalizer", None)

    def features(self, obs: Tensor) -> Tensor:
        """[B, *obs] → [B, F]."""
        if self.decoder is not None:
            return self.torso(self.decoder(obs))  # type: ignore[no-any-return]
        numbers = obs / 255 if obs.dtype == torch.uint8 else obs.to(torch.float32)
        if self.normalizer is not None:
            numbers = self.normalizer(numbers)
        return self.torso(numbers)  # type: ignore[no-any-return]

    def forward(self, obs: Tensor, fractions: Tensor | None = None) -> Tensor:
        """[B, *obs] → [B, A · size]; with implicit quantiles [B, 1 + n, A + 1], at given fractions or random
        ones."""
        if isinstance(self.output, ImplicitQuantiles):
            return self.output(self.features(obs), fractions)  # type: ignore[no-any-return]
        return apply_output_layer(self.output, self.features(obs))


def build_network(
    config: NetworkConfig,
    obs_spec: ObsSpec,
    num_actions: int,
    generator: torch.Generator,
    size: int = 1,
    fractions: Fractions | None = None,
    decoder: Decoder | None = None,
    branches: tuple[int, ...] = (),
) -> QNetwork:
    """A network on the CPU that gives `size` numbers per action, with weights drawn from `generator`.

    With a decoder it takes observations as they are stored, and reads what the decoder returns for them. With
    `branches`, an action has several parts, and `num_actions` counts the choices in all of them.
    """
    wanted = OutputSpec(num_actions, size, fractions, branches)
    given = InputSpec(obs_spec.shape if decoder is None else decoder.shape, get_parts(decoder))
    linear: MakeLinear = nn.Linear
    if config.noisy:
        linear = functools.partial(NoisyLinear, sigma=config.noisy_sigma)
    if not is_user_torso(config.torso):
        with torch.random.fork_rng(devices=[]), torch.device("meta"):  # only the shapes, no memory
            check_weights_fit(_assemble_network(config, given, wanted, linear))
    with torch.random.fork_rng(devices=[]):  # PyTorch's own initialization draws from the global generator
        if is_user_torso(config.torso):
            seed = int(torch.randint(2**62, (1,), generator=generator))
            torso = build_user_torso(config.torso, given.shape, config.kwargs, seed)
            network = _assemble_user_torso(config, torso, wanted, linear)
        else:
            network = _assemble_network(config, given, wanted, linear)
    network.decoder = decoder
    if config.normalize:
        network.add_module("normalizer", make_normalizer(obs_spec, decoder))
    initialize_weights(network.output if is_user_torso(config.torso) else network, generator)
    return network


def check_weights_fit(network: nn.Module) -> None:
    """Refuse a network that does not fit into memory; it may lie on the meta device."""
    count = sum(parameter.numel() for parameter in network.parameters())
    needed, free = COPIES * 4 * count, free_bytes(torch.device("cpu"))
    if needed > 0.9 * free:
        raise ConfigError(
            f"A network of {count:,} weights would take {format_bytes(needed)} with its target and its optimizer, "
            f"but {format_bytes(free)} are free: lower --network.hidden, --network.channels or --network.width."
        )


def _assemble_network(
    config: NetworkConfig, given: InputSpec, wanted: OutputSpec, linear: MakeLinear
) -> QNetwork:
    shape = given.shape
    if config.torso == "cells":
        return _assemble_cells(config, shape, wanted, linear)
    kind = _torso_kind(config, given)
    branch = kind in ("branches", "parts")
    convolve = kind in ("cnn", "resnet", "nature", "impala")
    shared: tuple[int, ...] = config.hidden
    own: tuple[int, ...] = ()
    # As in the papers, the last hidden layer belongs to the streams of a dueling network, and comes after the
    # fractions of implicit quantiles. The only hidden layer of an MLP is shared anyway.
    if (config.dueling or wanted.fractions is not None) and (convolve or branch or len(config.hidden) > 1):
        shared, own = config.hidden[:-1], config.hidden[-1:]
    torso: Torso
    if kind == "parts":
        torso = PartNetworks(
            given.parts, config.channels, config.part_width, shared, config.layer_norm, linear
        )
    elif branch:
        torso = Branches(shape, config.branches, config.attention, shared, config.layer_norm, linear)
    elif kind == "nature":
        torso = Nature(shape, shared, config.layer_norm, linear)
    elif kind == "impala":
        torso = Impala(shape, config.width, shared, config.layer_norm, linear)
    elif convolve:
        planes = ResNet if kind == "resnet" else CNN
        torso = planes(shape, config.channels, shared, config.layer_norm, linear)
    else:
        torso = MLP(shape, shared, config.layer_norm, linear)
    return _add_output(config, torso, own, wanted, linear)


def _assemble_user_torso(
    config: NetworkConfig, torso: nn.Module, wanted: OutputSpec, linear: MakeLinear
) -> QNetwork:
    """A user's torso and our output. The torso's features are used as they are; only streams have their own hidden
    layer, the last of `network.hidden`."""
    own = config.hidden[-1:] if config.dueling or wanted.fractions is not None else ()
    return _add_output(config, torso, own, wanted, linear)


def _add_output(
    config: NetworkConfig, torso: Torso, own: tuple[int, ...], wanted: OutputSpec, linear: MakeLinear
) -> QNetwork:
    """The layers that give the head its numbers, with `own` hidden layers before the last."""
    features: int = torso.features  # type: ignore[assignment]
    num_actions, size, fractions, branches = wanted
    output: nn.Module
    if config.dueling and branches:
        output = BranchingDueling(features, own, branches, size, config.layer_norm, linear)
    elif config.dueling:
        output = Dueling(features, own, num_actions, size, config.layer_norm, linear)
    else:
        output = make_stream(features, own, num_actions * size, config.layer_norm, linear)
    if fractions is not None:
        output = ImplicitQuantiles(features, output, config.cosines, fractions)
    return QNetwork(torso, output)


def _torso_kind(config: NetworkConfig, given: InputSpec) -> str:
    """The configured torso, or the one that suits the observations."""
    if config.torso != "auto":
        return config.torso
    if given.parts:
        return "parts"
    if len(given.shape) != 3:
        return "mlp"
    return "nature" if is_screen(given.shape) else "cnn"


def _assemble_cells(
    config: NetworkConfig, shape: tuple[int, ...], wanted: OutputSpec, linear: MakeLinear
) -> QNetwork:
    """One value, or one distribution, for every cell; the last hidden layer belongs to the streams of a dueling
    network."""
    num_actions, size, fractions, branches = wanted
    require_cells(shape, num_actions, implicit=fractions is not None)
    if branches:
        raise ConfigError("The torso 'cells' needs actions of one part: use --network.torso auto.")
    shared, own = (config.hidden[:-1], config.hidden[-1:]) if config.dueling else (config.hidden, ())
    torso = CellNet(shape, config.channels, config.attention, shared, config.layer_norm, linear)
    kind = CellDueling if config.dueling else CellOutput
    return QNetwork(torso, kind(torso.features, own, size, config.layer_norm, linear))


@torch.no_grad()
def initialize_weights(network: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's own default, U(−1/√fan_in, 1/√fan_in), but from an explicit generator. Normalizations keep scale 1
    and shift 0, and the last convolution of a residual block starts at zero."""
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            module.initialize(generator)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(module.weight[0].numel())
            module.weight.uniform_(-bound, bound, generator=generator)
            if module.bias is not None:
                module.bias.uniform_(-bound, bound, generator=generator)
    for module in network.modules():  # after their convolutions
        if isinstance(module, ResidualBlock | SpatialAttention):
            module.start_as_skip()
