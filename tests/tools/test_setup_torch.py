"""Which PyTorch `make setup` takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_an_index_that_the_user_names_comes_first() -> None:
    def plan(*words: str) -> str:
        done = subprocess.run(
            ["make", "-n", "-B", "setup", *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    named = plan("TORCH_INDEX=file:///somewhere")
    torch, lock = (
        named.index('--index-url "file:///somewhere"'),
        named.index("--requirement requirements.lock"),
    )
    assert torch < lock
    assert "torch" in named[torch : named.index("\n", torch)]
    assert 'test -z "" ||' in plan()
    assert "TORCH_INDEX=ADDRESS" in plan()  # said before 5 GB are fetched on a machine without a GPU
