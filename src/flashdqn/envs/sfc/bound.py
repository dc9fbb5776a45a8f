"""How many requests the network's CPU can still satisfy, and what an action costs of that; scalar kernel code.

Each VNF takes its CPU for whole parts of a step. The *budget* is the CPU of all data centers in all parts until the
last deadline that is not yet promised to anybody. A chain still needs some of it, which follows from its
stage. With the cheapest requests first, whole ones and a fraction of the last, a budget satisfies at most B
requests: no policy can do better, whatever the delays, the links and the sizes of the data centers.

The reward of an action can be the change of B, plus 1 for a chain whose last VNF it allocates. Then all
rewards of an episode add up to the number of satisfied requests minus B at the start, and each one says at
once what the action
costs: nothing if it brings on a request that B counts on; the CPU of a data center that passes with room left; the
parts of a step that data is on its way, because the instance is held meanwhile; the difference if it serves an
expensive chain before a cheap one. That is a potential (Ng, Harada and Russell 1999), so it does not change which
policy is best.

Real networks cannot use all their CPU. So B is the mean for several shares of the budget: CPU has a price a little
before it runs out. Bundles that are still to come count with their mean size. What an arrival changes is luck, and
no action's reward.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Scalar, inner
from flashdqn.envs.sfc.layout import (
    ARRIVED,
    BOUND,
    BUDGET,
    BUNDLES,
    CPU,
    DCS,
    FIRST,
    LAST_LIMIT_US,
    LENGTH,
    LIMIT_US,
    PASSED,
    PAY_BOUND,
    SLOT_US,
    STAGE_REST,
    Net,
)

#: percent of the budget for which the number of requests is averaged
SHARES = (100, 85, 70)


@inner
def last_slot(i: Scalar, net: Net) -> Scalar:
    """The part of a step in which the last deadline of an episode lies."""
    slot = net.params[SLOT_US]
    longest = (net.params[LAST_LIMIT_US] + slot - 1) // slot
    return net.arrivals[net.state[i, BUNDLES] - 1] + longest


@inner
def open_budget(i: Scalar, net: Net) -> None:
    """The budget of an episode that starts: all CPU until the last deadline of its last bundle."""
    for d in range(net.state[i, DCS]):
        net.sums[i, BUDGET] += np.int64(last_slot(i, net)) * net.capacity[i, d, CPU]
    net.sums[i, BOUND] = count_satisfiable(i, net)


@inner
def idle_cpu(i: Scalar, d: Scalar, net: Net) -> Scalar:
    """CPU of a data center that serves no request: free, or of idle instances."""
    cpu = np.int64(net.capacity[i, d, CPU])
    for v in range(len(net.vnfs)):
        cpu -= (net.installed[i, d, v] - net.idle[i, d, v]) * net.vnfs[v, CPU]
    return cpu


@inner
def spend_budget(i: Scalar, d: Scalar, spent: Scalar, now: Scalar, net: Net) -> None:
    """Take the CPU of a service from the budget; `now` is its share in this part, which a data center that has
    passed has lost already."""
    lost = (net.sums[i, PASSED] >> d) & 1
    net.sums[i, BUDGET] -= spent - (now if lost else 0)


@inner
def pass_turn(i: Scalar, d: Scalar, net: Net) -> None:
    """Take the CPU that a data center leaves unused in this part from the budget, once."""
    bit = np.int64(1) << d
    if net.sums[i, PASSED] & bit == 0:
        net.sums[i, PASSED] |= bit
        net.sums[i, BUDGET] -= idle_cpu(i, d, net)


@inner
def close_slot(i: Scalar, net: Net) -> None:
    """End a part of a step: who has not passed passes now."""
    for d in range(net.state[i, DCS]):
        pass_turn(i, d, net)
    net.sums[i, PASSED] = 0


@inner
def drop_most_expensive(i: Scalar, total: Scalar, budget: Scalar, net: Net) -> Scalar:
    """Take the requests that need most CPU out of those that are counted, until the others fit into a budget, in
    thousandths of a unit; return what these need."""
    k = len(net.cheapest) - 1
    while total > budget and k >= 0:
        stage = net.cheapest[k]
        rest, counted = net.stages[stage, STAGE_REST], net.counted[i, stage]
        removed = min(counted, (total - budget + rest - 1) // rest)
        net.counted[i, stage] = counted - removed
        total -= removed * rest
        k -= 1
    return total


@inner
def count_requests(i: Scalar, bundle: Scalar, chain: Scalar, net: Net) -> Scalar:
    """Count the unfinished requests of a bundle for a chain, or those that it will have; return the CPU that they
    need, both in thousandths."""
    first, total = net.chains[chain, FIRST], np.int64(0)
    if bundle >= net.state[i, ARRIVED]:
        asked = np.int64(net.expected[bundle, chain])
        net.counted[i, first] += asked
        return asked * net.stages[first, STAGE_REST]
    for stage in range(first, first + net.chains[chain, LENGTH]):
        asked = np.int64(1000) * net.todo[i, bundle, stage]
        net.counted[i, stage] += asked
        total += asked * net.stages[stage, STAGE_REST]
    return total


@inner
def count_satisfiable(i: Scalar, net: Net) -> Scalar:
    """B in thousandths of a request."""
    slot, cpu, count = net.params[SLOT_US], np.int64(0), np.int64(0)
    for d in range(net.state[i, DCS]):
        cpu += net.capacity[i, d, CPU]
    for share in SHARES:
        total = np.int64(0)
        for stage in range(len(net.stages)):
            net.counted[i, stage] = 0
        for k in range(len(net.due)):
            bundle, chain = net.due[k, 0], net.due[k, 1]
            if bundle >= net.state[i, BUNDLES]:
                continue
            total += count_requests(i, bundle, chain, net)
            ends = net.arrivals[bundle] + (net.chains[chain, LIMIT_US] + slot - 1) // slot
            budget = net.sums[i, BUDGET] - (last_slot(i, net) - ends) * cpu
            total = drop_most_expensive(i, total, max(np.int64(0), 10 * share * budget), net)
        for stage in range(len(net.stages)):
            count += net.counted[i, stage]
    return count // len(SHARES)


@inner
def bound_reward(i: Scalar, net: Net) -> Scalar:
    """The reward for the change of B since it was last asked for, in thousandths."""
    if net.pay[PAY_BOUND] == 0:
        return np.int64(0)
    before, after = net.sums[i, BOUND], count_satisfiable(i, net)
    net.sums[i, BOUND] = after
    return (after - before) * net.pay[PAY_BOUND] // 1000
