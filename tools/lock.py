"""Write requirements.lock, the locks for CUDA and for Ray, and the table of licenses, from constraints.txt.

    python tools/lock.py

The package indexes that pip is set to are asked for every wheel of every pinned version, and the lock holds the
SHA-256 of each: it serves all platforms and Pythons. Nothing is installed or updated. A new version is chosen by
hand in constraints.txt; a requirement without a pin, or with one that does not fit, stops this program.
"""

from __future__ import annotations

import itertools
import sys
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from license_table import write_table
from package_index import PYTHONS, find_wheels, read_metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LOCK = ROOT / "requirements.lock"
CUDA_LOCK = ROOT / "requirements-cuda.lock"
RAY_LOCK = ROOT / "requirements-ray.lock"
PAGE = ROOT / "docs" / "dependencies.md"

#: What packages ask about a machine: `sys_platform`, `platform_system`, `os_name`, `platform_machine`.
MACHINES = (
    ("linux", "Linux", "posix", "x86_64"),
    ("linux", "Linux", "posix", "aarch64"),
    ("darwin", "Darwin", "posix", "arm64"),
    ("win32", "Windows", "nt", "AMD64"),
)
SYSTEMS = ("darwin", "linux", "win32")
#: Extras that `make setup` does not install: in the table of licenses, not in the lock.
OPTIONAL = ("cuda", "mlflow", "ray", "wandb")
HEADER = """\
# Made by `python tools/lock.py` from constraints.txt: {}. Do not edit.
--require-hashes
--only-binary :all:
"""

Pins = dict[str, Version]


def read_pins(text: str) -> Pins:
    """Names and versions of a constraints file or of a lock."""
    lines = (line.split("#")[0].split(";")[0].strip(" \\") for line in text.splitlines())
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def read_project_requirements(extras: Iterable[str]) -> list[Requirement]:
    """What pyproject.toml asks for: to run, to build, and for some extras."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    texts = [*project["dependencies"], *data["build-system"]["requires"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


def list_environments() -> list[dict[str, str]]:
    """Every machine with every Python, as markers see them."""
    return [
        {
            "sys_platform": platform,
            "platform_system": system,
            "os_name": os_name,
            "platform_machine": machine,
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        for (platform, system, os_name, machine), python in itertools.product(MACHINES, PYTHONS)
    ]


def find_needed(
    roots: Sequence[Requirement], pins: Pins, environment: dict[str, str], cuda: bool
) -> set[str]:
    """The names of all packages that are needed, directly or not. Without `cuda`: by a torch for the CPU alone."""
    needed: set[str] = set()
    waiting = [(root, "the project", ("",)) for root in roots]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, asker, extras = waiting.pop()
        marker = requirement.marker
        if marker and not any(marker.evaluate({**environment, "extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(requirement.name)
        if asker == "torch" and not cuda and name.startswith(("cuda-", "nvidia-")):
            continue
        check_pin(requirement, asker, pins)
        needed.add(name)
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                metadata = read_metadata(name, pins[name])
                texts = metadata.get_all("Requires-Dist", [])
                waiting += [(Requirement(text), name, (extra,)) for text in texts]
    return needed


def check_pin(requirement: Requirement, asker: str, pins: Pins) -> None:
    """Stop if there is no pin for a requirement, or one that it does not allow."""
    pin = pins.get(canonicalize_name(requirement.name))
    if pin is None:
        sys.exit(f"constraints.txt has no version of {requirement.name}: {asker} asks for '{requirement}'.")
    if not requirement.specifier.contains(pin, prereleases=True):
        sys.exit(f"constraints.txt has {requirement.name} {pin}, but {asker} asks for '{requirement}'.")
    if pin not in find_wheels(canonicalize_name(requirement.name)):
        sys.exit(f"No package index that pip is set to has a wheel of {requirement.name} {pin}.")


def find_systems(roots: Sequence[Requirement], pins: Pins, cuda: bool) -> dict[str, set[str]]:
    """For every package that is needed: the systems that need it, whatever the Python."""
    systems: dict[str, set[str]] = {}
    for environment in list_environments():
        for name in find_needed(roots, pins, environment, cuda):
            systems.setdefault(name, set()).add(environment["sys_platform"])
    return systems


def write_lock(path: Path, what: str, systems: dict[str, set[str]], pins: Pins) -> None:
    """A file for `pip install --requirement`, with the hashes of all wheels."""
    entries = [format_entry(name, pins[name], systems[name]) for name in sorted(systems)]
    path.write_text(HEADER.format(what) + "".join(entries), encoding="utf-8")


def format_entry(name: str, version: Version, systems: set[str]) -> str:
    """One package: its version, where it is needed, and its hashes."""
    wheels = find_wheels(name)[version]
    for python in PYTHONS:
        if not any(wheel.runs_on(python) for wheel in wheels):
            print(f"{name} {version} has no wheel for Python {python}.")
    names = [f'sys_platform == "{system}"' for system in sorted(systems)]
    where = "" if len(systems) == len(SYSTEMS) else " ; " + " or ".join(names)
    hashes = sorted({f"    --hash=sha256:{wheel.sha256}" for wheel in wheels})
    return " \\\n".join([f"{name}=={version}{where}", *hashes]) + "\n"


def main() -> None:
    """Ask the indexes and write the four files."""
    pins = read_pins(CONSTRAINTS.read_text(encoding="utf-8"))
    with ThreadPoolExecutor(8) as pool:  # what is read is kept: the rest of this program waits for nothing
        list(pool.map(read_metadata, pins, pins.values()))
    roots = read_project_requirements(["dev"])
    locked, everything = (find_systems(roots, pins, cuda) for cuda in (False, True))
    for_cuda = {name: systems for name, systems in everything.items() if name not in locked}
    write_lock(LOCK, "what `make setup` installs", locked, pins)
    write_lock(CUDA_LOCK, "what torch for CUDA needs beside it", for_cuda, pins)
    with_ray = find_systems(read_project_requirements(["ray"]), pins, False)
    for_ray = {name: systems for name, systems in with_ray.items() if name not in locked}
    write_lock(RAY_LOCK, "what `make ray` adds in .venv-ray", for_ray, pins)
    optional = {
        extra: set(find_systems(read_project_requirements([extra]), pins, True)) for extra in OPTIONAL
    }
    runtime = set(find_systems(read_project_requirements([]), pins, False))
    write_table(PAGE, pins, runtime, set(locked), set(for_cuda), optional)


if __name__ == "__main__":
    main()
