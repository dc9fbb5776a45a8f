"""Find the number in a ring that is not finite: which environment gave it, and when."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.replay.ring import Kind, Ring

#: Rows that are looked at together: a replay may be large.
ROWS = 1024


class BadNumber(NamedTuple):
    """A number that is NaN or infinite."""

    what: str  # "an observation" or "a reward"
    value: float
    env: int
    later: int  # transitions that were stored after it


def find_bad_number(ring: Ring) -> BadNumber | None:
    """The oldest number that is not finite; None if all are. Reads the whole ring: only for an error."""
    used = ring.used_rows()
    age = (int(ring.head) - torch.arange(used)) % ring.rows  # [used]: 0 is the newest row
    found = []
    for what, column in (("a reward", ring.reward[:used]), ("an observation", ring.obs[:used])):
        if column.is_floating_point() and len(places := _find_bad_rows(column)):
            row, env = places[age[places[:, 0]].argmax()].tolist()
            numbers = column[row, env].reshape(-1)
            found.append((int(age[row]), BadNumber(what, float(numbers[~numbers.isfinite()][0]), env, 0)))
    if not found:
        return None
    # An observation comes with the reward of the row before it: of two in one row it is the older.
    oldest, bad = max(found, key=lambda pair: (pair[0], pair[1].what == "an observation"))
    after = age[age > 0] < oldest + (bad.what == "an observation")
    later = ring.kind[:used].cpu()[age > 0][after]
    return bad._replace(later=int((later != int(Kind.RESET)).sum()))


def _find_bad_rows(column: Tensor) -> Tensor:
    """Rows and environments with a number that is not finite, [K, 2], on the CPU."""
    parts = [(~part.flatten(2).isfinite()).any(2) for part in torch.split(column[:, :, None], ROWS)]
    return torch.cat(parts).nonzero().cpu()
