"""The rules of placing breaks, for one board: what an action does before the fire, and its results after.

A step is three launches: `place` (start an episode, or take an action), the fire itself, and `settle` (reward,
ends, observation). Rewards are whole numbers of cells until one division, so all devices agree bit by bit.
"""

from __future__ import annotations

import numpy as np

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.random_bits import below, random_bits
from flashdqn.envs.fuelbreaks.fire.spread import BURN, KEEP
from flashdqn.envs.fuelbreaks.observation import HEADER

#: Number of values in a board's state.
STATE = 5
OVER, LEFT, PLACED, FIRST, NOW = range(STATE)  # FIRST, NOW: worth of burned cells, all fires together

#: Parameters that all boards share.
FIRST_SCENE, END_SCENE, FEWEST, MOST, GIVEN, SCOUTS, REMAINING = range(7)

#: The score is the share of the burned area (or value) that the breaks saved, in percent of what burned without
#: them. The others are shares of the landscape, 0 … 1: burned without the breaks, burned with them, and the breaks.
OUTCOMES = ("score", "burned_before", "burned_after", "breaks")


@inner
def place_break(
    i: Scalar,
    action: Array,
    params: Array,
    given: Array,
    places: Array,
    counts: Array,
    state: Array,
    rng: Array,
    mask: Array,
    scene: Array,
    ignition: Array,
    scouted: Array,
    breaks: Array,
    command: Array,
) -> None:
    """Tell the fire what to do on board `i`: a new episode, a break, or nothing where the action is not legal."""
    if state[i, OVER] != 0:
        start_episode(i, params, given, places, counts, state, rng, scene, ignition, scouted, breaks)
        command[i] = BURN
        return
    cell = action[i]
    state[i, LEFT] -= 1
    if cell >= 0 and cell < mask.shape[1] and mask[i, cell]:
        state[i, PLACED] += 1
        command[i] = cell
    else:
        command[i] = KEEP


@inner
def start_episode(
    i: Scalar,
    params: Array,
    given: Array,
    places: Array,
    counts: Array,
    state: Array,
    rng: Array,
    scene: Array,
    ignition: Array,
    scouted: Array,
    breaks: Array,
) -> None:
    """Draw a scene, a budget and where the fires start, scouts included."""
    key, at = rng[i, 0], rng[i, 1]
    first, fewest = params[FIRST_SCENE], params[FEWEST]
    chosen = first + below(random_bits(key, at), params[END_SCENE] - first)
    budget = fewest + below(random_bits(key, at + 1), params[MOST] - fewest + 1)
    fires, cells = ignition.shape[1], breaks.shape[1]
    for f in range(fires):
        if params[GIVEN] > 0:
            ignition[i, f] = given[f % params[GIVEN]]
        else:
            ignition[i, f] = places[chosen, below(random_bits(key, at + 2 + f), counts[chosen])]
    at += 2 + fires
    for f in range(params[SCOUTS]):
        scouted[i, f] = places[chosen, below(random_bits(key, at + f), counts[chosen])]
    for c in range(cells):
        breaks[i, c] = False
    rng[i, 1] = at + params[SCOUTS]
    scene[i] = chosen
    state[i, LEFT], state[i, PLACED] = budget, 0


@inner
def finish_step(
    i: Scalar,
    params: Array,
    placeable: Array,
    worth: Array,
    state: Array,
    mask: Array,
    scene: Array,
    command: Array,
    burned: Array,
    obs: Array,
    reward: Array,
    terminated: Array,
    outcomes: Array,
) -> None:
    """Write reward, ends and observation of board `i` after its fires."""
    fires, cells = burned.shape[1], mask.shape[1]
    total = np.int64(0)
    for f in range(fires):
        total += burned[i, f]
    area = np.float32(fires * worth[scene[i]])
    reward[i] = np.float32(0.0)
    if state[i, OVER] != 0:
        state[i, OVER], state[i, FIRST] = 0, total
        observe_scene(i, placeable, scene, mask, obs)
    else:
        whole = np.float32(max(state[i, NOW], 1)) if params[REMAINING] else area
        reward[i] = np.float32(100 * (state[i, NOW] - total)) / whole
        if command[i] >= 0:
            cell = command[i]
            mask[i, cell] = False
            obs[i, HEADER + cell // 8] |= np.uint8(1 << (cell % 8))
    state[i, NOW] = total
    obs[i, 2], obs[i, 3] = state[i, LEFT] % 256, state[i, LEFT] // 256
    terminated[i] = state[i, LEFT] == 0
    if terminated[i]:
        state[i, OVER] = 1
        before = state[i, FIRST]
        outcomes[i, 0] = np.float32(100 * (before - total)) / np.float32(max(before, 1))
        outcomes[i, 1] = np.float32(before) / area
        outcomes[i, 2] = np.float32(total) / area
        outcomes[i, 3] = np.float32(state[i, PLACED]) / np.float32(cells)


@inner
def observe_scene(i: Scalar, placeable: Array, scene: Array, mask: Array, obs: Array) -> None:
    """Write the first observation of an episode: the scene without breaks."""
    obs[i, 0], obs[i, 1] = scene[i] % 256, scene[i] // 256
    for c in range(mask.shape[1]):
        mask[i, c] = placeable[scene[i], c]
    for k in range(HEADER, HEADER + (mask.shape[1] + 7) // 8):
        obs[i, k] = 0
