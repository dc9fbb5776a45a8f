"""What a script has learned so far, as a short digest: two runs that compute the same have the same digests."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from .counters import catch_failures
from .trial_rows import Digest

SAMPLE = 256
MOST_OPTIMIZERS = 4

digests: list[Digest] = []
_numbers: dict[int, int] = {}
_held: list[Any] = []
"""Kept, so that their identities are not used again."""
_steps: dict[int, int] = {}


@catch_failures
def note_step(optimizer: Any) -> None:
    """After each step of an optimizer; its first, second, fourth … step is digested."""
    key = id(optimizer)
    number = _numbers.get(key)
    if number is None:
        if len(_numbers) >= MOST_OPTIMIZERS:
            return
        number = _numbers[key] = len(_numbers)
        _held.append(optimizer)
    steps = _steps[key] = _steps.get(key, 0) + 1
    if steps & (steps - 1) == 0:
        digests.append(digest_parameters(number, steps, optimizer))


def digest_parameters(number: int, steps: int, optimizer: Any) -> Digest:
    """The digest of all parameters of an optimizer."""
    torch = sys.modules["torch"]
    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    total = hashlib.blake2b(digest_size=12)
    values: list[float] = []
    with torch.no_grad():
        each = max(1, SAMPLE // max(len(parameters), 1))
        for parameter in parameters:
            flat = parameter.reshape(-1).cpu()
            total.update(read_bytes(torch, flat))
            stride = max(1, flat.numel() // each)
            values += [float(value) for value in flat[::stride][:each].double().tolist()]
    return Digest(number, steps, total.hexdigest(), tuple(values))


def read_bytes(torch: Any, flat: Any) -> bytes:
    """All bits of a vector on the host."""
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    try:
        return bytes(flat.contiguous().view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError):  # a torch without numpy
        return repr(flat.double().tolist()).encode()
