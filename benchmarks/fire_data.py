"""Creates the reference data of tests/envs/fire: `make fire-reference`.

cells.npz: random cells in random weather, as head fire and toward four azimuths. fires.npz: burned areas by the
level set, with the landscapes they burned on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fire_ask import ROOT, Reference
from fire_cases import KINDS, make_case, reference_input, with_duration
from flashdqn.envs.fuelbreaks.fire.weather import DRY, EXTREME, MILD, Weather
from flashdqn.envs.fuelbreaks.landscape import FUEL_MODELS

FOLDER = ROOT / "tests" / "envs" / "fire" / "reference"
AZIMUTHS = (0.0, 90.0, 180.0, 237.5)
SIDE = 24
PER_KIND = 4


def random_cells(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every fuel model on every slope under every canopy, rounded to keep the file small."""
    shape = (SIDE, SIDE)
    height = np.round(rng.uniform(0.0, 35.0, shape), 1) * (rng.random(shape) < 0.8)
    layers = {
        "slope": np.round(rng.uniform(0.0, 45.0, shape)) * (rng.random(shape) < 0.85),
        "aspect": np.round(rng.uniform(0.0, 359.0, shape)),
        "canopy_cover": np.round(rng.uniform(0.0, 1.0, shape), 2) * (height > 0),
        "canopy_height": height,
        "canopy_base_height": np.round(0.1 + height * rng.uniform(0.0, 0.5, shape), 1),
        "canopy_bulk_density": np.round(rng.uniform(0.0, 0.4, shape), 2) * (height > 0),
        "fuel_model": rng.choice(sorted(FUEL_MODELS), shape),
    }
    return {
        name: layer.astype(np.int16 if name == "fuel_model" else np.float32) for name, layer in layers.items()
    }


def random_weather(rng: np.random.Generator) -> Weather:
    moistures = rng.uniform((0.02, 0.03, 0.04, 0.3, 0.5, 0.7), (0.25, 0.2, 0.2, 1.5, 1.5, 1.3))
    return Weather(round(rng.uniform(0, 80), 1), round(rng.uniform(0, 360)), *np.round(moistures, 3).tolist())


def make_cells(reference: Reference) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2026)
    weathers = [MILD, DRY, EXTREME, Weather(wind_speed=0.0)] + [random_weather(rng) for _ in range(6)]
    rows = []
    for weather in weathers:
        layers = random_cells(rng)
        found = reference.ask(layers | vars(weather) | {"azimuths": np.array(AZIMUTHS)}, "cells")
        rows.append(layers | {name: np.float64(value) for name, value in vars(weather).items()} | found)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]} | {
        "azimuths": np.array(AZIMUTHS)
    }


def make_fires(reference: Reference) -> dict[str, np.ndarray]:
    cases = [make_case(kind, 500 + seed) for kind in KINDS for seed in range(PER_KIND)]
    whole = reference.ask(reference_input(cases, 1), "fires")["arrival"]
    cases = [with_duration(case, arrival) for case, arrival in zip(cases, whole, strict=True)]
    data = reference_input(cases, 1)
    burned = reference.ask(data, "fires")["arrival"] >= 0
    data["fuel_model"] = data["fuel_model"].astype(np.int16)
    return data | {"burned": np.packbits(burned, axis=-1), "kind": np.array([case.kind for case in cases])}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Reference() as reference:
        for name, data in (("cells", make_cells(reference)), ("fires", make_fires(reference))):
            path = FOLDER / f"{name}.npz"
            np.savez_compressed(path, **data)
            print(f"{Path(path).relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
