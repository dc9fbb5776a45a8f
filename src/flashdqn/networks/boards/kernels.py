"""Compile and launch the CUDA kernels of this folder, for one size of board and one number of residual blocks."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.compute.cuda_module import CudaModule, compile_module

#: The files of the program, in their order.
SOURCES = ("common", "forward", "backward", "weights")
CHANNELS = 64
#: Warp groups that compute, in a block of threads; one more brings the weights.
FORWARD_GROUPS = 4
BACKWARD_GROUPS = 3
TAP_BYTES, SLOTS, STEM_BYTES, STAGES = 64 * 64 * 2, 18, 6 * 2048, 4


class BoardShape(NamedTuple):
    """What the kernels are compiled for."""

    rows: int
    columns: int
    inputs: int  # planes of the observation
    blocks: int

    @property
    def cells(self) -> int:
        """Cells of a board."""
        return self.rows * self.columns

    @property
    def layers(self) -> int:
        """Convolutions of the residual blocks."""
        return 2 * self.blocks

    @property
    def norms(self) -> int:
        """Normalizations."""
        return self.layers + 1

    @property
    def positions(self) -> int:
        """Positions that are computed: cells, the padding after each row, and up to 15 more."""
        return -(-self.rows * (self.columns + 1) // 16) * 16

    @property
    def image_bytes(self) -> int:
        """A board in shared memory; see `common.cu`."""
        least = 2 * (self.columns + 2) + self.positions
        return 8 * 16 * (least + (9 - least % 8) % 8)

    @property
    def saved_bytes(self) -> int:
        """A board in device memory."""
        return 8 * 16 * self.positions


class SavedBoards(NamedTuple):
    """What the gradient needs of a forward pass."""

    inputs: Tensor  # [B, positions · 8] bfloat16: the observation's planes
    before: Tensor  # [norms, B, positions · 64] bfloat16: what is normalized
    after: Tensor  # [layers, B, positions · 64] bfloat16: what the convolutions read
    stats: Tensor  # [norms, B, 2] float32: mean and 1 / standard deviation


class BoardGradients(NamedTuple):
    """The gradient in parts that are to be summed over their slices."""

    norms: Tensor  # [slices, norms, 2, 64]: scale, shift
    layers: Tensor  # [layers, slices, 64, 9, 64]
    stem: Tensor  # [slices, 64, 3, 24]
    biases: Tensor  # [slices of all layers, then of the stem; 3, 64]


def multiply_function(name: str, columns: int, from_registers: bool) -> str:
    """A function of CUDA C++ around one product of the tensor cores (wgmma), 64 by `columns` by 16.

    The left factor comes from shared memory, and the right one's rows are then along the inner axis; or it comes
    from registers, and the right one is transposed.
    """
    count = columns // 2
    numbers = ", ".join(f"%{k}" for k in range(count))
    outputs = ", ".join(f'"+f"(d[{k}])' for k in range(count))
    order = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{numbers}}}"
    if from_registers:
        left = ", ".join(f"%{count + k}" for k in range(4))
        text = f'"{order}, {{{left}}}, %{count + 4}, 1, 1, 1, 1;"'
        given = '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)'
        head = f"{name}(float (&d)[{count}], const u32 (&a)[4], u64 b)"
    else:
        test = f".reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
        text = f'"{{\\n{test}{order}, %{count}, %{count + 1}, p, 1, 1, 0, 0;\\n}}"'
        given = '"l"(a), "l"(b), "r"(keep)'
        head = f"{name}(float (&d)[{count}], u64 a, u64 b, int keep)"
    return f"__device__ __forceinline__ void {head} {{\n    asm volatile({text} : {outputs} : {given});\n}}\n"


def write_source(shape: BoardShape) -> str:
    """The program, with its products for this size of board."""
    products = (
        multiply_function("multiply", shape.positions, from_registers=False)
        + multiply_function("multiply_rows", CHANNELS, from_registers=True)
        + multiply_function("multiply_stem_rows", 24, from_registers=True)
    )
    folder = resources.files("flashdqn.networks.boards")
    source = "\n".join(folder.joinpath(f"{name}.cu").read_text(encoding="utf-8") for name in SOURCES)
    return source.replace("//WGMMA//", products)


def list_options(shape: BoardShape) -> list[str]:
    """The compiler's options for this size of board."""
    sizes = {"ROWS": shape.rows, "COLS": shape.columns, "INPUTS": shape.inputs, "BLOCKS": shape.blocks}
    sizes["FORWARD_GROUPS"] = FORWARD_GROUPS
    return ["--gpu-architecture=sm_90a", "--std=c++17", *(f"-D{name}={size}" for name, size in sizes.items())]


@functools.cache
def load_kernels(shape: BoardShape, device: int) -> CudaModule:
    """The compiled kernels on a device; it takes a second or two, once in a process."""
    with torch.cuda.device(device):
        return CudaModule(compile_module(write_source(shape), list_options(shape)))


def launch_forward(
    shape: BoardShape, obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor, save: bool
) -> tuple[Tensor, SavedBoards | None]:
    """The features of boards, [B, cells · 64] bfloat16; and what their gradient needs."""
    boards, device = len(obs), obs.device
    features = torch.empty((boards, shape.cells * CHANNELS), dtype=torch.bfloat16, device=device)
    ring = SLOTS * (TAP_BYTES + 16) + 64 * FORWARD_GROUPS
    shared = FORWARD_GROUPS * shape.image_bytes + STEM_BYTES + ring
    grid = min(count_processors(device), -(-boards // FORWARD_GROUPS))
    given: list[Tensor | int] = [obs, stem, layers, constants, features]
    kernels = load_kernels(shape, device.index or 0)
    if not save:
        kernels.launch("boards_act", grid, 128 * (FORWARD_GROUPS + 1), shared, [*given, boards])
        return features, None
    saved = make_saved(shape, boards, device)
    kernels.launch("boards_forward", grid, 128 * (FORWARD_GROUPS + 1), shared, [*given, *saved, boards])
    return features, saved


def make_saved(shape: BoardShape, boards: int, device: torch.device) -> SavedBoards:
    """Memory for what a forward pass saves."""
    numbers = shape.saved_bytes // 2
    make_half = functools.partial(torch.empty, dtype=torch.bfloat16, device=device)
    return SavedBoards(
        make_half((boards, shape.positions * 8)),
        make_half((shape.norms, boards, numbers)),
        make_half((shape.layers, boards, numbers)),
        torch.empty((shape.norms, boards, 2), device=device),
    )


def launch_backward(
    shape: BoardShape, gradient: Tensor, layers: Tensor, constants: Tensor, saved: SavedBoards
) -> BoardGradients:
    """The gradient of the weights from that of the features; `layers` as `pack_transposed` gives them."""
    boards, device = len(gradient), gradient.device
    norm_slices, slices, rest = plan_backward(shape, boards, device)
    gradients = torch.empty(
        (shape.norms, boards, shape.saved_bytes // 2), dtype=torch.bfloat16, device=device
    )
    norm_parts = torch.empty((norm_slices, shape.norms, 2, CHANNELS), device=device)
    layer_parts = torch.empty((shape.layers, slices, CHANNELS, 9, CHANNELS), device=device)
    stem_parts = torch.empty((rest, CHANNELS, 3, 24), device=device)
    grid = slices * shape.layers + rest
    biases = torch.empty((grid, 3, CHANNELS), device=device)
    kernels = load_kernels(shape, device.index or 0)
    sums = BACKWARD_GROUPS * (64 + shape.norms * 2 * CHANNELS * 4)
    shared = BACKWARD_GROUPS * shape.image_bytes + SLOTS * (TAP_BYTES + 16) + sums
    given: list[Tensor | int] = [
        gradient,
        layers,
        constants,
        saved.before,
        saved.stats,
        gradients,
        norm_parts,
        boards,
    ]
    kernels.launch(
        "boards_backward", norm_slices // BACKWARD_GROUPS, 128 * (BACKWARD_GROUPS + 1), shared, given
    )
    shared = STAGES * (shape.image_bytes + shape.saved_bytes + 16)
    given = [saved.inputs, saved.after, gradients, layer_parts, stem_parts, biases, slices, boards]
    kernels.launch("boards_weights", grid, 512, shared, given)
    return BoardGradients(norm_parts, layer_parts, stem_parts, biases)


def plan_backward(shape: BoardShape, boards: int, device: torch.device) -> tuple[int, int, int]:
    """The slices of the normalizations' gradient, of each layer's, and of the stem's: all multiprocessors work."""
    processors = count_processors(device)
    slices = max(1, (processors - 1) // shape.layers)
    grid = min(processors, -(-boards // BACKWARD_GROUPS))
    return grid * BACKWARD_GROUPS, slices, max(1, processors - slices * shape.layers)


@functools.cache
def count_processors(device: torch.device) -> int:
    """Multiprocessors of a GPU."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
