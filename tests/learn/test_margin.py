"""The margin of demonstrations, against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
from test_loss import ONLINE, TARGET, TWO, lookup, make_batch

from flashdqn.learn.bootstraps import greedy_target
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.loss import Margin, td_loss

Q = torch.tensor([[1.0, 2.0, 0.0], [3.0, 5.0, 4.0], [0.5, -1.0, 9.0]])


def test_the_experts_action_shall_be_worth_so_much_more() -> None:
    # max(1 + ½, 2, ½) − 2; max(3 + ½, 5 + ½, 4) − 4; max(½, …, 9 + ½) − ½
    losses = Margin(gap=0.5, weight=1.0)(Q, torch.tensor([1, 2, 0]), None)
    assert losses.tolist() == [0.0, 1.5, 9.0]
    assert Margin(gap=0.5, weight=3.0)(Q, torch.tensor([1, 2, 0]), None).tolist() == [0.0, 4.5, 27.0]


def test_illegal_actions_are_no_rivals() -> None:
    mask = torch.tensor([[True, True, True], [True, False, True], [True, True, False]])
    assert Margin(0.5, 1.0)(Q, torch.tensor([1, 2, 0]), mask).tolist() == [0.0, 0.0, 0.0]


def test_it_pulls_at_the_expert_and_at_its_strongest_rival_alone() -> None:
    q = Q.clone().requires_grad_()
    Margin(0.5, 1.0)(q, torch.tensor([1, 2, 0]), None).sum().backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    assert q.grad.tolist() == [[0, 0, 0], [0, 1, -1], [-1, 0, 1]]


def test_the_loss_adds_it_for_the_first_rows_alone() -> None:
    batch = make_batch(*TWO)
    plain = td_loss(lookup(ONLINE), lookup(TARGET), batch, ScalarHead(1.0), greedy_target)
    shown = batch._replace(expert=torch.tensor([0]))  # in state 0, where Q is 1, 2, 0
    margin = Margin(0.5, 2.0)
    taught = td_loss(lookup(ONLINE), lookup(TARGET), shown, ScalarHead(1.0), greedy_target, margin)
    assert float(taught.loss) == pytest.approx(float(plain.loss) + 2.0 * (2.5 - 1.0) / 2)
    assert torch.equal(taught.priority, plain.priority)
    assert (
        float(td_loss(lookup(ONLINE), lookup(TARGET), shown, ScalarHead(1.0), greedy_target).loss)
        == plain.loss
    )
