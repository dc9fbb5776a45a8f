"""Which transitions the learner sees: `sample(n) → Batch`, `update(index, priority)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from flashdqn.core.types import Batch, Transition
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring

#: Draws per wanted sample. The first draw that is a transition wins, which is exactly uniform over
#: transitions; with an episode of length L a draw fails with probability 1/(L+1), so even where L = 2 only
#: one sample in eighty stays without and gets weight 0.
TRIES = 4


#: The batch that random numbers, [TRIES, B], choose from a ring.
Pick = Callable[[Tensor], Batch]


class Sampler(Protocol):
    """Draws batches from the ring and hears of their errors. `SamplerBase` has what most of them do alike."""

    #: whether `update` does anything with priorities
    wants_priorities: bool
    #: whether `batches` draws random numbers on the device, from the generator "replay"
    draws_on_device: bool
    #: rows that the ring must have taken before the first batch
    least_rows: int

    @property
    def uniform(self) -> UniformSampler | None:
        """The uniform sampler inside, whose `pick` a backend may run its own way; None where there is none."""

    def sample(self, size: int) -> Batch:
        """One batch of `size` transitions."""

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """`count` batches at once; `pick` does the work of `uniform.pick`, where there is a uniform sampler."""

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take the learner's priorities, [B], for what lay at `index`."""

    def appended(self) -> None:
        """Hear that the ring has taken one more row, once after every append. A graph can hold it, as it can
        `batches` and `update`: nothing in these depends on what only the host knows."""

    def rows_added(self) -> None:
        """What the host has to note of the same."""

    def drawing(self, count: int) -> None:
        """What the host has to do before `count` batches are drawn."""

    def draw_again(self) -> None:
        """Let what was drawn be drawn once more: a trial repeats the same work."""

    def set_beta(self, beta: float) -> None:
        """Correct for unequal chances with this exponent from now on."""

    def state_dict(self) -> dict[str, Tensor]:
        """What resuming needs besides the ring and the generator."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint, after the ring did."""


class SamplerBase(ABC):
    """A sampler that keeps nothing and wants no priorities; a kind of sampling adds `group`, and what it needs."""

    wants_priorities = False
    draws_on_device = True

    def __init__(self, ring: Ring, n_step: int, gamma: float, generator: torch.Generator) -> None:
        self.ring, self.n_step, self.gamma, self.generator = ring, n_step, gamma, generator
        self.least_rows = n_step + 3

    @property
    def uniform(self) -> UniformSampler | None:
        """Most do not draw uniformly."""
        return None

    @abstractmethod
    def group(self, count: int, size: int) -> Batch:
        """`count` batches of `size` transitions, one after the other in one large batch."""

    def sample(self, size: int) -> Batch:
        """One batch."""
        return self.group(1, size)

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """Drawn and gathered together: one large gather costs less than many small ones."""
        return split_batch(self.group(count, size), count, size)

    def update(self, index: Tensor, priority: Tensor) -> None:
        """No priorities."""

    def appended(self) -> None:
        """It looks at the ring when it samples."""

    def rows_added(self) -> None:
        """It keeps no count."""

    def drawing(self, count: int) -> None:
        """Nothing to prepare."""

    def draw_again(self) -> None:
        """It can always draw."""

    def set_beta(self, beta: float) -> None:
        """There is nothing to correct."""

    def state_dict(self) -> dict[str, Tensor]:
        """It keeps nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """It kept nothing."""


class UniformSampler(SamplerBase):
    """Every complete transition with the same probability, with replacement; weight 1."""

    @property
    def uniform(self) -> UniformSampler:
        """Itself."""
        return self

    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """One large batch; the ring must hold at least `n_step` complete rows."""
        bits = torch.empty((TRIES, count * size), dtype=torch.int64, device=self.ring.device)
        return (pick or self.pick)(bits.random_(generator=self.generator))

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """The same, in pieces."""
        return split_batch(self.group(count, size, pick), count, size)

    def pick(self, bits: Tensor) -> Batch:
        """The batch that random numbers, [TRIES, B], choose."""
        index, weight = choose_uniform_slots(self.ring, self.n_step, bits)
        return Batch(gather_transitions(self.ring, index, self.n_step, self.gamma), weight, index)


def split_batch(batch: Batch, count: int, size: int) -> list[Batch]:
    """One large batch as `count` of `size`; nothing is copied."""
    transition, weight, index, _ = batch
    columns = ([None] * count if x is None else torch.split(x, size) for x in transition)
    rows = (Transition(*row) for row in zip(*columns, strict=True))
    parts = zip(rows, torch.split(weight, size), torch.split(index, size), strict=True)
    return [Batch(*part) for part in parts]


def window_slots(ring: Ring, n_step: int, number: Tensor) -> Tensor:
    """Where the complete n-step windows start, numbered from the youngest row on, environment by environment."""
    newest = (ring.head - n_step) * ring.num_envs  # the row of the youngest complete window
    age, env = number // ring.num_envs, number % ring.num_envs
    return (newest - age * ring.num_envs) % (ring.rows * ring.num_envs) + env


def choose_uniform_slots(ring: Ring, n_step: int, bits: Tensor) -> tuple[Tensor, Tensor]:
    """Turn random 63-bit numbers, [TRIES, B], into starts of complete n-step windows, and their weights.

    The number of candidates is a tensor on the device; the remainder of 63 random bits has no bias worth
    the name, and unlike a float32 in [0, 1) it reaches every slot of a ring beyond 2^24.
    """
    candidates = (ring.readable - (n_step - 1)) * ring.num_envs
    slot = window_slots(ring, n_step, bits % candidates)
    valid = ring.kind.view(-1)[slot] != int(Kind.RESET)
    chosen = slot[-1]
    for k in reversed(range(len(slot) - 1)):  # the first valid draw wins
        chosen = torch.where(valid[k], slot[k], chosen)
    return chosen, valid.any(0).to(torch.float32)
