"""While a quiet command of the Makefile works, a terminal shows for how long."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = ["make", "--eval", "probe: ; @$(call SHOWN,waiting) sleep 1.5; exit 3", "probe"]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_a_terminal_shows_the_seconds_and_a_file_does_not() -> None:
    quiet = subprocess.run(MAKE, cwd=ROOT, capture_output=True, text=True, check=False)
    assert quiet.returncode == 2, "the command's own failure"
    assert "waiting" not in quiet.stdout
    ours, its = pty.openpty()
    shown = subprocess.run(MAKE, cwd=ROOT, stdout=its, stderr=subprocess.PIPE, check=False)
    os.close(its)
    assert shown.returncode == 2
    assert b"\r  waiting, 1 s " in os.read(ours, 10_000)
    os.close(ours)
