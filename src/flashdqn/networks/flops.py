"""How much arithmetic a forward pass is."""

from __future__ import annotations

import torch
from torch import nn

from flashdqn.core.contract import ObsSpec
from flashdqn.networks.build import QNetwork
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.outputs import Dueling
from flashdqn.networks.torsos import MLP


def count_flops(network: nn.Module, obs_spec: ObsSpec) -> int:
    """Floating-point operations of the products for one observation: two for each multiplication and addition."""
    if type(network) is not QNetwork or type(network.torso) is not MLP or network.decoder is not None:
        return count_any_flops(network, obs_spec)
    if type(network.output) not in (nn.Linear, NoisyLinear, Dueling):
        return count_any_flops(network, obs_spec)
    sizes = [layer.weight.numel() for layer in network.modules() if isinstance(layer, nn.Linear)]
    sizes += [layer.weight_mean.numel() for layer in network.modules() if isinstance(layer, NoisyLinear)]
    return 2 * sum(sizes)


def count_any_flops(network: nn.Module, obs_spec: ObsSpec) -> int:
    """The same for any network. PyTorch's counter takes a second to load."""
    from torch.utils.flop_counter import FlopCounterMode

    device = next((parameter.device for parameter in network.parameters()), None)
    obs = torch.zeros((1, *obs_spec.shape), dtype=obs_spec.dtype, device=device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(obs)
    return int(counter.get_total_flops())
