"""The hash of a kernel is the same in every process, and another one after any change."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest

import flashdqn
from flashdqn.compute.fingerprint import describe_constant, fingerprint_kernel

ALL_KERNELS = """
import importlib, pkgutil
import numba.core.dispatcher
import flashdqn
from flashdqn.compute.fingerprint import fingerprint_kernel
for package in ("compute", "envs", "replay", "training.backends.cpu"):
    root = importlib.import_module(f"flashdqn.{package}")
    for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue
        for name, value in sorted(vars(module).items()):
            if isinstance(value, numba.core.dispatcher.Dispatcher):
                print(found.name, name, fingerprint_kernel(value, ""))
"""


def test_the_hash_seed_changes_no_kernel_of_ours() -> None:
    source = str(Path(flashdqn.__file__).parents[1])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ALL_KERNELS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, two = (process.communicate()[0].splitlines() for process in running)
    assert len(one) > 100
    assert one == two


class Color(enum.Enum):
    RED = 1


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "value",
    [
        *(
            {"reassoc", "contract"},
            frozenset("abc"),
            {"b": {"x", "y"}, "a": ()},
            (1, frozenset("xyz")),
            Color.RED,
        ),
        *(
            Pair(1, {2}),
            None,
            ...,
            1.5,
            np.float32(2),
            np.dtype("f4"),
            numba.float32,
            np.float32,
            object(),
            len,
        ),
    ],
)
def test_a_text_shows_neither_order_nor_address(value: Any) -> None:
    assert " at 0x" not in describe_constant(value)
    if isinstance(value, set | frozenset):
        assert describe_constant(value) == "{" + ", ".join(sorted(map(describe_constant, value))) + "}"


def make_function(**constants: Any) -> FunctionType:
    text = "def play(x):\n    return OTHER(x) if x in {1, 2, 3} else CONSTANT\n"
    names: dict[str, Any] = {"__name__": __name__, **constants}
    exec(text, names)
    made: FunctionType = names["play"]
    return made


def test_every_kind_of_constant_counts() -> None:
    def other(x: int) -> int:
        return x + 1

    constants = [1, 1.0, True, "1", None, (1,), (2,), (other,), (make_function(),), np.ones(2), np.zeros(2)]
    constants += [np.ones(2, np.float32), Color.RED, numba.float32, numba.float64, np.float32, np.float64]
    constants += [frozenset("ab"), frozenset("ac"), np.dtype("i4"), np.dtype("i8")]
    hashes = {fingerprint_kernel(make_function(CONSTANT=value), "") for value in constants}
    assert len(hashes) == len(constants)
