"""Observation spaces as one tensor per observation, with a record of what lies where.

Box            unchanged: float32, or uint8 where it is bytes up to 255 (the network reads those as 0 … 1)
Box, rank 3    an image, channels first; planes of booleans become bytes 0 and 255
Discrete       one-hot
MultiDiscrete  one-hot for each number
MultiBinary    0 and 1
Dict, Tuple    their parts one after the other, flat, as float32 (bytes up to 255 scaled to 0 … 1);
               a single part is encoded as if it were alone;
               with an image or a large Discrete, a row of bytes that the network decodes (`packing.py`)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import Space, spaces

from flashdqn.core.contract import ObsPart, ObsSpec
from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.config import Channels
from flashdqn.envs.gymnasium.packing import PackedRows, Storage, lay_out_fields
from flashdqn.envs.gymnasium.scaling import scale_parts

Array = npt.NDArray[Any]
MASK_KEY = "action_mask"
#: A Discrete of more values inside a Dict or Tuple is stored as a number and not as a one-hot vector.
MANY_VALUES = 256
#: A part of bytes with two axes, both at least this long, is an image in gray.
GRAY_SIDE = 8
#: The most numbers of an observation: a gigabyte as float32.
MOST_NUMBERS = 2**28


@dataclass(frozen=True)
class SpacePart:
    """One plain space inside the observation."""

    path: tuple[str | int, ...]  # keys and positions from the outermost space inwards
    kind: str  # how it was encoded
    shape: tuple[int, ...]  # of its numbers in the tensor
    dtype: npt.DTypeLike  # float32 or uint8
    given: tuple[int, ...]  # its own shape, as the environment returns it
    encode: Callable[[Array], Array]  # [N, *its own shape] → [N, *shape]
    counts: tuple[int, ...] = ()  # of the values of each number, where they become one-hot vectors
    number: Callable[[Array], Array] | None = None  # the same numbers, from 0: [N, len(counts)]

    @property
    def is_image(self) -> bool:
        """Whether convolutions should read it, inside a Dict or Tuple."""
        return len(self.shape) == 3 or self.is_gray

    @property
    def is_gray(self) -> bool:
        """Whether it is an image without an axis for channels."""
        return self.dtype == np.uint8 and len(self.shape) == 2 and min(self.shape) >= GRAY_SIDE


@dataclass(frozen=True)
class Place:
    """A line of the layout: which numbers of the tensor come from which part."""

    path: tuple[str | int, ...]
    kind: str
    begin: int
    end: int


class Encoder:
    """From batched observations of a Gymnasium space to one array."""

    def __init__(
        self, space: Space[Any], num_actions: int, channels: Channels = "auto", *, scale: bool = False
    ) -> None:
        self.mask_in_obs = _holds_mask(space, num_actions)
        self.parts = _list_parts(space, (), channels, self.mask_in_obs)
        if scale:
            self.parts = scale_parts(space, self.parts)
        if not self.parts:
            raise EnvError(f"The observation space {space} holds nothing to learn from.")
        if (count := sum(map(_part_width, self.parts))) > MOST_NUMBERS:
            raise EnvError(
                f"An observation of {count:,} numbers is too large, one-hot vectors included: {MOST_NUMBERS:,} are "
                "the most. Wrap the environment so that it returns less."
            )
        self.rows = _pack_parts(self.parts)
        if len(self.parts) == 1:
            shape, dtype = self.parts[0].shape or (1,), self.parts[0].dtype
        elif self.rows is not None:
            shape, dtype = (self.rows.nbytes,), np.uint8
        else:
            shape, dtype = (sum(map(_part_width, self.parts)),), np.float32
        self.spec = ObsSpec(shape, torch.uint8 if dtype == np.uint8 else torch.float32)
        self.layout = _make_layout(self.parts)

    def empty(self, count: int) -> Array:
        """An uninitialized array for `count` observations."""
        dtype = np.uint8 if self.spec.dtype == torch.uint8 else np.float32
        return np.empty((count, *self.spec.shape), dtype=dtype)

    def write(self, batch: Any, out: Array) -> None:
        """Encode a batch, as a vector environment returns it, into `out` [N, *spec.shape]."""
        if len(self.parts) == 1:
            part = self.parts[0]
            np.copyto(out, part.encode(find_part(batch, part.path)).reshape(out.shape), casting="unsafe")
            return
        if self.rows is not None:
            arrays = [(part.number or part.encode)(find_part(batch, part.path)) for part in self.parts]
            self.rows.write(arrays, out)
            return
        for part, place in zip(self.parts, self.layout, strict=True):
            numbers = part.encode(find_part(batch, part.path)).reshape(len(out), -1)
            if part.dtype == np.uint8:
                numbers = numbers / np.float32(255)
            out[:, place.begin : place.end] = numbers

    def floats(self, encoded: Array) -> Array | None:
        """The numbers among encoded observations that may be NaN, [N, …]; None if there are none."""
        if self.rows is not None:
            return self.rows.floats(encoded)
        return encoded if encoded.dtype == np.float32 else None

    def mask(self, batch: Any) -> Array | None:
        """The legal actions that the observation itself holds, [N, A] bool."""
        return np.asarray(batch[MASK_KEY]) != 0 if self.mask_in_obs else None


def _holds_mask(space: Space[Any], num_actions: int) -> bool:
    """Whether a Dict has an `action_mask` with a number for each action; this entry is not observed."""
    if not isinstance(space, spaces.Dict) or MASK_KEY not in space.spaces:
        return False
    mask = space.spaces[MASK_KEY]
    return isinstance(mask, spaces.Box | spaces.MultiBinary) and mask.shape == (num_actions,)


def _list_parts(
    space: Space[Any], path: tuple[str | int, ...], channels: Channels, without_mask: bool = False
) -> list[SpacePart]:
    if isinstance(space, spaces.Dict):
        inner: list[tuple[str | int, Space[Any]]] = list(space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        inner = list(enumerate(space.spaces))
    else:
        return [_make_part(space, path, channels)]
    kept = [(key, part) for key, part in inner if not (without_mask and key == MASK_KEY)]
    return [plain for key, part in kept for plain in _list_parts(part, (*path, key), channels)]


def _make_part(space: Space[Any], path: tuple[str | int, ...], channels: Channels) -> SpacePart:
    if isinstance(space, spaces.Box):
        return _box_part(space, path, channels)
    if isinstance(space, spaces.MultiBinary):
        return SpacePart(path, "binary", tuple(space.shape), np.float32, tuple(space.shape), np.asarray)
    if isinstance(space, spaces.Discrete):
        first, count = int(space.start), int(space.n)
        kind = f"one-hot of {count}"
        return SpacePart(
            path,
            kind,
            (count,),
            np.float32,
            (),
            lambda x: _one_hot(x, first, count),
            (count,),
            lambda x: np.asarray(x)[:, None] - first,
        )
    if isinstance(space, spaces.MultiDiscrete):
        counts, firsts = space.nvec.reshape(-1), space.start.reshape(-1)
        return SpacePart(
            path,
            f"one-hots of {', '.join(map(str, counts))}",
            (sum(map(int, counts)),),
            np.float32,
            tuple(space.shape),
            lambda x: _one_hots(x, firsts, counts),
            tuple(map(int, counts)),
            lambda x: np.asarray(x).reshape(len(x), -1) - firsts,
        )
    where = f" (at {'.'.join(map(str, path))})" if path else ""
    raise EnvError(
        f"Observations of the kind {type(space).__name__}{where} have no fixed size, and a Q-network needs one: "
        "wrap the environment so that it returns a Box, Discrete, MultiBinary, MultiDiscrete, Dict or Tuple."
    )


def _box_part(space: spaces.Box, path: tuple[str | int, ...], channels: Channels) -> SpacePart:
    shape = tuple(space.shape)
    if 0 in shape:
        raise EnvError(f"An observation of shape {list(shape)} is empty: there is nothing to learn from.")
    is_bool, is_bytes = space.dtype == np.bool_, space.dtype == np.uint8 and bool((space.high > 1).any())
    planes = len(shape) == 3
    kept = np.uint8 if is_bytes or (is_bool and planes) else np.float32
    if not planes:
        return SpacePart(path, "bytes" if is_bytes else "numbers", shape, kept, shape, np.asarray)
    scale = 255 if is_bool else 1
    if channels == "first" or (channels == "auto" and shape[0] < min(shape[1:])):
        return SpacePart(path, "image", shape, kept, shape, lambda x: x * np.uint8(scale) if scale > 1 else x)
    moved = (shape[2], shape[0], shape[1])

    def to_front(x: Array) -> Array:
        x = x.transpose(0, 3, 1, 2)
        return x * np.uint8(scale) if scale > 1 else x

    return SpacePart(path, "image, channels moved to the front", moved, kept, shape, to_front)


def _one_hot(x: Array, first: int, count: int) -> Array:
    equal: Array = np.asarray(x)[:, None] - first == np.arange(count)
    return equal


def _one_hots(x: Array, firsts: Array, counts: Array) -> Array:
    numbers = np.asarray(x).reshape(len(x), -1)
    columns = [_one_hot(numbers[:, i], int(firsts[i]), int(counts[i])) for i in range(len(counts))]
    return np.concatenate(columns, axis=1)


def _pack_parts(parts: list[SpacePart]) -> PackedRows | None:
    """How several parts are packed into rows of bytes; None if flat numbers suit them."""
    if len(parts) == 1 or not any(
        part.is_image or max(part.counts, default=0) > MANY_VALUES for part in parts
    ):
        return None
    described: list[tuple[ObsPart, Storage, tuple[int, ...]]] = []
    for part in parts:
        name = ".".join(map(str, part.path))
        if part.counts:
            described.append((ObsPart(name, "one-hot", part.shape), "numbers", part.counts))
            continue
        storage: Storage = "bytes" if part.dtype == np.uint8 else "floats"
        if part.is_image:
            shape = (1, *part.shape) if part.is_gray else part.shape
            described.append((ObsPart(name, "image", shape), storage, ()))
        else:
            described.append((ObsPart(name, "vector", (_part_width(part),)), storage, ()))
    return PackedRows(lay_out_fields(described))


def _part_width(part: SpacePart) -> int:
    return math.prod(part.shape)


def _make_layout(parts: list[SpacePart]) -> tuple[Place, ...]:
    places, begin = [], 0
    for part in parts:
        places.append(Place(part.path, part.kind, begin, begin + _part_width(part)))
        begin += _part_width(part)
    return tuple(places)


def find_part(batch: Any, path: tuple[str | int, ...]) -> Array:
    """One plain part of an observation, or of a batch of observations."""
    for key in path:
        batch = batch[key]
    return np.asarray(batch)


def join_mask(mask: Any) -> Any:
    """A mask with an array for each part of an action, as one array; any other as it is."""
    try:
        if isinstance(mask, tuple | list) and any(np.ndim(part) for part in mask):
            return np.concatenate([np.asarray(part).reshape(-1) for part in mask])
    except ValueError:  # lists of several lengths in a part: refused by its form
        return mask
    return mask
