"""Where everything lies: the tensors of N networks, as the kernels see them, and the columns of each.

D data centers, V VNFs, S chains. A *stage* is a position of a chain: P of them in all chains together. A *cell* is
a pair of a chain and a VNF, chain · V + vnf. R requests at most, K the longest chain, B bundles, W the parts of a
step that an instance can be held for.

A request is in one list at any time, by its `NEXT`: it waits in the queue of its stage and the data center where it
is (sorted by number, hence by deadline), or it is being served, in the wheel's list of the part in which that ends.
"""

from __future__ import annotations

from typing import NamedTuple

from flashdqn.compute.kernels import Array

# state
NOW, ACTIONS, WAITS, TURN, DC, DCS, BUNDLES, ARRIVED, REQUESTS, LEFT, OVER, STATE = range(12)
# sums
# BUDGET, PASSED and BOUND belong to the bound on what can still be accepted (bound.py)
DELAY, KBPS, CPU_USED, CPU_ALL, STORAGE_USED, STORAGE_ALL, REVENUE, COST, BUDGET, PASSED, BOUND, SUMS = range(
    12
)
# request
CHAIN, POSITION, PLACE, SOURCE, TARGET, BUNDLE, BANDWIDTH, NEXT, FIELDS = range(9)
# tally, by chain
ASKED, SATISFIED, DROPPED, PENDING_KBPS, TALLY = range(5)
# causes of a drop
NO_ROOM, NO_BANDWIDTH, NO_TIME, CAUSES = range(4)
# resources of a data center
CPU, STORAGE, RAM, RESOURCES = range(4)
# params
(
    MIN_DCS,
    MAX_DCS,
    MIN_BUNDLES,
    MAX_BUNDLES,
    TOPOLOGY,
    LINK_KBPS,
    SPAN_KM,
    PAIRS,
    PER_CHAIN,
    SLOT_US,
    ACTIONS_PER_SLOT,
    BUNDLE_SLOTS,
    MAX_SLOTS,
    WHEEL,
    CPU_SCALE,
    STORAGE_SCALE,
    WAIT_ALWAYS,
    STAYS,
    FULL_STEPS,
    FULL_STATE,
    LAST_LIMIT_US,
    MOST_CPU,
    URGENCY,
    PARAMS,
) = range(24)
MESH, RING, RANDOM, GIVEN = range(4)
# vnfs: the resources, then
PROCESSING = RESOURCES
# stages
STAGE_CHAIN, STAGE_VNF, STAGE_CELL, STAGE_LAST, STAGE_LEAST, STAGE_PAY, STAGE_PAID, STAGE_REST, STAGE = range(
    9
)
# chains
FIRST, LENGTH, KBPS_LOW, KBPS_HIGH, LIMIT_US, COUNT_LOW, COUNT_HIGH, CHAIN_COLUMNS = range(8)
# trace
TRACE_CHAIN, TRACE_SOURCE, TRACE_TARGET, TRACE_KBPS, TRACE = range(5)
# sites
X_KM, Y_KM, CPU_LOW, CPU_HIGH, SITE_STORAGE, SITE_RAM, SITE = range(7)
# rewards, in thousandths
PAY_SATISFIED, PAY_DROPPED, PAY_INVALID, PAY_NEEDED, PAY_TIME, PAY_BOUND, REWARDS = range(7)
# ahead: the next request for a VNF at the data center in turn, its stage, and where it waits
AHEAD_REQUEST, AHEAD_STAGE, AHEAD_PLACE, AHEAD = range(4)
# shades of a count
FEW, SOME, MANY, SHADES = range(4)
MAX_SHADE = 4095

NOBODY = -1
NOWHERE = -1


class Net(NamedTuple):
    """All arrays of all networks; a kernel for network `i` touches row `i` of each, and the tables."""

    state: Array  # [N, STATE] int32
    sums: Array  # [N, SUMS] int64
    rng: Array  # [N, 2] int64: key and counter
    request: Array  # [N, R, FIELDS] int32
    places: Array  # [N, R, K] int8: the data center that served each position
    starts: Array  # [N, R, K] int32: the part of a step in which each position was allocated
    head: Array  # [N, P, D] int32: first of each queue
    tail: Array  # [N, P, D] int32: last of each queue
    wheel: Array  # [N, W] int32: first of those whose service ends in a part of a step
    installed: Array  # [N, D, V] int32
    idle: Array  # [N, D, V] int32
    free: Array  # [N, D, RESOURCES] int32
    capacity: Array  # [N, D, RESOURCES] int32
    delay: Array  # [N, D, D] int32: microseconds of the shortest path
    hop: Array  # [N, D, D] int32: the next data center on it
    link: Array  # [N, D, D] int32: free kbit/s; both halves are kept equal
    wire: Array  # [N, D, D] int32: all kbit/s of a link; 0 where there is none
    busy: Array  # [N, D, S·V] int32: requests being served at a data center, by cell
    waiting: Array  # [N, D, S·V] int32: requests waiting there
    demand: Array  # [N, S·V] int32: requests waiting anywhere
    unfinished: Array  # [N, B, S] int32: requests neither served nor dropped
    tally: Array  # [N, S, TALLY] int32
    cause: Array  # [N, CAUSES] int32
    order: Array  # [N, D] int32: data centers in the order in which they are asked
    ahead: Array  # [N, V, AHEAD] int32: which request each VNF would serve next at the data center in turn
    todo: Array  # [N, B, P] int32: unfinished requests by the first stage that is not allocated yet
    counted: Array  # [N, P] int64: scratch of bound.py
    mask: Array  # [N, A] bool
    # tables
    params: Array  # [PARAMS] int32
    vnfs: Array  # [V, RESOURCES + 1] int32
    stages: Array  # [P, STAGE] int32
    uses: Array  # [V + 1 + P] int32: where each VNF's stages start, then those stages
    cheapest: Array  # [P] int32: stages by the CPU that a chain still needs from there on, the least first
    due: Array  # [B·S, 2] int32: bundles and chains by their deadline, the earliest first
    arrivals: Array  # [B] int32: the part of a step in which each bundle arrives
    expected: Array  # [B, S] int32: thousandths of requests that it is expected to have
    trace: Array  # [T, TRACE] int32: requests that are given, by bundle; none: they are drawn
    trace_from: Array  # [B + 1] int32: where each bundle starts in it
    chains: Array  # [S, CHAIN_COLUMNS] int32
    sites: Array  # [D, SITE] int32
    wires: Array  # [D, D, 2] int32: kbit/s and microseconds of the links that are given
    pay: Array  # [REWARDS] int32
    shades: Array  # [SHADES, MAX_SHADE + 1] float32
