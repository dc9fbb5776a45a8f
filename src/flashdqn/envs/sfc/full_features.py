"""What an agent sees beyond the paper's state: which request is next, where there is room, what there is to do.

The paper's state counts requests. It hides which one an action would serve, how urgent it is and how far away, the
other data centers, and the time. With `--env.state full` two parts follow the paper's three; float32 in [0, 1]:

next requests, V x (11 + S), for each VNF, of the request that it would serve next at this data center:
    waits           1 if there is one; if not, the next seven are 0
    chain [S]       1 for its chain
    slack           s / (s + 10 ms), s the time that it can still wait
    rest            CPU that its chain still needs, in parts of a step / the most that any chain needs
    hold            parts of a step that an instance would be held for, at most 4, / 4
    here            1 if it waits at this data center
    target          1 if it leaves the network at this data center
    begun           1 if its chain has been begun
    room            1 if this data center has an idle instance, or room for a new one
    more            instances that fit into the free CPU, FEW
    waiting         requests that wait for the VNF anywhere, MANY
    elsewhere       other data centers that have room / other data centers
network, 10:
    cpu             CPU of this data center / the largest that any can have
    unused          its CPU that serves no request / its CPU
    others          CPU of all data centers that serves no request / all CPU
    centers         data centers, FEW
    to pass         data centers that have not passed in this part of the step / data centers
    passed          1 if this one has
    actions         actions that are left in this part of the step / all
    load            c / (c + all CPU until the last deadline), c the CPU that unfinished requests still need
    since           parts of a step since the last bundle / parts between bundles; at most 1
    bundles         bundles that have arrived, FEW
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.sfc.bound import idle_cpu
from flashdqn.envs.sfc.layout import (
    ACTIONS,
    ACTIONS_PER_SLOT,
    AHEAD_PLACE,
    AHEAD_REQUEST,
    AHEAD_STAGE,
    ARRIVED,
    BUNDLE_SLOTS,
    CHAIN,
    CPU,
    CPU_SCALE,
    DCS,
    FEW,
    LAST_LIMIT_US,
    MANY,
    MAX_SHADE,
    MOST_CPU,
    NOBODY,
    NOW,
    PASSED,
    POSITION,
    PROCESSING,
    SLOT_US,
    STAGE_LEAST,
    STAGE_REST,
    TARGET,
    Net,
)
from flashdqn.envs.sfc.requests import deadline_us, has_room

#: numbers for each VNF besides those of the chains, and for the network
FOR_VNF, FOR_NETWORK = 11, 10
#: the slack that is shown as ½
HALF_SLACK_US = 10_000
LONGEST_HOLD = 4


@inner
def squash_count(kind: Scalar, count: Scalar, net: Net) -> Scalar:
    """A count as a number in [0, 1)."""
    return net.shades[kind, min(count, MAX_SHADE)]


@inner
def ratio_or_zero(part: Scalar, whole: Scalar) -> Scalar:
    """part / whole in float32; 0 where there is no whole."""
    return np.float32(part) / np.float32(whole) if whole > 0 else np.float32(0.0)


@inner
def flag(condition: Scalar) -> Scalar:
    """1 where the condition holds, else 0."""
    return np.float32(1.0) if condition else np.float32(0.0)


@inner
def observe_next_request(
    i: Scalar, d: Scalar, v: Scalar, row: Scalar, at: Scalar, net: Net, obs: Array
) -> None:
    """Write what the next request for VNF v is."""
    r, stage = net.ahead[i, v, AHEAD_REQUEST], net.ahead[i, v, AHEAD_STAGE]
    here, slot = net.ahead[i, v, AHEAD_PLACE], net.params[SLOT_US]
    chains = len(net.chains)
    slack = max(deadline_us(i, r, net) - net.state[i, NOW] * slot - net.stages[stage, STAGE_LEAST], 0)
    hold = (net.delay[i, here, d] + net.vnfs[v, PROCESSING] + slot - 1) // slot
    obs[row, at] = np.float32(1.0)
    obs[row, at + 1 + net.request[i, r, CHAIN]] = np.float32(1.0)
    obs[row, at + 1 + chains] = ratio_or_zero(slack, slack + HALF_SLACK_US)
    obs[row, at + 2 + chains] = ratio_or_zero(net.stages[stage, STAGE_REST], net.params[MOST_CPU])
    obs[row, at + 3 + chains] = ratio_or_zero(min(hold, LONGEST_HOLD), LONGEST_HOLD)
    obs[row, at + 4 + chains] = flag(here == d)
    obs[row, at + 5 + chains] = flag(net.request[i, r, TARGET] == d)
    obs[row, at + 6 + chains] = flag(net.request[i, r, POSITION] > 0)


@inner
def observe_next_requests(i: Scalar, d: Scalar, row: Scalar, at: Scalar, net: Net, obs: Array) -> Scalar:
    """Write the part about the next requests; return where to write next."""
    count, chains, dcs = len(net.vnfs), len(net.chains), net.state[i, DCS]
    for v in range(count):
        for k in range(FOR_VNF + chains):
            obs[row, at + k] = np.float32(0.0)
        if net.ahead[i, v, AHEAD_REQUEST] != NOBODY:
            observe_next_request(i, d, v, row, at, net, obs)
        waiting, rooms = 0, 0
        for chain in range(chains):
            waiting += net.demand[i, chain * count + v]
        for other in range(dcs):
            rooms += 1 if other != d and has_room(i, other, v, net) else 0
        obs[row, at + 7 + chains] = flag(has_room(i, d, v, net))
        obs[row, at + 8 + chains] = squash_count(FEW, net.free[i, d, CPU] // max(net.vnfs[v, CPU], 1), net)
        obs[row, at + 9 + chains] = squash_count(MANY, waiting, net)
        obs[row, at + 10 + chains] = ratio_or_zero(rooms, dcs - 1)
        at += FOR_VNF + chains
    return at


@inner
def observe_network(i: Scalar, d: Scalar, row: Scalar, at: Scalar, net: Net, obs: Array) -> None:
    """Write the part about the network."""
    dcs, slot, now = net.state[i, DCS], net.params[SLOT_US], net.state[i, NOW]
    cpu, unused, passed = np.int64(0), np.int64(0), 0
    for other in range(dcs):
        cpu += net.capacity[i, other, CPU]
        unused += idle_cpu(i, other, net)
        passed += (net.sums[i, PASSED] >> other) & 1
    needed = np.int64(0)
    for bundle in range(net.state[i, ARRIVED]):
        for stage in range(len(net.stages)):
            needed += np.int64(net.todo[i, bundle, stage]) * net.stages[stage, STAGE_REST]
    arrived, apart = net.state[i, ARRIVED], net.params[BUNDLE_SLOTS]
    newest = net.arrivals[arrived - 1]
    left = newest + net.params[LAST_LIMIT_US] // slot - now
    obs[row, at] = ratio_or_zero(net.capacity[i, d, CPU], net.params[CPU_SCALE])
    obs[row, at + 1] = ratio_or_zero(idle_cpu(i, d, net), net.capacity[i, d, CPU])
    obs[row, at + 2] = ratio_or_zero(unused, cpu)
    obs[row, at + 3] = squash_count(FEW, dcs, net)
    obs[row, at + 4] = ratio_or_zero(dcs - passed, dcs)
    obs[row, at + 5] = flag((net.sums[i, PASSED] >> d) & 1 != 0)
    per_slot = net.params[ACTIONS_PER_SLOT]
    obs[row, at + 6] = ratio_or_zero(max(per_slot - net.state[i, ACTIONS], 0), per_slot)
    obs[row, at + 7] = ratio_or_zero(needed, needed + cpu * max(left, 0))
    obs[row, at + 8] = ratio_or_zero(min(now - newest, apart), apart)
    obs[row, at + 9] = squash_count(FEW, arrived, net)
