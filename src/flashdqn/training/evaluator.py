"""The evaluations of a training: they keep to their share of the time, and say so when that changes something."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.compute.seeds import purpose_seed
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv, close_env, number_boards
from flashdqn.core.signals import Interrupt, StopRequestedError
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import Learner
from flashdqn.training.clock import RunClock
from flashdqn.training.eval_share import PATIENCE, EvaluationShare
from flashdqn.training.evaluate import Evaluation, PlayedGames, evaluate, play_games, summarize_games
from flashdqn.training.progress import Progress, watch_work
from flashdqn.training.rank_share import share_games


def join_games(every: list[list[Any]]) -> PlayedGames:
    """The games of several ranks, from lists of their columns."""
    kinds = (torch.float32, torch.float32, torch.float32, torch.bool)
    columns = [[torch.tensor(own[k], dtype=kind) for own in every] for k, kind in enumerate(kinds)]
    return PlayedGames(*(torch.cat(column) for column in columns))


class OutOfTimeError(Exception):
    """An evaluation has used up what it was allowed."""


class Evaluator:
    """Plays the evaluation games of one training. Nothing that it does or skips changes what is learned."""

    def __init__(
        self, config: Config, games: VecEnv, clock: RunClock, progress: Progress, ranks: Ranks = ALONE
    ) -> None:
        """`games` are this rank's share of them."""
        self.ranks = ranks
        self.config, self.games, self.clock, self.progress = config, games, clock, progress
        self.share = EvaluationShare(config.eval.max_share)
        self._said = False  # that evaluations are skipped

    def evaluate(self, learner: Learner, step: int, interrupt: Interrupt, total: float) -> Evaluation | None:
        """Play all games; None if that would take, or has taken, more than its share of `total` seconds."""
        if not self.ranks.share(self.share.may_begin(total)):
            self.share.note_skipped()
            self._say_skipped(step, f"one takes about {self.share.expected:.1f} s")
            return None
        began, allowed = time.perf_counter(), self.share.find_allowance(total)
        watch = watch_work(self.progress, "evaluation", interrupt)

        def stop() -> bool:
            if time.perf_counter() - began > allowed:
                raise OutOfTimeError
            return watch()

        try:
            with self.clock.count_as("evaluation"):
                games = self.config.eval.episodes
                result = self._play(self.games, games, learner, interrupt, stop)
        except OutOfTimeError:
            took = time.perf_counter() - began
            self.share.note_skipped(took)
            self._say_skipped(step, f"it was not over after {took:.1f} s")
            return None
        self.share.note_complete(time.perf_counter() - began)
        return result

    def evaluate_last(self, learner: Learner, interrupt: Interrupt, total: float) -> Evaluation:
        """The evaluation at the end always happens; after a training by time, perhaps with fewer games."""
        began = time.perf_counter()
        plan = self.plan_last("The last evaluation", self.config.eval.episodes, total)
        count, patience = self.ranks.share(plan)
        stop = watch_work(self.progress, "evaluation", interrupt)
        device = learner.device
        whole = count == self.config.eval.episodes
        with self.clock.count_as("evaluation"):
            own = max(1, share_games(count, self.ranks)[1])
            games = self.games if whole else build_evaluation_env(self.config.env, own, device)
            try:
                result = self._play(games, count, learner, interrupt, stop, patience)
            finally:
                if not whole:
                    close_env(games)
        if whole and not result.unfinished:
            self.share.note_complete(time.perf_counter() - began)
        return result

    def _play(
        self,
        games: VecEnv,
        count: int,
        learner: Learner,
        interrupt: Interrupt,
        stop: Callable[[], bool],
        patience: float = math.inf,
    ) -> Evaluation:
        """Play `count` games, each rank its share. All ranks get the result of all of them; what cuts one off cuts
        off all."""
        if not self.ranks.many:
            return evaluate(games, learner.online, learner.head, self._seed, stop=stop, patience=patience)
        first, own = share_games(count, self.ranks)
        seed = self._seed if number_boards(games, first) else self._seed + self.ranks.rank
        rows: list[Any] = []
        ended = ""
        try:
            if own:
                played = play_games(games, learner.online, learner.head, seed, stop=stop, patience=patience)
                rows = [column.tolist() for column in played]
        except StopRequestedError:
            ended = "stopped"
        except OutOfTimeError:
            ended = "late"
        told = self.ranks.gather([ended, interrupt.signal, rows])
        if any(said[0] == "stopped" for said in told):
            interrupt.adopt(next(said[1] for said in told if said[1] is not None))
            raise StopRequestedError
        if any(said[0] == "late" for said in told):
            raise OutOfTimeError
        return summarize_games(join_games([said[2] for said in told if said[2]]), games.outcome_names)

    def plan_last(self, what: str, games: int, total: float) -> tuple[int, float]:
        """How many of these games to play at the end, and after how many seconds to cut off those that go on. Only
        a training by time has such limits: the result of any other does not depend on the machine's speed."""
        if self.config.max_time is None or not self.share.is_limited:
            return games, math.inf
        count = self.share.plan_games(games, self.config.eval.episodes, total)
        if count < games:
            expected = self.share.expected * games / self.config.eval.episodes
            self.progress.note(
                f"{what} plays {count} of {games} games: all would take about {expected:.1f} s "
                f"(--eval.max-share {self.share.share:g})"
            )
        return count, PATIENCE * self.share.find_last_allowance(total)

    @property
    def _seed(self) -> int:
        return purpose_seed(self.config.seed, "evaluation")

    def _say_skipped(self, step: int, why: str) -> None:
        """Say it once: the summary counts them."""
        if not self._said:
            self._said = True
            self.progress.note(
                f"The evaluation at {step:,} steps is skipped: {why}, and all together may take "
                f"{100 * self.share.share:.3g} % of the training time (--eval.max-share). The summary counts the "
                "skipped ones"
            )
