"""The doctor needs no training and no torch: `core`, `show` and small libraries are enough."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from watching import write_script

import flashdqn.doctor
from flashdqn.doctor.interpreter import find_python

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


ALONE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Refuse())
sys.path[:] = [path for path in sys.path if not path.endswith("/src")]
sys.modules.pop("flashdqn", None)
sys.path.insert(0, FOLDER)
import flashdqn_doctor
sys.argv = ["flashdqn-doctor", *WORDS]
try:
    flashdqn_doctor.main()
except SystemExit as stop:
    print("code", stop.code)
import flashdqn
print("from", flashdqn.__file__)
"""


@pytest.mark.slow
@pytest.mark.process
def test_the_wheel_of_the_doctor_alone(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, str(root / "tools" / "build_doctor.py"), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("flashdqn_doctor-*.whl")
    folder = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
        (metadata,) = [file.read(name).decode() for name in file.namelist() if name.endswith("METADATA")]
    needs = {
        line.split()[1].partition(">")[0]
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist")
    }
    assert needs == {"rich", "tyro"}
    script = write_script(tmp_path, "import torch\nprint('the script ran')\n", hollow=True)
    words = ["--seconds", "20", "--python", sys.executable, str(script)]
    head = f"BLOCKED, FOLDER, WORDS = {BLOCKED!r}, {str(folder)!r}, {words!r}\n"
    said = run_python(head + ALONE)
    assert "the script ran" in said
    assert said[-2:] == [
        "code 0",
        f"from {folder / 'flashdqn_doctor' / 'program' / 'flashdqn' / '__init__.py'}",
    ]


def test_the_interpreter_of_the_environment_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_python() == sys.executable  # which has torch
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert find_python() == str(python)
