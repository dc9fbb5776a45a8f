"""Requests: how they arrive, wait, go on to their next VNF, finish and are dropped; scalar kernel code."""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Scalar, inner
from flashdqn.envs.sfc.layout import (
    ARRIVED,
    ASKED,
    BANDWIDTH,
    BUNDLE,
    CHAIN,
    COUNT_HIGH,
    COUNT_LOW,
    DCS,
    DROPPED,
    FIRST,
    KBPS_HIGH,
    KBPS_LOW,
    LEFT,
    LENGTH,
    LIMIT_US,
    NEXT,
    NO_BANDWIDTH,
    NO_ROOM,
    NO_TIME,
    NOBODY,
    NOW,
    NOWHERE,
    PAIRS,
    PAY_DROPPED,
    PENDING_KBPS,
    PER_CHAIN,
    PLACE,
    POSITION,
    REQUESTS,
    SLOT_US,
    SOURCE,
    STAGE_CELL,
    STAGE_CHAIN,
    STAGE_LAST,
    STAGE_LEAST,
    STAGE_PAID,
    STAGE_VNF,
    TARGET,
    TRACE_CHAIN,
    TRACE_KBPS,
    TRACE_SOURCE,
    TRACE_TARGET,
    WHEEL,
    Net,
)
from flashdqn.envs.sfc.network import (
    draw_network_number,
    path_has_bandwidth,
    paths_have_bandwidth,
    reserve_bandwidth,
)


@inner
def arrival_us(bundle: Scalar, net: Net) -> Scalar:
    """When a bundle arrives."""
    return net.arrivals[bundle] * net.params[SLOT_US]


@inner
def deadline_us(i: Scalar, r: Scalar, net: Net) -> Scalar:
    """When a request must have left its last VNF and reached its target."""
    chain = net.request[i, r, CHAIN]
    return arrival_us(net.request[i, r, BUNDLE], net) + net.chains[chain, LIMIT_US]


@inner
def has_room(i: Scalar, d: Scalar, v: Scalar, net: Net) -> Scalar:
    """Whether a data center has an idle instance of a VNF, or the resources to install one (C1, C2)."""
    if net.idle[i, d, v] > 0:
        return True
    enough = True
    for k in range(3):
        enough = enough and net.free[i, d, k] >= net.vnfs[v, k]
    return enough


@inner
def join_queue(i: Scalar, r: Scalar, stage: Scalar, d: Scalar, net: Net) -> None:
    """Let a request wait for a stage at a data center, in the order of the requests' numbers."""
    last = net.tail[i, stage, d]
    if last == NOBODY or last < r:
        net.request[i, r, NEXT] = NOBODY
        net.tail[i, stage, d] = r
        if last == NOBODY:
            net.head[i, stage, d] = r
        else:
            net.request[i, last, NEXT] = r
    else:
        before, after = NOBODY, net.head[i, stage, d]
        while after < r:
            before, after = after, net.request[i, after, NEXT]
        net.request[i, r, NEXT] = after
        if before == NOBODY:
            net.head[i, stage, d] = r
        else:
            net.request[i, before, NEXT] = r
    cell = net.stages[stage, STAGE_CELL]
    net.waiting[i, d, cell] += 1
    net.demand[i, cell] += 1


@inner
def leave_queue(i: Scalar, r: Scalar, before: Scalar, stage: Scalar, d: Scalar, net: Net) -> None:
    """Take a request out of its queue; `before` is the one ahead of it, or NOBODY."""
    after = net.request[i, r, NEXT]
    if before == NOBODY:
        net.head[i, stage, d] = after
    else:
        net.request[i, before, NEXT] = after
    if after == NOBODY:
        net.tail[i, stage, d] = before
    cell = net.stages[stage, STAGE_CELL]
    net.waiting[i, d, cell] -= 1
    net.demand[i, cell] -= 1


@inner
def add_request(i: Scalar, chain: Scalar, source: Scalar, target: Scalar, kbps: Scalar, net: Net) -> None:
    """Let a request arrive with the newest bundle."""
    r, bundle = net.state[i, REQUESTS], net.state[i, ARRIVED] - 1
    net.state[i, REQUESTS] += 1
    net.state[i, LEFT] += 1
    net.request[i, r, CHAIN] = chain
    net.request[i, r, POSITION] = 0
    net.request[i, r, PLACE] = source
    net.request[i, r, SOURCE] = source
    net.request[i, r, TARGET] = target
    net.request[i, r, BUNDLE] = bundle
    net.request[i, r, BANDWIDTH] = kbps
    for k in range(net.chains[chain, LENGTH]):
        net.starts[i, r, k] = -1
    net.tally[i, chain, PENDING_KBPS] += kbps
    net.tally[i, chain, ASKED] += 1
    net.unfinished[i, bundle, chain] += 1
    net.todo[i, bundle, net.chains[chain, FIRST]] += 1
    join_queue(i, r, net.chains[chain, FIRST], source, net)


@inner
def add_bundle(i: Scalar, net: Net) -> None:
    """Add a bundle: what the trace has, or requests for every chain, each with its own ends and bandwidth."""
    dcs = net.state[i, DCS]
    net.state[i, ARRIVED] += 1
    for chain in range(len(net.chains)):
        net.unfinished[i, net.state[i, ARRIVED] - 1, chain] = 0
    if len(net.trace) > 0:
        bundle = net.state[i, ARRIVED] - 1
        for k in range(net.trace_from[bundle], net.trace_from[bundle + 1]):
            row = net.trace[k]
            add_request(i, row[TRACE_CHAIN], row[TRACE_SOURCE], row[TRACE_TARGET], row[TRACE_KBPS], net)
        return
    for chain in range(len(net.chains)):
        low, kbps_low = net.chains[chain, COUNT_LOW], net.chains[chain, KBPS_LOW]
        spread = net.chains[chain, KBPS_HIGH] - kbps_low
        count = low + draw_network_number(i, net.chains[chain, COUNT_HIGH] - low + 1, net.rng)
        for _ in range(count):
            source = draw_network_number(i, dcs, net.rng)
            target = NOWHERE
            if net.params[PAIRS] != 0:
                target = (source + 1 + draw_network_number(i, dcs - 1, net.rng)) % dcs
            kbps = kbps_low + (draw_network_number(i, spread + 1, net.rng) if spread > 0 else 0)
            add_request(i, chain, source, target, kbps, net)


@inner
def close_request(i: Scalar, r: Scalar, served: Scalar, to_target: Scalar, net: Net) -> None:
    """Close a request after `served` VNFs: release its bandwidth, and count it as finished."""
    chain, kbps = net.request[i, r, CHAIN], net.request[i, r, BANDWIDTH]
    if net.params[PER_CHAIN] != 0:
        here = net.request[i, r, SOURCE]
        for k in range(served):
            reserve_bandwidth(i, here, net.places[i, r, k], -kbps, net)
            here = net.places[i, r, k]
    if to_target and net.request[i, r, TARGET] != NOWHERE:
        reserve_bandwidth(i, net.request[i, r, PLACE], net.request[i, r, TARGET], -kbps, net)
    net.unfinished[i, net.request[i, r, BUNDLE], chain] -= 1
    net.tally[i, chain, PENDING_KBPS] -= kbps
    net.state[i, LEFT] -= 1


@inner
def finish_services(i: Scalar, net: Net) -> None:
    """End the services that are due: instances become idle, requests go on to their next VNF or are done."""
    slot = net.state[i, NOW] % net.params[WHEEL]
    r = net.wheel[i, slot]
    net.wheel[i, slot] = NOBODY
    while r != NOBODY:
        after = net.request[i, r, NEXT]
        d, position = net.request[i, r, PLACE], net.request[i, r, POSITION]
        stage = net.chains[net.request[i, r, CHAIN], FIRST] + position
        net.idle[i, d, net.stages[stage, STAGE_VNF]] += 1
        net.busy[i, d, net.stages[stage, STAGE_CELL]] -= 1
        if net.params[PER_CHAIN] == 0:
            here = net.request[i, r, SOURCE] if position == 0 else net.places[i, r, position - 1]
            reserve_bandwidth(i, here, d, -net.request[i, r, BANDWIDTH], net)
        if net.stages[stage, STAGE_LAST] != 0:
            close_request(i, r, position + 1, True, net)
        else:
            net.request[i, r, POSITION] = position + 1
            join_queue(i, r, stage + 1, d, net)
        r = after


@inner
def drop_cause(i: Scalar, r: Scalar, stage: Scalar, here: Scalar, net: Net) -> Scalar:
    """What a request lacked when its time ran out: room for its VNF anywhere, bandwidth to where there was room, or
    only a turn in time."""
    v, kbps = net.stages[stage, STAGE_VNF], net.request[i, r, BANDWIDTH]
    target = net.request[i, r, TARGET]
    onward = net.stages[stage, STAGE_LAST] != 0 and target != NOWHERE
    cause = NO_ROOM
    for d in range(net.state[i, DCS]):
        if has_room(i, d, v, net):
            cause = NO_BANDWIDTH
            if paths_have_bandwidth(i, here, d, target if onward else d, kbps, net):
                return NO_TIME
    return cause


@inner
def drop_late_requests(i: Scalar, net: Net) -> Scalar:
    """Drop requests that would be late even if served at once; return the reward. Instances are still as they were
    in the part of the step that ends, so the causes can be found."""
    now, earned = net.state[i, NOW] * net.params[SLOT_US], np.int64(0)
    for stage in range(len(net.stages)):
        chain, least = net.stages[stage, STAGE_CHAIN], net.stages[stage, STAGE_LEAST]
        for d in range(net.state[i, DCS]):
            r = net.head[i, stage, d]
            while r != NOBODY and deadline_us(i, r, net) < now + least:
                net.cause[i, drop_cause(i, r, stage, d, net)] += 1
                leave_queue(i, r, NOBODY, stage, d, net)
                close_request(i, r, net.request[i, r, POSITION], False, net)
                net.tally[i, chain, DROPPED] += 1
                net.todo[i, net.request[i, r, BUNDLE], stage] -= 1
                earned += net.pay[PAY_DROPPED] - net.stages[stage, STAGE_PAID]
                r = net.head[i, stage, d]
    return earned


@inner
def service_has_bandwidth(i: Scalar, r: Scalar, here: Scalar, d: Scalar, last: Scalar, net: Net) -> Scalar:
    """Whether the paths that a service at d takes have the bandwidth (C4)."""
    kbps, target = net.request[i, r, BANDWIDTH], net.request[i, r, TARGET]
    if last == 0 or target == NOWHERE:
        return path_has_bandwidth(i, here, d, kbps, net)
    return paths_have_bandwidth(i, here, d, target, kbps, net)
