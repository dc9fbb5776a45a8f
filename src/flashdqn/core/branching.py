"""Actions in branches: one choice in each of several dimensions, as in Gymnasium's MultiDiscrete.

Everything that stores or moves an action sees one number, as for plain actions: it counts the combinations, the
last branch fastest. With branches of 3 and 2 choices, (2, 1) is action 5. Values and masks have one entry for each
choice, branch after branch: here 3 + 2 = 5 entries, and an environment's `num_actions` is 5.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flashdqn.core.errors import EnvError

#: An action number is an int64, with room for what kernels add to it.
MOST_COMBINATIONS = 2**62
#: Parts of an action: as many dimensions as an array of NumPy has. And the choices in all of them.
MOST_PARTS, MOST_CHOICES = 64, 2**24


class ActionBranches:
    """The branches of an action, with their constants on one device.

    Most methods work on rows: [B, D, M], one row for each of D branches, padded to the M choices of the largest.
    """

    def __init__(self, sizes: tuple[int, ...], device: torch.device | str = "cpu") -> None:
        self.sizes, self.device = sizes, torch.device(device)
        self.count, self.largest = len(sizes), max(sizes)
        begins = [sum(sizes[:k]) for k in range(len(sizes))]
        inside = [[k < size for k in range(self.largest)] for size in sizes]
        places = [
            begin + (k if k < size else 0)
            for begin, size in zip(begins, sizes, strict=True)
            for k in range(self.largest)
        ]
        strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        self._inside = torch.tensor(inside, device=device)  # [D, M]: not padding
        self._places = torch.tensor(places, device=device)  # [D · M]: where a row's entries come from
        self._begins = torch.tensor(begins, device=device)  # [D]
        self._strides = torch.tensor(strides, device=device)  # [D]
        self._sizes = torch.tensor(sizes, device=device)  # [D]
        self.padded = min(sizes) < self.largest

    def to_choices(self, action: Tensor) -> Tensor:
        """The choice in each branch, [B, D], of action numbers, [B]."""
        return action[:, None] // self._strides % self._sizes

    def to_action(self, choice: Tensor) -> Tensor:
        """The action numbers, [B], of choices, [B, D]."""
        return (choice * self._strides).sum(1)

    def to_entries(self, choice: Tensor) -> Tensor:
        """Where the chosen entries of values and masks are, [B, D]."""
        return choice + self._begins

    def to_rows(self, entries: Tensor) -> Tensor:
        """Entries by choice, [B, A, …], as rows, [B, D, M, …]; padding repeats another entry.

        The batch is `shape[0]` and not `len(…)`, which an exported graph would take for a constant.
        """
        shape = entries.shape[0], self.count, self.largest, *entries.shape[2:]
        return entries.index_select(1, self._places).reshape(shape)

    def mask_rows(self, mask: Tensor | None, count: int) -> Tensor | None:
        """The legal choices, [B, D, M] bool, of a mask, [B, A]; None if every entry of a row is legal."""
        if mask is not None:
            return self.to_rows(mask) & self._inside
        return self._inside.expand(count, -1, -1) if self.padded else None

    def choose_best(self, q: Tensor, mask: Tensor | None) -> Tensor:
        """The best legal choice in each branch, [B, D]."""
        rows, legal = self.to_rows(q), self.mask_rows(mask, q.shape[0])
        if legal is None:
            return rows.argmax(2)
        best = rows.masked_fill(~legal, -float("inf")).argmax(2)
        return torch.minimum(best, self._sizes - 1)  # where a branch has no legal choice, the episode is over

    def choose_random(self, mask: Tensor | None, luck: Tensor) -> Tensor:
        """A random legal choice in each branch, [B, D], by random numbers in [0, 1), [D, B]."""
        luck = luck.T
        if mask is None:
            return torch.minimum((luck * self._sizes).to(torch.int64), self._sizes - 1)
        legal = self.to_rows(mask) & self._inside
        count = legal.sum(2)
        nth = torch.minimum((luck * count).to(torch.int64), count - 1)
        # the first choice at which the count of legal ones exceeds `nth`
        return (legal.cumsum(2) > nth[..., None]).to(torch.uint8).argmax(2)


def check_branches(name: str, sizes: tuple[int, ...]) -> None:
    """Refuse branches whose combinations cannot be counted by an action number, or that are too many."""
    bits = sum(math.log2(max(1, size)) for size in sizes)  # a product of many would take minutes
    if bits > 100 or math.prod(sizes) > MOST_COMBINATIONS:
        raise EnvError(
            f"{name} has actions of {len(sizes)} parts with more than 2^62 combinations, the most that can be "
            "numbered: wrap the environment so that an action has fewer parts, or fewer choices in each."
        )
    if len(sizes) > MOST_PARTS or sum(sizes) > MOST_CHOICES:
        raise EnvError(
            f"{name} has actions of {len(sizes):,} parts with {sum(sizes):,} choices, and {MOST_PARTS} parts with "
            f"{MOST_CHOICES:,} choices are the most: wrap the environment so that an action has fewer."
        )
