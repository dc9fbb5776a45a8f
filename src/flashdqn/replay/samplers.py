"""Which transitions the learner sees: `sample(n) → Batch`, `update(index, priority)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from flashdqn.compute.ranks import Ranks
from flashdqn.core.types import Batch, Transition
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring

#: Draws per sample. The first draw that is a transition wins, which is exactly uniform over transitions.
#: With an episode of length L a draw fails with probability 1/(L+1). So even with L = 2 only one sample in
#: eighty finds none and gets weight 0.
TRIES = 4


#: Turns random numbers, [TRIES, B], into the batch that they select from a ring.
Pick = Callable[[Tensor], Batch]


class Sampler(Protocol):
    """Draws batches from the ring and takes their priorities. `SamplerBase` has the common parts."""

    #: whether `update` does anything with priorities
    wants_priorities: bool
    #: whether `batches` draws random numbers on the device, from the generator "replay"
    draws_on_device: bool
    #: rows that the ring must have taken before the first batch
    least_rows: int

    @property
    def uniform(self) -> UniformSampler | None:
        """The uniform sampler inside, whose `pick` a backend may replace; None if there is none."""

    def sample(self, size: int) -> Batch:
        """One batch of `size` transitions."""

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """`count` batches at once; `pick` replaces `uniform.pick`, if there is a uniform sampler."""

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take the learner's priorities, [B], for the samples at `index`."""

    def appended(self) -> None:
        """Note that the ring has one more row, once after every append. A CUDA graph can hold this call, `batches`
        and `update`: none of them depends on something that only the host knows."""

    def rows_added(self) -> None:
        """The host's part of `appended`."""

    def drawing(self, count: int) -> None:
        """The host's part of drawing `count` batches, before they are drawn."""

    def draw_again(self) -> None:
        """Allow drawing the same again: a trial repeats its work."""

    def set_beta(self, beta: float) -> None:
        """Use this exponent from now on to correct for unequal probabilities."""

    def state_dict(self) -> dict[str, Tensor]:
        """What resuming needs besides the ring and the generator."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint; load the ring first."""


class SamplerBase(ABC):
    """A sampler without state and without priorities; subclasses add `group`, and what else they need."""

    wants_priorities = False
    draws_on_device = True

    def __init__(self, ring: Ring, n_step: int, gamma: float, generator: torch.Generator) -> None:
        self.ring, self.n_step, self.gamma, self.generator = ring, n_step, gamma, generator
        self.least_rows = n_step + 3

    @property
    def uniform(self) -> UniformSampler | None:
        """None: most samplers do not draw uniformly."""
        return None

    @abstractmethod
    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """`count` batches of `size` transitions, one after the other in one large batch; `pick` as in `batches`."""

    def sample(self, size: int) -> Batch:
        """One batch of `size` transitions."""
        return self.group(1, size)

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """Draw and gather together: one large gather costs less than many small ones."""
        return split_batch(self.group(count, size), count, size)

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Ignore priorities."""

    def appended(self) -> None:
        """Do nothing: it reads the ring when it samples."""

    def rows_added(self) -> None:
        """Do nothing: it does not count rows."""

    def drawing(self, count: int) -> None:
        """Do nothing: no preparation is needed."""

    def draw_again(self) -> None:
        """Do nothing: it can always draw."""

    def set_beta(self, beta: float) -> None:
        """Do nothing: all probabilities are equal."""

    def join(self, ranks: Ranks) -> None:
        """Do nothing: every rank draws from its own ring, and weighs its samples alone."""

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: it has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: it has no state."""


class UniformSampler(SamplerBase):
    """Draws every complete transition with the same probability, with replacement; weight 1."""

    @property
    def uniform(self) -> UniformSampler:
        """This sampler itself."""
        return self

    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """One large batch; the ring must hold at least `n_step` complete rows."""
        bits = torch.empty((TRIES, count * size), dtype=torch.int64, device=self.ring.device)
        return (pick or self.pick)(bits.random_(generator=self.generator))

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """The same large batch, split."""
        return split_batch(self.group(count, size, pick), count, size)

    def pick(self, bits: Tensor) -> Batch:
        """The batch that random numbers, [TRIES, B], select."""
        index, weight = choose_uniform_slots(self.ring, self.n_step, bits)
        return Batch(gather_transitions(self.ring, index, self.n_step, self.gamma), weight, index)


def split_batch(batch: Batch, count: int, size: int) -> list[Batch]:
    """Split one large batch into `count` batches of `size`; nothing is copied."""
    assert len(batch.weight) == count * size

    def split(column: Tensor | None) -> Sequence[Any]:
        return [None] * count if column is None else torch.split(column, len(column) // count)

    rows = (Transition(*row) for row in zip(*map(split, batch.transition), strict=True))
    parts = zip(rows, split(batch.weight), split(batch.index), split(batch.expert), strict=True)
    return [Batch(*part) for part in parts]


def window_slots(ring: Ring, n_step: int, number: Tensor) -> Tensor:
    """The slot where window `number` starts. Complete n-step windows are numbered from the youngest row back,
    environment by environment."""
    newest = (ring.head - n_step) * ring.num_envs  # the row of the youngest complete window
    age, env = number // ring.num_envs, number % ring.num_envs
    return (newest - age * ring.num_envs) % (ring.rows * ring.num_envs) + env


def choose_uniform_slots(ring: Ring, n_step: int, bits: Tensor) -> tuple[Tensor, Tensor]:
    """Turn random 63-bit numbers, [TRIES, B], into starts of complete n-step windows, and their weights.

    The number of candidates is a tensor on the device. The remainder of 63 random bits has a negligible bias,
    and unlike a float32 in [0, 1) it reaches every slot of a ring beyond 2^24.
    """
    candidates = (ring.readable - (n_step - 1)) * ring.num_envs
    slot = window_slots(ring, n_step, bits % candidates)
    valid = ring.kind.view(-1)[slot] != int(Kind.RESET)
    chosen = slot[-1]
    for k in reversed(range(len(slot) - 1)):  # the first valid draw wins
        chosen = torch.where(valid[k], slot[k], chosen)
    return chosen, valid.any(0).to(torch.float32)
