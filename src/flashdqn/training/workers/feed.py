"""The learner's side of workers that collect by themselves: weights out, whole rows in."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Any

from torch import Tensor

from flashdqn.config import Config
from flashdqn.core.contract import stores_masks
from flashdqn.learn.learner import Learner
from flashdqn.replay.lanes import STEAL_AT, Admitted, Lanes
from flashdqn.replay.pieces import Array, EnvStream
from flashdqn.replay.ring import CellRow
from flashdqn.training.workers.games import RemoteGames
from flashdqn.training.workers.processes import ProcessTransport
from flashdqn.training.workers.spec import PIECE_CELLS, WorkerSpec, plan_window
from flashdqn.training.workers.transport import Loss, Transport

#: A call waits at most so many seconds for a row: signals, budget and display must not wait for a simulator.
WAIT = 0.1
#: After so many seconds without a row, lanes that are empty take over whatever there is.
PATIENCE = 0.5
#: Seconds after which ε is told again: its schedules are slow.
EPS_SECONDS = 0.05
#: Publishing weights takes at most one part in this many of the time.
PUBLISH_SHARE = 20

_log = logging.getLogger("flashdqn")


class Feed:
    """Takes pieces from the workers and gives out rows for the ring."""

    def __init__(
        self, config: Config, games: RemoteGames, learner: Learner, transport: Transport | None = None
    ) -> None:
        """Without a transport, the configured one is made."""
        self.games, self.learner, self.record = games, learner, games.record
        collectors = games.collectors
        self.max_lag = collectors.max_lag
        self.window = plan_window(self.max_lag, config.train_ratio, config.envs)
        steal_at = max(1, min(STEAL_AT, self.window // 2))
        sizes = games.num_envs, games.obs_spec, games.num_actions
        self.lanes = Lanes(*sizes, stores_masks(games), len(games.outcome_names), steal_at)
        spec = WorkerSpec(
            worker_config(config), collectors.one, 0, max(1, min(PIECE_CELLS, self.window // 2))
        )
        self._transport = games.transport = transport or make_transport(spec, games, learner)
        self._held: list[EnvStream] = []  # pieces that are not acknowledged yet
        self.has_begun = False  # whether any piece has arrived
        self._published = -1
        self._publish_after = 0.0
        self._last_row = 0.0
        self._tell_eps_after = 0.0
        self._window_lag, self._window_most, self._window_count = 0, 0, 0

    def start(self, seed: int) -> None:
        """Start the workers with new games, also after a resume."""
        self.lanes.clear()
        self.record.sessions += 1
        self._publish(self.learner.updates)
        self._transport.start(seed + 1_000_003 * (self.record.sessions - 1))
        self._last_row = monotonic()
        _log.warning(
            "Collecting asynchronously with %d worker%s: the same seed does not give the same training",
            self.games.workers,
            "s" * (self.games.workers != 1),
        )

    def next_row(self, eps: Tensor) -> tuple[CellRow, Admitted] | None:
        """The next row of the ring; None if there is none yet. `eps`: of every environment, [N]."""
        updates = self.learner.updates
        self._share(updates, eps)
        stop, seconds = monotonic() + WAIT, 0.0
        while True:
            self._take(seconds)
            now = monotonic()
            if self.lanes.is_ready(updates - self.max_lag, patient=now - self._last_row < PATIENCE):
                break
            if (seconds := stop - now) <= 0:
                self._note_lanes()
                return None
        self._last_row = monotonic()
        cells, admitted = self.lanes.take_row()
        self._count(updates - admitted.versions, admitted.leads)
        return cells, admitted

    def read_lag(self) -> tuple[float, float]:
        """Mean and largest lag since the last call, in gradient steps; NaN if nothing has arrived."""
        count, total, most = self._window_count, self._window_lag, self._window_most
        self._window_lag = self._window_most = self._window_count = 0
        return (round(total / count, 3), float(most)) if count else (math.nan, math.nan)

    def describe(self) -> dict[str, Any]:
        """The workers' work in figures, for the summary."""
        return self.record.to_json(self.max_lag)

    def _take(self, seconds: float) -> None:
        """Take what has arrived, and let workers send more, unless too much is waiting already."""
        for arrived in self._transport.receive(seconds):
            if isinstance(arrived, Loss):
                self._note_loss(arrived)
            else:
                self.has_begun = True
                self.lanes.add(arrived)
                self._held.append(arrived.stream)
        if self._held and self.lanes.waiting < self.window * self.games.num_envs:
            for stream in self._held:
                self._transport.acknowledge(stream)
            self._held.clear()

    def _note_loss(self, loss: Loss) -> None:
        for stream in loss.streams:
            self.lanes.discard_half_episode(stream)
        self.record.replaced[loss.worker] = self.record.replaced.get(loss.worker, 0) + 1
        _log.warning(
            "Worker %d was replaced (%s): %s. Its half episode is discarded",
            loss.worker,
            ", ".join(f"environment {stream.player}" for stream in loss.streams),
            loss.reason,
        )

    def _share(self, updates: int, eps: Tensor) -> None:
        """Tell the workers the latest weights and ε. On a GPU, reading these waits for it: not every time."""
        now = perf_counter()
        if now >= self._tell_eps_after:
            self._tell_eps_after = now + EPS_SECONDS
            self._transport.set_eps(eps.cpu().numpy())
        if updates != self._published and now >= self._publish_after:
            self._publish(updates)

    def _publish(self, updates: int) -> None:
        start = perf_counter()
        self._transport.publish(updates)
        end = perf_counter()
        self._published, self._publish_after = updates, end + PUBLISH_SHARE * (end - start)

    def _count(self, lags: Array, leads: int) -> None:
        self._note_lanes()
        self.record.leads += leads
        if len(lags):
            total, most = int(lags.sum()), int(lags.max())
            self.record.admitted += len(lags)
            self.record.lag += total
            self.record.most_lag = max(self.record.most_lag, most)
            self._window_lag, self._window_count = self._window_lag + total, self._window_count + len(lags)
            self._window_most = max(self._window_most, most)

    def _note_lanes(self) -> None:
        """Add what the lanes have counted to the totals of the run."""
        self.record.discarded += self.lanes.discarded
        self.record.moved += self.lanes.moves
        self.lanes.discarded = self.lanes.moves = 0


def make_transport(spec: WorkerSpec, games: RemoteGames, learner: Learner) -> Transport:
    """Processes of this machine, or Ray actors."""
    given = spec, games.workers, games.collectors.timeout, learner
    if games.collectors.transport == "processes":
        return ProcessTransport(*given)
    from flashdqn.training.workers.ray_actors import RayTransport

    return RayTransport(*given)


def worker_config(config: Config) -> Config:
    """The training's settings, with all that a worker's network needs and no worker of its own."""
    collectors = config.env.collectors
    assert collectors is not None
    return replace(config, env=collectors.one, device="cpu")
