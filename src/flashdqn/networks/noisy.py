"""Noisy linear layers: exploration by learned noise on the weights (Fortunato et al. 2018, arXiv:1706.10295)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class NoisyLinear(nn.Module):
    """y = (μ_w + σ_w ⊙ f(ε_out) f(ε_in)ᵀ) x + μ_b + σ_b ⊙ f(ε_out), with f(ε) = sgn(ε) √|ε| (eq. 9 to 11).

    The noise is factorized: one number per input and one per output, kept in buffers with f applied. The learner
    calls `resample`; between two calls every forward sees the same noise. In evaluation mode
    (`network.eval()`) the noise is off, and the layer is plain with its means as weights.
    """

    noise_in: Tensor  # [inputs]: f(ε_in)
    noise_out: Tensor  # [outputs]: f(ε_out)

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__()
        self.inputs, self.outputs, self.sigma = inputs, outputs, sigma
        self.weight_mean = nn.Parameter(torch.empty(outputs, inputs))
        self.weight_sigma = nn.Parameter(torch.empty(outputs, inputs))
        self.bias_mean = nn.Parameter(torch.empty(outputs))
        self.bias_sigma = nn.Parameter(torch.empty(outputs))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """μ from U(−1/√p, 1/√p) and σ = σ₀/√p, with p inputs (section 3.2)."""
        bound = 1 / math.sqrt(self.inputs)
        for mean in (self.weight_mean, self.bias_mean):
            mean.uniform_(-bound, bound, generator=generator)
        for sigma in (self.weight_sigma, self.bias_sigma):
            sigma.fill_(self.sigma * bound)

    def forward(self, features: Tensor) -> Tensor:
        """[…, inputs] → […, outputs]."""
        if not self.training:
            return F.linear(features, self.weight_mean, self.bias_mean)
        noise = torch.outer(self.noise_out, self.noise_in)
        weight = torch.addcmul(self.weight_mean, self.weight_sigma, noise)
        bias = torch.addcmul(self.bias_mean, self.bias_sigma, self.noise_out)
        return F.linear(features, weight, bias)


class Noise:
    """All noise of several networks, drawn at once: the cost does not grow with the number of layers."""

    def __init__(self, networks: list[nn.Module], generator: torch.Generator) -> None:
        layers = [m for network in networks for m in network.modules() if isinstance(m, NoisyLinear)]
        self.buffers = [buffer for layer in layers for buffer in (layer.noise_in, layer.noise_out)]
        self.sizes = [len(buffer) for buffer in self.buffers]
        self.generator = generator

    @torch.no_grad()
    def resample(self) -> None:
        """Draw new, independent noise for every layer of every network."""
        eps = torch.randn(sum(self.sizes), generator=self.generator, device=self.generator.device)
        torch._foreach_copy_(self.buffers, torch.split(signed_root(eps), self.sizes))


def signed_root(eps: Tensor) -> Tensor:
    """f(ε) = sgn(ε) √|ε|."""
    return eps.abs().sqrt_().copysign_(eps)


def is_noisy(network: nn.Module) -> bool:
    """Whether any layer of it is noisy."""
    return any(isinstance(module, NoisyLinear) for module in network.modules())
