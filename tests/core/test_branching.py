"""Actions in branches, against a twin that loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flashdqn.core.branching import ActionBranches, check_branches
from flashdqn.core.errors import EnvError
from flashdqn.core.ops import choose_epsilon_greedy, masked_argmax

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def split(row: Any, sizes: tuple[int, ...]) -> list[list[Any]]:
    """The entries of each branch."""
    entries = iter(row.tolist())
    return [list(itertools.islice(entries, size)) for size in sizes]


def number(choices: list[int], sizes: tuple[int, ...]) -> int:
    """The place of a combination in the list of all."""
    return list(itertools.product(*map(range, sizes))).index(tuple(choices))


def draw_masks(sizes: tuple[int, ...], rows: int, seed: int) -> torch.Tensor:
    """Random masks with a legal choice in every branch."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for size in sizes:
        part = torch.rand((rows, size), generator=generator) < 0.5
        part[torch.arange(rows), torch.randint(size, (rows,), generator=generator)] = True
        parts.append(part)
    return torch.cat(parts, 1)


@settings(deadline=None, max_examples=50)
@given(SIZES)
def test_an_action_number_counts_the_combinations(sizes: tuple[int, ...]) -> None:
    branches = ActionBranches(sizes)
    combinations = list(itertools.product(*map(range, sizes)))
    actions = torch.arange(len(combinations))
    assert branches.to_choices(actions).tolist() == [list(one) for one in combinations]
    assert torch.equal(branches.to_action(torch.tensor(combinations)), actions)


@settings(deadline=None, max_examples=50)
@given(SIZES, st.integers(0, 1000), st.booleans())
def test_the_best_choice_in_each_branch(sizes: tuple[int, ...], seed: int, masked: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn((6, sum(sizes)), generator=generator)
    mask = draw_masks(sizes, 6, seed) if masked else None
    found = masked_argmax(q, mask, ActionBranches(sizes)).tolist()
    for row, action in enumerate(found):
        legal = split(torch.ones(sum(sizes)) if mask is None else mask[row], sizes)
        values = split(q[row], sizes)
        choices = [
            max((k for k in range(len(v)) if ok[k]), key=v.__getitem__)
            for v, ok in zip(values, legal, strict=True)
        ]
        assert action == number(choices, sizes)


@settings(deadline=None, max_examples=50)
@given(SIZES, st.integers(0, 1000), st.booleans())
def test_exploring_takes_a_random_legal_choice_in_each_branch(
    sizes: tuple[int, ...], seed: int, masked: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, branches = torch.randn((8, sum(sizes)), generator=generator), ActionBranches(sizes)
    luck = torch.rand((1 + len(sizes), 8), generator=generator)
    luck[1:, 0] = 1 - 2**-24  # the largest
    mask = draw_masks(sizes, 8, seed) if masked else None
    found = choose_epsilon_greedy(q, mask, torch.full((8,), 0.5), luck, branches)
    best = masked_argmax(q, mask, branches)
    for row in range(8):
        if luck[0, row] >= 0.5:
            assert found[row] == best[row]
            continue
        legal = split(torch.ones(sum(sizes)) if mask is None else mask[row], sizes)
        choices = []
        for branch, ok in enumerate(legal):
            allowed = [k for k in range(len(ok)) if ok[k]]
            choices.append(allowed[min(int(luck[1 + branch, row] * len(allowed)), len(allowed) - 1)])
        assert int(found[row]) == number(choices, sizes)


def test_every_combination_is_explored_equally_often() -> None:
    branches, count = ActionBranches((3, 2)), 60_000
    luck = torch.rand((3, count), generator=torch.Generator().manual_seed(0))
    found = choose_epsilon_greedy(torch.zeros(count, 5), None, torch.ones(count), luck, branches)
    shares = torch.bincount(found, minlength=6) / count
    assert float((shares - 1 / 6).abs().max()) < 5 * math.sqrt(1 / 6 / count)


def test_a_row_without_a_legal_choice_stays_in_range() -> None:
    branches = ActionBranches((2, 4))
    action = masked_argmax(torch.zeros(1, 6), torch.zeros(1, 6, dtype=torch.bool), branches)
    assert 0 <= int(action) < 8


def test_what_cannot_be_numbered_is_refused() -> None:
    check_branches("many", (2,) * 62)
    with pytest.raises(EnvError, match="many has actions of 63 parts"):
        check_branches("many", (2,) * 63)


@pytest.mark.parametrize("sizes", [(2**31, 2), (1,) * 10**6, (2,) * 10**6, (2**40,)])
def test_too_many_parts_or_choices_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(EnvError, match="fewer"):
        check_branches("it", sizes)
