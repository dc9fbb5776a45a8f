"""ε-greedy actions of a plain two-layer MLP in one kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.networks.build import QNetwork
from flashdqn.training.backends.cuda.arguments import ForwardTile, Rules, divide_up, make_layout, mask_bytes
from flashdqn.training.backends.cuda.network import flat_view, mlp_sizes
from flashdqn.training.backends.cuda.plans import PolicyPlan, choose_policy_plan


class FusedPolicy:
    """ε-greedy actions of a network that `mlp_sizes` supports; call it with the observations."""

    def __init__(self, online: QNetwork, num_envs: int, plan: PolicyPlan | None = None) -> None:
        sizes = mlp_sizes(online)
        if sizes is None:
            raise ValueError("FusedPolicy needs a plain MLP of two hidden layers.")
        from flashdqn.training.backends.cuda import kernel_policy  # needs Triton

        self._kernel = kernel_policy.policy_kernel
        self.flat, self.num_envs, self.layout = flat_view(online), num_envs, make_layout(sizes)
        self.plan = plan = plan or choose_policy_plan(sizes, num_envs)
        self.tile = ForwardTile(plan.rows, min(plan.columns, sizes.hidden2), min(plan.depth, sizes.hidden1))
        self.action = torch.zeros(num_envs, dtype=torch.int64, device=self.flat.device)

    def __call__(self, obs: Tensor, mask: Tensor | None, eps: Tensor, coin: Tensor, luck: Tensor) -> Tensor:
        """The best legal action or, where coin < ε, the ⌊luck · legal⌋-th legal one: [N], overwritten each time."""
        plan = self.plan
        rules = Rules(self.num_envs, obs.dtype == torch.uint8, mask is not None, plan.precision)
        self._kernel[(divide_up(self.num_envs, plan.rows),)](
            self.flat, obs, mask_bytes(mask, obs), eps, coin, luck, self.action,
            self.layout, rules, self.tile, num_warps=plan.warps, num_stages=plan.stages,
        )  # fmt: skip
        return self.action
