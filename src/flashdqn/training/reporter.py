"""Reports: once per window, read the device's sums and pass them to tables and displays."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from flashdqn.compute.device import used_bytes
from flashdqn.compute.gpu_usage import GpuUsage, watch_gpu
from flashdqn.config import Config
from flashdqn.core.contract import get_cause_names
from flashdqn.runs.columns import (
    GPU_PERCENT,
    GRAPHS,
    PHASES,
    STEP,
    make_evaluation_columns,
    make_metrics_columns,
)
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.rows import EvaluationRow, MetricsRow, row_to_cells
from flashdqn.runs.tables import METRICS_FILE, read_table, write_columns
from flashdqn.training.assemble import Parts
from flashdqn.training.evaluate import Evaluation
from flashdqn.training.metrics import EpisodeMeans
from flashdqn.training.progress import Progress
from flashdqn.training.ratio import Ratio
from flashdqn.training.sinks import Sink, open_sinks

#: Phases that are not training: throughput does not count their time. A report is not one of them: it waits for the
#: window's own work, and the next window opens after it.
ASIDE = ("evaluate", "checkpoint")


class Reporter:
    """Writes a row per window. Throughput is in transitions per second of the window's training time."""

    def __init__(
        self, config: Config, parts: Parts, folder: RunFolder, ratio: Ratio, progress: Progress
    ) -> None:
        self.config, self.parts, self.folder, self.ratio = config, parts, folder, ratio
        self.progress = progress
        self.step = self.updates = 0  # at the last report
        self._opened = 0.0
        self._timed_from = 0  # the step at which the window's clock started
        self._iterations = 0  # the loop's iterations at that time
        self._sinks: list[Sink] = []
        self._gpu: GpuUsage | None = None
        self._tells_gpu = False  # whether the table has a column for it
        self._unwritten: list[MetricsRow] = []  # the disk refused it: the next save tries again
        self._complained = False  # about outcomes that are not finite
        self._writes = parts.ranks.leads  # the other ranks only add their figures

    def begin(self, step: int, updates: int) -> None:
        """Start at the beginning, or after the last report of a resumed run."""
        self.step, self.updates = step, updates
        outcomes, causes = self.parts.env.outcome_names, get_cause_names(self.parts.env)
        if not self._writes:
            return
        self._gpu = watch_gpu(self.parts.learner.device)
        earlier = read_table(self.folder.path / METRICS_FILE)  # a table keeps its columns
        self._tells_gpu = GPU_PERCENT.name in earlier[0] if earlier else self._gpu is not None
        write_columns(
            self.folder.path,
            make_metrics_columns(outcomes, causes, self._tells_gpu),
            make_evaluation_columns(outcomes, causes),
        )
        here = self.parts.counts.transitions
        self._sinks = open_sinks(self.config, self.folder.path, here, self.progress.note)

    def open_window(self) -> None:
        """Start the clock of a window."""
        self._opened, self._timed_from = time.perf_counter(), self.parts.counts.transitions
        self._iterations = self.parts.phases.iterations

    def report(self, seconds: float) -> MetricsRow:
        """Close the window: one row for metrics.csv, the sinks and the display."""
        with self.parts.phases("report", host=True):
            row = self._close_window(seconds)
            self.step, self.updates = row.step, row.updates
            if self._writes:
                self._unwritten.append(row)
                self._write_rows()
        self.open_window()
        self.progress.report(row)
        return row

    def evaluation(self, step: int, result: Evaluation) -> None:
        """One row for evaluations.csv and the sinks."""
        if not self._writes:
            return
        row = EvaluationRow(step=step, **vars(result))
        self.folder.add_evaluation(row)
        self._send("eval", row)
        self.progress.evaluation(step, result)

    def flush(self) -> None:
        """Write the figures to disk: those older than a checkpoint must survive a crash after it."""
        self._write_rows()
        for sink in self._sinks:
            sink.flush()

    def close(self, summary: Mapping[str, Any] | None = None) -> None:
        """Close the sinks once: with the run's summary, or without it if the run failed."""
        if self._gpu is not None:
            self._gpu.close()
        for sink in self._sinks:
            sink.close(summary)
        self._sinks = []

    def _close_window(self, seconds: float) -> MetricsRow:
        parts, counts = self.parts, self.parts.counts
        parts.ranks.sum_(parts.metrics.sums)
        parts.ranks.average_(parts.learner.sums)
        episodes = parts.metrics.read()
        self._check_outcomes(episodes)
        sums = parts.learner.read_sums()
        phases = parts.phases.read()
        step, updates = counts.transitions, parts.learner.updates
        transitions, done = step - self._timed_from, updates - self.updates
        window = time.perf_counter() - self._opened
        training = max(1e-9, window - sum(phases.get(name, 0.0) for name in ASIDE))
        if parts.phases.iterations == self._iterations:  # transitions that became known late, on CUDA
            training = math.nan
        count = max(1, transitions)
        return MetricsRow(
            step=step,
            updates=updates,
            episodes=counts.episodes,
            seconds=round(seconds, 3),
            steps_per_second=round(transitions / training, 1),
            ratio=self.ratio.achieved(step, updates),
            eps=self._average_eps(),
            lr=float(parts.learner.lr),
            **{name: value / done if done else math.nan for name, value in sums.items()},
            window_episodes=episodes.episodes,
            return_=episodes.return_,
            length=episodes.length,
            outcomes=episodes.outcomes,
            phases={n: round(phases.get(n, 0.0) / count * 1e6, 4) for n in (*PHASES, *GRAPHS)},
            memory_mb=round(sum(parts.ranks.gather(used_bytes(parts.learner.device))) / 1e6, 1),
            us_total=round(training / count * 1e6, 4),
            gpu_percent=self._read_gpu() if self._tells_gpu else None,
        )

    def _average_eps(self) -> float:
        eps = self.parts.collector.eps.mean()
        self.parts.ranks.average_(eps)
        return float(eps)

    def _read_gpu(self) -> float:
        """How busy the GPU was in the window, in percent; NaN if nobody knows."""
        return math.nan if self._gpu is None else round(self._gpu.read(), 1)

    def _check_outcomes(self, means: EpisodeMeans) -> None:
        """Say once which outcomes of ended episodes are not numbers: learning does not need them, but a reader of
        the report does."""
        wrong = [name for name, value in means.outcomes.items() if not math.isfinite(value)]
        if means.episodes and wrong and not self._complained:
            self._complained = True
            self.progress.note(
                f"{self.parts.env.name}: the outcomes of an ended episode must be finite, and these are not: "
                f"{', '.join(wrong)}. The training does not need them, but tables and reports have gaps there."
            )

    def _write_rows(self) -> None:
        while self._unwritten:
            self.folder.add_metrics(self._unwritten[0])
            self._send("train", self._unwritten.pop(0))

    def _send(self, table: str, row: MetricsRow | EvaluationRow) -> None:
        cells = row_to_cells(row)
        del cells[STEP.name]
        for sink in self._sinks:
            sink.scalars({f"{table}/{name}": value for name, value in cells.items()}, row.step)
