"""The training loop: collect, update, and at intervals report, evaluate, save."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.device import synchronize_device
from flashdqn.compute.seeds import purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import DivergedError
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.records import DEMOS_FILE
from flashdqn.training.assemble import Parts
from flashdqn.training.budget import Budget, crosses_doubling, crosses_multiple
from flashdqn.training.demonstrate import run_demonstrations
from flashdqn.training.engine import Engine
from flashdqn.training.evaluate import evaluate
from flashdqn.training.interrupt import Interrupt
from flashdqn.training.progress import Progress
from flashdqn.training.ratio import build_ratio
from flashdqn.training.reporter import Reporter
from flashdqn.training.schedules import Schedules


class Loop:
    """One training, from its first step or from a checkpoint."""

    def __init__(
        self,
        config: Config,
        parts: Parts,
        folder: RunFolder,
        progress: Progress,
        games: VecEnv,
        engine: Engine | None = None,
    ) -> None:
        """Without a prepared engine, everything runs eagerly."""
        self.config, self.parts, self.folder, self.progress = config, parts, folder, progress
        self.engine = engine or Engine(config, parts)
        self.ratio = build_ratio(config, parts.rollouts)
        self.reporter = Reporter(config, parts, folder, self.ratio, progress)
        self.schedules = Schedules(config, parts.collector.eps, parts.learner.lr, parts.sampler)
        self.budget = Budget.of(config)
        self.games = games  # to evaluate on
        self._before = 0.0  # training seconds of earlier sessions
        self._started = 0.0
        self._evaluated = -1  # the step of the last evaluation
        self._new = False  # not resumed: the work before the first step is still to do

    @property
    def seconds(self) -> float:
        """Training time so far, over all sessions."""
        return self._before + (time.perf_counter() - self._started if self._started else 0.0)

    def start(self) -> None:
        """Begin a new run."""
        self.parts.collector.start(purpose_seed(self.config.seed, "envs"))
        self.reporter.begin(step=0, updates=0)
        self._new = True

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint."""
        weights, state, counters = checkpoint.load_checkpoint(path, with_state=True)
        self.parts.load(weights, state, counters)
        self._before = counters["seconds"]
        for said in self.folder.rewind_to(path):
            self.progress.note(said)
        self._evaluated = self.folder.last_evaluation()
        self.reporter.begin(counters["reported_step"], counters["reported_updates"])

    def run(self) -> bool:
        """Train until the budget is spent (True) or Ctrl-C asks to stop (False)."""
        counts = self.parts.counts
        with Interrupt() as interrupt:
            if self._new and self.config.demos.asked_for:
                self.show(interrupt)
            self.fill(interrupt)
            synchronize_device(self.parts.learner.device)
            self._started = time.perf_counter()
            self.reporter.open_window()
            while (share := self.budget.share(counts, self.seconds)) < 1.0:
                if interrupt.requested:
                    self.save()
                    return False
                self.progress.tick(share, counts.transitions, counts.episodes, self.seconds)
                before = counts.transitions
                self.iterate()
                self.occasionally(before, counts.transitions)
            counts.settle()
            self.learn()  # on CUDA the last transitions are known only now
            self.finish()
        return True

    def show(self, interrupt: Interrupt) -> None:
        """Run the demonstrations before the clock starts; the run folder stores a summary of them."""
        done = run_demonstrations(self.config, self.parts, self.engine, self.schedules, interrupt)
        self.folder.write_json(DEMOS_FILE, done)
        self.progress.note(
            f"{done['episodes']:,} demonstrations by {done['source']}, {done['transitions']:,} transitions "
            "with a mean "
            f"return of {done['mean_return']:.4g} in {done['seconds']:.1f} s; {done['updates']:,} gradient "
            "steps on "
            f"them in {done['pretrain_seconds']:.1f} s"
        )
        if done["updates"] and self.config.eval.every and not interrupt.requested:
            self.evaluate(with_state=False)  # these weights, learned only from the expert, may be the best

    def fill(self, interrupt: Interrupt) -> None:
        """Collect what learning starts from, before the clock starts: later steps cost more because they learn."""
        counts, start = self.parts.counts, time.perf_counter()
        while counts.transitions < self.ratio.starts and not interrupt.requested:
            # counted only for the budget: a slow environment must not outlast --max-time
            seconds = self._before + time.perf_counter() - start
            if (share := self.budget.share(counts, seconds)) >= 1.0:
                break
            self.progress.tick(share, counts.transitions, counts.episodes, self._before)
            self.iterate()
        self.parts.phases.read()

    def iterate(self) -> None:
        """One step of every environment, and the updates that it earned."""
        parts = self.parts
        parts.phases.next_iteration()
        self.schedules.write(parts.counts.transitions)
        self.engine.collect()
        parts.counts.publish()
        self.learn()

    def learn(self) -> None:
        """The updates that are due."""
        self.engine.learn(self.ratio.due(self.parts.counts.transitions, self.parts.learner.updates))

    def occasionally(self, before: int, after: int) -> None:
        """Do what is due when the transitions pass a multiple of its period."""
        config = self.config
        if crosses_multiple(config.report_every, before, after):
            self.reporter.report(self.seconds)
        evaluating = crosses_multiple(config.eval.every, before, after)
        saving = crosses_multiple(config.log.checkpoint_every, before, after)
        if evaluating:
            self.evaluate(with_state=saving)
        elif saving:
            self.save()
        elif crosses_doubling(config.report_every, before, after):
            self.save(with_state=False)  # small, and few: `flashdqn watch` shows the beginning

    def finish(self) -> None:
        """The last report, evaluation and checkpoint."""
        self.progress.tick(1.0, self.parts.counts.transitions, self.parts.counts.episodes, self.seconds)
        if self.reporter.step < self.parts.counts.transitions:
            self.reporter.report(self.seconds)
        if self._evaluated < self.parts.counts.transitions:
            self.evaluate(with_state=True)
        else:
            self.save()

    def evaluate(self, with_state: bool) -> None:
        """Play without exploring, save the weights, and remember them if they are the best so far."""
        learner = self.parts.learner
        with self.parts.phases("evaluate", host=True):
            seed = purpose_seed(self.config.seed, "evaluation")
            result = evaluate(self.games, learner.online, learner.head, seed)
        self.parts.counts.settle()
        self._evaluated = self.parts.counts.transitions
        # The row comes before the checkpoint: in the other order, a crash in between would lose it.
        self.reporter.evaluation(self._evaluated, result)
        best = checkpoint.best(self.folder.checkpoints)
        path = self.save(with_state)
        if math.isfinite(result.mean_score) and (best is None or result.mean_score > best[1]):
            checkpoint.mark_best_checkpoint(self.folder.checkpoints, path, result.mean_score)

    def save(self, with_state: bool = True) -> Path:
        """Save a checkpoint now; never one with weights that are not finite."""
        learner = self.parts.learner
        with self.parts.phases("checkpoint", host=True):
            weights = learner.weights()
            if not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
                raise DivergedError(f"The weights after gradient step {learner.updates} are not finite")
            state = self.parts.state_dict() if with_state else None
            self.reporter.flush()
            return self.folder.save_checkpoint(weights, state, self._counters())

    def _counters(self) -> dict[str, Any]:
        counts = self.parts.counts
        counts.settle()
        return {
            "transitions": counts.transitions,
            "episodes": counts.episodes,
            "updates": self.parts.learner.updates,
            "reported_step": self.reporter.step,
            "reported_updates": self.reporter.updates,
            "seconds": self.seconds,
        }
