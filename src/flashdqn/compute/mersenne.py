"""PyTorch's random numbers on the CPU, drawn by compiled code: the same numbers in the same order.

PyTorch's CPU generator is a Mersenne twister (mt19937, Matsumoto and Nishimura 1998). Its state, as `get_state`
returns it, is read and written here as 64-bit words. `is_same_generator` compares: if a version of PyTorch draws or
stores in another way, the caller must not use these functions.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
import torch

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import compile_native

# Words of the state: how many numbers are left in this round (the lower half), which comes next, the numbers.
LEFT, NEXT, FIRST = 1, 2, 3
COUNT, SHIFT = 624, 397
#: Words of the whole state; those behind the numbers are of other distributions.
LEAST_WORDS = FIRST + COUNT
LOW, UPPER, LOWER = np.uint64(0xFFFFFFFF), np.uint64(0x80000000), np.uint64(0x7FFFFFFF)
MATRIX, ONE = np.uint64(0x9908B0DF), np.uint64(1)


@inner
def mix_words(far: Scalar, this: Scalar, following: Scalar) -> Scalar:
    """A new number of the state."""
    twisted = ((this & UPPER) | (following & LOWER)) >> ONE
    return far ^ twisted ^ (MATRIX if following & ONE else np.uint64(0))


@inner
def refill_state(state: Array) -> None:
    """The next round of numbers."""
    for k in range(COUNT - SHIFT):
        state[FIRST + k] = mix_words(state[FIRST + k + SHIFT], state[FIRST + k], state[FIRST + k + 1])
    for k in range(COUNT - SHIFT, COUNT - 1):
        state[FIRST + k] = mix_words(state[FIRST + k + SHIFT - COUNT], state[FIRST + k], state[FIRST + k + 1])
    last = FIRST + COUNT - 1
    state[last] = mix_words(state[FIRST + SHIFT - 1], state[last], state[FIRST])


@inner
def draw_word(state: Array) -> Scalar:
    """32 random bits."""
    left = (state[LEFT] & LOW) - ONE
    if left == 0:
        refill_state(state)
        left = np.uint64(COUNT)
        state[NEXT] = np.uint64(0)
    state[LEFT] = (state[LEFT] & ~LOW) | left
    y = state[FIRST + np.int64(state[NEXT])]
    state[NEXT] += ONE
    y ^= y >> np.uint64(11)
    y ^= (y << np.uint64(7)) & np.uint64(0x9D2C5680)
    y ^= (y << np.uint64(15)) & np.uint64(0xEFC60000)
    return y ^ (y >> np.uint64(18))


@inner
def draw_uniform(state: Array, out: Array) -> None:
    """Like `uniform_` on a float32 tensor: numbers in [0, 1), for a row."""
    for k in range(len(out)):
        out[k] = np.float32(draw_word(state) & np.uint64(0xFFFFFF)) * np.float32(1.0 / 16777216.0)


@inner
def draw_integers(state: Array, out: Array, count: Scalar) -> None:
    """Like `random_` on an int64 tensor: `count` numbers of 63 bits."""
    for k in range(count):
        high = draw_word(state)
        out[k] = np.int64(((high << np.uint64(32)) | draw_word(state)) & np.uint64(0x7FFFFFFFFFFFFFFF))


@inner
def draw_both(state: Array, uniform: Array, integers: Array) -> None:
    """Some of each."""
    draw_uniform(state, uniform)
    draw_integers(state, integers, len(integers))


def view_state(state: torch.Tensor) -> np.ndarray[Any, Any]:
    """The words of a generator's state; they share memory."""
    return state.numpy().view(np.uint64)


@functools.cache
def is_same_generator() -> bool:
    """Whether this PyTorch draws the numbers that are drawn here, over several rounds of the state."""
    generator = torch.Generator().manual_seed(0x5EED)
    if generator.get_state().numel() % 8 or generator.get_state().numel() < 8 * LEAST_WORDS:
        return False
    torch.empty(7).uniform_(generator=generator)
    own = torch.Generator()
    own.set_state(generator.get_state())
    state = own.get_state()
    u, n = np.zeros(16, dtype=np.float32), np.zeros(1024, dtype=np.int64)
    words = view_state(state)
    draw = compile_native(draw_both, tuple(map(numba.typeof, (words, u, n))))
    for _ in range(4):
        draw(words, u, n)
        ours = torch.empty(16).uniform_(generator=generator), torch.empty(1024, dtype=torch.int64)
        ours[1].random_(generator=generator)
        if not (np.array_equal(ours[0].numpy(), u) and np.array_equal(ours[1].numpy(), n)):
            return False
    own.set_state(state)
    return bool(torch.equal(own.get_state(), generator.get_state()))
