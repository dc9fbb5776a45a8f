"""The table of markers names tests that exist, and marks what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marker_table import PROCESS, SLOW, find_marks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("line", sorted({*SLOW, *PROCESS}))
def test_every_line_names_a_test(line: str) -> None:
    file, _, test = line.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {test or 'test_'}", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("node", "fixtures", "reasons", "marks"),
    [
        ("tests/training/test_kill.py::test_any", (), [], {"process"}),
        ("tests/training/test_demos.py::test_any[1::2]", (), [], {"slow"}),
        ("tests/compute/test_kernels.py::test_the_cache_serves_threads_too[x]", (), [], {"slow", "process"}),
        ("tests/compute/test_kernels.py::test_another", (), [], set()),
        ("tests/show/test_any.py::test_any", ("browser", "tmp_path"), [], {"browser"}),
        ("tests/any.py::test_any", (), ["needs a C++ compiler", "needs a CUDA device"], {"cuda"}),
        ("tests/any.py::test_any", (), ["needs a GPU"], {"cuda"}),
        ("tests/any.py::test_any", (), ["takes 2.3 GB: for a CUDA device"], {"cuda"}),
        ("tests/any.py::test_any", (), ["there is a GPU", "needs two threads"], set()),
    ],
)
def test_marks(node: str, fixtures: tuple[str, ...], reasons: list[str], marks: set[str]) -> None:
    assert find_marks(node, fixtures, reasons) == marks
