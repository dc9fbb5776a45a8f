"""The kernel layer: it compiles at bind, launches without copies, and its cache is never stale."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from snake_twin import PlainRandom, plain_bits, plain_key

from flashdqn import make_env
from flashdqn.compute import kernels
from flashdqn.compute.kernels import Array, Kernel, Scalar, board_tensor, scalar
from flashdqn.compute.random_bits import below, board_keys, random_bits, unit
from flashdqn.core.errors import EnvError

uint64s = st.integers(0, 2**64 - 1)
compiles = settings(deadline=None)  # the first example compiles


@scalar
def throw(i: Scalar, total: Array, rng: Array) -> None:
    total[i, 0] += 1 + below(random_bits(rng[i, 0], rng[i, 1]), 6)
    rng[i, 1] += 1


def dice(num_boards: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    total = board_tensor(num_boards, (1,), torch.int64, "cpu")
    rng = board_tensor(num_boards, (2,), torch.int64, "cpu")
    rng[:, 0] = board_keys(seed, num_boards)
    return total, rng


@pytest.mark.parametrize("num_boards", [1, 63, 64, 1000])
def test_a_launch_plays_every_board_once_in_place(num_boards: int) -> None:
    total, rng = dice(num_boards)
    launch = Kernel(throw).bind(num_boards, total, rng)
    assert total.sum() == 0, "binding must play nothing"
    launch()
    launch()
    for i in range(0, num_boards, 37):
        random = PlainRandom(plain_key(0, i))
        assert total[i, 0] == 2 + random.below(6) + random.below(6)
    assert (rng[:, 1] == 2).all()


def test_threads_and_a_plain_loop_play_the_same_game() -> None:
    serial, parallel = dice(500), dice(500)
    Kernel(throw, parallel_from=501).bind(500, *serial)()
    Kernel(throw, parallel_from=1).bind(500, *parallel)()
    assert torch.equal(serial[0], parallel[0])


@pytest.mark.parametrize("boards", [4, 100, 1000])
def test_making_an_environment_leaves_pytorchs_threads_alone(
    boards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some machines Numba's threads, when they start, change how many PyTorch uses: here, as if they did."""
    start = numba.get_num_threads
    monkeypatch.setattr("numba.get_num_threads", lambda: torch.set_num_threads(3) or start())
    before = torch.get_num_threads()
    assert before != 3
    env = make_env("snake", boards, "cpu")
    env.reset(0)
    env.step(torch.zeros(boards, dtype=torch.int64))
    assert torch.get_num_threads() == before


def test_a_slow_threading_layer_is_left_alone_for_few_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.get_num_threads", lambda: 8)
    monkeypatch.setattr("numba.threading_layer", lambda: "workqueue")
    kernel = Kernel(throw)
    assert kernel._worthwhile_threads(1000) == 1
    assert kernel._worthwhile_threads(5000) == 8


def test_tensors_on_two_devices_are_refused() -> None:
    with pytest.raises(EnvError, match="one device"):
        Kernel(throw).bind(2, torch.zeros(2, 1), torch.zeros(2, 2, device="meta"))


@given(key=uint64s, counter=st.integers(0, 2**40))
@compiles
def test_random_bits_match_plain_python(key: int, counter: int) -> None:
    signed = np.uint64(key).astype(np.int64)  # as it is kept in a tensor
    assert int(random_bits(signed, counter)) == plain_bits(key, counter)


@given(bits=uint64s, n=st.integers(1, 2**31 - 1))
@compiles
def test_below_and_unit_stay_in_range(bits: int, n: int) -> None:
    drawn = below(np.uint64(bits), n)
    assert drawn == ((bits >> 32) * n) >> 32
    assert 0 <= drawn < n
    assert 0 <= unit(np.uint64(bits)) < 1


@given(seed=st.integers(-(2**70), 2**70))
@settings(max_examples=30)
def test_board_keys_match_plain_python(seed: int) -> None:
    keys = board_keys(seed, 3).numpy().view(np.uint64)
    assert [int(key) for key in keys] == [plain_key(seed, i) for i in range(3)]


def test_random_numbers_are_even() -> None:
    faces = torch.zeros(6)
    total, rng = dice(600)
    launch = Kernel(throw).bind(600, total, rng)
    for _ in range(100):
        before = total.clone()
        launch()
        faces += torch.bincount((total - before).flatten() - 1, minlength=6)
    chi_squared = ((faces - 10_000) ** 2 / 10_000).sum()
    assert chi_squared < 30  # five degrees of freedom: once in 70,000 seeds, and the seed is fixed


HASH_SEEDS = itertools.count(1)
SCRIPT = """
import sys, torch
from flashdqn.compute.kernels import Kernel
from game import play
x = torch.zeros(100, dtype=torch.int64)
launch = Kernel(play, parallel_from=int(sys.argv[1])).bind(100, x)
assert not x.any()
launch()
stats = launch.func.stats
print(int(x[7]), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run_game(folder: Path, rule: str, step: int, parallel_from: int = 1000) -> list[int]:
    """Write a game of two modules, play it in a process of its own: result, cache hits, cache misses."""
    (folder / "rule.py").write_text(
        "from flashdqn.compute.gemm import with_fast_sums\n@with_fast_sums\n"
        f"def rule(x):\n    return {rule} if x not in (-1, -2, -3) else x\n"
    )
    (folder / "numbers_of_game.py").write_text(f"STEP = {step}\n")
    game = """
        from flashdqn.compute.kernels import scalar
        import numbers_of_game
        import rule

        @scalar
        def play(i, x):
            x[i] = rule.rule(x[i]) + numbers_of_game.STEP
    """
    (folder / "game.py").write_text(textwrap.dedent(game))
    (folder / "main.py").write_text(SCRIPT)
    source = str(Path(kernels.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-B", "main.py", str(parallel_from)],
        cwd=folder,
        env={**os.environ, "FLASHDQN_CACHE": str(folder / "cache"), "PYTHONPATH": source}
        | {"PYTHONHASHSEED": str(next(HASH_SEEDS))},  # the options of `with_fast_sums` hold a set
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_the_cache_serves_other_processes_and_is_never_stale(tmp_path: Path) -> None:
    assert run_game(tmp_path, "x + 1", step=10) == [11, 0, 1]
    assert run_game(tmp_path, "x + 1", step=10) == [11, 1, 0]
    assert run_game(tmp_path, "x + 2", step=10) == [12, 0, 1], "a callee in another file changed"
    assert run_game(tmp_path, "x + 2", step=20) == [22, 0, 1], "a constant in another file changed"


def test_the_cache_serves_threads_too(tmp_path: Path) -> None:
    assert run_game(tmp_path, "x + 1", step=10, parallel_from=1) == [11, 0, 1]
    assert run_game(tmp_path, "x + 1", step=10, parallel_from=1) == [11, 1, 0]
