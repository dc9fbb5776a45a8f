"""Lanes: from pieces of many streams, which arrive whenever they are ready, to whole rows of the ring.

A lane is a column of the ring. A stream keeps its lane: as long as its pieces follow each other there, the column
is as if the environment had been stepped together with all others. A row needs a cell of every lane. If a lane has
none, because its environment is slow, it takes over the younger half of what waits in the longest lane. So no row
waits for an environment, only for a number of cells, whoever played them.

Where a stream leaves its lane, its last step there becomes truncated: windows of n steps end there, and bootstrap
from the true next observation. In the new lane, the frames of the current observation come first, as rows that are
not transitions. Nothing else is lost: every cell enters the ring exactly once, unless its weights are too old.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from flashdqn.core.contract import ObsSpec
from flashdqn.replay.pieces import Array, EnvStream, Piece
from flashdqn.replay.ring import CellRow, Kind

#: A lane without cells takes over others' once so many wait for each lane on average: few moves, a little lag.
STEAL_AT = 16


@dataclass
class Segment:
    """The cells `at` … `until` − 1 of a piece, and how many frames of the observation before them are to place."""

    piece: Piece
    at: int
    until: int
    lead: int

    @property
    def waiting(self) -> int:
        """Rows that it will take."""
        return self.lead + self.until - self.at

    @property
    def position(self) -> int:
        """The number of its next cell in the stream."""
        return self.piece.first + self.at

    def skip_to(self, cell: int) -> int:
        """Leave out the cells before this one; returns how many of them were transitions."""
        kinds = self.piece.kinds[self.at : cell]
        self.at = cell
        self.lead = self.piece.count_lead(cell) if cell < self.until else 0
        return int((kinds != Kind.RESET).sum())

    def cut_at(self, cell: int) -> int:
        """Leave out this cell and those after it; returns how many of them were transitions."""
        kinds = self.piece.kinds[cell : self.until]
        self.until = cell
        self.lead = self.lead if self.at < cell else 0
        return int((kinds != Kind.RESET).sum())


class Lane:
    """The cells that wait for one column."""

    def __init__(self) -> None:
        self.segments: deque[Segment] = deque()
        self.tail: tuple[EnvStream, int] | None = (
            None  # the stream that it holds, and the cell that it needs next
        )
        self.open = False  # whether its last row is a step that another one may follow

    @property
    def waiting(self) -> int:
        """Rows that it can fill."""
        return sum(segment.waiting for segment in self.segments)


@dataclass(frozen=True)
class Admitted:
    """What a row brings besides its cells: figures that only the host needs."""

    versions: Array  # [transitions] int64
    outcomes: Array  # [ended episodes, 2 + outcomes] float32
    leads: int  # columns that only place a frame


class Lanes:
    """Turns pieces into rows for `num_envs` columns."""

    def __init__(
        self,
        num_envs: int,
        obs_spec: ObsSpec,
        num_actions: int,
        masked: bool,
        outcomes: int,
        steal_at: int = STEAL_AT,
    ) -> None:
        """`outcomes`: how many numbers the task sums an episode up by."""
        self.steal_at = steal_at
        self.lanes = [Lane() for _ in range(num_envs)]
        self.discarded = 0  # transitions that were too old, or of a half episode whose worker is gone
        self.moves = 0  # how often a stream went on in another lane
        self._outcomes = 2 + outcomes
        frame = obs_spec.frame
        self._cells = CellRow(
            torch.zeros(num_envs, dtype=torch.int64),
            torch.zeros(num_envs),
            torch.zeros(num_envs, dtype=torch.uint8),
            torch.zeros((num_envs, *frame.shape), dtype=frame.dtype),
            torch.ones((num_envs, num_actions), dtype=torch.bool) if masked else None,
            torch.zeros(num_envs, dtype=torch.uint8),
            torch.zeros(num_envs, dtype=torch.bool),
        )
        self._views = [None if tensor is None else tensor.numpy() for tensor in self._cells]

    @property
    def waiting(self) -> int:
        """Rows of single columns that wait."""
        return sum(lane.waiting for lane in self.lanes)

    def add(self, piece: Piece) -> None:
        """Take a piece: behind the one before it, or in the lane with the fewest cells."""
        before = (piece.stream, piece.first)
        lane = next((lane for lane in self.lanes if lane.tail == before), None)
        lead = 0
        if lane is None:
            lane = min(self.lanes, key=lambda lane: lane.waiting)
            lead = piece.count_lead(0)
            self.moves += lead > 0
        lane.segments.append(Segment(piece, 0, len(piece), lead))
        lane.tail = (piece.stream, piece.first + len(piece))

    def is_ready(self, oldest: int, *, patient: bool = True) -> bool:
        """Whether there is a whole row, of steps whose weights have at least `oldest` gradient steps. If lanes are
        empty, they take over cells of others: when many wait, or, if not `patient`, when a row may come of it."""
        self._drop_old(oldest)
        if all(lane.segments for lane in self.lanes):
            return True
        enough = len(self.lanes) * (self.steal_at if patient else 1)
        if self.waiting < enough:
            return False
        return all(lane.segments or self._fill(lane) for lane in self.lanes)

    def take_row(self) -> tuple[CellRow, Admitted]:
        """The next row, after `is_ready`. Its tensors are overwritten by the next call."""
        versions: list[int] = []
        ended: list[Array] = []
        leads = sum(self._place(column, lane, versions, ended) for column, lane in enumerate(self.lanes))
        outcomes = np.stack(ended) if ended else np.zeros((0, self._outcomes), np.float32)
        return self._cells, Admitted(np.array(versions, np.int64), outcomes, leads)

    def _place(self, column: int, lane: Lane, versions: list[int], ended: list[Array]) -> bool:
        """Write a lane's next cell into its column; True if it is only a frame."""
        action, reward, kind, frame, mask, age, cut = self._views
        segment = lane.segments[0]
        piece, cell = segment.piece, segment.at
        leads = segment.lead > 0
        if leads:
            segment.lead -= 1
            opened, chosen, what, gained = cell - 1 - segment.lead, 0, int(Kind.RESET), 0.0
            years = piece.count_lead(cell) - 1 - segment.lead
            legal = piece.mask_after(cell - 1)
        else:
            segment.at += 1
            opened, chosen, what = cell, int(piece.actions[cell]), int(piece.kinds[cell])
            gained, years = float(piece.rewards[cell]), int(piece.ages[cell])
            legal = piece.mask_after(cell)
            if what != Kind.RESET:
                versions.append(int(piece.versions[cell]))
            if what in (Kind.TERMINATED, Kind.TRUNCATED):
                ended.append(piece.outcomes[cell])
        if not segment.waiting:
            lane.segments.popleft()
        cut[column] = lane.open and what == Kind.RESET  # type: ignore[index]
        lane.open = what == Kind.STEP
        action[column], reward[column], kind[column] = chosen, gained, what  # type: ignore[index]
        frame[column], age[column] = piece.frame_after(opened), years  # type: ignore[index]
        if mask is not None and legal is not None:
            mask[column] = legal
        return leads

    def _drop_old(self, oldest: int) -> None:
        """Leave out steps that weights with fewer gradient steps have chosen."""
        for lane in self.lanes:
            while lane.segments and (segment := lane.segments[0]).piece.versions[segment.at] < oldest:
                left = segment.piece.versions[segment.at : segment.until]
                fresh = segment.at + int(np.searchsorted(left, oldest))  # versions only rise
                self.discarded += segment.skip_to(fresh)
                if fresh == segment.until:
                    self._remove_first(lane)

    def _remove_first(self, lane: Lane) -> None:
        """Remove a segment without cells; what follows it in the lane has lost its beginning."""
        lane.segments.popleft()
        if lane.segments:
            following = lane.segments[0]
            following.lead = following.piece.count_lead(following.at)
        else:
            lane.tail = None

    def _fill(self, empty: Lane) -> bool:
        """Move the younger half of the longest lane's cells to an empty one; False if there is none to share."""
        donor = max(self.lanes, key=lambda lane: sum(s.until - s.at for s in lane.segments))
        cells = sum(segment.until - segment.at for segment in donor.segments)
        if cells < 2:
            return False
        taken: list[Segment] = []
        wanted = cells // 2
        while wanted > 0:
            segment = donor.segments[-1]
            if (here := segment.until - segment.at) <= wanted:
                taken.append(donor.segments.pop())
            else:
                middle = segment.until - wanted
                taken.append(Segment(segment.piece, middle, segment.until, 0))
                segment.until = middle
            wanted -= min(here, wanted)
        first = taken[-1]
        first.lead = first.piece.count_lead(first.at)
        empty.segments.extend(reversed(taken))
        empty.tail, donor.tail = donor.tail, None
        self.moves += 1
        return True

    def discard_half_episode(self, stream: EnvStream) -> None:
        """Drop what waits of a stream's unfinished episode: its worker is gone. What is in the ring stays there."""
        own = sorted(self._find_segments(stream), key=lambda segment: segment.position)
        end = max((self._find_end(segment) for segment in own), default=0)
        for segment in own:
            cell = min(max(end - segment.piece.first, segment.at), segment.until)
            self.discarded += segment.cut_at(cell)
        for lane in self.lanes:
            lane.segments = deque(segment for segment in lane.segments if segment.waiting)
            if lane.tail is not None and lane.tail[0] == stream:
                lane.tail = None

    def _find_segments(self, stream: EnvStream) -> Iterator[Segment]:
        return (s for lane in self.lanes for s in lane.segments if s.piece.stream == stream)

    @staticmethod
    def _find_end(segment: Segment) -> int:
        """The number in the stream of the cell behind the last end of an episode; 0 if none ends here."""
        kinds = segment.piece.kinds[segment.at : segment.until]
        ends = np.flatnonzero((kinds == Kind.TERMINATED) | (kinds == Kind.TRUNCATED))
        return segment.position + int(ends[-1]) + 1 if len(ends) else 0

    def clear(self) -> None:
        """Forget everything that waits, as at a resume: the last steps in the ring are cut off there."""
        self.lanes = [Lane() for _ in self.lanes]
