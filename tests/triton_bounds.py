"""In Triton's interpreter, let no kernel read or write outside the tensors that it was given.

The interpreter follows addresses as they come. A kernel that reads past a tensor's end, and drops what it read,
gives the right answer there; on a GPU it may end the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class OutsideError(Exception):
    """A kernel went outside its tensors."""


def find_ranges(values: Any) -> list[tuple[int, int]]:
    """The first address of each tensor's storage, and the first after it."""
    if isinstance(values, torch.Tensor):
        storage = values.untyped_storage()
        return [(storage.data_ptr(), storage.data_ptr() + storage.nbytes())]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [one for value in values for one in find_ranges(value)]
    return []


def count_outside(addresses: np.ndarray, ranges: list[tuple[int, int]]) -> int:
    """How many of the addresses lie in no range."""
    first, last = (np.array(ends, np.uint64) for ends in zip(*sorted(ranges), strict=True))
    which = np.searchsorted(first, addresses, side="right").astype(np.int64) - 1
    return int(((which < 0) | (addresses >= last[np.maximum(which, 0)])).sum())


def watch_bounds() -> None:
    """From now on, in this process, a kernel that goes outside its tensors ends in an `OutsideError`."""
    from triton.runtime import interpreter

    ranges: list[tuple[int, int]] = []
    executor, builder = interpreter.GridExecutor, interpreter.InterpreterBuilder
    find_arguments, load, store = (
        executor._init_args_hst,
        builder.create_masked_load,
        builder.create_masked_store,
    )

    def check(what: str, pointers: Any, mask: Any) -> None:
        addresses = np.broadcast_to(pointers.data, mask.data.shape)[mask.data.astype(bool)].astype(np.uint64)
        outside = count_outside(addresses.ravel(), ranges)
        if outside:
            raise OutsideError(f"a kernel {what} {outside} of {addresses.size} numbers outside its tensors")

    def find_ranges_too(self: Any, *given: Any) -> Any:
        found = find_arguments(self, *given)
        ranges[:] = find_ranges(list(found))
        return found

    def load_inside(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        check("reads", pointers, mask)
        return load(self, pointers, mask, *rest, **named)

    def store_inside(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        check("writes", pointers, mask)
        return store(self, pointers, value, mask, *rest, **named)

    executor._init_args_hst = find_ranges_too
    builder.create_masked_load = load_inside
    builder.create_masked_store = store_inside
