"""The fault bench in its short form: a few faults of every kind, and none of them does harm."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "benchmarks" / "faults.py"


def load_bench() -> ModuleType:
    """benchmarks/faults.py as a module; its folder is on the path only while it is loaded."""
    spec = importlib.util.spec_from_file_location("faults", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(BENCH.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH.parent))
    return module


def run_bench(*words: str) -> tuple[int, dict[str, Any], str]:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, str(BENCH), "--json", *words], capture_output=True, text=True, env=environment
    )
    return done.returncode, json.loads(done.stdout), done.stderr


bench = load_bench()
needs_shim = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("cc") or shutil.which("gcc")),
    reason="the shim needs Linux and a C compiler",
)


@needs_shim
def test_no_fault_does_harm() -> None:
    code, data, errors = run_bench("--effort", "small", "--kind", *bench.WARM)
    harm = [failure for row in data["rows"] for failure in row["failures"]]
    assert (code, harm) == (0, []), errors
    assert {row["kind"] for row in data["rows"]} == set(bench.WARM)
    assert sum(row["tried"] for row in data["rows"]) > 60


OTHERS = [kind for kind in bench.find_kinds() if kind not in bench.WARM]


@pytest.mark.skipif(not OTHERS, reason="there are no other kinds")
def test_no_other_fault_does_harm() -> None:
    code, data, errors = run_bench("--effort", "small", "--kind", *OTHERS)
    harm = [failure for row in data["rows"] for failure in row["failures"]]
    assert (code, harm) == (0, []), errors


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # it forks
def test_a_kind_that_breaks_is_one_failure() -> None:
    [(kind, _, [row])] = bench.try_kinds(["no_such_kind"], 0.01, jobs=1)
    assert (kind, row["harm"]) == ("no_such_kind", 1)
    assert "No module named" in row["failures"][0]


def test_what_is_tried_again_replaces_what_was_there() -> None:
    before = [{"rows": [{"kind": "kills"}, {"kind": "power"}]}, {"rows": [{"kind": "disk"}]}]
    new = [{"rows": [{"kind": "power", "harm": 0}]}]
    assert bench.join_parts(before, new) == [{"rows": [{"kind": "kills"}]}, before[1], *new]
    assert bench.join_parts([{"rows": [{"kind": "power"}]}], new) == new


def test_a_file_that_is_not_python_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def try_faults(:\n")
    assert bench.defines_faults(broken)
    broken.write_text("import os\n")
    assert not bench.defines_faults(broken)


@pytest.mark.parametrize(("word", "effort"), [("small", 0.01), ("1", 1.0), ("0.25", 0.25)])
def test_efforts(word: str, effort: float) -> None:
    assert bench.read_effort(word) == effort


def test_the_power_model_loses_what_was_not_synced(tmp_path: Path) -> None:
    """A file that is written, synced and renamed is old or new; without the sync it may also be empty."""
    sys.path.insert(0, str(BENCH.parent))
    try:
        from fault_kinds.disk_model import Disk
        from fault_kinds.shim import Kind, Operation
    finally:
        sys.path.remove(str(BENCH.parent))
    import random

    (tmp_path / "file").write_bytes(b"old")

    def draw(*steps: tuple[Any, str, str, bytes]) -> set[bytes | None]:
        found: set[bytes | None] = set()
        for seed in range(200):
            disk = Disk(Path("/disk"), tmp_path)
            for kind, name, second, data in steps:
                disk.play(Operation(kind, 1, f"/disk{name}", f"/disk{second}", 7, 0, len(data), data))
            for model in ("posix", "ext4"):
                node = disk.cut_power(random.Random(seed), model).entries.get("file")
                found.add(None if node is None else node.content)
        return found

    create, write = (Kind.OPEN, "/temporary", "", b""), (Kind.WRITE, "/temporary", "", b"new")
    sync, rename = (Kind.SYNC, "/temporary", "", b""), (Kind.RENAME, "/temporary", "/file", b"")
    assert draw(create, write, sync, rename) == {b"old", b"new"}
    assert {b"old", b"new", b"", bytes(3)} <= draw(create, write, rename)
    assert draw(create, write, sync, rename, (Kind.SYNC, "", "", b"")) == {b"new"}
