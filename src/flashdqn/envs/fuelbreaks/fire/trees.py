"""Fires one after the other, each as a tree, as scalar kernel code for the CPU.

A lane (a thread) burns a fire, lists its cells, does something with them, and clears only these cells. So a fire
costs as much as it burns, however large the landscape is. In a list, every cell comes after the cell that its
fire came from.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.envs.fuelbreaks.fire.cuts import close_moves, cut_paths, reconnect_cells
from flashdqn.envs.fuelbreaks.fire.layout import (
    COLUMNS,
    CUT,
    DURATION,
    FROM_COLUMN,
    FROM_ROW,
    INFINITE,
    MOVE,
    NO_PARENT,
    OLD_PARENT,
    ROWS,
    Fires,
)
from flashdqn.envs.fuelbreaks.fire.paths import add_to_bucket, spread_fire

# numbers: how many fires there are, how many lanes, and whether a cell counts as behind itself
COUNT, LANE_COUNT, INCLUSIVE, NUMBERS = range(4)
# Two breaks this far apart end none of the same moves.
FAR = 4


@inner
def light_cell(lane: Scalar, table: Scalar, cell: Scalar, ways: Array, fires: Fires) -> Scalar:
    """Light a cell, which burns half a cell around at once, and queue what follows; return how many cells wait."""
    fires.arrival[lane, cell] = np.float32(0.0)
    waiting = 0
    for k in range(fires.step.shape[0]):
        if (ways[table, cell] >> k) & 1 != 0:
            time = fires.times[table, cell, k] * fires.outside[k]
            if time <= fires.limits[DURATION]:
                target = cell + fires.step[k]
                fires.arrival[lane, target] = time
                fires.parent[lane, target] = k
                add_to_bucket(lane, target, time, fires)
                waiting += 1
    return waiting


@inner
def burn_tree(
    lane: Scalar, table: Scalar, cell: Scalar, ways: Array, blocked: Array, tree: Array, fires: Fires
) -> Scalar:
    """Burn a fire in the lane's row and list its cells in `tree`; return their number."""
    if cell < 0 or blocked[cell] or not fires.burnable[table, cell]:
        return 0
    fires.ignition[lane] = cell
    waiting = light_cell(lane, table, cell, ways, fires)
    spread_fire(lane, table, lane, ways, table, waiting, fires)
    tree[lane, 0] = cell
    count, looked_at = 1, 0
    while looked_at < count:
        source = tree[lane, looked_at]
        looked_at += 1
        open_ways = ways[table, source]
        for k in range(fires.step.shape[0]):
            if (open_ways >> k) & 1 != 0 and fires.parent[lane, source + fires.step[k]] == k:
                tree[lane, count] = source + fires.step[k]
                count += 1
    return count


@inner
def clear_tree(lane: Scalar, count: Scalar, tree: Array, fires: Fires) -> None:
    """Forget a fire."""
    for i in range(count):
        fires.arrival[lane, tree[lane, i]] = INFINITE
        fires.parent[lane, tree[lane, i]] = NO_PARENT


@inner
def set_ways(s: Scalar, ways: Array, blocked: Array, *arrays: Array) -> None:
    """Set the open directions of table `s` for the breaks in `blocked`."""
    fires = Fires(*arrays)
    for cell in range(ways.shape[1]):
        ways[s, cell] = fires.open[s, cell]
    for cell in range(ways.shape[1]):
        if blocked[cell]:
            close_moves(ways, s, cell, fires)


@inner
def toggle_break(s: Scalar, ways: Array, blocked: Array, toggled: Array, *arrays: Array) -> None:
    """Renew the open directions of table `s` around one cell that became a break, or is one no longer."""
    fires = Fires(*arrays)
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    row, column = toggled[0] // columns, toggled[0] % columns
    for t in range(fires.touching.shape[0]):
        r, c = row + fires.touching[t, FROM_ROW], column + fires.touching[t, FROM_COLUMN]
        if 0 <= r < rows and 0 <= c < columns:
            ways[s, r * columns + c] = fires.open[s, r * columns + c]
    for r in range(max(0, row - FAR), min(rows, row + FAR + 1)):
        for c in range(max(0, column - FAR), min(columns, column + FAR + 1)):
            if blocked[r * columns + c]:
                close_moves(ways, s, r * columns + c, fires)


@inner
def measure_fires(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, burned: Array, lost: Array, hits: Array, *arrays: Array,
) -> None:  # fmt: skip
    """The cells and the weight that each fire burns, and how many fires burn each cell."""
    fires = Fires(*arrays)
    for f in range(lane, numbers[COUNT], numbers[LANE_COUNT]):
        count = burn_tree(lane, table[f], ignition[f], ways, blocked, tree, fires)
        total = 0.0
        for i in range(count):
            total += weight[tree[lane, i]]
            hits[lane, tree[lane, i]] += 1
        burned[f], lost[f] = count, total
        clear_tree(lane, count, tree, fires)


@inner
def weigh_behind(
    lane: Scalar, count: Scalar, tree: Array, weight: Array, behind: Array, fires: Fires
) -> None:
    """Write the weight of each cell of a lane's fire, and of all cells behind it, into `behind`."""
    for i in range(count):
        behind[lane, tree[lane, i]] = weight[tree[lane, i]]
    for j in range(count - 1):
        cell = tree[lane, count - 1 - j]
        behind[lane, cell - fires.step[fires.parent[lane, cell]]] += behind[lane, cell]


@inner
def add_downstream(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, behind: Array, score: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Add to every cell the weight of all cells behind it in each fire's tree.

    Inclusive: with its own weight, and the ignition too; else without it, and not the ignition.
    """
    fires = Fires(*arrays)
    inclusive = numbers[INCLUSIVE] != 0
    for f in range(lane, numbers[COUNT], numbers[LANE_COUNT]):
        count = burn_tree(lane, table[f], ignition[f], ways, blocked, tree, fires)
        weigh_behind(lane, count, tree, weight, behind, fires)
        for i in range(count):
            cell = tree[lane, i]
            if inclusive:
                score[lane, cell] += behind[lane, cell]
            elif i > 0:
                score[lane, cell] += behind[lane, cell] - weight[cell]
        clear_tree(lane, count, tree, fires)


@inner
def weigh_cut(lane: Scalar, count: Scalar, weight: Array, fires: Fires) -> Scalar:
    """The weight of the cells that stay cut off; all of them get their old values back."""
    saved = 0.0
    for i in range(count):
        target = fires.work[lane, CUT, i]
        if fires.arrival[lane, target] == INFINITE:
            saved += weight[target]
        fires.arrival[lane, target] = fires.old[lane, i]
        fires.parent[lane, target] = fires.work[lane, OLD_PARENT, i]
    return saved


@inner
def add_savings(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    weight: Array, wanted: Array, trial: Array, score: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Add to every wanted cell that burns the weight that a break there would save of each fire."""
    fires = Fires(*arrays)
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    for f in range(lane, numbers[COUNT], numbers[LANE_COUNT]):
        s = table[f]
        count = burn_tree(lane, s, ignition[f], ways, blocked, tree, fires)
        for i in range(count):
            trial[lane, tree[lane, i]] = ways[s, tree[lane, i]]
        for i in range(count):
            cell = tree[lane, i]
            if wanted[cell]:
                close_moves(trial, lane, cell, fires)
                cut = cut_paths(lane, cell, lane, trial, lane, fires)
                reconnect_cells(lane, s, lane, trial, lane, cut, fires)
                score[lane, cell] += weigh_cut(lane, cut, weight, fires)
                for t in range(fires.touching.shape[0]):
                    r = cell // columns + fires.touching[t, FROM_ROW]
                    c = cell % columns + fires.touching[t, FROM_COLUMN]
                    if 0 <= r < rows and 0 <= c < columns:
                        trial[lane, r * columns + c] = ways[s, r * columns + c]
        clear_tree(lane, count, tree, fires)


@inner
def mark_fires_near(
    lane: Scalar, numbers: Array, table: Array, ignition: Array, ways: Array, blocked: Array, tree: Array,
    breaks: Array, near: Array, *arrays: Array,
) -> None:  # fmt: skip
    """Mark the breaks, [N] cells, without which each fire might burn differently: it reached a move that they
    end, or was lit in one."""
    fires = Fires(*arrays)
    rows, columns = fires.params[ROWS], fires.params[COLUMNS]
    for f in range(lane, numbers[COUNT], numbers[LANE_COUNT]):
        s = table[f]
        count = burn_tree(lane, s, ignition[f], ways, blocked, tree, fires)
        for i in range(breaks.shape[0]):
            cell = breaks[i]
            near[f, i] = ignition[f] == cell
            for t in range(fires.touching.shape[0]):
                r = cell // columns + fires.touching[t, FROM_ROW]
                c = cell % columns + fires.touching[t, FROM_COLUMN]
                if 0 <= r < rows and 0 <= c < columns:
                    reached = fires.arrival[lane, r * columns + c] != INFINITE
                    ended = (fires.open[s, r * columns + c] >> fires.touching[t, MOVE]) & 1 != 0
                    near[f, i] |= reached and ended
        clear_tree(lane, count, tree, fires)
