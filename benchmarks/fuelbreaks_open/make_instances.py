"""Makes the instances of the public benchmark: 128 generated landscapes, their weathers and their fires.

    python benchmarks/fuelbreaks_open/make_instances.py

The file follows from the seeds below, on every machine. No preset trains on landscapes of these seeds.
"""

from __future__ import annotations

import hashlib

import numpy as np
from instances import INSTANCES, UNITS, WEATHER

from flashdqn.envs.fuelbreaks.fire import WEATHERS, Weather, fire_behavior
from flashdqn.envs.fuelbreaks.generate import generate_landscape

FIRST_SEED, COUNT, SIZE, FIRES = 770_000, 128, 50, 200
WINDS = (0.0, 90.0, 180.0, 270.0)


def main() -> None:
    columns: dict[str, list[np.ndarray]] = {name: [] for name in (*UNITS, "weather", "ignition", "name")}
    for i in range(COUNT):
        landscape = generate_landscape(FIRST_SEED + i, SIZE)
        weather = Weather(**vars(WEATHERS["dry"]) | {"wind_from": WINDS[i % len(WINDS)]})
        burnable = np.flatnonzero(fire_behavior(landscape, weather).burnable)
        random = np.random.Generator(np.random.PCG64([FIRST_SEED, i]))
        for name, unit in UNITS.items():
            whole = np.round(getattr(landscape, name).astype(np.float64) * round(1 / unit))
            columns[name].append(whole.astype(np.int16))
        columns["weather"].append(np.array([getattr(weather, name) for name in WEATHER]))
        columns["ignition"].append(random.choice(burnable, FIRES).astype(np.int16))
        columns["name"].append(np.array(landscape.name))
    arrays = {name: np.stack(values) for name, values in columns.items()}
    np.savez_compressed(INSTANCES, **arrays)
    print(f"{INSTANCES.name}: {INSTANCES.stat().st_size:,} bytes, contents {checksum(arrays)}")


def checksum(arrays: dict[str, np.ndarray]) -> str:
    """A hash of the contents, which does not depend on how they were compressed."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
