"""Which networks and losses the hand-written update knows, and a network as a list of layers."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import nn

from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, given_target, greedy_target
from flashdqn.learn.branching import BranchingHead
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.build import QNetwork
from flashdqn.networks.implicit import ImplicitQuantiles
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.outputs import BranchingDueling, Dueling, Stream
from flashdqn.networks.torsos import MLP


class LinearLayer(NamedTuple):
    """A layer and what follows it."""

    linear: nn.Linear | NoisyLinear
    parent: int  # the layer whose output is its input; −1: the observations
    norm: nn.LayerNorm | None = None
    hidden: bool = True  # ReLU follows

    @property
    def inputs(self) -> int:
        """Numbers that it takes."""
        return self.linear.inputs if isinstance(self.linear, NoisyLinear) else self.linear.in_features

    @property
    def outputs(self) -> int:
        """Numbers that it gives."""
        return self.linear.outputs if isinstance(self.linear, NoisyLinear) else self.linear.out_features


class LayerPlan(NamedTuple):
    """The layers of a network, parents first; the last one gives the head's numbers, or the advantages."""

    layers: list[LinearLayer]
    value: int = -1  # the layer that gives the values of a dueling network

    @property
    def is_noisy(self) -> bool:
        """Whether its layers are noisy."""
        return any(isinstance(layer.linear, NoisyLinear) for layer in self.layers)

    @property
    def is_plain(self) -> bool:
        """Whether it is a chain of plain layers."""
        chain = all(layer.parent == k - 1 and layer.norm is None for k, layer in enumerate(self.layers))
        return chain and not self.is_noisy


class UnknownPart(Exception):  # noqa: N818
    """What the hand-written update does not know, in words that follow "does not support"."""


def plan_layers(network: nn.Module) -> LayerPlan:
    """The layers of an MLP with its output; UnknownPart if the network is anything else. Types must match exactly,
    because a subclass may compute something else."""
    if type(network) is not QNetwork:
        raise UnknownPart("a network that is not a QNetwork")
    if type(network.torso) is not MLP:
        raise UnknownPart(f"the torso {type(network.torso).__name__}, only MLPs")
    if network.decoder is not None:
        raise UnknownPart("observations that the network decodes")
    if network.normalizer is not None:
        raise UnknownPart("observations that the network normalizes")
    if not all(p.dtype == torch.float32 and p.device.type == "cpu" for p in network.parameters()):
        raise UnknownPart("weights that are not float32 on the CPU")
    layers: list[LinearLayer] = []
    end = add_chain(layers, list(network.torso.layers), -1)
    output = network.output
    if type(output) is Dueling:
        value = add_stream(layers, output.value, end)
        add_stream(layers, output.advantage, end)
        return LayerPlan(layers, value)
    if isinstance(output, ImplicitQuantiles):
        raise UnknownPart("implicit quantiles")
    if isinstance(output, BranchingDueling):
        raise UnknownPart("actions in branches")
    add_stream(layers, output, end)
    return LayerPlan(layers)


def add_stream(layers: list[LinearLayer], stream: nn.Module, parent: int) -> int:
    """Add hidden layers and a last one; returns its number."""
    *hidden, last = list(stream) if type(stream) is Stream else [stream]
    parent = add_chain(layers, hidden, parent)
    layers.append(LinearLayer(check_linear(last), parent, hidden=False))
    return len(layers) - 1


def add_chain(layers: list[LinearLayer], modules: list[nn.Module], parent: int) -> int:
    """Add layers that each end with ReLU; returns the number of the last one."""
    while modules:
        linear, *modules = modules
        norm: nn.LayerNorm | None = None
        if modules and type(modules[0]) is nn.LayerNorm:
            norm, modules = modules[0], modules[1:]
            if len(norm.normalized_shape) != 1 or not norm.elementwise_affine or norm.eps != 1e-5:
                raise UnknownPart("a layer norm that is not PyTorch's default")
        if not modules or type(modules[0]) is not nn.ReLU:
            raise UnknownPart("hidden layers that do not end with ReLU")
        modules = modules[1:]
        layers.append(LinearLayer(check_linear(linear), parent, norm))
        parent = len(layers) - 1
    return parent


def check_linear(module: nn.Module) -> nn.Linear | NoisyLinear:
    """A plain or a noisy layer, with a bias."""
    if type(module) is NoisyLinear or (type(module) is nn.Linear and module.bias is not None):
        return module
    raise UnknownPart(f"the layer {type(module).__name__}")


def plain_mlp_layers(network: nn.Module) -> list[nn.Linear]:
    """The layers of a plain MLP from first to last; empty if the network is anything else."""
    try:
        plan = plan_layers(network)
    except UnknownPart:
        return []
    return [cast(nn.Linear, layer.linear) for layer in plan.layers] if plan.is_plain else []


def explain_unknown(network: nn.Module, head: Head, bootstrap: Bootstrap) -> str | None:
    """The part that the hand-written update does not know, in words that follow "does not support"; None if it
    knows all of them."""
    try:
        plan_layers(network)
        check_head(head)
    except UnknownPart as unknown:
        return str(unknown)
    if bootstrap is given_target and type(head) is not ScalarHead:
        return "returns of rollouts with a head of many numbers"
    if bootstrap in (greedy_target, double_target, given_target) or type(bootstrap) is Munchausen:
        return None
    return "your own bootstrap"


def check_head(head: Head) -> None:
    """Raise UnknownPart if the head is not one of the three that are known."""
    if isinstance(head, BranchingHead):
        raise UnknownPart("actions in branches")
    if isinstance(head, ImplicitQuantileHead):
        raise UnknownPart("implicit quantiles")
    if type(head) not in (ScalarHead, CategoricalHead, QuantileHead):
        raise UnknownPart("your own head")
