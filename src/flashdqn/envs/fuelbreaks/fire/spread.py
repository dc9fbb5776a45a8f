"""The spread of fires by minimum travel time, for many boards with many fires each, on one device.

A board has a landscape in a weather (a table), breaks, and F fires with one ignition each. `launch` does what
each board's command says; everything stays in tensors whose addresses never change, no value is read by the
host, and on CUDA a launch can be captured in a graph::

    tables = spread_tables([fire_behavior(landscape, weather), …], device)
    spread = Spread(tables, num_boards=64, fires=3, duration=240.0)

    spread.table[:] = …           # [B] int32: which table each board plays on
    spread.ignition[:] = …        # [B, F] int32: cells row · W + column; negative: no fire
    spread.breaks.zero_()         # [B, H·W] bool
    spread.command.fill_(BURN)    # burn all fires from scratch: table, ignitions and breaks as they are now
    spread.launch()
    spread.burned                 # [B, F] int32: the worth of all burned cells; their number if each is worth 1
    spread.arrival                # [B, F, H·W] float32: minutes; infinite where fire does not arrive in time
    spread.parent                 # [B, F, H·W] int8: it came from cell − step[parent]; −1: lit there, or no fire

    spread.command[:] = cells     # [B] int32: place a break in each board, and re-evaluate its fires
    spread.launch()               # adds it to `breaks`; KEEP leaves a board as it is

After a break only the cells behind it are computed again; the times equal those of BURN to the last bit, on the
CPU and on CUDA. A fire that is lit in a break, or where nothing burns, burns nothing. A break where nothing
burns changes nothing. To continue from a saved state: write `table`, `ignition` and `breaks`, and BURN.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import numba
import torch
from torch import Tensor

from flashdqn.compute.kernels import BlockKernel, Kernel, cuda_available
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import cuts, layout
from flashdqn.envs.fuelbreaks.fire.directions import fire_directions, moves_ended_by_break
from flashdqn.envs.fuelbreaks.fire.layout import BUCKETS, BURN, KEEP, Fires
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables

__all__ = ["BURN", "KEEP", "Spread"]

# Beyond this, float32 loses the shortest travel time when it is added.
LONGEST = 7 * 24 * 60.0
# One more break costs a fire about a microsecond: for few fires, threads cost more than they gain.
PARALLEL_FROM = 512


class Spread:
    """Fires on `num_boards` boards, `fires` on each; see the module's docstring."""

    def __init__(
        self,
        tables: SpreadTables,
        num_boards: int,
        fires: int,
        duration: float = 240.0,
        beside: Spread | None = None,
    ) -> None:
        """`beside`: other fires on the same boards. Both have the same tables, commands and breaks, as tensors."""
        if num_boards < 1 or fires < 1:
            raise EnvError(
                f"Fire needs at least one board and one fire; got {num_boards} boards and {fires} fires."
            )
        if not 0 < duration <= LONGEST:
            raise EnvError(
                f"A fire burns for more than 0 and at most {LONGEST:g} minutes (a week); got {duration}."
            )
        self.tables, self.num_boards, self.fires, self.duration = tables, num_boards, fires, float(duration)
        device, cells = tables.device, tables.times.shape[1]
        self.table = torch.zeros(num_boards, dtype=torch.int32, device=device)
        self.command = torch.full_like(self.table, KEEP)
        self.breaks = torch.zeros(num_boards, cells, dtype=torch.bool, device=device)
        if beside is not None:
            self.table, self.command, self.breaks = beside.table, beside.command, beside.breaks
        self.ignition = torch.full((num_boards, fires), -1, dtype=torch.int32, device=device)
        self.arrival = torch.full((num_boards, fires, cells), math.inf, device=device)
        self.parent = torch.full(self.arrival.shape, layout.NO_PARENT, dtype=torch.int8, device=device)
        self.burned = torch.zeros(num_boards, fires, dtype=torch.int32, device=device)
        self._saved = torch.zeros(num_boards, cells, dtype=torch.int32, device=device)
        self._triers = int(numba.get_num_threads())
        self._lanes = self._triers if num_boards * fires >= PARALLEL_FROM else 1
        self._arrays = self._gather()
        self.step: Tensor = self._arrays.step  # [K] int32: what each direction adds to a cell's number
        self._launches = self._bind()
        self._try: Callable[[], None] | None = None
        self._twin: Spread | None = None

    @property
    def arrays(self) -> Fires:
        """Everything as the kernels see it, for other kernels that burn fires in this room."""
        return self._arrays

    def launch(self) -> None:
        """Do what `command` says on every board."""
        for launch in self._launches:
            launch()

    def savings(self) -> Tensor:
        """For every cell, the worth of what one break there would save of a board's fires, [B, H·W] int32.

        Exact for one break more than now; changes nothing. On CUDA the host computes it.
        """
        if self.tables.device.type == "cuda":
            return self._savings_by_host()
        if self._try is None:
            self._try = Kernel(cuts.try_breaks_in_lane, 2).bind(self._triers, *self._arrays)
        self._try()
        return self._saved

    def _savings_by_host(self) -> Tensor:
        if self._twin is None:
            self._twin = Spread(self.tables.to("cpu"), self.num_boards, self.fires, self.duration)
        for name in ("table", "ignition", "breaks"):
            getattr(self._twin, name).copy_(getattr(self, name))
        self._twin.command.fill_(BURN)
        self._twin.launch()
        return self._saved.copy_(self._twin.savings())

    def _bind(self) -> list[Callable[[], None]]:
        boards, all_fires = self.num_boards, self.num_boards * self.fires
        if self.tables.device.type == "cpu":
            return [
                Kernel(cuts.prepare_board, skippable=True).bind(boards, *self._arrays),
                Kernel(cuts.run_fires_in_lane, 2, skippable=True).bind(self._lanes, *self._arrays),
            ]
        if not cuda_available():
            raise EnvError(
                "Fire on CUDA needs a GPU and numba-cuda, and one of them is missing. Install `flashdqn[cuda]`, or "
                "put the environment on the CPU: the learner may stay on CUDA."
            )
        blocks = importlib.import_module("flashdqn.envs.fuelbreaks.fire.blocks")
        return [
            BlockKernel(blocks.prepare_board, blocks.THREADS).bind(boards, *self._arrays),
            BlockKernel(blocks.run_fire, blocks.THREADS).bind(all_fires, *self._arrays),
        ]

    def _gather(self) -> Fires:
        """All arrays as the kernels see them."""
        boards, fires, device = self.num_boards, self.fires, self.tables.device
        rows, columns = self.tables.shape
        cells, every = rows * columns, boards * fires
        step, outside, moves = _direction_tensors(self.tables.directions, columns)
        # On CUDA a fire has one list, its marks; on the CPU a thread has a queue.
        queues, lists = (every, 1) if device.type == "cuda" else (self._triers, layout.WORK)
        numbers = [boards, fires, self._lanes, self._triers, rows, columns]
        return Fires(
            table=self.table,
            command=self.command,
            breaks=self.breaks,
            passable=torch.zeros(boards, cells, dtype=torch.int64, device=device),
            ignition=self.ignition.view(every),
            arrival=self.arrival.view(every, cells),
            parent=self.parent.view(every, cells),
            burned=self.burned.view(every),
            saved=self._saved,
            times=self.tables.times,
            into=self.tables.into,
            open=self.tables.open,
            burnable=self.tables.burnable,
            worth=self.tables.worth,
            step=step.to(device),
            outside=outside.to(device),
            touching=moves.to(device),
            work=torch.zeros(queues, lists, cells, dtype=torch.int32, device=device),
            old=torch.zeros(self._triers, cells, device=device),
            trial=torch.zeros(self._triers, cells, dtype=torch.int64, device=device),
            head=torch.full((self._triers, BUCKETS), layout.NOBODY, dtype=torch.int32, device=device),
            params=torch.tensor(numbers, dtype=torch.int32, device=device),
            limits=torch.tensor([self.duration, (BUCKETS - 1) / self.duration], device=device),
        )


def _direction_tensors(count: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """What each direction adds to a cell's number, its share after half a cell, the moves that a break ends."""
    compass = fire_directions(count)
    offset = torch.tensor([direction.offset for direction in compass], dtype=torch.int32)
    step = offset[:, 0] * columns + offset[:, 1]
    outside = torch.tensor([direction.outside for direction in compass])
    moves = torch.from_numpy(moves_ended_by_break(count))
    return step, outside, torch.cat((moves, moves[:, :2] + offset[moves[:, 2]]), dim=1)
