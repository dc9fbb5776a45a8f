"""Random numbers for kernels, counter-based: the stream of a board is two integers of its state.

A board holds a *key* (from the seed and the board's number) and a *counter* (numbers drawn so far), both
int64. Number `n` of the stream is the SplitMix64 finalizer of `key + n · golden` (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014). Integer arithmetic only: a CPU thread, a CUDA
thread and plain Python draw the same numbers, and the number of boards changes no board's stream.

In a game, with `rng` as an int64 tensor [N, 2] of keys and counters::

    die = below(random_bits(rng[i, 0], rng[i, 1]), 6)  # 0 … 5
    rng[i, 1] += 1

Inside, everything is uint64: Numba turns uint64 + int64 into float64, so constants carry their type.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.kernels import Scalar, scalar

GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio, odd
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB

_GOLDEN, _MIX_1, _MIX_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@scalar
def mix_bits(x: Scalar) -> Scalar:
    """SplitMix64's finalizer: uint64 → uint64, a bijection that scatters its input."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@scalar
def random_bits(key: Scalar, counter: Scalar) -> Scalar:
    """64 random bits (uint64): number `counter` of the stream `key`."""
    return mix_bits(np.uint64(key) + np.uint64(counter) * _GOLDEN)


@scalar
def below(bits: Scalar, n: Scalar) -> Scalar:
    """A number in 0 … n−1 (int64), n < 2³¹: the upper 32 bits times n, shifted; its bias is below n / 2³²."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


@scalar
def unit(bits: Scalar) -> Scalar:
    """A float32 in [0, 1) from the upper 24 bits: exact, and so the same on every device."""
    return np.float32(np.int64(bits >> np.uint64(40))) * np.float32(2.0**-24)


def board_keys(seed: int, num_boards: int, first: int = 0) -> Tensor:
    """The keys of N boards for a seed, beginning with number `first`, [N] int64; seeds count modulo 2⁶⁴."""
    wrapped = np.array([seed % 2**64], dtype=np.uint64)
    board = np.arange(first + 1, first + num_boards + 1, dtype=np.uint64)
    # Two rounds: with one, key(seed, i) + n · golden would walk into the stream of board i + n.
    keys = _mix_array(_mix_array(wrapped + _GOLDEN) + board * _MIX_1)  # [N]
    return torch.from_numpy(keys.view(np.int64))


def _mix_array(x: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """`mix_bits` for whole NumPy arrays, which wrap around silently as the compiled code does."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)
