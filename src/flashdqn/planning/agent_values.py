"""What a break in each cell is worth by a trained network, over a whole landscape.

Q(s, a) = r + γ V(s') includes what later breaks will save. A break that does nothing would leave γ V(s): so the
gain of a cell is Q(s, a) − γ max Q(s, ·), over the cells where a break may lie. It is comparable between windows,
and can be divided by a cost, which Q cannot: most of Q is the same for all cells. Scenarios are averaged by their
weights; where nothing burns in a scenario, a break there gains nothing in it. An agent that was paid by the share
of what still burned (`env.reward` remaining) counts in such shares: its gains are multiplied by what still burns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.core_count import cores
from flashdqn.compute.threads import limit_threads
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.observation import CHANNELS
from flashdqn.networks.cells import DILATIONS, CellNet
from flashdqn.networks.outputs import apply_output_layer
from flashdqn.planning.flow import FlowMap, flow_bytes
from flashdqn.planning.ground import Ground
from flashdqn.planning.tiles import lay_windows
from flashdqn.planning.window_view import WindowView, cut_cells

if TYPE_CHECKING:
    from flashdqn.agent.agent import Agent

#: Windows that are remembered, in bytes of their planes.
REMEMBERED_BYTES = 500_000_000
#: Cells that go through the network together.
CELLS_AT_ONCE = 40_000
#: A value is computed again once this share of the budget that it was computed with is left.
STALE = 0.5
#: If less than this many cells burn behind every cell, what is left is finer than the network's values are, and
#: what burns behind a cell is its gain.
RESOLVED = 1.0

Evaluate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class NetworkValues:
    """A network that gives a value to each cell of any grid."""

    evaluate: Evaluate  # [B, channels, H, W] → [B, H · W]
    gamma: float
    trained_size: int  # cells a side of the grids that it was trained on
    sees: int  # cells that its convolutions see in each direction
    on_gpu: bool = False
    sees_flow: bool = False  # whether it reads what burns behind each cell
    in_remaining: bool = False  # whether its values are shares of what still burns, not of the landscape


def read_agent(agent: Agent) -> NetworkValues:
    """The values of a trained agent of the task fuelbreaks."""
    torso, output = agent.network.torso, agent.network.output
    size = getattr(agent.config.env, "size", None)
    if agent.config.env.task != "fuelbreaks" or not isinstance(torso, CellNet) or size is None:
        raise EnvError(
            f"Planning needs an agent of the task fuelbreaks with the torso 'cells', and this one was trained on "
            f"{agent.config.env.task} with {agent.config.network.torso}: train one by `flashdqn train fuelbreaks`."
        )
    sees_flow = getattr(agent.config.env, "scouts", 0) > 0
    planes = len(CHANNELS) + sees_flow
    if torso.stem.in_channels != planes:
        raise EnvError(
            f"This agent reads {torso.stem.in_channels} planes, and a landscape has {planes} now: it was "
            "trained by another version; train one again."
        )

    assert isinstance(output, torch.nn.Module)

    def evaluate(planes: Tensor) -> Tensor:
        with torch.inference_mode():
            answer = apply_output_layer(output, torso(planes.to(agent.device)))
            return agent.head.q(answer).float().cpu()

    count = len(agent.config.network.channels)
    sees = 1 + 2 * sum(DILATIONS[k % len(DILATIONS)] for k in range(count))
    on_gpu = agent.device.type != "cpu"
    in_remaining = getattr(agent.config.env, "reward", "area") == "remaining"
    return NetworkValues(evaluate, agent.config.learn.gamma, size, sees, on_gpu, sees_flow, in_remaining)


class GainMap:
    """The gain of a break in every cell, kept up to date window by window."""

    def __init__(self, ground: Ground, values: NetworkValues, size: int, halo: int) -> None:
        self.ground, self.values = ground, values
        self.windows = lay_windows(ground.problem.landscape.shape, size, halo)
        self.gain = np.zeros(ground.problem.landscape.shape)
        self.flow = FlowMap(ground) if values.sees_flow or values.in_remaining else None
        self._share_at = np.full(len(self.windows), np.inf)  # the budget's share of a window's last values
        self._lock = Lock()
        self._changed = np.ones(len(self.windows), dtype=np.bool_)
        self._views: OrderedDict[int, WindowView] = OrderedDict()
        bytes_per_view = 4 * len(CHANNELS) * size * size * len(ground.problem.scenarios)
        self._most_views = max(1, REMEMBERED_BYTES // bytes_per_view)
        self._corners = np.array(
            [(w.rows.start, w.rows.stop, w.columns.start, w.columns.stop) for w in self.windows]
        )

    def note_breaks(self, cells: Sequence[int]) -> None:
        """Windows that see a new break will be computed again."""
        columns = self.gain.shape[1]
        if self.flow is not None:
            self.flow.place(cells)
        for cell in cells:
            row, column = divmod(cell, columns)
            top, bottom, left, right = self._corners.T
            self._changed |= (top <= row) & (row < bottom) & (left <= column) & (column < right)

    def list_stale(self, share: float) -> NDArray[np.int64]:
        """The windows to compute again."""
        return np.flatnonzero(self._changed | (share < STALE * self._share_at))

    def update(
        self,
        breaks: NDArray[np.bool_],
        free: NDArray[np.bool_],
        share: float,
        tell: Callable[[float], None] | None = None,
    ) -> NDArray[np.float64]:
        """The gains, [cells], with these breaks and free cells, [cells] each, and a budget for a share of all
        cells."""
        stale = self.list_stale(share)
        if len(stale):
            shape = self.windows[0].shape
            together = max(1, CELLS_AT_ONCE // (shape[0] * shape[1] * len(self.ground.shares)))
            parts = [stale[start : start + together] for start in range(0, len(stale), together)]
            compute = partial(self._compute, breaks=breaks, free=free, share=share)
            # One thread for each part: the same sums on every machine, and no thread waits for another one.
            with limit_threads(1, int(numba.get_num_threads())):
                for k, _ in enumerate(self._run_parts(compute, parts)):
                    if tell is not None:
                        tell((k + 1) / len(parts))
        self._share_at[stale] = share
        self._changed[:] = False
        return self.gain.reshape(-1)

    def _run_parts(
        self, compute: Callable[[NDArray[np.int64]], None], parts: list[NDArray[np.int64]]
    ) -> Iterator[None]:
        """Compute part by part, on as many cores as there are parts."""
        count = 1 if self.values.on_gpu else min(len(parts), cores())
        if count == 1:
            yield from map(compute, parts)
            return
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(compute, parts)

    def _compute(
        self, which: NDArray[np.int64], breaks: NDArray[np.bool_], free: NDArray[np.bool_], share: float
    ) -> None:
        shape = self.ground.problem.landscape.shape
        windows, views = [self.windows[k] for k in which], [self._view(int(k)) for k in which]
        seen, resolved, flows = [], [], []
        for window, view in zip(windows, views, strict=True):
            flow = np.full(view.burnable.shape, np.inf) if self.flow is None else self.flow.measure(window)
            legal = view.burnable & cut_cells(free, shape, window)
            flows.append(flow)
            resolved.append(np.where(legal, flow, 0.0).max(1) < RESOLVED)
            if not resolved[-1].all():
                behind = flow_bytes(flow) if self.values.sees_flow else None
                seen.append(view.observe(cut_cells(breaks, shape, window), share, behind))
        answers = iter(self.values.evaluate(torch.cat(seen)).numpy() if seen else ())
        for window, view, flow, done in zip(windows, views, flows, resolved, strict=True):
            q = None if done.all() else np.stack([next(answers) for _ in done]).astype(np.float64)
            if q is not None and self.flow is not None and self.values.in_remaining:
                q *= self.flow.remaining(window)[:, None]
            gain = self._find_gain(view, q, cut_cells(free, shape, window), flow, done).reshape(view.shape)
            self.gain[window.core_rows, window.core_columns] = gain[window.inner_core()]

    def _find_gain(
        self,
        view: WindowView,
        q: NDArray[np.float64] | None,
        free: NDArray[np.bool_],
        flow: NDArray[np.float64],
        resolved: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """The gain of a window's cells, [cells]: from its values, [S, cells], or, in resolved scenarios, from what
        burns behind each cell, [S, cells]."""
        gain = np.zeros(view.cells)
        for s, share in enumerate(self.ground.shares):
            legal = view.burnable[s] & free
            if not legal.any():
                continue
            if q is None or resolved[s]:
                worth = 100.0 * flow[s] / view.cells
            else:
                worth = q[s] - self.values.gamma * q[s][legal].max()
            gain += share * view.importance[s] * np.where(legal, worth, 0.0)
        return gain

    def _view(self, k: int) -> WindowView:
        view = self._views.get(k)
        if view is None:
            view = WindowView(self.ground, self.windows[k], self.values.sees_flow)
            with self._lock:
                self._views[k] = view
                if len(self._views) > self._most_views:
                    self._views.popitem(last=False)
        return view
