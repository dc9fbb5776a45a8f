"""What the table of layers of `layers.py` and `attention.py` says of each layer, entries of other tables, and
functions for rows of matrices."""

from __future__ import annotations

from flashdqn.compute.gemm import view_float_row
from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.training.backends.cpu.mlp import LAYER_COLUMNS, SINGLE

# More columns of the table of layers. Here all lines have the addresses of their own input and output, which may be
# rows of a matrix that other layers read or write too.
READS_OBS = LAYER_COLUMNS  # its input is the observations, or some of their numbers
INPUTS = READS_OBS + 1  # numbers in an observation
BACK = READS_OBS + 2  # the address of ∂loss / ∂input
ADDS = READS_OBS + 3  # something else has written ∂loss / ∂input before: add to it
GATED = READS_OBS + 4  # the input is what ReLU has left
ROWS_SHARED = READS_OBS + 5  # another layer has the same input, and stores it by rows
FOLLOWS = READS_OBS + 6  # by NOTHING, RELU, TANH
REPEAT = READS_OBS + 7  # parts of the input, one below the other, that go through the same weights
UNBIASED = READS_OBS + 8  # it has no bias
# Layer norm; addresses, 0 where there is none. NORMAL: normalized numbers, [out, width]; NORM_DELTA: ∂loss /
# ∂output.
NORM, NORM_BIAS, OLD_NORM, OLD_NORM_BIAS, NORM_GRAD, NORM_BIAS_GRAD, NORMAL, NORM_DELTA, SCALE = range(
    READS_OBS + 9, READS_OBS + 18
)
# Noisy layers; addresses, 0 where there is none. Noise: bytes from the beginning of an update's noise.
MEAN, SIGMA, BIAS_MEAN, BIAS_SIGMA, SIGMA_GRAD, BIAS_SIGMA_GRAD = range(READS_OBS + 18, READS_OBS + 24)
OLD_MEAN, OLD_SIGMA, OLD_BIAS_MEAN, OLD_BIAS_SIGMA = range(READS_OBS + 24, READS_OBS + 28)
NOISE_IN, NOISE_OUT, OLD_NOISE_IN, OLD_NOISE_OUT = range(READS_OBS + 28, READS_OBS + 32)
# Of the layer that gives the scores of branches: see `attention.py`.
BRANCHES, BOUNDS, JOINED, NEXT_JOINED, WEIGHTED, NEXT_WEIGHTED, JOINED_DELTA, WEIGHTED_DELTA = range(
    READS_OBS + 32, READS_OBS + 40
)
COLUMNS = READS_OBS + 40

# What follows a layer.
NOTHING, RELU, TANH = range(3)

# More entries of `sizes`: choices, numbers for each of them, the layer that gives the value of a dueling network
# (or −1), and the bootstrap.
ACTIONS, SIZE, VALUE, BOOTSTRAP = range(6, 10)

# Entries of `rooms`: addresses of matrices, [rows, width], that a part needs for itself.
SPARE, SUMS, Q, POLICY, GOAL, PICKED, CHANCE, REWARDS = range(8)
ROOMS = 8


@inner
def fill_row(row: Array, value: Scalar) -> None:
    """Write one value everywhere."""
    for b in range(len(row)):
        row[b] = value


@inner
def copy_row(to: Array, row: Array) -> None:
    """to = row."""
    for b in range(len(to)):
        to[b] = row[b]


@inner
def add_row(to: Array, row: Array, factor: Scalar) -> None:
    """to += factor · row."""
    for b in range(len(to)):
        to[b] += factor * row[b]


@inner
def add_matrix(to: Scalar, matrix: Scalar, rows: Scalar, width: Scalar, count: Scalar) -> None:
    """to += matrix, for some samples."""
    for i in range(rows):
        add_row(
            view_float_row(to, i, width, 0, count), view_float_row(matrix, i, width, 0, count), SINGLE(1.0)
        )
