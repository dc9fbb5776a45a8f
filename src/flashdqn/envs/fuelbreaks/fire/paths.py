"""Shortest paths as scalar kernel code for the CPU: a fire from scratch.

A fire is a row `n` of `arrival` (minutes; infinite where it does not arrive in time) and of `parent` (the
direction by which it entered a cell; NO_PARENT at the ignition and where it did not arrive). The cells to visit
wait in buckets by time (Dial 1969); a bucket is a list through `AFTER` and `BEFORE`. Within a bucket the order does
not matter, because a cell that is later reached sooner is visited again. So the times are those of the best paths,
summed from the ignition on, and every other correct algorithm finds the same times to the last bit. Where several
paths arrive at the same time, the lowest of their last directions is the parent: so the tree is the same, too.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.layout import (
    AFTER,
    BEFORE,
    DURATION,
    INFINITE,
    NO_PARENT,
    NOBODY,
    PER_MINUTE,
    SETTLED,
    Fires,
)

# Each run of five bits is unique, so the upper five bits of (a power of two times it) show the exponent.
_DE_BRUIJN = 0x077CB531
_EXPONENT = np.array([b for _, b in sorted((((_DE_BRUIJN << k) & 0xFFFFFFFF) >> 27, k) for k in range(32))])
_FACTOR, _ONE_BIT, _SHIFT = np.uint32(_DE_BRUIJN), np.uint32(1), np.uint32(27)


@inner
def add_to_bucket(lane: Scalar, cell: Scalar, time: Scalar, fires: Fires) -> None:
    """Put a cell into the bucket of a time."""
    bucket = np.int64(time * fires.limits[PER_MINUTE])
    first = fires.head[lane, bucket]
    fires.work[lane, AFTER, cell] = first
    fires.work[lane, BEFORE, cell] = NOBODY
    if first != NOBODY:
        fires.work[lane, BEFORE, first] = cell
    fires.head[lane, bucket] = cell


@inner
def remove_from_bucket(lane: Scalar, cell: Scalar, time: Scalar, fires: Fires) -> None:
    """Take a cell out of the bucket of a time."""
    after, before = fires.work[lane, AFTER, cell], fires.work[lane, BEFORE, cell]
    if before == NOBODY:
        fires.head[lane, np.int64(time * fires.limits[PER_MINUTE])] = after
    else:
        fires.work[lane, AFTER, before] = after
    if after != NOBODY:
        fires.work[lane, BEFORE, after] = before


@inner
def lowest_bit(x: Scalar) -> Scalar:
    """The number of the lowest bit that is set in a uint32."""
    return _EXPONENT[np.uint32((x & (~x + _ONE_BIT)) * _FACTOR) >> _SHIFT]


@inner
def directions_reached_no_later(
    cell: Scalar, here: Scalar, ways: Scalar, arrival: Array, times: Array, duration: Scalar, fires: Fires
) -> Scalar:
    """The directions, as bits, whose cells are reached from this one sooner or at the same time, and in time.

    Without a branch, which would be mispredicted too often.
    """
    better = np.uint32(0)
    for k in range(fires.step.shape[0]):
        way = np.uint32((ways >> k) & 1)
        target = np.uint32(cell + fires.step[k] * np.int32(way))
        time = here + times[cell, k]
        better |= (np.uint32(time <= arrival[target]) & np.uint32(time <= duration) & way) << np.uint32(k)
    return better


@inner
def spread_fire(
    n: Scalar, table: Scalar, lane: Scalar, passable: Array, b: Scalar, waiting: Scalar, fires: Fires
) -> Scalar:
    """Visit the `waiting` cells of the queue and all that follow; return the worth of newly reached cells."""
    # Take the rows once, so the loop indexes arrays of one axis.
    worth = fires.worth[table]
    arrival, parent, times, ways = fires.arrival[n], fires.parent[n], fires.times[table], passable[b]
    after, before, head = fires.work[lane, AFTER], fires.work[lane, BEFORE], fires.head[lane]
    duration = fires.limits[DURATION]
    reached = 0
    bucket = 0
    while waiting > 0:
        cell = head[bucket]
        if cell == NOBODY:
            bucket += 1
            continue
        following = after[cell]
        head[bucket] = following
        if following != NOBODY:
            before[following] = NOBODY
        before[cell] = SETTLED
        waiting -= 1
        here, open_ways = arrival[cell], ways[cell]
        better = directions_reached_no_later(cell, here, open_ways, arrival, times, duration, fires)
        while better != 0:
            k = lowest_bit(better)
            better &= better - _ONE_BIT
            target = cell + fires.step[k]
            time = here + times[cell, k]
            earlier = arrival[target]
            if time == earlier:
                parent[target] = min(k, parent[target])
                continue
            if earlier == INFINITE:
                reached += worth[target]
                waiting += 1
            elif before[target] == SETTLED:
                waiting += 1
            else:
                remove_from_bucket(lane, target, earlier, fires)
            arrival[target] = time
            parent[target] = k
            add_to_bucket(lane, target, time, fires)
    return reached


@inner
def light_ignition(n: Scalar, b: Scalar, lane: Scalar, fires: Fires) -> Scalar:
    """Queue the moves out of the ignition, which burns half a cell around at once; return how many cells wait, and
    their worth."""
    cell, table = fires.ignition[n], fires.table[b]
    waiting, reached = 0, 0
    for k in range(fires.step.shape[0]):
        if (fires.passable[b, cell] >> k) & 1 != 0:
            time = fires.times[table, cell, k] * fires.outside[k]
            if time <= fires.limits[DURATION]:
                target = cell + fires.step[k]
                fires.arrival[n, target] = time
                fires.parent[n, target] = k
                add_to_bucket(lane, target, time, fires)
                waiting += 1
                reached += fires.worth[table, target]
    return waiting, reached


@inner
def burn_fire(n: Scalar, b: Scalar, lane: Scalar, fires: Fires) -> None:
    """Burn a fire from scratch."""
    for cell in range(fires.arrival.shape[1]):
        fires.arrival[n, cell] = INFINITE
        fires.parent[n, cell] = NO_PARENT
    cell, table = fires.ignition[n], fires.table[b]
    fires.burned[n] = 0
    if cell >= 0 and fires.burnable[table, cell] and not fires.breaks[b, cell]:
        fires.arrival[n, cell] = np.float32(0.0)
        waiting, reached = light_ignition(n, b, lane, fires)
        reached += spread_fire(n, table, lane, fires.passable, b, waiting, fires)
        fires.burned[n] = fires.worth[table, cell] + reached
