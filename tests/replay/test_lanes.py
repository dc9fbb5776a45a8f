"""Pieces of independent environments in the ring, compared with the games as they were played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.contract import ObsSpec
from flashdqn.replay.lanes import STEAL_AT, Lanes
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.pieces import EnvStream, Piece, PieceWriter
from flashdqn.replay.prioritized import PrioritizedSampler
from flashdqn.replay.ring import Kind, Ring

ACTIONS, GAMMA = 3, 0.5


@dataclass
class Moment:
    """One step of a game as a naive recorder keeps it."""

    stack: list[float]
    action: int
    reward: float
    kind: Kind
    mask: tuple[bool, ...]
    version: int
    following: list[float]
    following_mask: tuple[bool, ...]


@dataclass
class Game:
    """One environment, played before anybody looks: its moments, and the same as pieces."""

    stream: EnvStream
    pieces: list[Piece] = field(default_factory=list)
    moments: dict[float, Moment] = field(default_factory=dict)  # by the newest frame of its observation
    order: list[float] = field(default_factory=list)
    outcomes: list[tuple[float, ...]] = field(default_factory=list)


def make_stack(frames: list[float], size: int) -> list[float]:
    """The last frames of an episode, the first one repeated in front."""
    last = frames[-size:]
    return [frames[0]] * (size - len(last)) + last


def make_mask(name: float) -> tuple[bool, ...]:
    return (True, int(name) % 2 == 0, int(name) % 3 == 0)


def play_game(player: int, life: int, kinds: list[Kind], sizes: list[int], stack: int) -> Game:
    """Play a game whose steps end as `kinds` says, in pieces of these sizes."""
    game = Game(EnvStream(player, life))
    writer = PieceWriter(game.stream, stack)
    name, left, cell = 1_000.0 * (10 * player + life), sizes.copy(), 0
    frames: list[float] = []

    def flush(last: bool = False) -> None:
        if len(writer) and (last or not left or len(writer) >= left[0]):
            game.pieces.append(writer.take())
            if left:
                left.pop(0)

    total, length = 0.0, 0
    for kind in kinds:
        if not frames:
            name, total, length = name + 1, 0.0, 0
            frames = [name]
            writer.add_reset(np.array([name], np.float32), np.array(make_mask(name)), cell, 1)
            flush()
        before, action, reward = make_stack(frames, stack), int(name) % ACTIONS, float(int(name) % 7)
        at, name, cell = name, name + 1, cell + 1
        frames.append(name)
        total, length = total + reward, length + 1
        frame, mask = np.array([name], np.float32), np.array(make_mask(name))
        writer.add_step(kind, action, reward, frame, mask, cell, np.array([9.0]))
        following = make_stack(frames, stack), make_mask(name)
        game.moments[at] = Moment(before, action, reward, kind, make_mask(at), cell, *following)
        game.order.append(at)
        if kind != Kind.STEP:
            game.outcomes.append((total, float(length), 9.0))
            frames = []
        flush()
    flush(last=True)
    return game


KINDS = st.lists(
    st.sampled_from([Kind.STEP] * 6 + [Kind.TERMINATED, Kind.TRUNCATED]), min_size=1, max_size=40
)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=10)


def make_ring(lanes: int, stack: int, rows: int = 4_000) -> Ring:
    spec = ObsSpec((stack,), torch.float32, stack)
    ring = Ring(rows * lanes, lanes, spec, ACTIONS, torch.device("cpu"), masked=True)
    ring.start(torch.zeros(lanes, stack), torch.ones(lanes, ACTIONS, dtype=torch.bool))
    return ring


def append_rows(
    lanes: Lanes, ring: Ring, admitted: list[Any], oldest: int = -1, patient: bool = True
) -> None:
    """Everything that makes whole rows."""
    while lanes.is_ready(oldest, patient=patient):
        cells, more = lanes.take_row()
        ring.append_cells(cells)
        admitted.append(more)


def count_steps(piece: Piece, start: int, stop: int) -> int:
    return int((piece.kinds[start:stop] != Kind.RESET).sum())


def count_waiting(lanes: Lanes) -> int:
    return sum(count_steps(s.piece, s.at, s.until) for lane in lanes.lanes for s in lane.segments)


def find_moments(ring: Ring, games: list[Game]) -> dict[float, int]:
    """The slots of all transitions in the ring, by the newest frame of their observation; each occurs once."""
    moments = {name for game in games for name in game.moments}
    found: dict[float, int] = {}
    head = int(ring.head)
    for row in range(head):
        for column in range(ring.num_envs):
            if ring.kind[row, column] != Kind.RESET:
                name = float(ring.obs[row, column, -1])
                assert name in moments
                assert name not in found, "a transition is there twice"
                found[name] = row * ring.num_envs + column
    return found


def check_windows(ring: Ring, games: list[Game], found: dict[float, int], n: int) -> int:
    """Compare every complete n-step window with the game; returns how many end early because a stream moved."""
    cut, head = 0, int(ring.head)
    names = [name for name, slot in found.items() if slot // ring.num_envs + n <= head]
    if not names:
        return 0
    window = gather_transitions(ring, torch.tensor([found[name] for name in names]), n, GAMMA)
    moments = {name: moment for game in games for name, moment in game.moments.items()}
    assert window.mask is not None
    assert window.next_mask is not None
    for i, name in enumerate(names):
        reward, discount, last = 0.0, 1.0, moments[name]
        reached = float(window.next_obs[i, -1])
        for k in range(n):
            last = moments[name + k]
            reward, discount = reward + discount * last.reward, discount * GAMMA
            if last.kind != Kind.STEP or reached == last.following[-1]:
                break
        cut += k + 1 < n and last.kind == Kind.STEP
        assert window.obs[i].tolist() == moments[name].stack
        assert int(window.action[i]) == moments[name].action
        assert window.mask[i].tolist() == list(moments[name].mask)
        assert float(window.reward[i]) == reward
        assert float(window.discount[i]) == (0.0 if last.kind == Kind.TERMINATED else discount)
        assert window.next_obs[i].tolist() == last.following
        assert window.next_mask[i].tolist() == list(last.following_mask)
    return cut


@settings(max_examples=150, deadline=None)
@given(data=st.data(), count=st.integers(1, 4), stack=st.sampled_from([1, 1, 3]), n=st.integers(1, 4))
def test_every_transition_enters_once(data: st.DataObject, count: int, stack: int, n: int) -> None:
    games = [play_game(p, 0, data.draw(KINDS), data.draw(SIZES), stack) for p in range(count)]
    ring, admitted = make_ring(count, stack), []
    lanes = Lanes(count, ObsSpec((stack,), torch.float32, stack), ACTIONS, masked=True, outcomes=1)
    left = [list(game.pieces) for game in games]
    while any(left):
        which = data.draw(st.sampled_from([i for i, pieces in enumerate(left) if pieces]))
        lanes.add(left[which].pop(0))
        append_rows(lanes, ring, admitted, patient=data.draw(st.booleans()))
    found = find_moments(ring, games)
    waiting = count_waiting(lanes)
    played = sum(len(game.moments) for game in games)
    assert len(found) + waiting == played
    assert sum(len(more.versions) for more in admitted) == len(found)
    assert waiting < count * STEAL_AT
    cut = check_windows(ring, games, found, n)
    if lanes.moves == 0:
        assert cut == 0
    check_windows(ring, games, found, 1)
    summed = sorted(tuple(row) for more in admitted for row in more.outcomes.tolist())
    ended = sorted(
        (total, length, 9.0)
        for game in games
        for (total, length, _), name in zip(
            game.outcomes, [x for x in game.order if game.moments[x].kind != Kind.STEP], strict=True
        )
        if name in found
    )
    assert summed == ended


@settings(max_examples=100, deadline=None)
@given(data=st.data(), count=st.integers(1, 3), oldest=st.integers(0, 40))
def test_old_actions_are_left_out(data: st.DataObject, count: int, oldest: int) -> None:
    games = [play_game(p, 0, data.draw(KINDS), data.draw(SIZES), 3) for p in range(count)]
    ring, admitted = make_ring(count, 3), []
    lanes = Lanes(count, ObsSpec((3,), torch.float32, 3), ACTIONS, masked=True, outcomes=1)
    delivered = 0
    for pieces in zip(*(game.pieces for game in games), strict=False):
        for piece in pieces:
            lanes.add(piece)
            delivered += count_steps(piece, 0, len(piece))
        if data.draw(st.booleans()):
            append_rows(lanes, ring, admitted, oldest, patient=False)
    append_rows(lanes, ring, admitted, oldest, patient=False)
    found = find_moments(ring, games)
    moments = {name: moment for game in games for name, moment in game.moments.items()}
    assert all(moments[name].version >= oldest for name in found)
    assert len(found) + count_waiting(lanes) + lanes.discarded == delivered
    check_windows(ring, games, found, 3)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), before=st.integers(0, 10))
def test_a_half_episode_is_discarded(data: st.DataObject, before: int) -> None:
    """The worker of player 0 dies and comes back: of its waiting cells only whole episodes stay."""
    games = [play_game(p, 0, data.draw(KINDS), data.draw(SIZES), 3) for p in range(2)]
    again = play_game(0, 1, data.draw(KINDS), data.draw(SIZES), 3)
    ring, admitted = make_ring(2, 3), []
    lanes = Lanes(2, ObsSpec((3,), torch.float32, 3), ACTIONS, masked=True, outcomes=1)
    for piece in [*games[0].pieces, *games[1].pieces][: before + 1]:
        lanes.add(piece)
        append_rows(lanes, ring, admitted, patient=data.draw(st.booleans()))
    there = set(find_moments(ring, games))
    lanes.discard_half_episode(games[0].stream)
    for piece in [*again.pieces, *games[1].pieces[max(0, before + 1 - len(games[0].pieces)) :]]:
        lanes.add(piece)
        append_rows(lanes, ring, admitted, patient=False)
    found = find_moments(ring, [*games, again])
    check_windows(ring, [*games, again], found, 3)
    ends = [name for name in games[0].order if games[0].moments[name].kind != Kind.STEP]
    last_end = max((name for name in ends), default=-1.0)
    late = {name for name in found if name in games[0].moments and name > last_end}
    assert late <= there


def test_a_stream_keeps_its_lane_and_windows_are_whole() -> None:
    """Where all environments are equally fast, the ring is as if they had been stepped together."""
    games = [play_game(p, 0, [Kind.STEP] * 30, [5] * 7, 1) for p in range(3)]
    ring, admitted = make_ring(3, 1), []
    lanes = Lanes(3, ObsSpec((1,), torch.float32), ACTIONS, masked=True, outcomes=1)
    for pieces in zip(*(game.pieces for game in games), strict=True):
        for piece in pieces:
            lanes.add(piece)
            append_rows(lanes, ring, admitted)
    assert lanes.moves == 0
    assert sum(more.leads for more in admitted) == 0
    found = find_moments(ring, games)
    assert len(found) == 90
    assert check_windows(ring, games, found, 5) == 0


def test_rows_do_not_wait_for_a_lane_that_gets_nothing() -> None:
    games = [play_game(p, 0, [Kind.STEP] * 200, [4] * 60, 1) for p in range(3)]
    ring, admitted = make_ring(4, 1), []
    lanes = Lanes(4, ObsSpec((1,), torch.float32), ACTIONS, masked=True, outcomes=1)
    for pieces in zip(*(game.pieces for game in games), strict=True):
        for piece in pieces:
            lanes.add(piece)
            append_rows(lanes, ring, admitted)
    assert len(find_moments(ring, games)) > 600 - 4 * STEAL_AT
    assert sum(more.leads for more in admitted) < 60


@pytest.mark.parametrize("n", [1, 3])
def test_priorities_of_exactly_the_transitions(n: int) -> None:
    games = [play_game(p, 0, [Kind.STEP, Kind.STEP, Kind.TERMINATED] * 9, [2, 5] * 9, 1) for p in range(2)]
    ring = make_ring(3, 1)
    sampler = PrioritizedSampler(ring, n, GAMMA, torch.Generator(), alpha=1.0, beta=1.0, eps=0.1)
    lanes = Lanes(3, ObsSpec((1,), torch.float32), ACTIONS, masked=True, outcomes=1)
    for pieces in zip(*(game.pieces for game in games), strict=True):
        for piece in pieces:
            lanes.add(piece)
            while lanes.is_ready(-1, patient=False):
                ring.append_cells(lanes.take_row()[0])
                sampler.appended()
    leaves = sampler.tree.levels.leaves
    complete = {s for s in find_moments(ring, games).values() if s // 3 + n <= int(ring.head)}
    assert set(torch.nonzero(leaves).view(-1).tolist()) == complete
