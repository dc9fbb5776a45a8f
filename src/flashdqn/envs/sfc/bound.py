"""How many requests CPU and time can still satisfy, and what an action costs of that; scalar kernel code.

Each VNF takes its CPU for whole parts of a step. The *budget* is the CPU of all data centers in all parts until the
last deadline that is not yet promised to anybody. A chain still needs some of it, which follows from its
stage. With the cheapest requests first, whole ones and a fraction of the last, a budget satisfies at most B
requests: no policy can do better, whatever the delays, the links and the sizes of the data centers. Actions have a
budget too: so many for each part of a step, of which every VNF takes one. Where CPU is plenty, they are short.

The reward of an action can be the change of B, plus 1 for a chain whose last VNF it allocates. Then all
rewards of an episode add up to the number of satisfied requests minus B at the start, and each one says at
once what the action
costs: nothing if it brings on a request that B counts on; the CPU of a data center that passes with room left; the
parts of a step that data is on its way, because the instance is held meanwhile; the difference if it serves an
expensive chain before a cheap one. That is a potential (Ng, Harada and Russell 1999), so it does not change which
policy is best.

A budget does not know that a chain of three VNFs needs three parts of a step, whatever CPU there is: it would see
that a request is lost only when it is. So with `urgency` a request counts less the less it can still wait, half
as much less with every millisecond. Serving it in time gives that back at once.

Real networks cannot use all their CPU and actions. So B is the mean for several shares of the budgets: both have a
price a little before they run out. Bundles that are still to come count with their mean size. What an arrival
changes is luck, and no action's reward.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Scalar, inner
from flashdqn.envs.sfc.layout import (
    ACTIONS,
    ACTIONS_PER_SLOT,
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
    NOW,
    PASSED,
    PAY_BOUND,
    SLOT_US,
    STAGE_CHAIN,
    STAGE_LEAST,
    STAGE_REST,
    URGENCY,
    Net,
)

#: percent of the budgets for which the number of requests is averaged
SHARES = (100, 85, 70)
#: milliseconds after which no urgency is left
LONGEST_WAIT = 16


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
def count_turns(stage: Scalar, net: Net) -> Scalar:
    """The actions that a request at a stage still needs, one for each VNF."""
    chain = net.stages[stage, STAGE_CHAIN]
    return net.chains[chain, FIRST] + net.chains[chain, LENGTH] - stage


@inner
def turns_until(i: Scalar, ends: Scalar, net: Net) -> Scalar:
    """The actions that are left before a part of a step."""
    each = np.int64(net.params[ACTIONS_PER_SLOT])
    return max(np.int64(0), each * (ends - net.state[i, NOW]) - net.state[i, ACTIONS])


@inner
def drop_most_expensive(
    i: Scalar, cpu: Scalar, turns: Scalar, budget: Scalar, turn_budget: Scalar, net: Net
) -> Scalar:
    """Take the requests that need most CPU out of those that are counted, until the others fit into the budgets of
    CPU and of actions, all in thousandths; return what these need of both."""
    k = len(net.cheapest) - 1
    while (cpu > budget or turns > turn_budget) and k >= 0:
        stage = net.cheapest[k]
        rest, each, counted = net.stages[stage, STAGE_REST], count_turns(stage, net), net.counted[i, stage]
        excess = max((cpu - budget + rest - 1) // rest, (turns - turn_budget + each - 1) // each)
        removed = min(counted, excess)
        net.counted[i, stage] = counted - removed
        cpu -= removed * rest
        turns -= removed * each
        k -= 1
    return cpu, turns


@inner
def count_in_time(i: Scalar, bundle: Scalar, chain: Scalar, stage: Scalar, net: Net) -> Scalar:
    """How much of a request at a stage counts, in thousandths: less if it cannot wait much longer."""
    urgency, slot = np.int64(net.params[URGENCY]), net.params[SLOT_US]
    if urgency == 0:
        return np.int64(1000)
    deadline = net.arrivals[bundle] * slot + net.chains[chain, LIMIT_US]
    slack = deadline - net.state[i, NOW] * slot - net.stages[stage, STAGE_LEAST]
    return 1000 - (urgency >> min(max(slack // 1000, 0), LONGEST_WAIT))


@inner
def count_requests(i: Scalar, bundle: Scalar, chain: Scalar, net: Net) -> Scalar:
    """Count the unfinished requests of a bundle for a chain, or those that it will have; return the CPU and the
    actions that they need, all in thousandths."""
    first, cpu, turns = net.chains[chain, FIRST], np.int64(0), np.int64(0)
    if bundle >= net.state[i, ARRIVED]:
        asked = np.int64(net.expected[bundle, chain])
        net.counted[i, first] += asked
        return asked * net.stages[first, STAGE_REST], asked * count_turns(first, net)
    for stage in range(first, first + net.chains[chain, LENGTH]):
        asked = count_in_time(i, bundle, chain, stage, net) * net.todo[i, bundle, stage]
        net.counted[i, stage] += asked
        cpu += asked * net.stages[stage, STAGE_REST]
        turns += asked * count_turns(stage, net)
    return cpu, turns


@inner
def count_satisfiable(i: Scalar, net: Net) -> Scalar:
    """B in thousandths of a request."""
    slot, capacity, count = net.params[SLOT_US], np.int64(0), np.int64(0)
    for d in range(net.state[i, DCS]):
        capacity += net.capacity[i, d, CPU]
    for share in SHARES:
        cpu, turns = np.int64(0), np.int64(0)
        for stage in range(len(net.stages)):
            net.counted[i, stage] = 0
        for k in range(len(net.due)):
            bundle, chain = net.due[k, 0], net.due[k, 1]
            if bundle >= net.state[i, BUNDLES]:
                continue
            more_cpu, more_turns = count_requests(i, bundle, chain, net)
            ends = net.arrivals[bundle] + (net.chains[chain, LIMIT_US] + slot - 1) // slot
            budget = net.sums[i, BUDGET] - (last_slot(i, net) - ends) * capacity
            cpu, turns = drop_most_expensive(
                i, cpu + more_cpu, turns + more_turns, max(np.int64(0), 10 * share * budget),
                10 * share * turns_until(i, ends, net), net,
            )  # fmt: skip
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
