"""The behavior of fire per cell, against pyretechnics and against cases worked out by hand."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from flashdqn.core.errors import ConfigError
from flashdqn.envs.fuelbreaks.fire.behavior import fire_behavior, joint_behavior, rate_and_intensity_toward
from flashdqn.envs.fuelbreaks.fire.fronts import front_facing
from flashdqn.envs.fuelbreaks.fire.fuels import burnable_fuels, fuel_name
from flashdqn.envs.fuelbreaks.fire.surface import flame_length
from flashdqn.envs.fuelbreaks.fire.weather import DRY, EXTREME, MILD, Weather
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.landscape import LAYERS, NON_BURNABLE, Landscape

REFERENCE = Path(__file__).parent / "reference" / "cells.npz"
CLOSE = 3e-5  # pyretechnics works in float32
LEAST_RATE, LEAST_INTENSITY = 1e-6, 1e-5  # m/min, kW/m: near the moisture of extinction float32 loses more
GONE_OUT = 1e-9  # what rounding leaves it of a fire in fuel that is too wet


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(REFERENCE) as file:
        return dict(file)


def cases(reference: dict[str, np.ndarray]):
    """Landscapes and weathers of the reference, with what it found: [head, azimuths…]."""
    for i in range(len(reference["slope"])):
        layers = {name: reference[name][i] for name in LAYERS if name != "elevation"}
        landscape = Landscape(elevation=np.zeros_like(layers["slope"]), **layers)
        weather = Weather(**{field.name: float(reference[field.name][i]) for field in fields(Weather)})
        names = ("spread_rate", "spread_direction", "fireline_intensity", "flame_length", "fire_type")
        yield landscape, weather, {name: reference[name][i] for name in names}


def test_the_head_of_the_fire_is_the_references(reference) -> None:
    crowns = set()
    for landscape, weather, found in cases(reference):
        ours = fire_behavior(landscape, weather)
        burns = found["spread_rate"][0] > GONE_OUT
        np.testing.assert_array_equal(ours.burnable, burns)
        np.testing.assert_allclose(ours.rate, found["spread_rate"][0], rtol=CLOSE, atol=LEAST_RATE)
        np.testing.assert_allclose(
            ours.intensity, found["fireline_intensity"][0], rtol=CLOSE, atol=LEAST_INTENSITY
        )
        np.testing.assert_allclose(
            ours.flame_length[burns], found["flame_length"][0][burns], rtol=CLOSE, atol=1e-5
        )
        turn = (ours.direction - found["spread_direction"][0] + 180.0) % 360.0 - 180.0
        assert np.abs(turn[burns]).max() < 0.01
        kind = np.where(burns, ours.crown + 1, 0)
        np.testing.assert_array_equal(kind[burns], found["fire_type"][0][burns])
        crowns |= set(ours.crown[burns].tolist())
    assert crowns == {0, 1, 2}
    assert reference["slope"].size > 5000


def test_fronts_toward_an_azimuth_are_the_references(reference) -> None:
    for landscape, weather, found in cases(reference):
        behavior = fire_behavior(landscape, weather)
        burns = behavior.burnable
        for a, azimuth in enumerate(reference["azimuths"], start=1):
            front = front_facing(behavior.fronts, float(azimuth))
            rate, intensity, crown = front.rate, front.intensity, front.crown
            np.testing.assert_allclose(rate, found["spread_rate"][a], rtol=CLOSE, atol=LEAST_RATE)
            np.testing.assert_allclose(
                intensity, found["fireline_intensity"][a], rtol=CLOSE, atol=LEAST_INTENSITY
            )
            np.testing.assert_array_equal(crown[burns] + 1, found["fire_type"][a][burns])
            np.testing.assert_allclose(
                flame_length(intensity)[burns], found["flame_length"][a][burns], rtol=CLOSE, atol=1e-5
            )
            assert rate_and_intensity_toward(behavior, float(azimuth))[0].dtype == np.float32


def plain(**layers: float) -> Landscape:
    """One cell; fuel model 1 on flat ground without trees unless said otherwise."""
    values = dict.fromkeys(LAYERS, 0.0) | {"fuel_model": 1} | layers
    return Landscape(**{name: np.full((1, 1), value) for name, value in values.items()})


def test_rothermels_short_grass_without_wind() -> None:
    # Fuel model 1 at 6 % moisture, worked out by hand from the equations: σ = 3500, ρ_b = 0.034, β = 0.0010625,
    # β_op = 0.004193, A = 0.20869, Γ' = 14.201, net load 0.032113, η_M = 0.5425, η_s = 0.41740, so
    # I_R = 826.1 Btu/ft²/min; ξ = 0.057752, ε = 0.96134, Q_ig = 316.96, and R₀ = 47.709 / 10.360 = 4.605 ft/min.
    ours = fire_behavior(plain(), Weather(wind_speed=0.0, dead_1h=0.06))
    assert ours.rate[0, 0] * 3.281 == pytest.approx(4.605, rel=1e-3)
    # BEHAVE's ellipse of no wind is a circle, up to its rounded constants.
    assert ours.eccentricity[0, 0] < 0.02
    assert ours.direction[0, 0] == 0.0


def test_fire_runs_with_the_wind_and_up_the_slope() -> None:
    west = fire_behavior(plain(), Weather(wind_speed=20.0, wind_from=270.0))
    assert west.direction[0, 0] == pytest.approx(90.0)
    # A slope that faces south falls to the south: uphill is north.
    hill = fire_behavior(plain(slope=20.0, aspect=180.0), Weather(wind_speed=0.0))
    assert hill.direction[0, 0] % 360.0 == pytest.approx(0.0, abs=1e-3)
    rates = [rate_and_intensity_toward(west, azimuth)[0][0, 0] for azimuth in (90.0, 0.0, 180.0, 270.0)]
    assert rates[0] > rates[1] > rates[3] > 0
    assert rates[1] == pytest.approx(rates[2])


def test_a_wet_fuel_does_not_burn_and_nothing_burns_on_water() -> None:
    wet = fire_behavior(plain(), Weather(dead_1h=0.12))  # the moisture of extinction of fuel model 1
    assert not wet.burnable[0, 0]
    assert wet.rate[0, 0] == wet.intensity[0, 0] == 0
    for number in NON_BURNABLE:
        assert not fire_behavior(plain(fuel_model=number), EXTREME).burnable[0, 0]


def test_fuels_cure() -> None:
    # GR2's herbs are its fuel: cured they carry fire, green they hardly do.
    green, cured = (
        fire_behavior(plain(fuel_model=102), Weather(live_herbaceous=m)).rate[0, 0] for m in (1.2, 0.3)
    )
    assert cured > 5 * green


def test_there_are_53_fuel_models() -> None:
    fuels = burnable_fuels()
    assert len(fuels.number) == 53
    assert fuel_name(8) == "closed timber litter"
    assert fuel_name(189) == "TL9"
    assert fuels.load[list(fuels.number).index(101), 0] == 0.0046


def test_behavior_is_remembered_by_content_and_cannot_be_written_to() -> None:
    first, second = fire_behavior(plain(), DRY), fire_behavior(plain(), DRY)
    assert first is second
    assert fire_behavior(plain(slope=1.0), DRY) is not first
    assert fire_behavior(plain(), MILD) is not first
    for array in (first.rate, first.burnable, first.fronts.surface.rate, first.fronts.canopy.heading):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize(
    ("field", "value"), [("wind_speed", -1), ("wind_from", 400), ("dead_1h", 6), ("foliar", float("nan"))]
)
def test_impossible_weather_is_refused(field: str, value: float) -> None:
    with pytest.raises(
        ConfigError, match=f"The weather's {field} must be a number from .* a moisture of 6 % is 0.06"
    ):
        Weather(**{field: value})


def test_landscapes_computed_together_burn_as_each_alone() -> None:
    """No cell depends on another: the same numbers, to the last bit."""
    landscapes = [generate_landscape(seed, size=12) for seed in range(5)]
    together = joint_behavior(landscapes, EXTREME)
    for k, landscape in enumerate(landscapes):
        alone = fire_behavior(landscape, EXTREME)
        for name in ("rate", "direction", "eccentricity", "intensity", "flame_length", "crown", "burnable"):
            mine, other = getattr(together, name)[12 * k : 12 * (k + 1)], getattr(alone, name)
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other), name
