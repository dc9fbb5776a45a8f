"""Time and turns: parts of a step, bundles, whose turn it is, start and end of an episode; scalar kernel code.

Within a part of a step the data centers take turns, each until it waits (or one action each), in an order that
follows from the most urgent waiting request. A data center that could only wait is skipped. A part ends with its
last action, or, unless steps are full, when every data center in a row has waited or was skipped. Then services
end, late requests are dropped, and bundles arrive.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Scalar, inner
from flashdqn.envs.sfc.bound import close_slot, count_satisfiable, open_budget, pass_turn
from flashdqn.envs.sfc.layout import (
    ACTIONS,
    ACTIONS_PER_SLOT,
    ARRIVED,
    BOUND,
    BUNDLES,
    CAUSES,
    CPU,
    CPU_ALL,
    CPU_USED,
    DC,
    DCS,
    FULL_STEPS,
    LEFT,
    MAX_BUNDLES,
    MAX_DCS,
    MAX_SLOTS,
    MIN_BUNDLES,
    MIN_DCS,
    NOBODY,
    NOW,
    NOWHERE,
    OVER,
    PAY_BOUND,
    PAY_INVALID,
    PAY_TIME,
    STAYS,
    STORAGE,
    STORAGE_ALL,
    STORAGE_USED,
    SUMS,
    TALLY,
    TARGET,
    TURN,
    WAITS,
    Net,
)
from flashdqn.envs.sfc.network import draw_links, draw_network_number, draw_sites, find_shortest_paths
from flashdqn.envs.sfc.placement import (
    allocate_instance,
    forbid_all_but_waiting,
    uninstall_instance,
    write_mask,
)
from flashdqn.envs.sfc.requests import add_bundle, deadline_us, drop_late_requests, finish_services

GOES_ON, TERMINATED, TRUNCATED = range(3)
_LATEST = 1 << 40


@inner
def start_episode(i: Scalar, net: Net) -> None:
    """Draw an empty network, just before its first part of a step."""
    for k in range(len(net.state[i])):
        net.state[i, k] = 0
    least, most = net.params[MIN_DCS], net.params[MAX_DCS]
    net.state[i, DCS] = least + draw_network_number(i, most - least + 1, net.rng)
    least, most = net.params[MIN_BUNDLES], net.params[MAX_BUNDLES]
    net.state[i, BUNDLES] = least + draw_network_number(i, most - least + 1, net.rng)
    net.state[i, NOW] = -1
    net.state[i, ACTIONS] = net.params[ACTIONS_PER_SLOT]
    draw_sites(i, net)
    draw_links(i, net)
    find_shortest_paths(i, net)
    clear_network(i, net)
    open_budget(i, net)


@inner
def clear_network(i: Scalar, net: Net) -> None:
    """Remove all instances, requests and sums."""
    for k in range(SUMS):
        net.sums[i, k] = 0
    for k in range(CAUSES):
        net.cause[i, k] = 0
    for k in range(len(net.wheel[i])):
        net.wheel[i, k] = NOBODY
    for cell in range(len(net.demand[i])):
        net.demand[i, cell] = 0
    for bundle in range(net.params[MAX_BUNDLES]):
        for stage in range(len(net.stages)):
            net.todo[i, bundle, stage] = 0
    for chain in range(len(net.chains)):
        for k in range(TALLY):
            net.tally[i, chain, k] = 0
        for bundle in range(net.params[MAX_BUNDLES]):
            net.unfinished[i, bundle, chain] = 0
    for d in range(net.params[MAX_DCS]):
        for stage in range(len(net.stages)):
            net.head[i, stage, d] = NOBODY
            net.tail[i, stage, d] = NOBODY
        for v in range(len(net.vnfs)):
            net.installed[i, d, v] = 0
            net.idle[i, d, v] = 0
        for cell in range(len(net.demand[i])):
            net.busy[i, d, cell] = 0
            net.waiting[i, d, cell] = 0


@inner
def sum_resource_use(i: Scalar, net: Net) -> None:
    """Add up the CPU and storage that instances held in the part of a step that ends."""
    for d in range(net.state[i, DCS]):
        net.sums[i, CPU_USED] += net.capacity[i, d, CPU] - net.free[i, d, CPU]
        net.sums[i, CPU_ALL] += net.capacity[i, d, CPU]
        net.sums[i, STORAGE_USED] += net.capacity[i, d, STORAGE] - net.free[i, d, STORAGE]
        net.sums[i, STORAGE_ALL] += net.capacity[i, d, STORAGE]


@inner
def waiting_reward(i: Scalar, net: Net) -> Scalar:
    """The reward of a part of a step in which requests wait, by the network's CPU."""
    waiting, cpu = 0, np.int64(0)
    for cell in range(len(net.demand[i])):
        waiting += net.demand[i, cell]
    for d in range(net.state[i, DCS]):
        cpu += net.capacity[i, d, CPU]
    return cpu * net.pay[PAY_TIME] if waiting > 0 else np.int64(0)


@inner
def find_most_urgent(i: Scalar, net: Net) -> Scalar:
    """The waiting request with the earliest deadline (the first of equal ones), and where it is."""
    urgent, place, earliest = NOBODY, 0, _LATEST
    for stage in range(len(net.stages)):
        for d in range(net.state[i, DCS]):
            r = net.head[i, stage, d]
            if r != NOBODY:
                deadline = deadline_us(i, r, net)
                if deadline < earliest or (deadline == earliest and r < urgent):
                    urgent, place, earliest = r, d, deadline
    return urgent, place


@inner
def order_data_centers(i: Scalar, net: Net) -> None:
    """Sort data centers by the detour that the most urgent request would make through them, then by the way to
    them. Those on its shortest path come first."""
    urgent, place = find_most_urgent(i, net)
    target = NOWHERE if urgent == NOBODY else net.request[i, urgent, TARGET]
    for d in range(net.state[i, DCS]):
        there = net.delay[i, place, d]
        way = there + (net.delay[i, d, target] if target != NOWHERE else 0)
        k = d
        while k > 0:  # insertion sort; equal ones stay in the order of their numbers
            other = net.order[i, k - 1]
            other_there = net.delay[i, place, other]
            other_way = other_there + (net.delay[i, other, target] if target != NOWHERE else 0)
            if other_way < way or (other_way == way and other_there <= there):
                break
            net.order[i, k] = other
            k -= 1
        net.order[i, k] = d


@inner
def advance_clock(i: Scalar, net: Net) -> Scalar:
    """Begin the next part of a step; return its reward, and whether the episode ends."""
    earned = np.int64(0)
    if net.state[i, NOW] >= 0:
        sum_resource_use(i, net)
        earned = waiting_reward(i, net)
        close_slot(i, net)
    net.state[i, NOW] += 1
    net.state[i, ACTIONS] = 0
    net.state[i, WAITS] = 0
    net.state[i, TURN] = 0
    earned += drop_late_requests(i, net)
    finish_services(i, net)
    now = net.state[i, NOW]
    if net.state[i, ARRIVED] < net.state[i, BUNDLES] and now >= net.arrivals[net.state[i, ARRIVED]]:
        before = count_satisfiable(i, net) if net.pay[PAY_BOUND] != 0 else np.int64(0)
        add_bundle(i, net)
        if net.pay[PAY_BOUND] != 0:
            net.sums[i, BOUND] += count_satisfiable(i, net) - before
    order_data_centers(i, net)
    if net.state[i, LEFT] == 0 and net.state[i, ARRIVED] == net.state[i, BUNDLES]:
        return earned, TERMINATED
    if net.params[MAX_SLOTS] > 0 and now >= net.params[MAX_SLOTS]:
        return earned, TRUNCATED
    return earned, GOES_ON


@inner
def find_next_turn(i: Scalar, net: Net) -> Scalar:
    """Go on to the next data center that can do more than wait; return the reward of the time that passes, and
    whether the episode ends."""
    earned = np.int64(0)
    while True:
        full, all_waited = net.params[FULL_STEPS] != 0, net.state[i, WAITS] >= net.state[i, DCS]
        if net.state[i, ACTIONS] >= net.params[ACTIONS_PER_SLOT] or (all_waited and not full):
            paid, end = advance_clock(i, net)
            earned += paid
            if end != GOES_ON:
                forbid_all_but_waiting(i, net)
                net.state[i, DC] = net.order[i, 0]
                net.state[i, OVER] = 1
                return earned, end
            continue
        d = net.order[i, net.state[i, TURN]]
        net.state[i, DC] = d
        if write_mask(i, d, net) or all_waited:
            return earned, GOES_ON
        end_turn(i, True, net)


@inner
def end_turn(i: Scalar, waited: Scalar, net: Net) -> None:
    """End the turn of the current data center; where data centers stay, only if it waited."""
    if waited:
        pass_turn(i, net.state[i, DC], net)
    if waited or net.params[STAYS] == 0:
        turn = net.state[i, TURN] + 1
        net.state[i, TURN] = turn if turn < net.state[i, DCS] else 0
    net.state[i, WAITS] = net.state[i, WAITS] + 1 if waited else 0


@inner
def apply_action(i: Scalar, action: Scalar, net: Net) -> Scalar:
    """Take the action of the data center in turn; return its reward. An illegal action only costs."""
    count = len(net.vnfs)
    net.state[i, ACTIONS] += 1
    earned = np.int64(0)
    if action < 0 or action > 2 * count or not net.mask[i, action]:
        earned = np.int64(net.pay[PAY_INVALID])
    elif action < count:
        earned = np.int64(allocate_instance(i, action, net))
    elif action < 2 * count:
        earned = np.int64(uninstall_instance(i, action - count, net))
    end_turn(i, action == 2 * count, net)
    return earned
