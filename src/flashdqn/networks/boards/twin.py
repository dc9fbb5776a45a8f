"""The kernels' naive twin: the same numbers from the same packed weights, in plain PyTorch on any device.

It rounds where the kernels round, to the type of the packed weights. With weights in float32 nothing is rounded,
and it must equal the plain network.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.networks.boards.kernels import CHANNELS, BoardGradients, SavedBoards

EPSILON = 1e-5
BOARD = (1, 2, 3)  # the axes of a board


def act_twin(obs: Tensor, stem: Tensor, layers: Tensor, constants: Tensor) -> tuple[Tensor, SavedBoards]:
    """Features, [B, cells · 64], and what the gradient needs: planes [norms, B, 64, H, W] before and after each
    normalization."""
    dtype = layers.dtype

    def rounded(numbers: Tensor) -> Tensor:
        return numbers.to(dtype).float()

    def normalized(planes: Tensor, norm: int) -> Tensor:
        mean = planes.mean(BOARD)
        inverse = torch.rsqrt(planes.square().mean(BOARD) - mean.square() + EPSILON)
        stats.append(torch.stack((mean, inverse), -1))
        before.append(planes)
        after.append(rounded(torch.relu(apply_norm(planes, stats[-1], constants[norm]))))
        return after[-1]

    before: list[Tensor] = []
    after: list[Tensor] = []
    stats: list[Tensor] = []
    inputs = rounded(obs).clone()
    stream = rounded(F.conv2d(inputs, unpack_stem_weights(stem, obs.shape[1]), constants[0, 0], padding=1))
    for layer in range(0, len(layers), 2):
        inner = rounded(convolve(normalized(stream, layer), layers[layer], constants[layer + 1, 0]))
        outer = convolve(normalized(inner, layer + 1), layers[layer + 1], constants[layer + 2, 0])
        stream = rounded(stream + outer)
    features = normalized(stream, len(layers)).permute(0, 2, 3, 1).flatten(1).to(dtype)
    return features, SavedBoards(inputs, torch.stack(before), torch.stack(after[:-1]), torch.stack(stats))


def go_back_twin(
    gradient: Tensor, transposed: Tensor, constants: Tensor, saved: SavedBoards
) -> BoardGradients:
    """The gradient of the weights from that of the features; each sum is one slice."""
    dtype, count = transposed.dtype, len(transposed)
    side = saved.before.shape[3:]
    sums = torch.zeros_like(constants)
    found: dict[int, Tensor] = {}  # gradients of what is normalized

    def through_norm(output: Tensor, norm: int, stream: Tensor | None) -> Tensor:
        planes, stats = saved.before[norm], saved.stats[norm]
        mean, inverse = (number[:, None, None, None] for number in stats.unbind(-1))
        output = torch.where(apply_norm(planes, stats, constants[norm]) > 0, output, 0.0)
        normal = (planes - mean) * inverse
        sums[norm, 1] = (output * normal).sum((0, 2, 3))
        sums[norm, 2] = output.sum((0, 2, 3))
        scaled = output * constants[norm, 1][:, None, None]
        level, slope = (numbers.mean(BOARD, keepdim=True) for numbers in (scaled, scaled * normal))
        result = inverse * (scaled - level - normal * slope)
        found[norm] = (result if stream is None else result + stream).to(dtype).float()
        sums[norm, 0] = found[norm].sum((0, 2, 3))
        return found[norm]

    output = gradient.float().view(-1, *side, CHANNELS).permute(0, 3, 1, 2)
    stream = through_norm(output, count, None)
    for k in range(0, count, 2):  # `transposed` has the last layer first
        inner = through_norm(convolve(stream, transposed[k]), count - 1 - k, None)
        stream = through_norm(convolve(inner, transposed[k + 1]), count - 2 - k, stream)
    layers = [weigh(saved.after[k], found[k + 1]) for k in range(count)]
    stem = weigh(F.pad(saved.inputs, (0, 0, 0, 0, 0, 8 - saved.inputs.shape[1])), stream)
    biases = sums[:, :1].roll(-1, 0).expand(-1, 3, -1) / 3  # the stem last, in three parts
    return BoardGradients(
        sums[None, :, 1:].clone(),
        torch.stack(layers)[:, None],
        stem.reshape(1, CHANNELS, 3, 24),
        biases.clone(),
    )


def apply_norm(planes: Tensor, stats: Tensor, constants: Tensor) -> Tensor:
    """Scale and shift in one multiplication and addition, as the kernels do."""
    mean, inverse = (number[:, None, None, None] for number in stats.unbind(-1))
    factor = inverse * constants[1][:, None, None]
    return planes * factor + (constants[2][:, None, None] - mean * factor)


def convolve(planes: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """A 3x3 convolution with weights [9, 8, 64, 8]."""
    weight = packed.float().permute(2, 1, 3, 0).reshape(CHANNELS, CHANNELS, 3, 3)
    return F.conv2d(planes, weight, bias, padding=1)


def weigh(read: Tensor, output: Tensor) -> Tensor:
    """The gradient of a convolution's weights, [64, 9, channels], from what it read and its output's gradient."""
    rows, columns = read.shape[2:]
    padded = F.pad(read, (1, 1, 1, 1))
    taps = [padded[:, :, r : r + rows, c : c + columns] for r in range(3) for c in range(3)]
    return torch.stack([torch.einsum("bohw,bihw->oi", output, tap) for tap in taps], 1)


def unpack_stem_weights(packed: Tensor, inputs: int) -> Tensor:
    """[3, 2, 2, 64, 8] → [64, I, 3, 3]."""
    return packed.float().permute(3, 4, 0, 1, 2).flatten(3)[:, :inputs, :, :3]
