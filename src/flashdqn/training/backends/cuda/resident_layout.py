"""How the resident kernel is cut up, and where everything lies: numbers that the kernel is compiled with."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.training.backends.cuda.arguments import divide_up

#: The hidden layers that the kernel has names for.
MOST_LAYERS = 4
#: Where Adam's moments are between updates; in memory the gradient is, too.
IN_MEMORY, IN_REGISTERS, IN_SHARED = 0, 1, 2
#: Shared memory of a block, of which the system takes 1 kB.
SHARED_BYTES = 227 * 1024


@dataclass(frozen=True)
class Network:
    """Widths from the observation to the actions, and where each layer begins in the flat vector."""

    widths: tuple[int, ...]  # inputs, hidden layers, actions
    weights: tuple[int, ...]  # of layers 1 …
    biases: tuple[int, ...]

    @property
    def layers(self) -> int:
        """The number of hidden layers."""
        return len(self.widths) - 2


@dataclass(frozen=True)
class UpdateTask:
    """What is computed, apart from the network."""

    batch: int
    most: int  # updates in one launch
    double: bool
    masked: bool
    byte_obs: bool
    action_bytes: int
    source: int  # 0: drawn from the ring, 1: given places in the ring, 2: given batches
    envs: int = 1
    ring_rows: int = 1
    n_step: int = 1
    tries: int = 1
    huber: float = 0.0
    clip: float = 0.0
    epsilon: float = 1e-8
    decay: float = 0.0
    tau: float = 0.0
    target_every: int = 0


@dataclass(frozen=True)
class Cut:
    """Blocks, warps of a block, and whether the blocks are one cluster; a barrier through memory joins others."""

    blocks: int
    warps: int
    cluster: bool
    loads: int = 8  # chunks of 16 inputs that a warp loads before it multiplies
    profile: bool = False  # count the cycles of each phase
    one_fence: bool = False  # one thread of a block orders its memory before a barrier, instead of all
    keep: int = IN_REGISTERS  # where Adam's moments wait for the next update


class ResidentLayout:
    """All constants of the kernel for a network, a task and a cut."""

    def __init__(self, network: Network, task: UpdateTask, cut: Cut) -> None:
        self.network, self.task, self.cut = network, task, cut
        self.rows = round_up(task.batch, 16)
        self.streams = 3 if task.double else 2
        widths, layers = network.widths, network.layers
        self.units = [0, *(round_up(divide_up(width, cut.blocks), 8) for width in widths[1:-1])]
        self.strides = [round_up(width, 16) for width in widths[:-1]]
        self.values = round_up(widths[-1], 4)
        self.value_size = (self.streams - 1) * self.rows * self.values + self.rows
        self.mask_words = divide_up(widths[-1], 32) if task.masked else 0
        self.meta_size = (4 + self.mask_words) * self.rows
        self.forward_cuts = [0] + [
            choose_cuts(self.streams * self.rows // 16, self.strides[layer - 1] // 16, cut.warps)
            for layer in range(1, layers + 1)
        ]
        self.backward_cuts = [0] + [
            choose_cuts(self.rows // 16 * self.units[layer] // 8, self.strides[layer + 1] // 16, cut.warps)
            for layer in range(1, layers)
        ]
        self.all_biases = sum(self.units) + widths[-1]
        self.shared = self._place_in_shared()
        self.scratch = self._place_in_scratch()

    def _outputs(self, layer: int) -> int:
        layers = self.network.layers
        return round_up(self.network.widths[-1], 8) if layer > layers else self.units[layer]

    def _weight_row(self, layer: int) -> int:
        layers = self.network.layers
        return self.units[layers] if layer > layers else pad_row(self.strides[layer - 1])

    def _pieces(self, layer: int) -> int:
        depth = self.units[-1] if layer > self.network.layers else self.strides[layer - 1]
        return divide_up(depth, 32) * self._outputs(layer) // 8

    @property
    def slots(self) -> int:
        """Pieces of the gradient that a warp keeps."""
        return sum(
            divide_up(self._pieces(layer), self.cut.warps) for layer in range(1, self.network.layers + 2)
        )

    @property
    def spills(self) -> bool:
        """Whether the registers do not hold what is kept there, beside 64 for everything else."""
        each = {IN_MEMORY: 0, IN_REGISTERS: 24, IN_SHARED: 8}[self.cut.keep]
        return each * self.slots + 64 > min(255, 65536 // (32 * self.cut.warps))

    def _place_in_shared(self) -> dict[str, int]:
        places, end, layers = {}, 0, self.network.layers
        part = [4 * 32 * self.cut.warps, self.value_size]  # also the places of samples, and the action values
        sizes: list[tuple[str, int]] = []
        copies = 4 if self.cut.keep == IN_SHARED else 2  # online, target, and Adam's moments
        for layer in range(1, layers + 2):
            sizes.append((f"SH_W_{layer}", copies * self._outputs(layer) * self._weight_row(layer)))
        for layer in range(1, layers + 1):
            sizes.append((f"SH_H_{layer}", self.rows * self.units[layer]))
            row = self.units[layer] + 4
            part.append(self.forward_cuts[layer] * self.streams * self.rows * row)
            part += [self.backward_cuts[layer] * self.rows * row] if layer < layers else []
        delta = pad_row(self.rows)
        sizes += [
            ("SH_BIAS", 5 * self.all_biases),
            ("SH_META", self.meta_size),
            ("SH_PART", max(part)),
            ("SH_SLOPE", self.rows),
            ("SH_LOSS", 2 * self.rows),
            ("SH_DELTA", max(self.units) * delta),
            ("SH_OUTPUT_DELTA", self._outputs(layers + 1) * delta),
            ("SH_SQUARES", 32),
            ("SH_END", 32),  # a piece may read a little behind the last row
        ]
        for name, size in sizes:
            places[name] = end
            end += round_up(size, 4)
        self.shared_bytes = 4 * end
        return places

    def _place_in_scratch(self) -> dict[str, int]:
        task, places, end, layers = self.task, {}, 0, self.network.layers
        sizes = [
            ("SC_X", task.most * 2 * self.rows * self.strides[0]),
            ("SC_META", task.most * self.meta_size),
        ]
        for layer in range(1, layers + 1):
            sizes.append((f"SC_H_{layer}", self.streams * self.rows * self.strides[layer]))
            sizes.append((f"SC_D_{layer}", self.rows * self.strides[layer]))
        sizes += [("SC_VALUES", self.cut.blocks * self.value_size), ("SC_SQUARES", self.cut.blocks)]
        spilled = 0 if self.cut.keep != IN_MEMORY else self.cut.blocks * self.slots * 32 * self.cut.warps * 8
        sizes += [("SC_GRADIENT", spilled), ("SC_END", 64)]
        for name, size in sizes:
            places[name] = end
            end += round_up(size, 32)
        self.scratch_floats = end
        return places

    def list_constants(self) -> dict[str, int | float]:
        """The macros that the kernel is compiled with."""
        network, task, cut = self.network, self.task, self.cut
        constants: dict[str, int | float] = {
            "LAYERS": network.layers, "ACTIONS": network.widths[-1], "BATCH": task.batch, "ROWS": self.rows,
            "STREAMS": self.streams, "BLOCKS": cut.blocks, "WARPS": cut.warps, "CLUSTER": cut.cluster,
            "MOST_LOADS": cut.loads, "PROFILE": cut.profile, "ONE_FENCE": cut.one_fence,
            "KEEP": cut.keep, "MOST": task.most, "MASKED": task.masked, "BYTES": task.byte_obs,
            "ACTION_BYTES": task.action_bytes, "SOURCE": task.source, "ENVS": task.envs,
            "RING_ROWS": task.ring_rows, "N_STEP": task.n_step, "TRIES": task.tries, "HUBER": task.huber,
            "CLIP": task.clip, "EPSILON": task.epsilon, "DECAY": task.decay, "TAU": task.tau,
            "TARGET_EVERY": task.target_every, "VALUE_SIZE": self.value_size,
        }  # fmt: skip
        for index in range(MOST_LAYERS + 2):
            constants[f"WIDTH_{index}"] = get_or_zero(network.widths, index)
        for index in range(MOST_LAYERS + 1):
            constants[f"STRIDE_{index}"] = get_or_zero(self.strides, index)
        for layer in range(1, MOST_LAYERS + 2):
            constants[f"UNITS_{layer}"] = get_or_zero(self.units, layer)
            constants[f"WEIGHT_{layer}"] = get_or_zero(network.weights, layer - 1)
            constants[f"BIAS_{layer}"] = get_or_zero(network.biases, layer - 1)
            constants[f"CUTS_{layer}"] = get_or_zero(self.forward_cuts, layer)
            constants[f"BACK_{layer}"] = get_or_zero(self.backward_cuts, layer)
            for name in (f"SH_W_{layer}", f"SH_H_{layer}", f"SC_H_{layer}", f"SC_D_{layer}"):
                constants[name] = 0
        return constants | self.shared | self.scratch


def choose_cuts(tiles: int, chunks: int, warps: int) -> int:
    """Into how many parts inner products are cut: the least time in rounds of all warps, then the fewest parts."""
    fitting = [cuts for cuts in (1, 2, 3, 4) if divide_up(chunks, cuts) * (cuts - 1) < chunks]
    return min(
        fitting, key=lambda cuts: divide_up(tiles * cuts, warps) * divide_up(chunks, cuts) + 0.1 * cuts
    )


def pad_row(number: int) -> int:
    """At least so many floats, and 16 mod 32."""
    return round_up(number - 16, 32) + 16


def round_up(number: int, to: int) -> int:
    """The next multiple."""
    return divide_up(number, to) * to


def get_or_zero(numbers: tuple[int, ...] | list[int], index: int) -> int:
    """A number of a list, or 0 behind its end."""
    return numbers[index] if index < len(numbers) else 0
