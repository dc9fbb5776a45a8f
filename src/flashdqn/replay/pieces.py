"""Pieces of experience: what one environment did in a few consecutive steps, as it travels to the replay.

An environment's life is a stream of *cells*. A cell completes a row of the ring and opens the next one:

     cell          0          1          2             3          4
     kind          RESET      STEP       TERMINATED    RESET      STEP
     action        -          a0         a1            -          a0'
     reward        -          r0         r1            -          r0'
     opens         s0         s1         s2 (last)     s0'        s1'

A piece is a run of such cells. It also carries the frames of the observation before its first cell. So the stream
can go on in another column of the ring, from any cell, without its beginning: these frames are placed first, in
rows that are not transitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flashdqn.replay.ring import Kind

Array = npt.NDArray[Any]


class EnvStream(NamedTuple):
    """Where a piece comes from: an environment, and which of its lives, if it had to be made again."""

    player: int
    life: int


@dataclass(frozen=True)
class Piece:
    """T consecutive cells of a stream, and the frames before them."""

    stream: EnvStream
    first: int  # the number of its first cell in the stream
    lead: int  # how many frames come before; 0 if the first cell is a reset
    frames: Array  # [lead + T, *frame]: of the observation before the first cell, then one for each cell
    masks: Array | None  # [1 + T, A] bool: of the observation before the first cell, then one for each cell
    ages: Array  # [T] uint8: frames of the same episode before each cell's own, as far as a stack reaches
    kinds: Array  # [T] uint8
    actions: Array  # [T] int64
    rewards: Array  # [T] float32
    versions: (
        Array  # [T] int64: the gradient steps of the weights that chose the action; of a reset, those of then
    )
    outcomes: Array  # [T, 2 + outcomes] float32: return, length and outcomes, where an episode ends in a cell

    def __len__(self) -> int:
        return len(self.kinds)

    def count_lead(self, cell: int) -> int:
        """How many frames must be placed before this cell, if the one before it is not there."""
        if self.kinds[cell] == Kind.RESET:
            return 0
        return int(self.ages[cell - 1]) + 1 if cell else self.lead

    def frame_after(self, cell: int) -> Array:
        """The frame that a cell opens its row with; −1 is the one before the first cell."""
        frame: Array = self.frames[self.lead + cell]
        return frame

    def mask_after(self, cell: int) -> Array | None:
        """The legal actions in the observation that a cell opens; −1 is the one before the first cell."""
        return None if self.masks is None else self.masks[cell + 1]


class PieceWriter:
    """Collects the cells of one environment into pieces, where it is played."""

    def __init__(self, stream: EnvStream, stack: int) -> None:
        self.stream, self.stack = stream, stack
        self.first = 0  # the number of the next piece's first cell
        self._context: list[Array] = []  # frames of the current observation, oldest first
        self._mask: Array | None = None
        self._cells: list[tuple[Any, ...]] = []
        self._start: tuple[list[Array], Array | None] = (self._context, self._mask)
        self._return, self._length = 0.0, 0

    def __len__(self) -> int:
        return len(self._cells)

    def add_reset(self, frame: Array, mask: Array | None, version: int, outcomes: int) -> None:
        """An episode has begun with this frame."""
        self._return, self._length = 0.0, 0
        self._add(int(Kind.RESET), 0, 0.0, frame, mask, version, np.zeros(2 + outcomes, np.float32))

    def add_step(
        self,
        kind: Kind,
        action: int,
        reward: float,
        frame: Array,
        mask: Array | None,
        version: int,
        outcomes: Array,
    ) -> None:
        """An action was taken; `outcomes` count if the episode ended."""
        self._return, self._length = self._return + reward, self._length + 1
        ended = kind in (Kind.TERMINATED, Kind.TRUNCATED)
        summed = np.array([self._return, self._length, *outcomes] if ended else [0.0] * (2 + len(outcomes)))
        self._add(int(kind), action, reward, frame, mask, version, summed.astype(np.float32))

    def _add(
        self,
        kind: int,
        action: int,
        reward: float,
        frame: Array,
        mask: Array | None,
        version: int,
        summed: Array,
    ) -> None:
        frame = frame.copy()
        self._context = [frame] if kind == Kind.RESET else [*self._context, frame][-self.stack :]
        self._mask = None if mask is None else mask.copy()
        age = len(self._context) - 1
        self._cells.append((frame, self._mask, age, kind, action, reward, version, summed))

    def take(self) -> Piece:
        """The cells since the last call, at least one, as a piece."""
        frames, masks, ages, kinds, actions, rewards, versions, outcomes = zip(*self._cells, strict=True)
        context, mask = self._start
        context = [] if kinds[0] == Kind.RESET else context
        before = np.ones_like(masks[0]) if mask is None and masks[0] is not None else mask
        piece = Piece(
            stream=self.stream,
            first=self.first,
            lead=len(context),
            frames=np.stack([*context, *frames]),
            masks=None if before is None else np.stack([before, *masks]),
            ages=np.array(ages, np.uint8),
            kinds=np.array(kinds, np.uint8),
            actions=np.array(actions, np.int64),
            rewards=np.array(rewards, np.float32),
            versions=np.array(versions, np.int64),
            outcomes=np.stack(outcomes),
        )
        self.first += len(piece)
        self._start = (self._context, self._mask)
        self._cells = []
        return piece
