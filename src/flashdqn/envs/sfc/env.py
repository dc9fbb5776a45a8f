"""Service chain provisioning as a vectorized environment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.compute.random_bits import board_keys
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import EnvError
from flashdqn.core.saved import require_everywhere
from flashdqn.core.types import Step
from flashdqn.envs.kernel_env import copy_actions, copy_state, resolve_kernel_device, restore_state
from flashdqn.envs.sfc import layout
from flashdqn.envs.sfc.bound import bound_reward
from flashdqn.envs.sfc.config import SfcConfig
from flashdqn.envs.sfc.episode import (
    GOES_ON,
    TERMINATED,
    TRUNCATED,
    apply_action,
    find_next_turn,
    start_episode,
)
from flashdqn.envs.sfc.features import observation_length, observe_turn
from flashdqn.envs.sfc.full_features import ratio_or_zero
from flashdqn.envs.sfc.layout import Net
from flashdqn.envs.sfc.placement import rewrite_mask
from flashdqn.envs.sfc.saved_state import check_network_state
from flashdqn.envs.sfc.state import TABLES, make_net
from flashdqn.envs.sfc.tables import Tables

# An action takes about a microsecond: below this, a second thread costs more than it gains on a busy machine.
PARALLEL_FROM = 128
#: what dropped requests lacked when their time ran out, as shares of all requests
DROPS = ("no_room", "no_bandwidth", "no_time")
#: the names of Virne for what it measures: what accepted requests asked for, that by what they took, and per ms
VIRNE = ("acceptance_rate", "total_revenue", "long_term_r2c_ratio", "long_term_avg_revenue")


def outcome_names(tables: Tables) -> tuple[str, ...]:
    """`score` is the share of requests that were satisfied; cpu and storage are the mean shares that instances
    held."""
    chains = tuple(f"accepted_{chain.name}" for chain in tables.chains)
    return ("score", *chains, "cpu", "storage", *DROPS, "delay_ms", "throughput_gbps", *VIRNE)


@inner
def write_outcomes(i: Scalar, net: Net, outcomes: Array) -> None:
    """Write the outcomes in the order of `outcome_names`; a chain without requests counts as accepted."""
    chains = len(net.chains)
    asked, satisfied = np.int64(0), np.int64(0)
    for chain in range(chains):
        asked += net.tally[i, chain, layout.ASKED]
        satisfied += net.tally[i, chain, layout.SATISFIED]
        unasked = net.tally[i, chain, layout.ASKED] == 0
        accepted = ratio_or_zero(net.tally[i, chain, layout.SATISFIED], net.tally[i, chain, layout.ASKED])
        outcomes[i, 1 + chain] = np.float32(1.0) if unasked else accepted
    outcomes[i, 0] = ratio_or_zero(satisfied, asked)
    at = 1 + chains
    outcomes[i, at] = ratio_or_zero(net.sums[i, layout.CPU_USED], net.sums[i, layout.CPU_ALL])
    outcomes[i, at + 1] = ratio_or_zero(net.sums[i, layout.STORAGE_USED], net.sums[i, layout.STORAGE_ALL])
    for k in range(layout.CAUSES):
        outcomes[i, at + 2 + k] = ratio_or_zero(net.cause[i, k], asked)
    outcomes[i, at + 2 + layout.CAUSES] = ratio_or_zero(net.sums[i, layout.DELAY], 1000 * satisfied)
    at += 3 + layout.CAUSES
    outcomes[i, at] = ratio_or_zero(net.sums[i, layout.KBPS], 1_000_000)
    revenue = net.sums[i, layout.REVENUE]
    microseconds = np.int64(net.state[i, layout.NOW]) * net.params[layout.SLOT_US]
    outcomes[i, at + 1] = outcomes[i, 0]
    outcomes[i, at + 2] = ratio_or_zero(revenue, 1000)
    outcomes[i, at + 3] = ratio_or_zero(revenue, net.sums[i, layout.COST])
    outcomes[i, at + 4] = ratio_or_zero(revenue, microseconds)


@inner
def step_network(
    i: Scalar,
    action: Array,
    obs: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    outcomes: Array,
    elapsed: Array,
    *arrays: Array,
) -> None:
    """Take one action in network `i`, go on until the next action is due, and observe."""
    net = Net(*arrays)
    earned, before = np.int64(0), net.state[i, layout.NOW]
    if net.state[i, layout.OVER] != 0:
        start_episode(i, net)
        before = 0
    else:
        earned = apply_action(i, action[i], net)
    paid, end = find_next_turn(i, net)
    paid += bound_reward(i, net)
    # Rewards are whole thousandths until here: one division rounds the same everywhere.
    reward[i] = np.float32(earned + paid) / np.float32(1000.0)
    elapsed[i] = min(net.state[i, layout.NOW] - before, 255)
    terminated[i] = end == TERMINATED
    truncated[i] = end == TRUNCATED
    if end != GOES_ON:
        write_outcomes(i, net, outcomes)
    observe_turn(i, net, obs)


class ServiceChains:
    """`num_envs` networks on one device; one kernel launch takes an action of the data center in turn in each.

    Actions: allocate each VNF (installing it where none is idle), uninstall each, wait. An illegal action
    does nothing, and costs. Outputs are static buffers, overwritten by the next step.
    """

    name = "sfc"
    first_board = 0

    def __init__(self, config: SfcConfig, num_envs: int, device: torch.device | str = "cpu") -> None:
        if num_envs < 1:
            raise EnvError(f"Service chains need at least one network; num_envs is {num_envs}.")
        self.config, self.num_envs, self.tables = config, num_envs, config.read()
        self.device = resolve_kernel_device(torch.device(device), "Service chains")
        self.capturable = self.device.type == "cuda"
        vnfs, chains = len(self.tables.vnfs), len(self.tables.chains)
        self.num_actions = 2 * vnfs + 1
        self.obs_spec = ObsSpec((observation_length(vnfs, chains, config.state == "full"),), torch.float32)
        self.outcome_names: tuple[str, ...] = outcome_names(self.tables)
        self.net = make_net(config, self.tables, num_envs, self.device)
        self._allocate()
        self._launch = Kernel(step_network, PARALLEL_FROM, skippable=True).bind(
            num_envs, self._action, *self._step[:4], self.outcomes, self._elapsed, *self.net
        )
        self.reset(0)

    def _allocate(self) -> None:
        n, device = self.num_envs, self.device
        self._action = self.action_buffer = torch.zeros(n, dtype=torch.int64, device=device)
        self.outcomes = torch.zeros(n, len(self.outcome_names), device=device)
        self._elapsed = torch.zeros(n, dtype=torch.uint8, device=device)
        self._step = Step(
            obs=torch.zeros(n, *self.obs_spec.shape, device=device),
            reward=torch.zeros(n, device=device),
            terminated=torch.zeros(n, dtype=torch.bool, device=device),
            truncated=torch.zeros(n, dtype=torch.bool, device=device),
            mask=self.mask,
            elapsed=self._elapsed if self.timed else None,
        )

    @property
    def timed(self) -> bool:
        """Whether γ counts parts of a step; if not, it counts actions."""
        return self.config.discount == "time"

    @property
    def mask(self) -> Tensor | None:
        """Legal actions of the data centers in turn; None where masking is off."""
        mask: Tensor = self.net.mask
        return mask if self.config.masks else None

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every network."""
        self.net.rng[:, 0] = board_keys(seed, self.num_envs, self.first_board).to(self.device)
        self.net.rng[:, 1] = 0
        self.net.state[:, layout.OVER] = 1  # the step after an end starts an episode
        self.outcomes.zero_()
        self._launch()
        return self._step.obs

    def step(self, action: Tensor) -> Step:
        """Take one action, [N] of any integer dtype, for the data center in turn of every network."""
        copy_actions(self._action, action, "Service chains")
        self._launch()
        return self._step

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to continue from here, as copies."""
        return copy_state(self._tensors())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken, on any device."""
        settings = "tables, data centers, bundles, number of networks"
        restore_state(self._tensors(), state, "service chains", settings, self._check)
        # A kernel serves a request where the mask says that there is one.
        Kernel(rewrite_mask, PARALLEL_FROM).bind(self.num_envs, *self.net)()
        allowed = self.net.mask.cpu() == state["mask"].cpu()
        require_everywhere(allowed, "the legal actions must be those of the lists")

    def _check(self, state: Mapping[str, Tensor]) -> None:
        check_network_state(state, self.net)

    def _tensors(self) -> dict[str, Tensor]:
        networks = {name: x for name, x in self.net._asdict().items() if name not in TABLES}
        outputs = dict(zip(("obs", "reward", "terminated", "truncated"), self._step[:4], strict=True))
        return networks | outputs | {"outcomes": self.outcomes}
