"""One checkpoint for all ranks: their states are put together as one process would have saved them, and dealt out
again to any number of ranks.

Every rank plays the same number of boards, and all step together. So boards lie side by side along one axis of a
tensor, and everything else is the same on all ranks, except what is added up at the next report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from flashdqn.compute.ranks import Ranks, as_bytes
from flashdqn.compute.seeds import purpose_seed
from flashdqn.training.assemble import OWN_GENERATORS, Parts, name_for_rank

#: An axis along which boards lie; or how the numbers of ranks become one; or that every rank has its own.
Rule = int | Literal["same", "sum", "mean", "max", "own"]
#: The ring's tensors with an axis of rows before that of boards.
BY_ROW = ("obs", "action", "reward", "kind", "mask", "age")

State = dict[str, Tensor]


class RankPiece(NamedTuple):
    """What every rank is about to receive, as JSON."""

    name: str
    dtype: str
    shape: list[int]


def find_rule(name: str, tensor: Tensor, boards: int) -> Rule:
    """How a tensor of a state belongs to the ranks; `boards` are those that it holds."""
    part, _, key = name.partition(".")
    if part == "ring":
        return 1 if key in BY_ROW else 0 if key == "ended" else "same"
    if part == "metrics":
        return "sum" if key == "sums" else 0
    if part == "env":
        return 0 if tensor.dim() and len(tensor) == boards else "same"
    if part == "generator":
        return "own" if key.partition("@")[0] in OWN_GENERATORS else "same"
    rules: dict[str, Rule] = {"sampler.weight": 1, "sampler.largest": "max", "learner.sums": "mean"}
    return rules.get(name, "same")


def gather_state(parts: Parts) -> State | None:
    """The state of all ranks as that of one process, on the leader; None on the others. All ranks call it."""
    ranks, boards = parts.ranks, parts.env.num_envs
    if not ranks.many:
        return parts.state_dict()
    state: State = {}
    for name, tensor in parts.state_dict().items():
        rule = find_rule(name, tensor, boards)
        if rule in ("sum", "mean", "max"):
            state[name] = reduce_over_ranks(ranks, tensor, str(rule))
        elif rule == "same":
            state[name] = tensor
        elif (every := collect_tensors(ranks, lay_by_board(name, tensor, boards))) is None:
            continue
        elif isinstance(rule, int):
            state[name] = torch.cat(every, rule).flatten(0, 1 if name == "sampler.weight" else 0)
        else:
            state |= {name_for_rank(name, rank): own for rank, own in enumerate(every)}
    return state if ranks.leads else None


def deal_state(
    parts: Parts, weights: Mapping[str, Tensor] | None, state: Mapping[str, Tensor] | None, counters: Any
) -> tuple[State, State, dict[str, Any]]:
    """Weights, this rank's part of the state, and counters, from those of a checkpoint that the leader has read."""
    ranks = parts.ranks
    if not ranks.many:
        assert weights is not None
        assert state is not None
        return dict(weights), {name: x for name, x in state.items() if "@" not in name}, counters
    counters = ranks.share(counters)
    dealt = deal_tensors(ranks, None if weights is None else {name: [x] for name, x in weights.items()})
    own = deal_tensors(ranks, None if state is None else cut_state(state, parts))
    for name in parts.generators:
        if f"generator.{name}" not in own:  # it was saved with another number of ranks
            purpose = f"{name_for_rank(name, ranks.rank)}/{counters['transitions']}"
            parts.generators[name].manual_seed(purpose_seed(parts.config.seed, purpose))
    return dealt, own, counters


def describe_dealing(counters: Mapping[str, Any], world: int) -> list[str]:
    """A sentence on what can differ if a run goes on with another number of ranks; none if it does not."""
    before = counters.get("ranks", 1)
    if before == world:
        return []
    words = [f"{count} ranks" if count > 1 else "one rank" for count in (before, world)]
    return [
        f"Saved with {words[0]}, this run goes on with {words[1]}: the replay and the boards are dealt out again, "
        "and samples are drawn in another order from here on"
    ]


def cut_state(state: Mapping[str, Tensor], parts: Parts) -> dict[str, list[Tensor]]:
    """A whole state as a list with a tensor for each rank, or with one that all ranks get."""
    ranks, boards = parts.ranks, parts.env.num_envs
    cut: dict[str, list[Tensor]] = {}
    for name, tensor in state.items():
        rule = find_rule(name, tensor, boards * ranks.world)
        if rule == "own":
            own = [other for other in state if other.partition("@")[0] == name]
            if "@" not in name and len(own) == ranks.world:
                cut[name] = [state[name_for_rank(name, rank)] for rank in range(ranks.world)]
        elif rule == "sum":
            cut[name] = [tensor, *[torch.zeros_like(tensor)] * (ranks.world - 1)]
        elif isinstance(rule, int):
            whole = lay_by_board(name, tensor, boards * ranks.world)
            slices = torch.split(whole, boards, rule)
            cut[name] = [part.flatten(0, 1) if name == "sampler.weight" else part for part in slices]
        else:
            cut[name] = [tensor]
    return cut


def deal_tensors(ranks: Ranks, given: Mapping[str, list[Tensor]] | None) -> State:
    """This rank's tensors from the leader's lists, which have one tensor for all ranks or one for each."""
    if not ranks.leads:
        pieces = [RankPiece(*piece) for piece in ranks.share(None)]
        likes = {
            p.name: torch.empty(p.shape, dtype=getattr(torch, p.dtype.removeprefix("torch.")), device="meta")
            for p in pieces
        }
        return {name: ranks.receive(like, 0) for name, like in likes.items()}
    assert given is not None
    ranks.share([RankPiece(name, str(parts[0].dtype), list(parts[0].shape)) for name, parts in given.items()])
    for parts in given.values():
        for rank in range(1, ranks.world):
            ranks.send(parts[rank if len(parts) > 1 else 0], rank)
    return {name: parts[0] for name, parts in given.items()}


def collect_tensors(ranks: Ranks, tensor: Tensor) -> list[Tensor] | None:
    """The tensors of all ranks, of one shape, on the leader's CPU; None on the others."""
    if not ranks.leads:
        ranks.send(tensor, 0)
        return None
    return [tensor.cpu(), *(ranks.receive(tensor, rank) for rank in range(1, ranks.world))]


def reduce_over_ranks(ranks: Ranks, tensor: Tensor, rule: str) -> Tensor:
    """A copy that all ranks have together: the sum, the mean or the largest."""
    together = -tensor if rule == "max" else tensor.clone()
    {"sum": ranks.sum_, "mean": ranks.average_, "max": ranks.minimum_}[rule](together)
    return -together if rule == "max" else together


def lay_by_board(name: str, tensor: Tensor, boards: int) -> Tensor:
    """A tensor with an axis of boards: priorities lie in one row after the other."""
    return tensor.view(-1, boards) if name == "sampler.weight" else tensor


def align_learners(parts: Parts) -> bool:
    """Make sure that all ranks have the same weights, bit by bit, and say whether they had not: processors of
    different kinds may round differently. The leader's are taken then."""
    ranks, learner = parts.ranks, parts.learner
    if not ranks.many:
        return False
    tensors = [learner.flat.values, learner.target_flat.values, *learner.adam.state_dict().values()]
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(as_bytes(tensor.detach().cpu()).numpy().tobytes())
    if len(set(ranks.gather(digest.hexdigest()))) == 1:
        return False
    given = {str(k): [tensor] for k, tensor in enumerate(tensors)} if ranks.leads else None
    for tensor, found in zip(tensors, deal_tensors(ranks, given).values(), strict=True):
        tensor.copy_(found)
    return True
