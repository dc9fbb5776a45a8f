"""What an episode comes to: acceptance in all and by chain, delay, throughput, resources, and causes of drops."""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.sfc.features import ratio_or_zero
from flashdqn.envs.sfc.layout import (
    ASKED,
    CAUSES,
    CPU_ALL,
    CPU_USED,
    DELAY,
    KBPS,
    SATISFIED,
    STORAGE_ALL,
    STORAGE_USED,
    Net,
)
from flashdqn.envs.sfc.tables import Tables

#: of the requests that were dropped, what they lacked when their time ran out; shares of all requests
DROPS = ("no_room", "no_bandwidth", "no_time")


def outcome_names(tables: Tables) -> tuple[str, ...]:
    """`score` is the share of requests that were satisfied; cpu and storage are the mean shares that instances
    held."""
    chains = tuple(f"accepted_{chain.name}" for chain in tables.chains)
    return ("score", *chains, "cpu", "storage", *DROPS, "delay_ms", "throughput_gbps")


@inner
def write_outcomes(i: Scalar, net: Net, outcomes: Array) -> None:
    """As `outcome_names` has them; of a chain that nobody asked for, none was refused."""
    chains = len(net.chains)
    asked, satisfied = np.int64(0), np.int64(0)
    for chain in range(chains):
        asked += net.tally[i, chain, ASKED]
        satisfied += net.tally[i, chain, SATISFIED]
        nobody = net.tally[i, chain, ASKED] == 0
        accepted = ratio_or_zero(net.tally[i, chain, SATISFIED], net.tally[i, chain, ASKED])
        outcomes[i, 1 + chain] = np.float32(1.0) if nobody else accepted
    outcomes[i, 0] = ratio_or_zero(satisfied, asked)
    at = 1 + chains
    outcomes[i, at] = ratio_or_zero(net.sums[i, CPU_USED], net.sums[i, CPU_ALL])
    outcomes[i, at + 1] = ratio_or_zero(net.sums[i, STORAGE_USED], net.sums[i, STORAGE_ALL])
    for k in range(CAUSES):
        outcomes[i, at + 2 + k] = ratio_or_zero(net.cause[i, k], asked)
    outcomes[i, at + 2 + CAUSES] = ratio_or_zero(net.sums[i, DELAY], 1000 * satisfied)
    outcomes[i, at + 3 + CAUSES] = ratio_or_zero(net.sums[i, KBPS], 1_000_000)
