"""Demonstrations that stay: transitions with the expert's actions, and batches that contain some of them.

The first rows of every batch come from here, the others from the replay. Nothing overwrites a demonstration,
however long the training is (Hester et al. 2018, *Deep Q-learning from Demonstrations*, arXiv:1704.03732).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.saved import require_range, require_same_kind
from flashdqn.core.types import Batch, Transition
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import Pick, Sampler, SamplerBase, UniformSampler, split_batch, window_slots


class DemonstrationBuffer:
    """At most `capacity` transitions with the expert's actions, preallocated on the device."""

    def __init__(
        self,
        capacity: int,
        obs_spec: ObsSpec,
        num_actions: int,
        device: torch.device,
        masked: bool = False,
        legal: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """`masked` and `legal` as in `Ring`."""
        self.capacity, self.device, self.legal = capacity, device, legal
        self.num_actions = num_actions

        def column(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros((capacity, *shape), dtype=dtype, device=device)

        def legals() -> Tensor | None:
            return torch.ones((capacity, num_actions), dtype=torch.bool, device=device) if masked else None

        obs, next_obs = (column(*obs_spec.shape, dtype=obs_spec.dtype) for _ in range(2))
        action, self.expert = (column(dtype=torch.int64) for _ in range(2))
        self.columns = Transition(obs, action, column(), column(), next_obs, legals(), legals())
        self.filled = torch.zeros((), dtype=torch.int64, device=device)

    def take(
        self, ring: Ring, choices: Tensor, n_step: int, gamma: float, generator: torch.Generator
    ) -> None:
        """Take all complete transitions of a ring or, if they do not all fit, a random choice of them.

        `choices`, [rows, N]: the expert's action in each, which may differ from the action that was taken.
        """
        count = int((ring.readable - (n_step - 1)) * ring.num_envs)
        slots = window_slots(ring, n_step, torch.arange(max(0, count), device=ring.device))
        slots = slots[ring.kind.view(-1)[slots] != int(Kind.RESET)]
        chosen = torch.randperm(len(slots), generator=generator, device=ring.device)[: self.capacity]
        slots = slots[chosen]
        for column, values in zip(self.columns, gather_transitions(ring, slots, n_step, gamma), strict=True):
            if column is not None and values is not None:
                column[: len(slots)] = values
        self.expert[: len(slots)] = choices.view(-1)[slots]
        self.filled.fill_(len(slots))

    def pick(self, bits: Tensor) -> tuple[Transition, Tensor]:
        """The transitions that random numbers, [B], select, and the expert's actions in them."""
        index, columns = bits % self.filled.clamp(min=1), self.columns
        obs, next_obs = columns.obs[index], columns.next_obs[index]
        next_mask, mask = (None if x is None else x[index] for x in (columns.next_mask, columns.mask))
        if self.legal is not None:
            next_mask, mask = self.legal(next_obs), self.legal(obs)
        action, reward, discount = columns.action[index], columns.reward[index], columns.discount[index]
        return Transition(obs, action, reward, discount, next_obs, next_mask, mask), self.expert[index]

    def state_dict(self) -> dict[str, Tensor]:
        """All demonstrations that were taken."""
        used = int(self.filled)
        state = {f: x[:used] for f, x in self.columns._asdict().items() if x is not None}
        return state | {"expert": self.expert[:used], "filled": self.filled}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the demonstrations of a checkpoint; a CheckpointError if they cannot be such."""
        used = len(state["expert"])
        require_same_kind("demonstrations.filled", state["filled"], self.filled)
        require_range("demonstrations.filled", state["filled"], used, used)
        for name in ("action", "expert"):
            require_range(f"demonstrations.{name}", state[name], 0, self.num_actions - 1)
        for name, column in (self.columns._asdict() | {"expert": self.expert}).items():
            if column is not None:
                column[: len(state[name])].copy_(state[name])
        self.filled.copy_(state["filled"])


class MixedSampler:
    """A sampler whose batches begin with demonstrations; the rest comes from another sampler."""

    def __init__(
        self, own: Sampler, shown: DemonstrationBuffer, share: float, generator: torch.Generator
    ) -> None:
        self.own, self.shown, self.share, self.generator = own, shown, share, generator
        self.wants_priorities, self.draws_on_device = own.wants_priorities, own.draws_on_device
        self.least_rows = own.least_rows

    @property
    def uniform(self) -> UniformSampler | None:
        """The uniform sampler inside the other sampler."""
        return self.own.uniform

    def sample(self, size: int) -> Batch:
        """One batch, demonstrations first."""
        return self.batches(1, size)[0]

    def batches(self, count: int, size: int, pick: Pick | None = None) -> list[Batch]:
        """Draw all batches together, and put demonstrations in front of each."""
        if isinstance(self.own, SamplerBase):
            return split_batch(self.group(count, size, pick), count, size)
        transition, expert = self._draw_shown(count, size)
        first = len(expert) // count
        columns = ([None] * count if x is None else torch.split(x, first) for x in transition)
        rows = zip(zip(*columns, strict=True), torch.split(expert, first), strict=True)
        others = self.own.batches(count, size - first, pick)
        return [
            join_batches(Transition(*row), wanted, own, 1)
            for (row, wanted), own in zip(rows, others, strict=True)
        ]

    def group(self, count: int, size: int, pick: Pick | None = None) -> Batch:
        """The same batches, one after the other in one large one: `index` and `expert` skip the rows of the
        other."""
        assert isinstance(self.own, SamplerBase)
        transition, expert = self._draw_shown(count, size)
        own = self.own.group(count, size - len(expert) // count, pick)
        return join_batches(transition, expert, own, count)

    def _draw_shown(self, count: int, size: int) -> tuple[Transition, Tensor]:
        first = demonstrations_per_batch(self.share, size)
        bits = torch.empty(count * first, dtype=torch.int64, device=self.shown.device)
        return self.shown.pick(bits.random_(generator=self.generator))

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Pass priorities on for the other rows; demonstrations have none."""
        self.own.update(index, priority[len(priority) - len(index) :])

    def appended(self) -> None:
        """Tell the other sampler."""
        self.own.appended()

    def rows_added(self) -> None:
        """Tell the other sampler."""
        self.own.rows_added()

    def drawing(self, count: int) -> None:
        """Tell the other sampler."""
        self.own.drawing(count)

    def draw_again(self) -> None:
        """Tell the other sampler."""
        self.own.draw_again()

    def set_beta(self, beta: float) -> None:
        """Tell the other sampler."""
        self.own.set_beta(beta)

    def state_dict(self) -> dict[str, Tensor]:
        """The state of both: demonstrations and the other sampler."""
        own = {f"own.{name}": x for name, x in self.own.state_dict().items()}
        return own | {f"shown.{name}": x for name, x in self.shown.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore demonstrations and the other sampler."""
        for name, part in (("own.", self.own), ("shown.", self.shown)):
            part.load_state_dict({k.removeprefix(name): x for k, x in state.items() if k.startswith(name)})


def demonstrations_per_batch(share: float, size: int) -> int:
    """How many rows of a batch of `size` are demonstrations: at least one, and not all."""
    return min(max(1, round(share * size)), size - 1)


def join_batches(shown: Transition, expert: Tensor, own: Batch, count: int) -> Batch:
    """`count` batches in one, each with demonstrations first, then the other rows."""

    def join(one: Tensor, other: Tensor) -> Tensor:
        parts = [x.view(count, len(x) // count, *x.shape[1:]) for x in (one, other)]
        return torch.cat(parts, 1).flatten(0, 1)

    columns = (
        None if a is None or b is None else join(a, b) for a, b in zip(shown, own.transition, strict=True)
    )
    weight = join(torch.ones_like(expert, dtype=own.weight.dtype), own.weight)
    return Batch(Transition(*columns), weight, own.index, expert)  # type: ignore[arg-type]
