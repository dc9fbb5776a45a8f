"""`flashdqn landscapes`: make, check and show the ground that fuel breaks are placed on."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from flashdqn.cli.arguments import parse, refuse_unknown
from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.core.files import check_writable_file
from flashdqn.core.ranges import SEEDS, Between, describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.show.terminal import SteadyConsole


@dataclass(frozen=True)
class MakeArguments:
    """Write generated landscapes: folders of GeoTIFF layers in LANDFIRE's units, or .npz files.

    flashdqn landscapes make hills --count 8 --size 50
    flashdqn train fuelbreaks --env.rasters hills
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """The folder to write to; each landscape gets its own folder or file in it."""
    count: Annotated[int, Between(1, 10**6)] = 1
    """Number of landscapes."""
    size: Annotated[int, Between(4, 2048)] = 50
    """Cells per side, 30 m each."""
    seed: Annotated[int, Between(*SEEDS)] = 0
    """Seed of the first one; the others count up from it."""
    format: Literal["auto", "geotiff", "npz"] = "auto"
    """auto: GeoTIFF if rasterio is installed, else npz."""


@dataclass(frozen=True)
class CheckArguments:
    """Say what is wrong with landscapes, or that they are fine. The exit code is 1 if something is wrong.

    flashdqn landscapes check my-rasters
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PATH")]
    """A GeoTIFF or .lcp file, a folder of GeoTIFF or .asc layers, a Cell2Fire folder, an .npz file, or a folder
    that holds several of them."""
    holes: Literal["refuse", "nonburnable"] = "refuse"
    """Cells without data: refuse the landscape, or take them as bare ground."""


@dataclass(frozen=True)
class ShowArguments:
    """Draw a landscape's layers, and print a summary.

    flashdqn landscapes show my-rasters/ridge --out ridge.png
    flashdqn landscapes show --seed 7 --size 50
    """

    path: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="PATH")] = None
    """A GeoTIFF or .lcp file, a folder of GeoTIFF or .asc layers, a Cell2Fire folder, or an .npz file; without
    it, a landscape is generated."""
    holes: Literal["refuse", "nonburnable"] = "refuse"
    """Cells without data: refuse the landscape, or take them as bare ground."""
    seed: Annotated[int, Between(*SEEDS)] = 0
    """Seed of the generated landscape."""
    size: Annotated[int, Between(4, 2048)] = 50
    """Cells per side of the generated landscape."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.png")] = Path("landscape.png")
    """The picture to write."""


COMMANDS = ("make", "check", "show")
#: The kinds of pictures that can be written.
PICTURES = (".png", ".jpg", ".pdf", ".svg")


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn landscapes`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        console = SteadyConsole(soft_wrap=True)
        console.print(
            "usage: flashdqn landscapes make | check | show [options]\n", markup=False, highlight=False
        )
        console.print("`flashdqn landscapes make --help` says more, and so do the others.", highlight=False)
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise ConfigError(
            f"Unknown command {describe_value(f'landscapes {name}')}{suggest_nearest(name, COMMANDS)}"
        )
    command, kind = {
        "make": (make_landscapes, MakeArguments),
        "check": (check_landscapes, CheckArguments),
        "show": (show_landscape, ShowArguments),
    }[name]
    # This must come before the parser, which would take the value of an unknown flag for the path.
    refuse_unknown(
        "landscapes " + name,
        [word for word in rest if word.startswith("--") and not is_known_flag(word, kind)],
        landscape_flag_names(kind),
    )
    return command(rest)


def make_landscapes(arguments: list[str]) -> int:
    """Run `flashdqn landscapes make`."""
    from flashdqn.envs.fuelbreaks.generate import generate_landscape
    from flashdqn.envs.fuelbreaks.geotiff import write_folder
    from flashdqn.envs.fuelbreaks.npz import write_npz

    asked = parse("landscapes make", MakeArguments, arguments, landscape_flag_names(MakeArguments))
    geotiff = asked.format == "geotiff" or (
        asked.format == "auto" and importlib.util.find_spec("rasterio") is not None
    )
    for seed in range(asked.seed, asked.seed + asked.count):
        landscape = generate_landscape(seed, asked.size)
        target = asked.folder / landscape.name.replace(" ", "-")
        if geotiff:
            write_folder(landscape, target)
        else:
            target = target.with_suffix(".npz")
            write_npz(landscape, target)
        print_line(f"{target}: {summarize_landscape(landscape)}")
    return 0


def check_landscapes(arguments: list[str]) -> int:
    """Run `flashdqn landscapes check`."""
    from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape

    asked = parse("landscapes check", CheckArguments, arguments, landscape_flag_names(CheckArguments))
    bad = 0
    for path in find_landscapes(asked.path):
        try:
            landscape = read_landscape(path, asked.holes, print_note)
            print_line(f"{path}: fine. {summarize_landscape(landscape)}")
        except FlashDQNError as error:
            bad += 1
            print_line(str(error))
    return 1 if bad else 0


def show_landscape(arguments: list[str]) -> int:
    """Run `flashdqn landscapes show`."""
    from flashdqn.envs.fuelbreaks.generate import generate_landscape
    from flashdqn.envs.fuelbreaks.landscape import LAYERS
    from flashdqn.envs.fuelbreaks.pictures import STYLES, draw_layers
    from flashdqn.envs.fuelbreaks.rasters import read_landscape

    asked = parse("landscapes show", ShowArguments, arguments, landscape_flag_names(ShowArguments))
    check_picture(asked.out)
    landscape = (
        generate_landscape(asked.seed, asked.size)
        if asked.path is None
        else read_landscape(asked.path, asked.holes, print_note)
    )
    print_line(f"{landscape.name}: {summarize_landscape(landscape)}")
    for layer in LAYERS[:-1]:
        title, unit, _ = STYLES[layer]
        values = getattr(landscape, layer)
        print_line(f"  {title:<20} {values.min():g} … {values.max():g} {unit}, mean {values.mean():.4g}")
    models, counts = np.unique(landscape.fuel_model, return_counts=True)
    shares = ", ".join(
        f"{model} {count / landscape.fuel_model.size:.0%}"
        for model, count in zip(models, counts, strict=True)
    )
    print_line(f"  {'fuel models':<20} {shares}")
    draw_layers(landscape, asked.out)
    print_line(f"Drawn to {asked.out}")
    return 0


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, before anything is drawn; makes its folder."""
    if path.suffix.lower() not in PICTURES:
        raise ConfigError(f"--out must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}, and is '{path}'.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be written to: {error.strerror}.") from None
    check_writable_file(path)


def summarize_landscape(landscape: object) -> str:
    """A landscape in a sentence."""
    from flashdqn.envs.fuelbreaks.landscape import Landscape

    assert isinstance(landscape, Landscape)
    rows, columns = landscape.shape
    return (
        f"{rows} x {columns} cells of {landscape.cell_size:g} m, {landscape.burnable.mean():.0%} of them can burn, "
        f"mean slope {landscape.slope.mean():.0f} degrees."
    )


def landscape_flag_names(kind: type) -> list[str]:
    """The flags of a command."""
    return [field.name for field in fields(kind) if field.name not in ("folder", "path")]


def is_known_flag(word: str, kind: type) -> bool:
    """Whether a command has this flag."""
    return word.partition("=")[0].removeprefix("--").replace("-", "_") in (
        *landscape_flag_names(kind),
        "help",
    )


def print_note(text: str) -> None:
    """Print what a reader had to assume."""
    print_line(f"Note: {text}")


def print_line(text: str) -> None:
    """Print a line as it is."""
    SteadyConsole(soft_wrap=True).print(text, markup=False, highlight=False)
