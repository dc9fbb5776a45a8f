"""The fused layers on the CPU, in Triton's interpreter, in a process of their own: Triton decides at its import."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "test_fused.py"


@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton has no build for this system")
def test_fused_layers_equal_plain_ones_in_the_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--override-ini",
        "addopts=-q",
        str(TESTS),
    ]
    ended = subprocess.run(words, env=environment, text=True, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None, ended.stdout[-2000:]
    assert int(passed[1]) >= 12, "tests were skipped: is the interpreter on?"
