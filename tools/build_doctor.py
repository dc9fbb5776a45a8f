"""Build `flashdqn-doctor`: the doctor alone, from the same source, for environments without torch and numba.

    python tools/build_doctor.py [FOLDER]

Writes a wheel (into dist/ by default) that needs only rich and tyro. It holds a copy of every module that `flashdqn
doctor` imports, in a folder of its own, so it can be installed beside flashdqn.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PACKAGE = "flashdqn"
ENTRIES = ("flashdqn", "flashdqn.cli.main", "flashdqn.cli.doctor", "flashdqn.cli.doctor_compare")
#: Everything in here is taken: the rules, the patches and the libraries are found by their folders.
WHOLE = "flashdqn.doctor"
NEEDS = ("rich", "tyro")

START = '''"""`flashdqn-doctor`: why is this training slow? The doctor of flashdqn alone, without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__version__ = "{version}"
PROGRAM = str(Path(__file__).parent / "program")


def main() -> None:
    """`flashdqn-doctor train.py` is `flashdqn doctor train.py`."""
    sys.path.insert(0, PROGRAM)
    sys.argv[1:1] = ["doctor"]
    from flashdqn.cli.main import main as run

    run()


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext flashdqn_doctor`: makes `%%doctor` known."""
    try:
        from flashdqn.doctor import load_ipython_extension as load
    except ImportError:
        sys.path.append(PROGRAM)
        from flashdqn.doctor import load_ipython_extension as load

    load(shell)
'''
RUN = "from flashdqn_doctor import main\n\nmain()\n"
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "flashdqn-doctor"
version = "{version}"
description = "Why is this PyTorch training slow? Watches any script, tries the cures, writes the patch"
readme = "README.md"
requires-python = "{python}"
license = "Apache-2.0"
license-files = ["LICENSE"]
dependencies = [{needs}]

[project.scripts]
flashdqn-doctor = "flashdqn_doctor:main"

[tool.setuptools.packages.find]
where = ["."]
namespaces = true
include = ["flashdqn_doctor*"]
"""
README = """# flashdqn-doctor

Why is this PyTorch training slow? `flashdqn-doctor train.py` runs any training script, unchanged, and says where
the time goes and what to do about it. It is the doctor of flashdqn alone: it needs neither torch nor numba itself,
and runs the script with the Python of the environment that you are in (`--python PATH` names another one).
"""


def find_file(module: str) -> Path | None:
    """The file of a module of this package."""
    path = SOURCE / Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def list_imports(file: Path) -> Iterator[str]:
    """The modules of this package that a file imports when it is imported itself."""
    waiting: list[ast.AST] = list(ast.parse(file.read_text(encoding="utf-8")).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_typing_block(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)


def is_typing_block(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def collect_files() -> list[Path]:
    """Every file that the doctor needs."""
    whole = (SOURCE / Path(*WHOLE.split("."))).rglob("*.py")
    names = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for path in whole
    }
    waiting, seen = [*ENTRIES, *names], dict[str, Path]()
    while waiting:
        name = waiting.pop()
        file = find_file(name) if name.partition(".")[0] == PACKAGE else None
        if file is None or name in seen:
            continue
        seen[name] = file
        parts = name.split(".")
        waiting += [".".join(parts[:i]) for i in range(1, len(parts))]
        waiting += list_imports(file)
    return sorted(set(seen.values()))


def write_project(folder: Path) -> None:
    """The project that the wheel is built from."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    floors = {need.partition(">")[0]: need for need in settings["dependencies"]}
    needs = ", ".join(f'"{floors[name]}"' for name in NEEDS)
    package = folder / "flashdqn_doctor"
    for file in collect_files():
        copy = package / "program" / file.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    version = settings["version"]
    (package / "__init__.py").write_text(START.replace("{version}", version), encoding="utf-8")
    (package / "__main__.py").write_text(RUN, encoding="utf-8")
    text = PROJECT.format(version=version, python=settings["requires-python"], needs=needs)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")


def main() -> None:
    """Build the wheel."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder)
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        subprocess.run(
            [*command, "--no-build-isolation", "--wheel-dir", str(target), str(folder)], check=True
        )
    print(*sorted(target.glob("flashdqn_doctor-*.whl")))


if __name__ == "__main__":
    main()
