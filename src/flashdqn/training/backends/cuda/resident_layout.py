"""How the resident kernel is cut up, and where everything lies: numbers that the kernel is compiled with."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.training.backends.cuda.arguments import divide_up

#: The hidden layers that the kernel has names for.
MOST_LAYERS = 4
#: Shared memory of a block, of which the system takes 1 kB.
SHARED_BYTES = 227 * 1024
#: Shared memory for the deltas that the backward pass reads.
STAGE_BYTES = 112 * 1024
#: For the deltas and the inputs of a gradient.
AHEAD_BYTES = 150 * 1024


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
    group: int = 32  # units that a block computes at a time in the forward pass, at most
    fuse: bool = (
        True  # a small first layer is computed again by every task of the second, instead of exchanged
    )
    profile: bool = False  # count the cycles of each phase


class ResidentLayout:
    """All constants of the kernel for a network, a task and a cut."""

    def __init__(self, network: Network, task: UpdateTask, cut: Cut) -> None:
        self.network, self.task, self.cut = network, task, cut
        widths = network.widths
        self.rows = round_up(task.batch, 16)
        self.streams = 3 if task.double else 2
        self.groups = [0, *(min(cut.group, round_up(width, 8)) for width in widths[1:-1])]
        self.strides = [round_up(width, 16) for width in widths[:-1]]
        #: outputs of each layer, as many as all groups have
        self.padded = [0, *(round_up(widths[k], self.groups[k]) for k in range(1, len(widths) - 1))]
        self.padded.append(round_up(widths[-1], 8))
        self.value_size = (self.streams - 1) * self.rows * round_up(widths[-1], 4) + self.rows
        mask_words = divide_up(widths[-1], 32) if task.masked else 0
        self.meta_size = (4 + mask_words) * self.rows
        self.shared, floats = place_behind(self._list_shared(), 4)
        self.shared_bytes = 4 * floats
        begin = self.shared["SH_INPUTS"]
        self.shared |= {name: begin + place for name, place in self._place_backward().items()}
        self.scratch, self.scratch_floats = place_behind(self._list_scratch(), 32)

    @property
    def tiles(self) -> int:
        """Pieces of eight outputs and all inputs, of all layers."""
        return sum(divide_up(width, 8) for width in self.network.widths[1:])

    @property
    def slots(self) -> int:
        """Pieces of the gradient, 8 outputs and 32 inputs, that a warp owns."""
        pieces = max(divide_up(divide_up(width, 32), self.cut.warps) for width in self.network.widths[:-1])
        return divide_up(self.tiles, self.cut.blocks) * pieces

    @property
    def keeps_moments(self) -> bool:
        """Whether what a warp owns fits into registers: 40 of them for each slot, and 80 for everything else."""
        return 40 * self.slots + 80 <= min(255, 65536 // (32 * self.cut.warps))

    @property
    def fuses(self) -> bool:
        """Whether the first layer is so small that computing it again costs less than a barrier."""
        small = self.strides[0] <= 64 and self.network.widths[1] <= 512
        return self.cut.fuse and self.network.layers > 1 and small

    @property
    def tasks(self) -> int:
        """The most tasks of a hidden layer's forward pass."""
        tiles = self.streams * self.rows // 16
        return max(tiles * divide_up(w, g) for w, g in self._zip_groups())

    def _zip_groups(self) -> list[tuple[int, int]]:
        return list(zip(self.network.widths[1:-1], self.groups[1:], strict=True))

    @property
    def back_rows(self) -> int:
        """Rows of deltas that are in shared memory at a time in the backward pass."""
        row = 4 * pad_row(max(self.strides))
        return max(16, min(self.rows, STAGE_BYTES // row // 16 * 16))

    def _list_shared(self) -> list[tuple[str, int]]:
        warps, rows, actions = self.cut.warps, self.rows, self.network.widths[-1]
        part = [4 * 32 * warps]  # the places of samples
        for group in self.groups[1:]:
            part.append(max(warps // (group // 8), 1) * 16 * (group + 4))
        cuts = min(max(warps // (self.back_rows // 16), 1), 8)
        part.append(cuts * rows * 12)
        sizes = [
            ("SH_PART", max(part)),
            ("SH_META", self.meta_size),
            ("SH_VALUES", self.value_size),
            ("SH_SLOPE", rows),
            ("SH_LOSS", 2 * rows),
            ("SH_DELTA", 8 * pad_row(rows)),
            ("SH_BIAS", 32),
            ("SH_OUTPUT_BIAS", 2 * self.padded[-1]),
            ("SH_OWN_BIAS", 40 * divide_up(self.tiles, self.cut.blocks)),
            ("SH_VALUE_WEIGHTS", actions * (self.groups[-1] + 4)),
            ("SH_SQUARES", 32),
            ("SH_OWN_UNITS", 8 * rows if self.is_ahead else 0),
        ]
        return sizes + self._list_stage()

    def _list_stage(self) -> list[tuple[str, int]]:
        """What is copied for one task; forward and backward use the same memory."""
        rows = [pad_row(stride) for stride in self.strides]
        inputs = max(rows[1:-1] if self.fuses else rows[:-1])
        weights = max(self.groups[k] * rows[k - 1] for k in range(2 if self.fuses else 1, len(self.groups)))
        forward = [("SH_INPUTS", 16 * inputs), ("SH_WEIGHTS", weights)]
        if self.fuses:
            forward += [("SH_FIRST_WEIGHTS", self.padded[1] * rows[0]), ("SH_FIRST_BIAS", self.padded[1])]
            forward += [("SH_X", 16 * rows[0])]
        room = self._place_backward()["SH_BACKWARD_END"] - sum(round_up(size, 4) for _, size in forward)
        return [*forward, ("SH_END", max(32, room + 32))]

    def _place_backward(self) -> dict[str, int]:
        """Where the backward pass finds columns of weights, deltas and inputs, from the start of what is staged."""
        rows, layers = [pad_row(stride) for stride in self.strides], self.network.layers
        above = max(rows[2:], default=0)  # deltas that a layer below reads
        places, end = place_behind([("SH_COLUMNS", 8 * above), ("SH_DELTAS", self.back_rows * above)], 4)
        places["SH_AHEAD"] = end
        if self.is_ahead:
            below = rows[layers - 2] if layers > 1 else 0  # inputs of the last but one layer
            last = max(rows[layers - 1], rows[layers])  # of the last hidden layer, and of the output
            end = max(end + self.rows * below, self.rows * last)
        return places | {"SH_BACKWARD_END": end}

    @property
    def is_ahead(self) -> bool:
        """Whether all that a gradient reads is copied while the errors are found: if a block owns one tile, and all
        rows have room."""
        layers, rows = self.network.layers, [pad_row(stride) for stride in self.strides]
        widest = max(rows[layers - 1], rows[layers], rows[layers] + rows[layers - 2] if layers > 1 else 0)
        fits = 4 * self.rows * widest <= AHEAD_BYTES and self.back_rows >= self.rows
        return fits and self.tiles <= self.cut.blocks

    def _list_scratch(self) -> list[tuple[str, int]]:
        task, cut, layers = self.task, self.cut, self.network.layers
        sizes = [
            ("SC_X", task.most * 2 * self.rows * self.strides[0]),
            ("SC_META", task.most * self.meta_size),
        ]
        for layer in range(1, layers + 2):
            sizes.append((f"SC_W_{layer}", 2 * self.padded[layer] * self.strides[layer - 1]))
            sizes.append((f"SC_B_{layer}", 2 * self.padded[layer]))
        for layer in range(1, layers + 1):
            sizes.append((f"SC_H_{layer}", self.streams * self.rows * self.strides[layer]))
            sizes.append((f"SC_D_{layer}", self.rows * self.strides[layer]))
        parts = divide_up(self.network.widths[-2], self.groups[-1])
        spilled = 0 if self.keeps_moments else cut.blocks * self.slots * 32 * cut.warps * 8
        return [
            *sizes,
            ("SC_VALUES", parts * self.value_size),
            ("SC_SQUARES", cut.blocks),
            ("SC_GRADIENT", spilled),
            ("SC_END", 64),  # a piece may read a little behind the last row
        ]

    def list_constants(self) -> dict[str, int | float]:
        """The macros that the kernel is compiled with."""
        network, task, cut = self.network, self.task, self.cut
        constants: dict[str, int | float] = {
            "LAYERS": network.layers, "ACTIONS": network.widths[-1], "BATCH": task.batch, "ROWS": self.rows,
            "STREAMS": self.streams, "BLOCKS": cut.blocks, "WARPS": cut.warps, "CLUSTER": cut.cluster,
            "MOST_LOADS": cut.loads, "PROFILE": cut.profile, "FUSE": self.fuses, "KEEP": self.keeps_moments,
            "MOST": task.most, "MASKED": task.masked, "BYTES": task.byte_obs, "ACTION_BYTES": task.action_bytes,
            "SOURCE": task.source, "ENVS": task.envs, "RING_ROWS": task.ring_rows, "N_STEP": task.n_step,
            "TRIES": task.tries, "HUBER": task.huber, "CLIP": task.clip, "EPSILON": task.epsilon,
            "DECAY": task.decay, "TAU": task.tau, "TARGET_EVERY": task.target_every,
            "VALUE_SIZE": self.value_size, "BACK_ROWS": self.back_rows, "AHEAD": self.is_ahead,
            "SHARED_FLOATS": self.shared_bytes // 4,
        }  # fmt: skip
        for index in range(MOST_LAYERS + 2):
            constants[f"WIDTH_{index}"] = get_or_zero(network.widths, index)
            constants[f"STRIDE_{index}"] = get_or_zero(self.strides, index)
        for layer in range(1, MOST_LAYERS + 2):
            constants[f"WEIGHT_{layer}"] = get_or_zero(network.weights, layer - 1)
            constants[f"BIAS_{layer}"] = get_or_zero(network.biases, layer - 1)
            constants[f"PADDED_{layer}"] = get_or_zero(self.padded, layer)
            constants[f"GROUP_{layer}"] = get_or_zero(self.groups, layer)
            constants |= {"SH_FIRST_WEIGHTS": 0, "SH_FIRST_BIAS": 0, "SH_X": 0}
            for name in ("H", "D", "W", "B"):
                constants[f"SC_{name}_{layer}"] = 0
        return constants | self.shared | self.scratch


def place_behind(sizes: list[tuple[str, int]], align: int) -> tuple[dict[str, int], int]:
    """Where each begins if all lie behind each other, and the end."""
    places, end = {}, 0
    for name, size in sizes:
        places[name] = end
        end += round_up(size, align)
    return places, end


def pad_row(number: int) -> int:
    """At least so many floats, and 16 mod 32."""
    return round_up(number - 16, 32) + 16


def round_up(number: int, to: int) -> int:
    """The next multiple."""
    return divide_up(number, to) * to


def get_or_zero(numbers: tuple[int, ...] | list[int], index: int) -> int:
    """A number of a list, or 0 behind its end."""
    return numbers[index] if index < len(numbers) else 0
