"""How much arithmetic a forward pass is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.core.contract import ObsSpec
from flashdqn.networks.build import QNetwork
from flashdqn.networks.cells import SpatialAttention
from flashdqn.networks.fused.fit import use_plain_layers
from flashdqn.networks.noisy import NoisyLinear

#: Where the classes of modules come from whose products are known.
KNOWN = ("torch.nn.", "flashdqn.networks.")


def count_flops(network: nn.Module, obs_spec: ObsSpec) -> int:
    """Floating-point operations of the products for one observation: two for each multiplication and addition."""
    ours = type(network) is QNetwork
    if ours and all(type(module).__module__.startswith(KNOWN) for module in network.modules()):
        return count_known_flops(network, obs_spec)
    return count_any_flops(network, obs_spec)


def count_known_flops(network: nn.Module, obs_spec: ObsSpec) -> int:
    """The same by what the layers are given and answer: PyTorch's counter takes seconds to load."""
    total = 0

    def count(layer: nn.Module, given: tuple[Tensor, ...], answer: Any) -> None:
        nonlocal total
        if isinstance(layer, nn.Linear):
            total += 2 * answer.numel() * layer.in_features
        elif isinstance(layer, NoisyLinear):
            total += 2 * answer.numel() * layer.weight_mean.shape[1]
        elif isinstance(layer, nn.Conv2d):
            total += 2 * answer.numel() * layer.weight[0].numel()
        elif isinstance(layer, SpatialAttention):
            total += 2 * answer.numel() * layer.score.out_features  # the heads' sums over cells

    hooks = [module.register_forward_hook(count) for module in network.modules()]
    try:
        run_once(network, obs_spec)
    finally:
        for hook in hooks:
            hook.remove()
    return total


def count_any_flops(network: nn.Module, obs_spec: ObsSpec) -> int:
    """The same for any network, by PyTorch's counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run_once(network, obs_spec)
    return int(counter.get_total_flops())


def run_once(network: nn.Module, obs_spec: ObsSpec) -> None:
    """A forward pass over one observation, layer by layer: what is fused does not call its layers."""
    device = next((parameter.device for parameter in network.parameters()), None)
    obs = torch.zeros((1, *obs_spec.shape), dtype=obs_spec.dtype, device=device)
    with torch.no_grad(), use_plain_layers(network):
        network(obs)
