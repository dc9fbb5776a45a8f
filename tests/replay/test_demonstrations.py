"""Demonstrations that stay: what is taken from the ring, and batches that begin with them."""

from __future__ import annotations

import pytest
import torch
from replay_twin import VECTOR
from test_samplers import CPU, filled_ring, make_sampler, valid_starts
from torch import Tensor

from flashdqn.replay import DemonstrationBuffer, MixedSampler, Ring
from flashdqn.replay.demonstrations import demonstrations_per_batch
from flashdqn.replay.n_step import gather_transitions


def wishes_of(ring: Ring) -> Tensor:
    """An expert whose wish tells where it was made, modulo three."""
    return (torch.arange(ring.rows * ring.num_envs) * 7 % 3).view(ring.rows, ring.num_envs)


def taken(ring: Ring, capacity: int, n: int, legal: bool = False) -> DemonstrationBuffer:
    shown = DemonstrationBuffer(capacity, VECTOR, 3, CPU, masked=not legal, legal=_even if legal else None)
    shown.take(ring, wishes_of(ring), n, 0.9, torch.Generator().manual_seed(1))
    return shown


def _even(obs: Tensor) -> Tensor:
    """Some mask that follows from observations."""
    return (obs.flatten(1)[:, :1] + torch.arange(3)).long() % 2 == 0


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("steps", [9, 21, 57], ids=["growing", "at the wrap", "wrapped"])
def test_every_complete_transition_is_taken_once_with_the_experts_wish(steps: int, n: int) -> None:
    ring, twin = filled_ring(steps)
    starts = torch.tensor(valid_starts(ring, twin, n))
    shown = taken(ring, 1000, n)
    assert int(shown.filled) == len(starts)
    transition, expert = shown.pick(torch.arange(len(starts)))
    wanted = gather_transitions(ring, starts, n, 0.9)
    wish = wishes_of(ring).view(-1)[starts]

    def rows(columns: tuple[Tensor | None, ...], last: Tensor) -> list[tuple[float, ...]]:
        flat = [x.flatten(1) if x.dim() > 1 else x[:, None] for x in (*columns, last) if x is not None]
        return sorted(map(tuple, torch.cat([x.double() for x in flat], 1).tolist()))

    assert rows(transition, expert) == rows(wanted, wish)


def test_of_too_many_some_are_drawn_and_none_twice() -> None:
    ring, twin = filled_ring(57)
    count = len(valid_starts(ring, twin, 1))
    shown = taken(ring, count // 2, 1)
    assert int(shown.filled) == count // 2
    kept = shown.pick(torch.arange(count // 2))[0]
    table = torch.cat([kept.obs.flatten(1).double(), kept.reward[:, None].double()], 1)
    assert len(torch.unique(table, dim=0)) == count // 2


def test_masks_that_follow_from_observations_are_made_when_read() -> None:
    ring, _ = filled_ring(21)
    transition, _ = taken(ring, 100, 1, legal=True).pick(torch.arange(5))
    assert transition.mask is not None
    assert transition.next_mask is not None
    assert torch.equal(transition.mask, _even(transition.obs))
    assert torch.equal(transition.next_mask, _even(transition.next_obs))


def mixed(share: float) -> tuple[MixedSampler, Ring]:
    ring, _ = filled_ring(57)
    sampler = MixedSampler(make_sampler(ring), taken(ring, 20, 1), share, torch.Generator().manual_seed(5))
    return sampler, ring


def test_batches_begin_with_demonstrations_and_go_on_with_the_replay() -> None:
    sampler, ring = mixed(0.25)
    for batch in sampler.batches(3, 8):
        assert batch.expert is not None
        assert len(batch.expert) == 2
        assert len(batch.index) == 6
        assert len(batch.weight) == len(batch.transition.obs) == 8
        assert batch.weight[:2].tolist() == [1.0, 1.0]
        others = gather_transitions(ring, batch.index, 1, 0.9)
        for ours, theirs in zip(batch.transition, others, strict=True):
            assert ours is not None
            assert theirs is not None
            assert torch.equal(ours[2:], theirs)


def test_a_share_is_at_least_one_row_and_never_all() -> None:
    assert [demonstrations_per_batch(share, 8) for share in (0.01, 0.25, 0.5, 0.99)] == [1, 2, 4, 7]
    assert demonstrations_per_batch(0.5, 2) == 1


class Listening:
    """A sampler that remembers what it heard."""

    def __init__(self) -> None:
        self.heard: tuple[Tensor, Tensor] | None = None

    def update(self, index: Tensor, priority: Tensor) -> None:
        self.heard = index, priority


def test_priorities_of_demonstrations_go_nowhere() -> None:
    sampler, _ = mixed(0.5)
    sampler.own = own = Listening()  # type: ignore[assignment]
    sampler.update(torch.tensor([7, 8]), torch.tensor([0.1, 0.2, 0.3, 0.4]))
    assert own.heard is not None
    assert own.heard[0].tolist() == [7, 8]
    assert own.heard[1].tolist() == pytest.approx([0.3, 0.4])


def test_a_state_moves_to_another() -> None:
    sampler, ring = mixed(0.25)
    other = MixedSampler(
        make_sampler(ring), DemonstrationBuffer(20, VECTOR, 3, CPU, masked=True), 0.25, torch.Generator()
    )
    other.load_state_dict({name: x.clone() for name, x in sampler.state_dict().items()})
    for sampler_ in (sampler, other):
        sampler_.generator.manual_seed(3)
        sampler_.own.generator.manual_seed(4)  # type: ignore[attr-defined]
    one, two = sampler.sample(8), other.sample(8)
    assert one.expert is not None
    assert two.expert is not None
    assert torch.equal(one.expert, two.expert)
    for a, b in zip(one.transition, two.transition, strict=True):
        assert a is not None
        assert b is not None
        assert torch.equal(a, b)
