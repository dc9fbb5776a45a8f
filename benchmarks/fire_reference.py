"""What pyretechnics says: the reference that benchmarks/fire.py and the tests compare with.

Runs in its own environment, `.venv-fire` (`make fire-reference`), because pyretechnics needs NumPy 1.26; so
it does not import flashdqn. It is a small server: each line on its standard input, `IN.npz OUT.npz KIND`, is a
question and the place for the answer, and it prints `done` when the answer is there.

KIND `cells`: behavior of single cells, as head fire and toward each azimuth. KIND `fires`: burned area by the
level set, with the seconds that each fire took.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
import pyretechnics.burn_cells as bc
import pyretechnics.eulerian_level_set as els
from pyretechnics.space_time_cube import SpaceTimeCube

MOISTURES = ("dead_1h", "dead_10h", "dead_100h", "live_herbaceous", "live_woody", "foliar")
CUBES = (
    "fuel_moisture_dead_1hr",
    "fuel_moisture_dead_10hr",
    "fuel_moisture_dead_100hr",
    "fuel_moisture_live_herbaceous",
    "fuel_moisture_live_woody",
    "foliar_moisture",
)
LAYERS = (
    "aspect",
    "canopy_cover",
    "canopy_height",
    "canopy_base_height",
    "canopy_bulk_density",
    "fuel_model",
)


def cubes(case, bands):
    """The inputs of a case; our rows run south, theirs north."""
    shape = (bands, *case["slope"].shape)

    def cube(layer):
        layer = np.broadcast_to(np.asarray(layer, dtype="float32"), shape[1:])
        return SpaceTimeCube(shape, np.ascontiguousarray(layer[::-1]))

    made = {layer: cube(case[layer]) for layer in LAYERS}
    made["slope"] = cube(np.tan(np.radians(case["slope"].astype("float64"))))
    made["wind_speed_10m"] = cube(case["wind_speed"])
    made["upwind_direction"] = cube(case["wind_from"])
    for ours, theirs in zip(MOISTURES, CUBES):  # noqa: B905 -- this runs on whatever Python has pyretechnics
        made[theirs] = cube(case[ours])
    return made


def behavior_of_cells(cases, azimuths):
    """Rate, azimuth, intensity, flame length, type of fire: as head fire, then toward each azimuth."""
    made = cubes(cases, 1)
    found = [bc.burn_all_cells_as_head_fire(made, 0)]
    found += [bc.burn_all_cells_toward_azimuth(made, azimuth, 0) for azimuth in azimuths]
    names = ("spread_rate", "spread_direction", "fireline_intensity", "flame_length", "fire_type")
    return {name: np.stack([one[name][::-1] for one in found]) for name in names}


def burn(case, repeats=1):
    """Minutes of arrival (-1: not burned), and the least CPU seconds over the repeats."""
    duration = float(case["duration"])
    bands = max(1, math.ceil(duration / 60.0) + 1)
    made = cubes(case, bands)
    rows, columns = case["slope"].shape
    size = float(case["cell_size"])
    row, column = (int(x) for x in case["ignition"])
    seconds = math.inf
    for _ in range(repeats):
        start = time.process_time()
        state = els.SpreadState((bands, rows, columns)).ignite_cell((rows - 1 - row, column))
        result = els.spread_fire_with_phi_field(
            made, state, cube_resolution=(60.0, size, size), start_time=0.0, max_duration=duration
        )
        seconds = min(seconds, time.process_time() - start)
    found = result["spread_state"].get_full_matrices(["time_of_arrival"])["time_of_arrival"]
    return np.array(found)[::-1], seconds


def answer(path, out, kind):
    with np.load(path) as file:
        data = dict(file)
    if kind == "cells":
        np.savez_compressed(out, **behavior_of_cells(data, data.pop("azimuths").tolist()))
        return
    arrival, seconds = [], []
    for i in range(len(data["duration"])):
        one, took = burn(
            {name: values[i] for name, values in data.items() if name != "repeats"}, int(data["repeats"])
        )
        arrival.append(one)
        seconds.append(took)
    np.savez_compressed(out, arrival=np.stack(arrival).astype("float32"), seconds=np.array(seconds))


if __name__ == "__main__":
    print("ready", flush=True)
    for line in sys.stdin:
        answer(*line.split())
        print("done", flush=True)
