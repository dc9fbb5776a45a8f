"""What an agent sees: the data center in turn, the chains there, the chains pending anywhere; scalar kernel code.

float32 in [0, 1], V VNFs and S chains; its length does not depend on the number of data centers.

here, 2V + 2:
    installed [V]   instances at this data center, shaded FEW
    idle [V]        those of them that are idle, FEW
    storage         free storage / the largest that any data center can have
    cpu             free CPU / the largest that any data center can have
chains here, S x (1 + 2V), for each chain:
    type            (chain + 1) / S where requests for it are here, else 0
    served [V]      requests being served here by each VNF, FEW
    waiting [V]     requests waiting here for each VNF, SOME
chains anywhere, S x (4 + V), for each chain:
    type            (chain + 1) / S where requests for it are pending, else 0
    count           pending requests: not satisfied, not dropped and not done; MANY
    time            least remaining time of these / the chain's longest delay; 1 where there are none
    bandwidth       b / (b + a link), b the bandwidth that they ask for together
    waiting [V]     requests waiting anywhere for each VNF, MANY

A count n is shaded as n / (n + h), h = 4 (FEW), 16 (SOME), 64 (MANY): 0 and 1 are far apart, and none is above 1.
Shades are looked up, and every other number is one division of two integers: CPU and CUDA round the same.
"""

from __future__ import annotations

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.sfc.full_features import (
    FOR_NETWORK,
    FOR_VNF,
    observe_network,
    observe_next_requests,
    ratio_or_zero,
    squash_count,
)
from flashdqn.envs.sfc.layout import (
    ARRIVED,
    CPU,
    CPU_SCALE,
    DC,
    FEW,
    FULL_STATE,
    LIMIT_US,
    LINK_KBPS,
    MANY,
    NOW,
    PENDING_KBPS,
    SLOT_US,
    SOME,
    STORAGE,
    STORAGE_SCALE,
    Net,
)
from flashdqn.envs.sfc.requests import arrival_us

HALVES = (4, 16, 64)  # h of FEW, SOME, MANY


def observation_shapes(vnfs: int, chains: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the three parts of an observation."""
    return (2 * vnfs + 2,), (chains, 1 + 2 * vnfs), (chains, 4 + vnfs)


def observation_length(vnfs: int, chains: int, full: bool = False) -> int:
    """The length of an observation."""
    paper = 2 * vnfs + 2 + chains * (1 + 2 * vnfs) + chains * (4 + vnfs)
    return paper + (vnfs * (FOR_VNF + chains) + FOR_NETWORK if full else 0)


@inner
def observe_data_center(i: Scalar, d: Scalar, row: Scalar, net: Net, obs: Array) -> Scalar:
    """Write the first part; return where to write next."""
    count = len(net.vnfs)
    for v in range(count):
        obs[row, v] = squash_count(FEW, net.installed[i, d, v], net)
        obs[row, count + v] = squash_count(FEW, net.idle[i, d, v], net)
    obs[row, 2 * count] = ratio_or_zero(net.free[i, d, STORAGE], net.params[STORAGE_SCALE])
    obs[row, 2 * count + 1] = ratio_or_zero(net.free[i, d, CPU], net.params[CPU_SCALE])
    return 2 * count + 2


@inner
def observe_local_chains(i: Scalar, d: Scalar, row: Scalar, at: Scalar, net: Net, obs: Array) -> Scalar:
    """Write the second part; return where to write next."""
    count, chains = len(net.vnfs), len(net.chains)
    for chain in range(chains):
        present = 0
        for v in range(count):
            busy, waiting = net.busy[i, d, chain * count + v], net.waiting[i, d, chain * count + v]
            present += busy + waiting
            obs[row, at + 1 + v] = squash_count(FEW, busy, net)
            obs[row, at + 1 + count + v] = squash_count(SOME, waiting, net)
        obs[row, at] = ratio_or_zero(chain + 1 if present > 0 else 0, chains)
        at += 1 + 2 * count
    return at


@inner
def observe_pending_chains(i: Scalar, row: Scalar, at: Scalar, net: Net, obs: Array) -> Scalar:
    """Write the third part; return where to write next."""
    count, chains, now = len(net.vnfs), len(net.chains), net.state[i, NOW] * net.params[SLOT_US]
    for chain in range(chains):
        limit, pending, remaining = net.chains[chain, LIMIT_US], 0, net.chains[chain, LIMIT_US]
        for bundle in range(net.state[i, ARRIVED] - 1, -1, -1):
            if net.unfinished[i, bundle, chain] > 0:
                pending += net.unfinished[i, bundle, chain]
                remaining = arrival_us(bundle, net) + limit - now
        kbps = net.tally[i, chain, PENDING_KBPS]
        obs[row, at] = ratio_or_zero(chain + 1 if pending > 0 else 0, chains)
        obs[row, at + 1] = squash_count(MANY, pending, net)
        obs[row, at + 2] = ratio_or_zero(max(remaining, 0), limit)
        obs[row, at + 3] = ratio_or_zero(kbps, kbps + net.params[LINK_KBPS])
        for v in range(count):
            obs[row, at + 4 + v] = squash_count(MANY, net.demand[i, chain * count + v], net)
        at += 4 + count
    return at


@inner
def write_observation(i: Scalar, d: Scalar, row: Scalar, net: Net, obs: Array) -> None:
    """Write what the agent of data center d sees into a row of `obs`; `write_mask` for d comes first."""
    at = observe_data_center(i, d, row, net, obs)
    at = observe_local_chains(i, d, row, at, net, obs)
    at = observe_pending_chains(i, row, at, net, obs)
    if net.params[FULL_STATE] != 0:
        at = observe_next_requests(i, d, row, at, net, obs)
        observe_network(i, d, row, at, net, obs)


@inner
def observe_turn(i: Scalar, net: Net, obs: Array) -> None:
    """Write what the data center in turn sees."""
    write_observation(i, net.state[i, DC], i, net, obs)
