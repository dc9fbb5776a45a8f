"""One network in its several roles: the target, the policy that collects, the evaluation without randomness."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from flashdqn.networks.build import QNetwork
from flashdqn.networks.implicit import ImplicitQuantiles


def make_target(online: nn.Module, chooses: bool = True) -> nn.Module:
    """A frozen copy, as a target network; `chooses` unless the online network chooses the action (double)."""
    target = copy.deepcopy(online).requires_grad_(False)
    for module in target.modules():
        if isinstance(module, ImplicitQuantiles):
            module.become_target(chooses)
    return target


def make_policy(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """The network as the collector calls it: with its noise, and only the quantiles needed to choose."""
    if not isinstance(network, QNetwork) or not isinstance(network.output, ImplicitQuantiles):
        return network
    output = network.output
    return lambda obs: output.policy(network.features(obs))


def set_fraction_generator(generator: torch.Generator, *networks: nn.Module) -> None:
    """Set the generator from which networks with implicit quantiles draw their fractions."""
    for network in networks:
        for module in network.modules():
            if isinstance(module, ImplicitQuantiles):
                module.generator = generator


@contextmanager
def mean_mode(network: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Without noise and with fixed fractions, as in `network.eval()`; afterwards the mode is restored."""
    if not isinstance(network, nn.Module):
        yield
        return
    before = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(before)
