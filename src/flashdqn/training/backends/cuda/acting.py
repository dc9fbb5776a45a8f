"""ε-greedy actions of an MLP of any widths in one kernel, `act.cu`; and rates that follow from the transitions."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor, nn

from flashdqn.compute.nvrtc import CompiledCuda
from flashdqn.config import Config
from flashdqn.networks.build import QNetwork
from flashdqn.networks.torsos import MLP
from flashdqn.training.assemble import Parts

SOURCE = Path(__file__).parent / "source" / "act.cu"
#: Hidden layers that the kernel knows, and numbers of all rows of a block between two layers.
MOST_HIDDEN, MOST_NUMBERS = 4, 6144
#: Blocks that work at the same time on a large GPU.
BLOCKS = 128
MOST_ROWS = 16
CACHE_BYTES = 160 * 1024
#: Threads of a block that acts; eight share an output.
THREADS = 512


class RateSchedules(ctypes.Structure):
    """The schedules, as `act.cu` reads them."""

    _fields_ = (
        *((name, ctypes.c_double) for name in ("eps_start", "eps_end", "eps_over")),
        *((name, ctypes.c_double) for name in ("lr_start", "lr_end", "lr_over")),
        *((name, ctypes.c_int) for name in ("eps_kind", "lr_falls")),
    )


def make_rates(config: Config) -> RateSchedules:
    """The schedules of a training: ε (unless it is spread over the environments) and learning rate."""
    explore, learn = config.explore, config.learn
    kind = {"linear": 1, "exponential": 2}.get(explore.schedule, 0)
    end = learn.lr if learn.lr_end is None else learn.lr_end
    return RateSchedules(
        explore.start, explore.end, explore.over, learn.lr, end, learn.lr_over, kind, learn.lr_end is not None
    )


class SetRates:
    """Writes ε and learning rate for the transitions so far: for a network that `ActingKernel` does not know."""

    THREADS = 256

    def __init__(self, parts: Parts) -> None:
        constants = {"ENVS": parts.config.envs, "LAYERS": 0}
        self._kernel = CompiledCuda(SOURCE.read_text(), "set_rates", constants)
        self._blocks = -(-parts.config.envs // self.THREADS)
        given = parts.counts.totals, parts.collector.eps, parts.learner.lr
        self._arguments = make_rates(parts.config), *given

    def __call__(self) -> None:
        """Launch it; no argument changes."""
        self._kernel(self._blocks, self.THREADS, self._arguments)


class ActingKernel:
    """Actions of a network that `list_matrices` knows."""

    def __init__(self, parts: Parts, action: Tensor | None = None) -> None:
        """`action`: where the actions are to be written, [N] int64."""
        learner, collector, envs = parts.learner, parts.collector, parts.config.envs
        matrices = list_matrices(learner.online)
        assert matrices is not None, "ask explain_strange_network first"
        sizes = [matrices[0].in_features, *(matrix.out_features for matrix in matrices)]
        rows = choose_rows(envs, max(sizes))
        constants = {
            "ENVS": envs, "INPUTS": sizes[0], "ACTIONS": sizes[-1], "MASKED": collector.mask is not None,
            "LAYERS": len(matrices), "ROWS": rows, "THREADS": THREADS, "AHEAD": count_ahead(learner.flat.values),
            **{f"W{k}": size for k, size in enumerate(sizes + [0] * (MOST_HIDDEN + 2 - len(sizes)))},
        }  # fmt: skip
        kind = f"-DOBS_T={'byte' if collector.obs.dtype == torch.uint8 else 'float'}"
        self._kernel = CompiledCuda(SOURCE.read_text(), "act", constants, options=(kind,))
        self._blocks, self._threads = -(-envs // rows), THREADS
        self._flat, self._places = learner.flat.values, make_places(matrices, learner.flat.values)
        self._rates = make_rates(parts.config), parts.counts.totals, learner.lr
        self.action = (
            torch.zeros(envs, dtype=torch.int64, device=learner.device) if action is None else action
        )

    def __call__(
        self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor, decide: bool = False
    ) -> Tensor:
        """The actions, [N], overwritten each time; to `decide` means to write ε and learning rate first."""
        given = self._flat, self._places, obs, mask, eps, luck, self.action, decide, *self._rates
        self._kernel(self._blocks, self._threads, given)
        return self.action


def list_matrices(network: nn.Module) -> list[nn.Linear] | None:
    """The layers of a plain MLP, if the kernel knows it: one to four hidden ones with ReLU, and the values."""
    if not isinstance(network, QNetwork) or type(network.torso) is not MLP:
        return None
    layers = [*network.torso.layers, network.output]
    count = len(layers) // 2
    plain = [type(layer) for layer in layers] == [nn.Linear, nn.ReLU] * count + [nn.Linear]
    if not plain or not 1 <= count <= MOST_HIDDEN or network.decoder or network.normalizer:
        return None
    matrices = [layer for layer in layers if isinstance(layer, nn.Linear)]
    widest = max(matrices[0].in_features, *(matrix.out_features for matrix in matrices))
    return matrices if widest <= MOST_NUMBERS else None


def choose_rows(envs: int, widest: int) -> int:
    """Boards of a block: few, so that many blocks work, but as many as share what they read of a large network."""
    rows = 1
    while rows < MOST_ROWS and rows * BLOCKS < envs and 2 * rows * widest <= MOST_NUMBERS:
        rows *= 2
    return rows


def count_ahead(flat: Tensor) -> int:
    """Parameters to ask for at once: all, if a multiprocessor's cache holds them."""
    return flat.numel() if flat.nbytes <= CACHE_BYTES else 0


def make_places(matrices: list[nn.Linear], flat: Tensor) -> ctypes.Structure:
    """Where weights and biases begin in the flat parameters."""

    class Places(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_int * len(matrices)) for name in ("weight", "bias"))

    def place(parameter: Tensor) -> int:
        return (parameter.data_ptr() - flat.data_ptr()) // flat.itemsize

    weights = [place(matrix.weight) for matrix in matrices]
    return Places(tuple(weights), tuple(place(matrix.bias) for matrix in matrices))
