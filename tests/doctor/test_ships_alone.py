"""The doctor needs no training and no torch: `core`, `show` and small libraries are enough."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import flashdqn.doctor

FOLDER = Path(flashdqn.doctor.__file__).parent
#: What a script's own environment need not have, and what a report is made without.
BLOCKED = ("torch", "numba", "numpy", "gymnasium", "safetensors", "tensorboard", "matplotlib")

IMPORT_ALL = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Refuse())
import flashdqn
before = set(sys.modules)
import flashdqn.doctor as doctor
for module in pkgutil.walk_packages(doctor.__path__, "flashdqn.doctor."):
    importlib.import_module(module.name)
    print(module.name)
ours = {name.split(".")[1] for name in set(sys.modules) - before if name.startswith("flashdqn.")}
print("packages", *sorted(ours))
"""


def run_python(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_module_comes_without_torch_and_numba() -> None:
    *modules, packages = run_python(f"BLOCKED = {BLOCKED!r}\n{IMPORT_ALL}")
    assert {"flashdqn.doctor.examine", "flashdqn.doctor.report.page", "flashdqn.doctor.watch.script"} < set(
        modules
    )
    assert {"doctor", "show"} <= set(packages.split()[1:]) <= {"core", "doctor", "show"}


def test_what_is_watched_needs_the_standard_library_alone() -> None:
    for path in (FOLDER / "watch").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names, path.name
