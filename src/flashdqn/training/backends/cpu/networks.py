"""Which networks and losses the hand-written update knows, and a network as a list of layers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import torch
from torch import nn

from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, given_target, greedy_target
from flashdqn.learn.branching import BranchingHead
from flashdqn.learn.distributional import CategoricalHead, ImplicitQuantileHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.networks.branches import Branch, BranchAttention, Branches
from flashdqn.networks.build import QNetwork
from flashdqn.networks.implicit import ImplicitQuantiles
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.outputs import BranchingDueling, Dueling, Stream
from flashdqn.networks.torsos import MLP


class Rows(NamedTuple):
    """Rows of a matrix of samples, [features, samples], from `first` on; matrix −1 holds the observations."""

    matrix: int
    first: int = 0


class LinearLayer(NamedTuple):
    """A layer and what follows it."""

    linear: nn.Linear | NoisyLinear
    reads: Rows
    writes: Rows
    norm: nn.LayerNorm | None = None
    follows: Literal["relu", "tanh", "nothing"] = "relu"
    repeat: int = 1  # how many parts it reads, one below the other, all with the same weights

    @property
    def inputs(self) -> int:
        """Numbers that it takes."""
        return self.linear.inputs if isinstance(self.linear, NoisyLinear) else self.linear.in_features

    @property
    def outputs(self) -> int:
        """Numbers that it gives."""
        return self.linear.outputs if isinstance(self.linear, NoisyLinear) else self.linear.out_features


class Attention(NamedTuple):
    """Branches are weighted: those of matrix `joined`, by the scores of a layer, into matrix `weighted`."""

    scores: int  # the layer; the network goes on after it
    widths: tuple[int, ...]
    joined: int
    weighted: int


class LayerPlan(NamedTuple):
    """The layers of a network, each after those that it reads; the last one gives the head's numbers, or the
    advantages."""

    layers: list[LinearLayer]
    heights: list[int]  # rows of the matrices that layers write
    inputs: int  # numbers in an observation
    value: int = -1  # the layer that gives the values of a dueling network
    attention: Attention | None = None

    @property
    def is_noisy(self) -> bool:
        """Whether its layers are noisy."""
        return any(isinstance(layer.linear, NoisyLinear) for layer in self.layers)

    @property
    def is_plain(self) -> bool:
        """Whether it is a chain of plain layers."""
        chain = all(
            (layer.reads, layer.writes, layer.norm, layer.repeat) == (Rows(k - 1), Rows(k), None, 1)
            for k, layer in enumerate(self.layers)
        )
        return chain and self.attention is None and not self.is_noisy


class UnknownPart(Exception):  # noqa: N818
    """What the hand-written update does not know, in words that follow "does not support"."""


def plan_layers(network: nn.Module) -> LayerPlan:
    """The layers of an MLP or of branches, with the output; UnknownPart if the network is anything else. Types must
    match exactly, because a subclass may compute something else."""
    if type(network) is not QNetwork:
        raise UnknownPart("a network that is not a QNetwork")
    if type(network.torso) not in (MLP, Branches):
        raise UnknownPart(f"the torso {type(network.torso).__name__}, only MLPs and branches")
    if network.decoder is not None:
        raise UnknownPart("observations that the network decodes")
    if network.normalizer is not None:
        raise UnknownPart("observations that the network normalizes")
    if not all(p.dtype == torch.float32 and p.device.type == "cpu" for p in network.parameters()):
        raise UnknownPart("weights that are not float32 on the CPU")
    planner, output = Planner(), network.output
    if type(network.torso) is MLP:
        end = planner.add_chain(list(network.torso.layers), Rows(-1))
    else:
        end = planner.add_branches(cast(Branches, network.torso))
    if type(output) is Dueling:
        value = planner.add_stream(output.value, end)
        planner.add_stream(output.advantage, end)
        return planner.finish(value)
    if isinstance(output, ImplicitQuantiles):
        raise UnknownPart("implicit quantiles")
    if isinstance(output, BranchingDueling):
        raise UnknownPart("actions in branches")
    planner.add_stream(output, end)
    return planner.finish()


class Planner:
    """Collects the layers of a network."""

    def __init__(self) -> None:
        self.layers: list[LinearLayer] = []
        self.heights: list[int] = []
        self.attention: Attention | None = None

    def finish(self, value: int = -1) -> LayerPlan:
        """All of them."""
        ends = [k.reads.first + k.inputs * k.repeat for k in self.layers if k.reads.matrix < 0]
        return LayerPlan(self.layers, self.heights, max(ends), value, self.attention)

    def add_matrix(self, height: int) -> int:
        """One more matrix that layers write."""
        self.heights.append(height)
        return len(self.heights) - 1

    def add_layer(
        self, linear: nn.Linear | NoisyLinear, reads: Rows, to: Rows | None = None, **more: Any
    ) -> Rows:
        """One more layer; returns where its output is: at `to`, or in a matrix of its own."""
        layer = LinearLayer(linear, reads, to or Rows(len(self.heights)), **more)
        if to is None:
            self.add_matrix(layer.outputs * layer.repeat)
        self.layers.append(layer)
        return layer.writes

    def add_stream(self, stream: nn.Module, reads: Rows) -> int:
        """Add hidden layers and a last one; returns its number."""
        *hidden, last = list(stream) if type(stream) is Stream else [stream]
        reads = self.add_chain(hidden, reads)
        self.add_layer(check_linear(last), reads, follows="nothing")
        return len(self.layers) - 1

    def add_chain(
        self, modules: list[nn.Module], reads: Rows, repeat: int = 1, to: Rows | None = None
    ) -> Rows:
        """Add layers that each end with ReLU; returns where the output of the last one is: at `to` if given."""
        while modules:
            linear, *modules = modules
            norm: nn.LayerNorm | None = None
            if modules and type(modules[0]) is nn.LayerNorm:
                norm, modules = modules[0], modules[1:]
                if len(norm.normalized_shape) != 1 or not norm.elementwise_affine or norm.eps != 1e-5:
                    raise UnknownPart("a layer norm that is not PyTorch's default")
                if repeat > 1:
                    raise UnknownPart("layer norm in branches of rows")
            if not modules or type(modules[0]) is not nn.ReLU:
                raise UnknownPart("hidden layers that do not end with ReLU")
            modules = modules[1:]
            place = None if modules else to
            reads = self.add_layer(check_linear(linear), reads, place, norm=norm, repeat=repeat)
        return reads

    def add_branches(self, torso: Branches) -> Rows:
        """Add branches, the attention over them, and the MLP after them."""
        widths = [int(cast(Branch, branch).features) for branch in torso.branches]
        joined = self.add_matrix(sum(widths))
        places = [Rows(joined, sum(widths[:k])) for k in range(len(widths))]
        begin = 0
        for branch, place in zip(cast("list[Branch]", torso.branches), places, strict=True):
            by_row, after = list(branch.by_row), list(branch.joined)
            if not by_row and not after:
                raise UnknownPart("branches without layers")
            rows = max(1, branch.spec.rows)
            reads = self.add_chain(by_row, Rows(-1, begin), rows, None if after else place)
            self.add_chain(after, reads, to=place)
            begin += branch.spec.size
        if torso.attention is not None:
            joined = self.add_attention(torso.attention, widths, places, joined)
        return self.add_chain(list(torso.mlp.layers), Rows(joined))

    def add_attention(
        self, attention: BranchAttention, widths: list[int], places: list[Rows], joined: int
    ) -> int:
        """Add keys and scores; returns the matrix of the weighted branches."""
        units = attention.score.in_features
        keys = self.add_matrix(units * len(widths))
        for k, (key, place) in enumerate(zip(attention.keys, places, strict=True)):
            self.add_layer(check_linear(key), place, Rows(keys, units * k), follows="tanh")
        self.add_layer(attention.score, Rows(keys), follows="nothing", repeat=len(widths))
        weighted = self.add_matrix(sum(widths))
        self.attention = Attention(len(self.layers) - 1, tuple(widths), joined, weighted)
        return weighted


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
