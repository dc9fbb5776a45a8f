"""Heads that learn the distribution of the return: by the probabilities of fixed atoms (C51), by quantiles at
fixed fractions (QR-DQN), or by quantiles at any fraction (IQN)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.networks.implicit import Fractions

#: How much less likely, as a power of e, the farthest atoms are at first.
LEAST_LIKELY = 8.0


class CategoricalHead:
    """Probabilities of `atoms` returns in equal steps from v_min to v_max (C51: Bellemare et al. 2017).

    The output is logits, [B, A · atoms]; a value is the logits of one action, [B, atoms].
    """

    fractions = None

    def __init__(self, atoms: int, v_min: float, v_max: float, device: torch.device) -> None:
        self.size, self.v_min = atoms, v_min
        self.step = (v_max - v_min) / (atoms - 1)  # Δz
        self.support = torch.linspace(v_min, v_max, atoms, device=device)  # z, [atoms]

    def start_at_zero(self) -> Tensor:
        """What the biases of the logits begin with, [atoms]: returns near 0 are likely, and each atom farther away
        is e times less so.

        For networks that explore by noise alone. If all atoms were equally likely, they would begin with the value
        in the middle of the support. On Snake that is 150, more than they ever reach: staying alive is worth more
        than any food until many copies into the target have discounted that away, and no ε finds food meanwhile.
        """
        nearest = min(max(0.0, self.v_min), self.v_min + self.step * (self.size - 1))
        return -((self.support - nearest).abs() / self.step).clamp(max=LEAST_LIKELY)

    def q(self, output: Tensor) -> Tensor:
        """Σ_i z_i p_i(s, a), [B, A]."""
        return self._by_action(output).softmax(2) @ self.support

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """The logits of one action, [B, atoms]."""
        return gather_action(self._by_action(output), action)

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """The mixture Σ_a π(a) p(s, a), as logits, [B, atoms]."""
        return (policy[..., None] * self._by_action(output).softmax(2)).sum(1).log()

    def mean(self, value: Tensor) -> Tensor:
        """Σ_i z_i p_i, [B]."""
        return value.softmax(1) @ self.support

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Probabilities of the atoms nearest to reward + discount · z, [B, atoms]."""
        return project_distribution(value.softmax(1), reward, discount, self.support, self.v_min, self.step)

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy; priority is KL(target ‖ value), which differs by the target's own entropy (Rainbow)."""
        loss = -(target * value.log_softmax(1)).sum(1)
        entropy = -torch.special.xlogy(target, target).sum(1)
        return loss, (loss.detach() - entropy).clamp(min=0)

    def _by_action(self, output: Tensor) -> Tensor:
        return output.reshape(output.shape[0], -1, self.size)  # [B, A, atoms]


def project_distribution(
    probability: Tensor, reward: Tensor, discount: Tensor, support: Tensor, v_min: float, step: float
) -> Tensor:
    """Φ T z: shift and shrink the atoms, then share each one's probability between its two neighbors.

    Bellemare et al. 2017, algorithm 1. `discount` is that of the transition, so n-step returns and
    terminations are right by construction.
    """
    last = len(support) - 1
    shifted = torch.addcmul(reward[:, None], discount[:, None], support)  # [B, atoms]
    place = ((shifted - v_min) / step).clamp(0, last)
    if place.device.type == "cuda":
        return project_without_scatter(probability, place)
    lower = place.floor()
    upper_share = probability * (place - lower)
    index = lower.to(torch.int64)
    projected = torch.zeros_like(probability).scatter_add(1, index, probability - upper_share)
    return projected.scatter_add(1, (index + 1).clamp(max=last), upper_share)


def project_without_scatter(probability: Tensor, place: Tensor) -> Tensor:
    """Project without scattering. On CUDA, scattering adds in an order that changes, and the same seed would not
    give the same weights. Atom j gets the part of each probability that lies within one step of it, [B, atoms]."""
    atoms = torch.arange(probability.shape[1], device=place.device)
    near = (1 - (place[:, None, :] - atoms[:, None]).abs()).clamp(min=0)  # [B, atoms j, atoms i]
    return (near * probability[:, None, :]).sum(2)


class QuantileHead:
    """The quantiles of the return at the midpoints of N equal shares (QR-DQN: Dabney et al. 2018a).

    The output is quantiles, [B, A · N]; a value is the quantiles of one action, [B, N].
    """

    fractions = None

    def __init__(self, quantiles: int, huber: float, device: torch.device) -> None:
        self.size, self.huber = quantiles, huber
        self.tau = (torch.arange(quantiles, device=device) + 0.5) / quantiles  # τ̂, [N]

    def q(self, output: Tensor) -> Tensor:
        """The mean of the quantiles, [B, A]."""
        return self._by_action(output).mean(2)

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """The quantiles of one action, [B, N]."""
        return gather_action(self._by_action(output), action)

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """Σ_a π(a) θ_i(s, a) for each quantile, [B, N], as in M-IQN."""
        return (policy[..., None] * self._by_action(output)).sum(1)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of the quantiles, [B]."""
        return value.mean(1)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """reward + discount · θ_j, [B, N]."""
        return torch.addcmul(reward[:, None], discount[:, None], value)

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The quantile Huber loss and the mean absolute error."""
        return quantile_huber_loss(value, self.tau.expand_as(value), target, self.huber)

    def _by_action(self, output: Tensor) -> Tensor:
        return output.reshape(output.shape[0], -1, self.size)  # [B, A, N]


class ImplicitQuantileHead:
    """The quantiles of the return at random fractions (IQN: Dabney et al. 2018b).

    The output is that of `ImplicitQuantiles`, [B, 1 + n, A + 1]: the means in row 0, then a row per fraction, which
    stands in the last column. A value is [B, n, 2]: the quantiles of one action and their fractions.
    """

    size = 1

    def __init__(self, fractions: Fractions, huber: float) -> None:
        self.fractions, self.huber = fractions, huber

    def q(self, output: Tensor) -> Tensor:
        """The mean over the fractions that choose, [B, A]."""
        return output[:, 0, :-1]

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """Quantiles of one action and their fractions, [B, n, 2]."""
        rows = output[:, 1:]
        column = action[:, None, None].expand(-1, rows.shape[1], 1)
        return torch.cat((rows.gather(2, column), rows[..., -1:]), 2)

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """Σ_a π(a) Z_τ(s, a) for each fraction, with the fractions, [B, n, 2] (Vieillard et al. 2020, M-IQN)."""
        rows = output[:, 1:]
        mixed = (policy[:, None] * rows[..., :-1]).sum(2, keepdim=True)
        return torch.cat((mixed, rows[..., -1:]), 2)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of the quantiles, [B]."""
        return value[..., 0].mean(1)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """reward + discount · Z_τ', [B, N']."""
        return torch.addcmul(reward[:, None], discount[:, None], value[..., 0])

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The quantile Huber loss and the mean absolute error."""
        return quantile_huber_loss(value[..., 0], value[..., 1].detach(), target, self.huber)


def quantile_huber_loss(value: Tensor, tau: Tensor, target: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """Σ_i mean_j |τ_i − 1{u_ij < 0}| L_κ(u_ij) / κ with u_ij = target_j − value_i, and mean_ij |u_ij|; [B] each.

    Dabney et al. 2018a, eq. 9 and 10, divided by κ as in 2018b, eq. 3. κ = 0 is quantile regression proper.
    """
    shape = (*value.shape, target.shape[1])
    ours, theirs = value[:, :, None].expand(shape), target[:, None, :].expand(shape)  # [B, N, N']
    error = theirs - ours.detach()
    share = (tau[:, :, None] - (error < 0).to(tau.dtype)).abs()
    if kappa > 0:
        share = share / kappa
        size = F.huber_loss(ours, theirs, reduction="none", delta=kappa)
    else:
        size = F.l1_loss(ours, theirs, reduction="none")
    return (share * size).mean(2).sum(1), error.abs().mean((1, 2))


def gather_action(by_action: Tensor, action: Tensor) -> Tensor:
    """One action's row, [B, A, n] → [B, n]."""
    index = action[:, None, None].expand(-1, 1, by_action.shape[2])
    return by_action.gather(1, index).squeeze(1)
