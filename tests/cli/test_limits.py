"""Limits and places that a shell gives to a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")


def run_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", command, sys.executable]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    done = run_shell('mkdir gone; cd gone; rmdir ../gone; "$0" -m flashdqn presets', tmp_path)
    assert done.returncode == 2
    assert "flashdqn: The current folder does not exist any more" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("limits", "soft"), [("-t 8", 4), ("-t 60", 50), ("-t 1000", 950), ("-Ht 60; ulimit -St 30", 30)]
)
def test_processor_time_is_left_to_save(tmp_path: Path, limits: str, soft: int) -> None:
    program = "from flashdqn.core.signals import leave_time_to_save; leave_time_to_save(); import resource; "
    program += "print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
    assert run_shell(f'ulimit {limits}; "$0" -c "{program}"', tmp_path).stdout == f"{soft}\n"
