"""Prioritized replay (Schaul et al. 2016, proportional variant): large errors are sampled more often.

A transition's weight in the tree is p_i = (|δ_i| + ε)^α, and it is drawn with probability P(i) = p_i / Σ_j p_j
(their equation 1). The loss of each sample is multiplied by the importance weight of their section 3.4,

    w_i = (N · P(i))^−β / max_j (N · P(j))^−β = (min_j p_j / p_i)^β,

in which N, the number of transitions, and Σ p cancel. The maximum is taken over the batch. Over the whole ring it
would belong to the one transition that happens to have almost no error: weights then fall by orders of magnitude
as errors do, Adam's second moment remembers the larger gradients of before, and learning stalls.

Several ranks have a tree each and draw the same number of samples from it, so p_i / Σ p takes the place of p_i, and
the maximum is taken over the batches of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.core.types import Batch
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import Pick, SamplerBase
from flashdqn.replay.sum_tree import SumTree, TorchSumTree, cuda_width, tree_bytes
from flashdqn.replay.sum_tree_cpu import WIDTH, NumbaSumTree

#: What an infinite error counts as. So sums stay finite until the divergence is noticed.
LARGEST_ERROR = 1e30


class PrioritizedSampler(SamplerBase):
    """Draws by priority. It must be told of every append to the ring, from the start.

    A row gets a weight once its n-step window is complete: the largest so far, so everything new is sampled soon.
    It loses the weight when the ring opens the row again, or overwrites a frame of its stack. Rows that are not
    transitions never get one. So each append changes two rows: the head (or, with stacks, the row that loses a
    frame), and the row n before the head.
    """

    wants_priorities = True

    def __init__(
        self,
        ring: Ring,
        n_step: int,
        gamma: float,
        generator: torch.Generator,
        *,
        alpha: float,
        beta: float,
        eps: float,
    ) -> None:
        super().__init__(ring, n_step, gamma, generator)
        self.alpha, self.eps = alpha, eps
        self.tree = make_tree(ring.rows * ring.num_envs, ring.device)
        self.beta = torch.tensor(beta, device=ring.device)
        self.largest = torch.ones((), device=ring.device)  # p of the first transitions, as in the paper
        #: p of new transitions; ranks agree on it when they draw
        self.entering = self.largest
        self.ranks = ALONE  # the processes of the training, each with its own tree
        self._rows = torch.zeros((2, ring.num_envs), device=ring.device)  # weights: lost (0), new

    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """`count` batches in one, each stratified separately: sample k comes from the k-th of `size` equal slices
        of the mass. All are drawn before any of them is learned from.

        Drawing together spreads the cost of search and gather. Priorities may lag by up to `count` updates, which
        is little beside the age of most priorities in the ring. The importance weights use the probabilities with
        which the samples were really drawn, so the correction stays exact.
        """
        levels, device = self.tree.levels, self.ring.device
        draw = torch.rand((count, size), dtype=torch.float64, device=device, generator=self.generator)
        slices = torch.arange(size, device=device)
        index = self.tree.find(((draw + slices) * (levels.total / size)).view(-1))
        priority = levels.leaves[index].view(count, size)
        weight = (
            self._weigh_with_others(priority) if self.ranks.many else importance_weights(priority, self.beta)
        )
        return Batch(gather_transitions(self.ring, index, self.n_step, self.gamma), weight.view(-1), index)

    def join(self, ranks: Ranks) -> None:
        """Weigh samples, and let transitions enter, by the smallest and largest p of all ranks."""
        self.ranks, self.entering = ranks, self.largest.clone()

    def _weigh_with_others(self, priority: Tensor) -> Tensor:
        """The same among the batches of all ranks; one exchange also brings the largest p."""
        chance = priority / self.tree.levels.total.to(priority.dtype)
        least = torch.cat((chance.amin(1), -self.largest[None].to(chance.dtype)))
        self.ranks.minimum_(least)
        self.entering.copy_(-least[-1])
        return importance_weights(chance, self.beta, least[:-1, None])

    def update(self, index: Tensor, priority: Tensor) -> None:
        """p_i = (|δ_i| + ε)^α. If a row has several errors, the largest counts. Rows that lost their weight since
        they were drawn stay without one."""
        error = priority.detach().to(torch.float32).abs()
        weight = error.nan_to_num_(0.0, LARGEST_ERROR).add_(self.eps).pow_(self.alpha)
        torch.maximum(self.largest, weight.amax(), out=self.largest)
        self.tree.set(index, weight * (self.tree.levels.leaves[index] > 0))

    def appended(self) -> None:
        """Drop the weight of the oldest transition; give one to the row n before the head, now complete."""
        ring = self.ring
        lost = (ring.head + (ring.stack - 1)) % ring.rows  # [1]
        ready = (ring.head - self.n_step) % ring.rows  # [1]
        kind = ring.kind.index_select(0, ready)[0]
        enters = (kind != int(Kind.RESET)) & (ring.filled >= self.n_step)
        torch.mul(enters, self.entering, out=self._rows[1])
        self.tree.set_rows(torch.cat((lost, ready)) * ring.num_envs, self._rows)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights, a tensor on the device."""
        self.beta.fill_(beta)

    def state_dict(self) -> dict[str, Tensor]:
        """The weights of the rows in use; the sums follow from them."""
        used = self.ring.used_rows() * self.ring.num_envs
        state = {"weight": self.tree.levels.leaves[:used], "largest": self.largest, "beta": self.beta}
        return state | {"entering": self.entering} if self.ranks.many else state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken."""
        leaves = self.tree.levels.leaves.zero_()
        leaves[: len(state["weight"])].copy_(state["weight"])
        self.tree.rebuild()
        self.largest.copy_(state["largest"])
        self.entering.copy_(state.get("entering", self.largest) if self.ranks.many else self.largest)
        self.beta.copy_(state["beta"])


def importance_weights(priority: Tensor, beta: Tensor, least: Tensor | None = None) -> Tensor:
    """(min_j p_j / p_i)^β with the minimum over each row, [batches, size], or with a given one, [batches, 1].

    Only an empty tree gives rows without priority: those samples get weight 0.
    """
    least = priority.amin(1, keepdim=True) if least is None else least
    return torch.where(priority > 0, (least / priority) ** beta, 0.0)


def make_tree(slots: int, device: torch.device) -> SumTree:
    """Numba's tree on the CPU, where it is faster; torch's elsewhere."""
    return NumbaSumTree(slots) if device.type == "cpu" else TorchSumTree(slots, device)


def priority_bytes(slots: int, device: torch.device) -> int:
    """Bytes that the tree over `slots` slots will take."""
    return tree_bytes(slots, WIDTH if device.type == "cpu" else cuda_width(slots))
