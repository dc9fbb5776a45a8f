"""The training loop: collect, update, and at intervals report, evaluate, save."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.device import synchronize_device
from flashdqn.compute.ranks import Waiting
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv
from flashdqn.core.errors import CheckpointError, DivergedError
from flashdqn.core.signals import Interrupt, StopRequestedError
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint, mark_best_checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.records import DEMOS_FILE, FORMAT, SUMMARY_FILE
from flashdqn.training.agreement import RankAgreement
from flashdqn.training.assemble import Parts
from flashdqn.training.budget import Budget, crosses_doubling, crosses_multiple, find_limits
from flashdqn.training.callbacks import NO_CALLBACKS, Callbacks, Listener
from flashdqn.training.clock import RunClock, find_earlier_parts
from flashdqn.training.demonstrate import run_demonstrations
from flashdqn.training.engine import Engine
from flashdqn.training.evaluate import Evaluation
from flashdqn.training.evaluator import Evaluator
from flashdqn.training.progress import Progress, watch_work
from flashdqn.training.rank_share import lead_first
from flashdqn.training.rank_state import align_learners, deal_state, describe_dealing, gather_state
from flashdqn.training.rank_times import describe_waiting
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
        clock: RunClock | None = None,
    ) -> None:
        """Without a prepared engine, everything runs eagerly; without a clock, the command begins now."""
        self.config, self.parts, self.folder, self.progress = config, parts, folder, progress
        self.engine = engine or Engine(config, parts)
        self.ratio = build_ratio(config, parts.rollouts)
        self.reporter = Reporter(config, parts, folder, self.ratio, progress)
        self.ranks = ranks = parts.ranks
        self.schedules = Schedules(config, parts.collector.eps, parts.learner.lr, parts.sampler, ranks)
        self.budget = Budget.of(config)
        self.clock = clock or RunClock()
        self.games = games  # to evaluate on
        self.evaluator = Evaluator(config, games, self.clock, progress, ranks)
        self._before = 0.0  # training seconds of earlier sessions
        self._started = 0.0
        self._filling_since = 0.0
        self.interrupt = Interrupt(waits=True)  # one that nobody asks: `run` may be given another
        self.begun = False  # whether there is something to save: demonstrations are over, if there are any
        # False within an iteration, where a save would be neither the old state nor the new.
        self.whole = True
        self._evaluated = -1  # the step of the last evaluation
        self._owes_evaluation = False  # one was due at this step, and was cut off
        self._new = False  # not resumed: the work before the first step is still to do
        self.agreement = RankAgreement(parts.counts, ranks, config.log.checkpoint_minutes)
        self.waits: list[dict[str, float]] = []  # at the end, by rank: seconds spent in exchanges
        self._timed: list[Path] = []  # checkpoints that only the clock has asked for, oldest first
        self.listener = Listener(NO_CALLBACKS, folder.shown)  # the user's functions; `run` may be given some

    @property
    def seconds(self) -> float:
        """Training time so far, over all sessions."""
        return self._before + (time.perf_counter() - self._started if self._started else 0.0)

    @property
    def batch(self) -> int:
        """Transitions in a gradient step of all ranks together."""
        size = self.config.update_size
        divided = self.config.learn.method == "pqn" or not self.config.learn.batch_per_rank
        return size if divided else size * self.ranks.world

    @property
    def spent(self) -> float:
        """Training time that counts for the budget: by the leader's clock, as all ranks know it."""
        return self.agreement.choose_seconds(self.seconds, self._before)

    def start(self) -> None:
        """Begin a new run."""
        self.parts.start()
        self.reporter.begin(step=0, updates=0)
        self._new = True

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint; the leader reads it, and deals it out to the other ranks."""
        read = lead_first(self.ranks, lambda: self._read_checkpoint(path))
        weights, state, counters = read or (None, None, None)
        weights, state, counters = deal_state(self.parts, weights, state, counters)
        self.parts.load(weights, state, counters)
        self._before = counters["seconds"]
        if self.ranks.leads:
            self.clock.add_earlier(find_earlier_parts(self.folder.read_json(SUMMARY_FILE), counters))
            for said in (*self.folder.rewind_to(path), *describe_dealing(counters, self.ranks.world)):
                self.progress.note(said)
        self.evaluator.share.load(counters.get("evaluations"))
        self._evaluated = self.ranks.share(self.folder.last_evaluation() if self.ranks.leads else -1)
        self._owes_evaluation = bool(counters.get("owes_evaluation", False))
        self._timed = [path] if counters.get("timed", False) else []
        self.reporter.begin(counters["reported_step"], counters["reported_updates"])
        self.begun = True

    def _read_checkpoint(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        weights, state, counters = checkpoint.load_checkpoint(path, with_state=True)
        self._check_generators(path, state)
        return weights, state, counters

    def _check_generators(self, path: Path, state: Mapping[str, Tensor]) -> None:
        """Refuse a checkpoint without all random generators; an older version may have written fewer."""
        if not (missing := self.parts.list_missing_generators(state)):
            return
        said = f"{path} lacks random generators ({', '.join(missing)})"
        if checkpoint.read_manifest(path).get("format", 1) >= FORMAT:
            raise CheckpointError(f"{said}: a training resumed from it would not be the same.")
        self.progress.note(f"{said}. They start again from the seed.")

    def run(self, interrupt: Interrupt | None = None, callbacks: Callbacks = NO_CALLBACKS) -> bool:
        """Train until the budget is spent or a callback says that it is enough (True), or a signal asks to stop
        (False)."""
        self.interrupt = interrupt or self.interrupt
        self.listener = Listener(callbacks, self.folder.shown)
        self.agreement.save_clock.restart()
        try:
            with self.clock.count_as("first_data"):
                self._prepare()
            with self.clock.count_as("training"):
                finished = self._train()
        except StopRequestedError:
            finished = False
        if not finished and self.begun:
            self.save()
        if self.ranks.many:
            self.waits = self.ranks.gather(describe_waiting(self.ranks))
        return finished

    def _prepare(self) -> None:
        """What comes before the clock starts: demonstrations, an evaluation that was cut off, the first data."""
        if self._new and self.config.demos.asked_for:
            with self.clock.count_as("demonstrations"):
                self.show()
        self.begun = True
        if self._owes_evaluation:
            self.evaluate(with_state=True)
        self.fill()

    def _train(self) -> bool:
        counts = self.parts.counts
        synchronize_device(self.parts.learner.device)
        self._started = time.perf_counter()
        self.ranks.waited = Waiting()
        self.reporter.open_window()
        while (share := self.budget.share(counts, self.spent)) < 1.0:
            if self.agreement.is_stopping(self.interrupt):
                return False
            self.progress.tick(share, counts.transitions, counts.episodes, self.seconds)
            before = counts.transitions
            self.iterate()
            self.occasionally(before, counts.transitions)
            if self.listener.reason:
                break
        self.whole = False
        self.engine.settle()
        self.learn()  # on CUDA the last transitions are known only now
        self.whole = True
        self.finish()
        return True

    def show(self) -> None:
        """Run the demonstrations before the clock starts; the run folder stores a summary of them."""
        demos, interrupt = self.config.demos, self.interrupt
        watch = lambda what, amount: watch_work(self.progress, what, interrupt, amount)  # noqa: E731
        done = run_demonstrations(self.config, self.parts, self.engine, self.schedules, watch)
        if interrupt.requested and (
            done["episodes"] < demos.episodes or done["updates"] < demos.pretrain_steps
        ):
            raise StopRequestedError  # half of the demonstrations are no start to go on from
        self.folder.write_json(DEMOS_FILE, done)
        self.progress.note(
            f"{done['episodes']:,} demonstrations by {done['source']}, {done['transitions']:,} transitions "
            "with a mean "
            f"return of {done['mean_return']:.4g} in {done['seconds']:.1f} s; {done['updates']:,} gradient "
            "steps on "
            f"them in {done['pretrain_seconds']:.1f} s"
        )
        self.begun = True
        if done["updates"] and self.config.eval.every:
            self.evaluate(with_state=False)  # these weights, learned only from the expert, may be the best
            self.evaluator.share.spent = 0.0  # it is not one of those that a training by time has to pay for

    def fill(self) -> None:
        """Collect what learning starts from, before the clock starts: later steps cost more because they learn."""
        counts, start = self.parts.counts, time.perf_counter()
        self._filling_since = start
        while counts.transitions < self.ratio.starts and not self.agreement.is_stopping(self.interrupt):
            if self.parts.collector.is_starting:
                start = time.perf_counter()  # workers make their environments
            # counted only for the budget: a slow environment must not outlast --max-time
            seconds = self._before + time.perf_counter() - start
            if (share := self.budget.share(counts, self.spent if self.ranks.many else seconds)) >= 1.0:
                break
            self.progress.tick(share, counts.transitions, counts.episodes, self._before)
            self.iterate()
            if self.agreement.is_late():
                self.save(timed=True)
        self.parts.phases.read()

    def iterate(self) -> None:
        """One step of every environment, and the updates that it earned; several at once if the device can decide
        what is due, and nothing else is due in between."""
        parts = self.parts
        self.whole = False
        seconds = self._before + time.perf_counter() - (self._started or self._filling_since)
        self.agreement.tell_wishes(self.interrupt, seconds)
        parts.phases.next_iteration()
        if not self.engine.iterate(find_limits(self.config, parts.counts, self.ratio.starts)):
            self.schedules.write(parts.counts.transitions)
            self.engine.collect()
            parts.counts.publish()
            self.learn()
        self.whole = True

    def learn(self) -> None:
        """The updates that are due."""
        self.engine.learn(self.ratio.due(self.parts.counts.transitions, self.parts.learner.updates))

    def occasionally(self, before: int, after: int) -> None:
        """Do what is due when the transitions pass a multiple of its period."""
        config = self.config
        evaluating = crosses_multiple(config.eval.every, before, after)
        self._owes_evaluation = evaluating  # from here on: the report may fail, too
        if reporting := crosses_multiple(config.report_every, before, after):
            self.report()
        saving = crosses_multiple(config.log.checkpoint_every, before, after)
        late = self.agreement.is_late()
        if self.budget.share(self.parts.counts, self.spent) >= 1.0:
            pass  # `finish` evaluates and saves, after the updates that are still due
        elif evaluating and self.evaluate(saving or late):
            pass
        elif saving:
            self.save()
        elif crosses_doubling(config.report_every, before, after):
            self.save(with_state=late)  # small, and few: `flashdqn watch` shows the beginning
        elif late:
            self.save(timed=True)
        self.listener.tell()
        if reporting or evaluating or saving or late:
            self.listener.reason = self.ranks.share(self.listener.reason)

    def report(self) -> None:
        """Close the window of the metrics."""
        self.listener.add_report(self.reporter.report(self.seconds))

    def finish(self) -> None:
        """The last report, evaluation and checkpoint."""
        self.progress.tick(1.0, self.parts.counts.transitions, self.parts.counts.episodes, self.seconds)
        if self.reporter.step < self.parts.counts.transitions:
            self.report()
        if self._evaluated < self.parts.counts.transitions:
            self.evaluate(with_state=True, last=True)
        else:
            self.save()
        self.listener.tell()

    def evaluate(self, with_state: bool, last: bool = False) -> bool:
        """Play without exploring, save the weights, and remember them if they are the best so far. False if the
        evaluation was skipped (`eval.max_share`), which the last one never is. A signal cuts it off; the resumed
        training does it again."""
        learner, counts = self.parts.learner, self.parts.counts
        self._owes_evaluation = True
        result: Evaluation | None
        with self.parts.phases("evaluate", host=True):
            if last:
                result = self.evaluator.evaluate_last(learner, self.interrupt, self.seconds)
            else:
                # Before the training's clock starts, as after demonstrations, all time counts.
                total = self.seconds if self._started else self.clock.total
                result = self.evaluator.evaluate(learner, counts.transitions, self.interrupt, total)
        self.engine.settle()  # also without a result: on CUDA, what is learned depends on it
        self._owes_evaluation = result is not None
        if result is None:
            return False
        self._evaluated = counts.transitions
        # The row comes before the checkpoint: in the other order, a crash in between would lose it.
        self.reporter.evaluation(self._evaluated, result)
        self._owes_evaluation = False
        best = find_best_checkpoint(self.folder.checkpoints) if self.ranks.leads else None
        path = self.save(with_state)
        if not self.ranks.leads:
            return True
        # Where games were cut off by time, those that count are the short ones: no reason to be called the best.
        hurried = last and self.config.max_time is not None and result.unfinished > 0
        is_better = best is None or (result.mean_score > best[1] and not hurried)
        is_best = math.isfinite(result.mean_score) and is_better
        if is_best:
            mark_best_checkpoint(self.folder.checkpoints, path, result.mean_score)
        self.listener.add_evaluation(self._evaluated, result, is_best)
        return True

    def save(self, with_state: bool = True, timed: bool = False) -> Path:
        """Save a checkpoint now; never one with weights or a replay that are not finite. One that only the clock
        asks for (`timed`) changes nothing of the training, and replaces earlier ones of its kind."""
        begun, self.interrupt.saving = time.monotonic(), True
        try:
            with self.parts.phases("checkpoint", host=True), self.clock.count_as("checkpoints"):
                path = self._write_checkpoint(with_state, timed)
                self._drop_timed(path, timed)
        finally:
            self.interrupt.saving = False
        self.agreement.note_saved()
        if with_state:
            self.agreement.save_clock.restart(time.monotonic() - begun)
        self.listener.add_checkpoint(path, with_state)
        return path

    def _write_checkpoint(self, with_state: bool, timed: bool) -> Path:
        learner = self.parts.learner
        weights = learner.weights()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
            learner.watch.check_replay()
            raise DivergedError(f"The weights after gradient step {learner.updates} are not finite")
        if with_state:
            learner.watch.check_replay()
        if with_state and align_learners(self.parts):
            self.progress.note("The ranks' weights differed by rounding: all go on with those of rank 0")
        state, counters = gather_state(self.parts) if with_state else None, self._counters(timed)
        if not self.ranks.leads:
            return self.folder.checkpoints / f"{counters['transitions']:012d}"
        self.reporter.flush()
        return self.folder.save_checkpoint(weights, state, counters)

    def _drop_timed(self, path: Path, timed: bool) -> None:
        """The clock's own checkpoints stay only as long as their state does: a long run would gather thousands."""
        if not self.ranks.leads:
            return
        self._timed = [one for one in self._timed if one != path] + [path] * timed
        while len(self._timed) > checkpoint.KEEP_STATES:
            with suppress(OSError):  # what is left is removed when the run is resumed
                checkpoint.remove_checkpoint(self._timed.pop(0))

    def _counters(self, timed: bool) -> dict[str, Any]:
        counts = self.parts.counts
        # where the host decides, it would change when the schedules see the newest totals, on CUDA
        if not timed or self.engine.decides_on_device:
            self.engine.settle()
        transitions, episodes = counts.read_newest()
        return {
            "transitions": transitions,
            "episodes": episodes,
            "updates": self.parts.learner.updates,
            "reported_step": self.reporter.step,
            "reported_updates": self.reporter.updates,
            "seconds": self.seconds,
            "time": self.clock.read(),
            "evaluations": self.evaluator.share.to_json(),
            **({"ranks": self.ranks.world} if self.ranks.many else {}),
            **({"timed": True} if timed else {}),
            **({"owes_evaluation": True} if self._owes_evaluation else {}),
        }
