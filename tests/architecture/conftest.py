"""The project's own source, read once."""

from __future__ import annotations

from pathlib import Path

import pytest
from source_tree import SourceTree

import flashdqn


@pytest.fixture(scope="session")
def tree() -> SourceTree:
    return SourceTree(Path(flashdqn.__file__).parent)
