"""Cell2Fire's lookup tables: what the numbers of a map of fuels mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire.fuels import fuel_name
from flashdqn.envs.fuelbreaks.landscape import FUEL_MODELS, NON_BURNABLE
from flashdqn.envs.fuelbreaks.read.csv_table import TableRow, read_table
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand

#: Tables of other fire models, by the beginning of their names.
OTHER_SYSTEMS = {
    "fbp": "the Canadian FBP system",
    "kitral": "Kitral (Chile)",
    "portugal": "the Portuguese fuel models",
}
#: Codes of fuels that do not burn.
NON_FUEL = ("non-fuel", "nonfuel", "nf", "nb")
#: The most different fuels in a map.
MOST_FUELS = 1000
NUMBER, CODE, WORDS = "grid_value", "fuel_type", "descriptive_name"


def list_fuel_codes() -> dict[str, int]:
    """Numbers of fuel models by their codes: GR1 of Scott & Burgan, FM1 of Anderson, NB1 for what does not burn."""
    codes = {f"NB{number % 10}": number for number in NON_BURNABLE}
    for number in FUEL_MODELS - set(NON_BURNABLE):
        codes[f"FM{number}" if number < 100 else fuel_name(number)] = number
    return codes


def find_fuel_tables(folder: Path) -> list[Path]:
    """The lookup tables in a folder."""
    return sorted(path for path in folder.iterdir() if path.name.lower().endswith("_lookup_table.csv"))


def translate_fuels(band: RasterBand, table: Path) -> RasterBand:
    """Our fuel models from a map of a table's numbers."""
    rows = {int(row.read_number(NUMBER)): row for row in read_table(table, (NUMBER, CODE))}
    system = OTHER_SYSTEMS.get(table.name.lower().partition("_")[0], "")
    models = np.zeros_like(band.values)
    for number in sorted(list_numbers(band), key=lambda number: number not in rows):  # a known fuel says more
        where = (band.values == number) & ~band.empty
        row = rows.get(int(number)) if number == int(number) else None
        models[where] = translate_fuel(band.source, number, row, table, system, np.argwhere(where)[0])
    return replace(band, values=models)


def list_numbers(band: RasterBand) -> list[float]:
    """The different numbers of a map of fuels."""
    numbers = np.unique(band.values[~band.empty])
    if len(numbers) > MOST_FUELS or not np.isfinite(numbers).all():
        raise EnvError(
            f"{band.source} holds {len(numbers)} different numbers: a map of fuels has at most {MOST_FUELS}."
        )
    return [float(number) for number in numbers]


def translate_fuel(
    source: str, number: float, row: TableRow | None, table: Path, system: str, cell: NDArray[np.int64]
) -> int:
    """Our fuel model for one number of a map; `cell` is the first that holds it."""
    where = f"{source} holds {number:g} in row {cell[0]}, column {cell[1]}"
    if row is None:
        raise EnvError(f"{where}, and {table.name} does not have this fuel: add a line for it.")
    code = row.cells[CODE]
    if code.lower() in NON_FUEL:
        return int(number) if number in NON_BURNABLE else 99
    if system:
        raise EnvError(
            f"{where}, which is {code} ({row.cells.get(WORDS, '')[:60]}) of {system}: only the fuel models "
            "of Scott & "
            "Burgan and of Anderson are known. Make a map of these."
        )
    model = list_fuel_codes().get(code.upper())
    if model is None:
        raise EnvError(
            f"{where}, which is {code[:40]!r} in {table.name}: that is not a fuel model of Scott & Burgan, "
            "such as GR2 "
            "or TL5."
        )
    return model
