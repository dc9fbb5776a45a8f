"""Serving requests: which is next for a VNF at a data center, allocating and uninstalling; scalar kernel code.

The next request has the highest P1 + P2 + P3 of those that can be served there; of equal ones the first.
P1 = elapsed − allowed time, in ms; P2 = 10 if its last VNF ran on this data center, −5 if on another, 0 if it has
not had one; P3 = 100 / remaining ms where less than 10 ms remain.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.sfc.bound import spend_budget
from flashdqn.envs.sfc.layout import (
    AHEAD_PLACE,
    AHEAD_REQUEST,
    AHEAD_STAGE,
    BANDWIDTH,
    BUNDLE,
    CHAIN,
    COST,
    CPU,
    DC,
    DCS,
    DELAY,
    FIRST,
    FULL_STATE,
    KBPS,
    KBPS_LOW,
    LENGTH,
    NEXT,
    NOBODY,
    NOW,
    NOWHERE,
    OVER,
    PAY_NEEDED,
    PAY_SATISFIED,
    PLACE,
    POSITION,
    PROCESSING,
    REVENUE,
    SATISFIED,
    SLOT_US,
    SOURCE,
    STAGE_CELL,
    STAGE_CHAIN,
    STAGE_LAST,
    STAGE_LEAST,
    STAGE_PAY,
    STAGE_VNF,
    TARGET,
    WAIT_ALWAYS,
    WHEEL,
    Net,
)
from flashdqn.envs.sfc.network import path_has_bandwidth, reserve_bandwidth
from flashdqn.envs.sfc.requests import arrival_us, deadline_us, has_room, leave_queue, service_has_bandwidth

# in thousandths of the paper's points, which are milliseconds
HERE, ELSEWHERE, URGENT_US, URGENCY = 10_000, -5_000, 10_000, 100_000_000
NO_SCORE = -(1 << 40)


@inner
def request_priority(i: Scalar, r: Scalar, d: Scalar, now: Scalar, net: Net) -> Scalar:
    """P1 + P2 + P3 in thousandths."""
    remaining = deadline_us(i, r, net) - now
    points = -remaining
    if net.request[i, r, POSITION] > 0:
        points += HERE if net.request[i, r, PLACE] == d else ELSEWHERE
    if 0 < remaining < URGENT_US:
        points += URGENCY // remaining
    return points


@inner
def meets_deadline(
    i: Scalar, r: Scalar, stage: Scalar, here: Scalar, d: Scalar, now: Scalar, net: Net
) -> Scalar:
    """Whether a request can still meet its delay if it is served at d now, and never waits afterwards (C5)."""
    slot, target = net.params[SLOT_US], net.request[i, r, TARGET]
    done = now + net.delay[i, here, d] + net.vnfs[net.stages[stage, STAGE_VNF], PROCESSING]
    if net.stages[stage, STAGE_LAST] == 0:
        done = (done + slot - 1) // slot * slot + net.stages[stage + 1, STAGE_LEAST]
    if target != NOWHERE:
        done += net.delay[i, d, target]
    return done <= deadline_us(i, r, net)


@inner
def find_next_request(i: Scalar, v: Scalar, d: Scalar, any_will_do: Scalar, net: Net) -> Scalar:
    """The next request for VNF v at data center d: its number or NOBODY, the one ahead of it in its queue, its
    stage, where it waits, and its priority."""
    now, dcs = net.state[i, NOW] * net.params[SLOT_US], net.state[i, DCS]
    best, best_before, best_stage, best_place, best_points = NOBODY, NOBODY, 0, 0, NO_SCORE
    for use in range(net.uses[v], net.uses[v + 1]):
        stage = net.uses[use]
        least_kbps = net.chains[net.stages[stage, STAGE_CHAIN], KBPS_LOW]
        for here in range(dcs):
            r, before = net.head[i, stage, here], NOBODY
            # Later ones have later deadlines, so the first that can be served is the best of its queue.
            if r == NOBODY or not path_has_bandwidth(i, here, d, least_kbps, net):
                continue
            points = request_priority(i, r, d, now, net)
            while r != NOBODY and (points > best_points or (points == best_points and r < best)):
                last = net.stages[stage, STAGE_LAST]
                if meets_deadline(i, r, stage, here, d, now, net) and service_has_bandwidth(
                    i, r, here, d, last, net
                ):
                    best, best_before, best_stage, best_place, best_points = r, before, stage, here, points
                    if any_will_do:
                        return best, best_before, best_stage, best_place, best_points
                    break
                before, r = r, net.request[i, r, NEXT]
                if r != NOBODY:
                    points = request_priority(i, r, d, now, net)
    return best, best_before, best_stage, best_place, best_points


@inner
def occupy_instance(i: Scalar, v: Scalar, d: Scalar, net: Net) -> None:
    """Make an idle instance busy, or install a new one that is busy at once."""
    if net.idle[i, d, v] > 0:
        net.idle[i, d, v] -= 1
        return
    net.installed[i, d, v] += 1
    for k in range(3):
        net.free[i, d, k] -= net.vnfs[v, k]


@inner
def count_hops(i: Scalar, a: Scalar, b: Scalar, net: Net) -> Scalar:
    """How many links the path from a to b has."""
    hops = 0
    while a != b:
        a = net.hop[i, a, b]
        hops += 1
    return hops


@inner
def sum_revenue(i: Scalar, r: Scalar, net: Net) -> None:
    """Add up what a satisfied request asked for, and what it took, in kbit/s and thousandths of CPU. It asked for
    the CPU of each VNF for one part of a step, and for its bandwidth between them; it took the CPU while data was
    on the way, and the bandwidth on every link."""
    chain, kbps, slot = net.request[i, r, CHAIN], np.int64(net.request[i, r, BANDWIDTH]), net.params[SLOT_US]
    here, target = net.request[i, r, SOURCE], net.request[i, r, TARGET]
    for k in range(net.chains[chain, LENGTH]):
        v = net.stages[net.chains[chain, FIRST] + k, STAGE_VNF]
        there, cpu = net.places[i, r, k], np.int64(1000) * net.vnfs[v, CPU]
        hold = (net.delay[i, here, there] + net.vnfs[v, PROCESSING] + slot - 1) // slot
        net.sums[i, REVENUE] += cpu + kbps
        net.sums[i, COST] += cpu * hold + kbps * count_hops(i, here, there, net)
        here = there
    if target != NOWHERE:
        net.sums[i, REVENUE] += kbps
        net.sums[i, COST] += kbps * count_hops(i, here, target, net)


@inner
def allocate_instance(i: Scalar, v: Scalar, net: Net) -> Scalar:
    """Serve the next request for VNF v at the data center in turn, which must exist; return the reward."""
    d, slot = net.state[i, DC], net.params[SLOT_US]
    r, before, stage, here, _ = find_next_request(i, v, d, False, net)
    now, kbps = net.state[i, NOW] * slot, net.request[i, r, BANDWIDTH]
    leave_queue(i, r, before, stage, here, net)
    occupy_instance(i, v, d, net)
    net.busy[i, d, net.stages[stage, STAGE_CELL]] += 1
    reserve_bandwidth(i, here, d, kbps, net)
    net.places[i, r, net.request[i, r, POSITION]] = d
    net.starts[i, r, net.request[i, r, POSITION]] = net.state[i, NOW]
    net.request[i, r, PLACE] = d
    work = net.delay[i, here, d] + net.vnfs[v, PROCESSING]
    hold = (work + slot - 1) // slot
    spend_budget(i, d, hold * net.vnfs[v, CPU], net.vnfs[v, CPU], net)
    net.todo[i, net.request[i, r, BUNDLE], stage] -= 1
    ends = (net.state[i, NOW] + hold) % net.params[WHEEL]
    net.request[i, r, NEXT] = net.wheel[i, ends]
    net.wheel[i, ends] = r
    if net.stages[stage, STAGE_LAST] == 0:
        net.todo[i, net.request[i, r, BUNDLE], stage + 1] += 1
        return net.stages[stage, STAGE_PAY]
    # It can no longer fail.
    chain, target = net.request[i, r, CHAIN], net.request[i, r, TARGET]
    if target != NOWHERE:
        reserve_bandwidth(i, d, target, kbps, net)
        work += net.delay[i, d, target]
    net.tally[i, chain, SATISFIED] += 1
    net.sums[i, DELAY] += now + work - arrival_us(net.request[i, r, BUNDLE], net)
    net.sums[i, KBPS] += kbps
    sum_revenue(i, r, net)
    return net.stages[stage, STAGE_PAY] + net.pay[PAY_SATISFIED]


@inner
def is_needed(i: Scalar, v: Scalar, net: Net) -> Scalar:
    """Whether any request waits for VNF v."""
    waiting = 0
    for chain in range(len(net.chains)):
        waiting += net.demand[i, chain * len(net.vnfs) + v]
    return waiting > 0


@inner
def uninstall_instance(i: Scalar, v: Scalar, net: Net) -> Scalar:
    """Remove an idle instance of VNF v, which must exist, from the data center in turn; return the reward."""
    d = net.state[i, DC]
    net.idle[i, d, v] -= 1
    net.installed[i, d, v] -= 1
    for k in range(3):
        net.free[i, d, k] += net.vnfs[v, k]
    return net.pay[PAY_NEEDED] if is_needed(i, v, net) else 0


@inner
def write_mask(i: Scalar, d: Scalar, net: Net) -> Scalar:
    """Write the legal actions of data center d: allocate each VNF, uninstall each, wait. Return whether it can do
    more than wait."""
    count, serves, more, full = len(net.vnfs), False, False, net.params[FULL_STATE] != 0
    for v in range(count):
        r, stage, place, roomy = NOBODY, 0, 0, has_room(i, d, v, net)
        if (roomy or full) and is_needed(i, v, net):
            r, _, stage, place, _ = find_next_request(i, v, d, not full, net)
        legal = roomy and r != NOBODY
        net.ahead[i, v, AHEAD_REQUEST] = r
        net.ahead[i, v, AHEAD_STAGE] = stage
        net.ahead[i, v, AHEAD_PLACE] = place
        net.mask[i, v] = legal
        spare = net.idle[i, d, v] > 0
        net.mask[i, count + v] = spare
        serves = serves or legal
        more = more or spare
    net.mask[i, 2 * count] = net.params[WAIT_ALWAYS] != 0 or not serves
    return serves or more


@inner
def forbid_all_but_waiting(i: Scalar, net: Net) -> None:
    """Write the legal actions of an episode that is over."""
    for a in range(len(net.mask[i]) - 1):
        net.mask[i, a] = False
    for v in range(len(net.vnfs)):
        net.ahead[i, v, AHEAD_REQUEST] = NOBODY
    net.mask[i, len(net.mask[i]) - 1] = True


@inner
def rewrite_mask(i: Scalar, *arrays: Array) -> None:
    """Write the legal actions that follow from the rest of a network's state."""
    net = Net(*arrays)
    if net.state[i, OVER] != 0:
        forbid_all_but_waiting(i, net)
    else:
        write_mask(i, net.state[i, DC], net)
