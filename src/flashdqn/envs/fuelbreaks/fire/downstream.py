"""What burns behind a cell, as scalar kernel code: the value downstream of every cell, and its byte in a state."""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.layout import INFINITE, NO_PARENT

#: Bytes are logarithms: from 1 / FINEST of a cell on, in STEPS for every doubling.
FINEST, BITS = 16, 3
STEPS = 2**BITS


@inner
def add_up_downstream(
    i: Scalar, table: Array, ignition: Array, arrival: Array, parent: Array, step: Array, worth: Array,
    children: Array, behind: Array, total: Array,
) -> None:  # fmt: skip
    """What is lost at each cell and behind it, over all fires of board `i`. Leaves are removed from the tree one by
    one."""
    fires, cells = ignition.shape[1], arrival.shape[2]
    for c in range(cells):
        total[i, c] = 0
    for f in range(fires):
        for c in range(cells):
            children[i, c] = 0
            behind[i, c] = worth[table[i], c] if arrival[i, f, c] != INFINITE else 0
        for c in range(cells):
            if parent[i, f, c] != NO_PARENT:
                children[i, c - step[parent[i, f, c]]] += 1
        for c in range(cells):
            leaf = c
            while children[i, leaf] == 0 and parent[i, f, leaf] != NO_PARENT:
                before = leaf - step[parent[i, f, leaf]]
                behind[i, before] += behind[i, leaf]
                children[i, leaf] = -1
                children[i, before] -= 1
                leaf = before
        for c in range(cells):
            total[i, c] += behind[i, c]


@inner
def flow_byte(total: Scalar, unit: Scalar) -> Scalar:
    """An amount, counted in units, on a scale of logarithms; in whole numbers, so all devices agree."""
    amount = np.int64(total) * FINEST // np.int64(unit) + 1
    power = 0
    while (amount >> (power + 1)) > 0:
        power += 1
    return STEPS * power + ((amount << BITS) >> power) - STEPS


@inner
def observe_flow(
    i: Scalar, table: Array, ignition: Array, arrival: Array, parent: Array, step: Array, worth: Array,
    whole: Array, children: Array, behind: Array, total: Array, first: Array, obs: Array,
) -> None:  # fmt: skip
    """Write what burns behind every cell into the observation of board `i`: the mean over its scouts, counted in
    cells of mean worth, so a fire looks the same on landscapes of all sizes."""
    add_up_downstream(i, table, ignition, arrival, parent, step, worth, children, behind, total)
    cells = total.shape[1]
    unit = np.int64(ignition.shape[1]) * whole[table[i]]
    for c in range(cells):
        obs[i, first[0] + c] = np.uint8(flow_byte(total[i, c] * cells, unit))
