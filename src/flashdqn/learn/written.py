"""The gradient of the TD loss of a plain MLP, written by hand.

On the CPU a small update is short enough for autograd's bookkeeping to show: nodes, allocations, a pass over memory
for every step. Written out, nothing is left but the matrix products and a few compiled loops between them, all in
memory that is there already.

As multiples of the matrix products alone (MLP 11-256-256-3, batch 64, 489 µs on one core of an AMD EPYC): this
takes 1.09, the same in torch operations 1.20, autograd 1.84; `benchmarks/update.py` measures whole updates.
Between two products the number of operations counts, more than their size: each was seen to cost two to three
times what it does in a loop of its own, presumably as its code has left the caches. Hence the compiled loops.
Tried without gain: bias and ReLU in such a loop, `_addmm_activation`, oneDNN's linear layer, weights kept
transposed, `baddbmm` over both networks. `inference_mode` would give 1 %, and tensors that may not be written
to outside of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import cast

import numba
import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.envs.kernels import Array, Scalar, scalar
from flashdqn.learn.bootstraps import Bootstrap, double, greedy
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.loss import TDLoss
from flashdqn.networks.build import QNetwork
from flashdqn.networks.torsos import MLP
from flashdqn.runtime.native import native
from flashdqn.types import Batch

#: Below so many inputs, a layer's weight gradient is multiplied in transposed form and copied. MKL is slow at
#: [out, B] x [B, in] with few columns: 30 µs at 256 x 64 x 11, against 10 µs this way, the copy included.
NARROW = 32


class WrittenGradients:
    """The TD loss of a plain MLP and its gradient, by hand: no autograd, no allocation but of what it returns.

    The memory of the parameters and of their `grad` is bound when this is made, and where there is no `grad` one
    is made. Write into them at will (an optimiser, `load_state_dict`), but do not replace them afterwards.
    Actions are trusted to be in range, as those of a ring are.
    """

    def __init__(
        self, online: nn.Module, target: nn.Module, head: Head, bootstrap: Bootstrap, batch_size: int
    ) -> None:
        if not (self.fits(online, head, bootstrap) and self.fits(target, head, bootstrap)):
            raise ValueError("Written gradients are for plain MLPs on the CPU, ScalarHead, greedy or double.")
        for parameter in online.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._online, self._target = linears(online), linears(target)
        self._huber = cast(ScalarHead, head).huber or np.inf  # Huber's loss with δ = ∞ is the square
        self._double = bootstrap is double
        self._spaces: dict[int, _Workspace] = {}  # by batch size: one, or a few
        self._add_space(batch_size)

    @staticmethod
    def fits(network: nn.Module, head: Head, bootstrap: Bootstrap) -> bool:
        """Whether the loss is the one that is written here: a plain float32 MLP on the CPU, a scalar head, greedy
        or double. The types must be the very ones, as a subclass may compute something else.
        """
        known = type(head) is ScalarHead and (bootstrap is greedy or bootstrap is double)
        return known and bool(linears(network))

    @torch.no_grad()
    def __call__(self, batch: Batch) -> TDLoss:
        """As `td_loss` and `backward` do: overwrites every `parameter.grad`, returns loss, priority and q.

        These are new tensors at every call, the caller's to keep.
        """
        obs, action, reward, discount, next_obs, mask, _ = batch.transition
        rows = len(action)
        space = self._spaces.get(rows) or self._add_space(rows)
        _load(space.both, obs, next_obs)
        space.online()
        space.target()
        priority, means = torch.empty(rows), torch.empty(2)
        space.compare(
            action.numpy(),
            reward.numpy(),
            discount.numpy(),
            batch.weight.numpy(),
            space.all_legal if mask is None else mask.numpy(),
            self._huber,
            priority.numpy(),
            means.numpy(),
        )
        space.backward()
        loss, q = means.unbind()
        return TDLoss(loss, priority, q)

    def _add_space(self, rows: int) -> _Workspace:
        space = self._spaces[rows] = _Workspace(self._online, self._target, rows, self._double)
        return space


class _Workspace:
    """All the memory that a batch of so many rows needs, and the passes through it.

    Action values lie as [A, B]: with few actions that product is the faster one (8 against 11 µs for 128 rows).
    """

    def __init__(self, online: list[nn.Linear], target: list[nn.Linear], rows: int, double: bool) -> None:
        actions = online[-1].out_features
        self.both = torch.empty(2 * rows, online[0].in_features)  # observations, then next observations
        # Double DQN asks the online network about both: one pass over all rows, of which the first half go back.
        self.online = Forward(online, self.both if double else self.both[:rows])
        self.target = Forward(target, self.both[rows:])
        slopes = torch.empty(actions, rows)
        self.backward = _Backward(online, [x[:rows] for x in self.online.inputs], slopes)
        self.all_legal = np.ones((rows, actions), dtype=np.bool_)
        values = self.online.q[:, :rows], self.online.q[:, rows:] if double else self.target.q, self.target.q
        arrays = [tensor.numpy() for tensor in (*values, slopes)]
        single = numba.float32[::1]
        given = (
            numba.int64[::1],
            single,
            single,
            single,
            numba.boolean[:, ::1],
            numba.float64,
            single,
            single,
        )
        self.compare = functools.partial(native(compare, (*map(numba.typeof, arrays), *given)), *arrays)


class Forward:
    """A network applied to what lies in `x`, [R, inputs]: `q`, [A, R], and the inputs of every layer."""

    def __init__(self, layers: list[nn.Linear], x: Tensor) -> None:
        self.inputs = [x]
        self.hidden: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for layer in layers[:-1]:
            output = torch.empty(len(x), layer.out_features)
            self.hidden.append((layer.bias.detach(), self.inputs[-1], layer.weight.detach().t(), output))
            self.inputs.append(output)
        self.weight, self.bias = layers[-1].weight.detach(), layers[-1].bias.detach()[:, None]
        self.features = self.inputs[-1].t()
        self.q = torch.empty(len(self.weight), len(x))

    def __call__(self) -> None:
        """Fill `q`."""
        for bias, x, weight, output in self.hidden:
            torch.addmm(bias, x, weight, out=output).relu_()
        torch.addmm(self.bias, self.weight, self.features, out=self.q)


class _Backward:
    """From `slopes`, ∂loss / ∂Q as [A, B], to the gradient of every parameter."""

    def __init__(self, layers: list[nn.Linear], inputs: list[Tensor], slopes: Tensor) -> None:
        *hidden, output = layers
        self.slopes, self.features = slopes, inputs[-1]
        self.weight, self.bias = cast(Tensor, output.weight.grad), cast(Tensor, output.bias.grad)
        self.steps: list[tuple[Tensor, Tensor, Tensor, Callable[[], None], _WeightGradient]] = []
        above, weight = slopes.t(), output.weight.detach()
        for layer, x, activation in reversed(list(zip(hidden, inputs[:-1], inputs[1:], strict=True))):
            delta = torch.empty_like(activation)
            arrays = [t.numpy() for t in (delta, activation, cast(Tensor, layer.bias.grad))]
            halt = functools.partial(native(relu_backward, tuple(map(numba.typeof, arrays))), *arrays)
            self.steps.append((above, weight, delta, halt, _WeightGradient(layer, x, delta)))
            above, weight = delta, layer.weight.detach()

    def __call__(self) -> None:
        torch.mm(self.slopes, self.features, out=self.weight)
        torch.sum(self.slopes, 1, out=self.bias)
        for above, weight, delta, halt, gradient in self.steps:
            torch.mm(above, weight, out=delta)
            halt()
            gradient()


class _WeightGradient:
    """δᵀx, [out, in]."""

    def __init__(self, layer: nn.Linear, x: Tensor, delta: Tensor) -> None:
        self.grad = cast(Tensor, layer.weight.grad)
        self.narrow = layer.in_features < NARROW
        self.left, self.right = (x.t(), delta) if self.narrow else (delta.t(), x)
        self.product = torch.empty(layer.in_features, layer.out_features) if self.narrow else self.grad
        self.transposed = self.product.t()

    def __call__(self) -> None:
        torch.mm(self.left, self.right, out=self.product)
        if self.narrow:
            self.grad.copy_(self.transposed)


@scalar
def compare(
    q: Array,  # [A, B]: Q(s, ·)
    choices: Array,  # [A, B]: what the next action is chosen by
    judged: Array,  # [A, B]: Q⁻(s', ·)
    slopes: Array,  # [A, B]: out, ∂loss / ∂Q(s, ·)
    action: Array,
    reward: Array,
    discount: Array,
    weight: Array,
    legal: Array,  # [B, A]
    huber: Scalar,
    priority: Array,  # [B]: out
    means: Array,  # [2]: out, loss and mean Q(s, a)
) -> None:
    """With e = Q(s, a) − r − γ Q⁻(s', a') and c = e cut to ±δ, the loss is mean(w · c · (e − c/2)), which is
    Huber's on both of its branches, and its slope w · c / B. Sums are in float64.
    """
    rows = len(action)
    loss, total = 0.0, 0.0
    for b in range(rows):
        best, chosen = -np.inf, 0
        for a in range(len(q)):
            slopes[a, b] = 0.0
            value = choices[a, b]
            # NaN counts as the largest, as for torch.argmax.
            if legal[b, a] and (value > best or (value != value and best == best)):
                best, chosen = value, a
        value = q[action[b], b]
        error = value - (reward[b] + discount[b] * judged[chosen, b])
        if abs(error) > huber:
            cut = np.copysign(huber, error)
            rest = error - 0.5 * cut
        else:  # NaN comes here
            cut, rest = error, 0.5 * error
        slope = weight[b] * cut / rows
        slopes[action[b], b] = slope
        priority[b] = abs(error)
        loss += slope * rest
        total += value
    means[0], means[1] = loss, total / rows


@scalar
def relu_backward(delta: Array, activation: Array, bias: Array) -> None:
    """No slope passes where the activation is 0, in place; the bias's gradient is the sum over the batch."""
    rows, width = delta.shape
    for j in range(width):
        bias[j] = 0.0
    for i in range(rows):
        for j in range(width):
            slope = np.float32(0.0) if activation[i, j] <= 0.0 else delta[i, j]
            delta[i, j] = slope
            bias[j] += slope


def _load(both: Tensor, obs: Tensor, next_obs: Tensor) -> None:
    """Observations [B, *obs] one above the other, as numbers; bytes are read as 0 … 1, as the network does."""
    torch.cat((obs.flatten(1), next_obs.flatten(1)), out=both)
    if obs.dtype == torch.uint8:
        both.div_(255)


def linears(network: nn.Module) -> list[nn.Linear]:
    """The layers of a plain MLP from first to last; empty where the network is anything else."""
    if type(network) is not QNetwork or type(network.torso) is not MLP:
        return []
    torso = list(network.torso.layers)
    layers = [*torso[0::2], network.output]
    plain = all(type(layer) is nn.Linear and layer.bias is not None for layer in layers)
    if not plain or len(torso) % 2 or any(type(layer) is not nn.ReLU for layer in torso[1::2]):
        return []
    known = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in network.parameters())
    return cast("list[nn.Linear]", layers) if known else []
