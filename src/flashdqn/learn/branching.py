"""Learning with actions in branches (BDQ: Tavakoli et al. 2018, arXiv:1711.08946).

Every branch d has its own values Q_d(s, a_d) of its choices, on top of the same features. All branches learn the
same target, the mean over the branches of what each of them expects (their equation 5):

    y = r + γ (1/D) Σ_d Q⁻_d(s', argmax_a Q_d(s', a)),      loss = (1/D) Σ_d ℓ(Q_d(s, a_d), y).

A branch is a small problem with plain actions. So B samples with D branches are B · D rows for the head and the
bootstrap of plain actions, and each of those works with branches as it is.
"""

from __future__ import annotations

from torch import Tensor

from flashdqn.config.axes import has_trait
from flashdqn.core.branching import ActionBranches
from flashdqn.core.errors import ConfigError
from flashdqn.core.types import Transition
from flashdqn.learn.bootstraps import Bootstrap, Net
from flashdqn.learn.heads import Head


class BranchingHead:
    """A head of plain actions, for each branch. A value has one more axis than the inner head's: [B, D, …]."""

    fractions = None

    def __init__(self, inner: Head, branches: ActionBranches) -> None:
        if inner.fractions is not None:
            raise ConfigError(
                "Implicit quantiles do not support actions in several parts (MultiDiscrete, MultiBinary): use "
                "--learn.head scalar, categorical or quantile."
            )
        self.inner, self.branches, self.size = inner, branches, inner.size
        self.single_number = has_trait(inner, "single_number")

    def to_rows(self, output: Tensor) -> Tensor:
        """The network's output, [B, A · size], as that of plain actions in every branch: [B · D, M · size]."""
        rows = self.branches.to_rows(output.reshape(len(output), -1, self.size))
        return rows.flatten(0, 1).flatten(1)

    def q(self, output: Tensor) -> Tensor:
        """Expected values of all choices, branch after branch: [B, A]."""
        return self.inner.q(output)

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """The value of the chosen one in every branch, [B, D, …]."""
        choice = self.branches.to_choices(action).flatten()
        return self._by_branch(self.inner.select(self.to_rows(output), choice))

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """The value of a choice drawn from `policy` [B, A] in every branch, [B, D, …]."""
        legal = self.branches.mask_rows(None, len(policy))
        rows = self.branches.to_rows(policy)
        rows = rows if legal is None else rows * legal
        return self._by_branch(self.inner.expect(self.to_rows(output), rows.flatten(0, 1)))

    def mean(self, value: Tensor) -> Tensor:
        """The mean over the branches of their expectations, [B]."""
        return self._by_branch(self.inner.mean(value.flatten(0, 1))).mean(1)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The mean over the branches of each branch's own target, [B, …]."""
        count = self.branches.count
        rows = self.inner.target(
            value.flatten(0, 1), reward.repeat_interleave(count), discount.repeat_interleave(count)
        )
        return self._by_branch(rows).mean(1)

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Means over the branches of losses and priorities: every branch is compared with the same target."""
        same = target.repeat_interleave(self.branches.count, 0)
        loss, priority = self.inner.compare(value.flatten(0, 1), same)
        return self._by_branch(loss).mean(1), self._by_branch(priority).mean(1)

    def _by_branch(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self.branches.count, *rows.shape[1:])  # [B, D, …]


class BranchingBootstrap:
    """A bootstrap of plain actions in every branch, and the mean of what they say."""

    def __init__(self, inner: Bootstrap) -> None:
        self.inner = inner
        self.online_chooses = has_trait(inner, "online_chooses")
        self.single_step_only = has_trait(inner, "single_step_only")

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        """The target that all branches share, [B, …]."""
        assert isinstance(head, BranchingHead)
        count, branches = head.branches.count, head.branches
        obs, action, reward, discount, next_obs, next_mask, mask = transition

        def to_mask_rows(given: Tensor | None) -> Tensor | None:
            rows = branches.mask_rows(given, len(action))
            return None if rows is None else rows.flatten(0, 1)

        rows = Transition(
            obs,
            branches.to_choices(action).flatten(),
            reward.repeat_interleave(count),
            discount.repeat_interleave(count),
            next_obs,
            to_mask_rows(next_mask),
            to_mask_rows(mask),
        )
        goal = self.inner(
            lambda seen: head.to_rows(online(seen)),
            lambda seen: head.to_rows(target(seen)),
            rows,
            head.inner,
        )
        return goal.reshape(-1, count, *goal.shape[1:]).mean(1)


def get_head_branches(head: Head) -> ActionBranches | None:
    """The branches of a head's actions; None for a head of plain actions."""
    return head.branches if isinstance(head, BranchingHead) else None


def best_value(q: Tensor, mask: Tensor | None, branches: ActionBranches) -> Tensor:
    """The mean over the branches of max_a Q_d over the legal choices, [B]."""
    return q.gather(1, branches.to_entries(branches.choose_best(q, mask))).mean(1)


def wrap_head(head: Head, branches: ActionBranches | None) -> Head:
    """The head for actions in branches, if there are any."""
    return head if branches is None else BranchingHead(head, branches)


def wrap_bootstrap(bootstrap: Bootstrap, head: Head) -> Bootstrap:
    """The bootstrap for a head of actions in branches, if it is one."""
    return BranchingBootstrap(bootstrap) if isinstance(head, BranchingHead) else bootstrap
