"""A worker of Ray Train: a rank of the training, which reports metrics and checkpoints to Ray."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashdqn.cluster.mailbox import PostedProgress
from flashdqn.cluster.snapshot import find_newest, restore_snapshot, take_snapshot
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import FlashDQNError, RankLostError, ToldByLeaderError

if TYPE_CHECKING:
    from flashdqn.compute.ranks import Ranks
    from flashdqn.training.callbacks import CheckpointEvent, EvaluationEvent, ReportEvent
    from flashdqn.training.summary import SessionEnd

#: The words that end a training: how it ended, or why it failed.
END, FAILURE = "the end", "failure"


def train_on_worker(job: dict[str, Any]) -> None:
    """What Ray Train runs on every worker. A mistake in the settings is told and not raised: to try again would not
    help. A lost worker is raised, and Ray goes on from the last checkpoint."""
    if job["working_folder"] not in ("", *sys.path):
        sys.path.append(job["working_folder"])
    ranks = join_ranks(job["config"]["device"])
    post = PostedProgress(job["mailbox"])
    try:
        end = train_rank(job, ranks, post)
    except RankLostError:
        raise
    except ToldByLeaderError:
        return
    except FlashDQNError as error:
        if ranks.leads:
            post.post(FAILURE, str(error), error.exit_code)
        return
    if ranks.leads:
        post.post(END, str(end.path), end.finished, end.summary)


def join_ranks(device: str) -> Ranks:
    """This worker among the others, in the group that Ray has made."""
    import torch
    from ray.train.torch import get_device

    from flashdqn.compute.core_count import share_cores
    from flashdqn.compute.ranks import adopt_ranks

    given = torch.device("cpu") if device == "cpu" else get_device()
    ranks = adopt_ranks(given)
    share_cores(ranks.local_world)
    return ranks


def train_rank(job: dict[str, Any], ranks: Ranks, post: PostedProgress) -> SessionEnd:
    """Start the training, or go on with it; the first worker reports, and the others keep in step."""
    from flashdqn.training.callbacks import NO_CALLBACKS, Callbacks
    from flashdqn.training.clock import RunClock
    from flashdqn.training.ending import NO_PAGES
    from flashdqn.training.progress import Silent
    from flashdqn.training.session import resume_run, start_run

    config, resume = apply_settings(Config(), job["config"]), find_resumed_run(job, ranks, post)
    reports = RayReports(post)
    callbacks, progress, follower = NO_CALLBACKS, Silent(), None
    if ranks.leads:
        callbacks = Callbacks(reports.on_report, reports.on_evaluation, reports.on_checkpoint)
    else:
        follower = ReportFollower()
    shown: Any = post if ranks.leads else progress
    pages = make_pages(config) if ranks.leads else NO_PAGES
    if resume is None:
        end = start_run(config, shown, pages, callbacks, RunClock(), ranks)
    else:
        end = resume_run(config, resume, shown, pages, callbacks, RunClock(), ranks)
    reports.settle()
    count = ranks.share(reports.count)
    if follower is None:
        reports.send_last(end)
    else:
        follower.finish(count + 1)
    return end


def make_pages(config: Config) -> Any:
    """The pages of a finished run."""
    from flashdqn.show.report import make_run_pages

    return make_run_pages(config)


def find_resumed_run(job: dict[str, Any], ranks: Ranks, post: PostedProgress) -> Path | None:
    """The run to go on with: after a failure, that of Ray's last checkpoint, or the one that was trained here; else
    the one that the user named. The first worker decides."""
    found = find_own_run(job, post) if ranks.leads else None
    shared = ranks.share("" if found is None else str(found))
    return Path(shared) if shared else None


def find_own_run(job: dict[str, Any], post: PostedProgress) -> Path | None:
    """The same for the first worker, which reads it."""
    import ray.train

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as snapshot:
            return restore_snapshot(Path(snapshot), Path(job["config"]["out"]))
    before = post.recall_run()  # it was lost before Ray had taken its first checkpoint
    if before and find_newest(Path(before)) >= 0:
        return Path(before)
    return Path(job["resume"]) if job["resume"] else None


class RayReports:
    """The first worker's callbacks: metrics and checkpoints through `ray.train.report`.

    A report waits until Ray has taken it, which it does every few seconds. So a thread makes the reports, and the
    training goes on: of metrics and checkpoints that come meanwhile, the newest are reported next.
    """

    def __init__(self, post: PostedProgress) -> None:
        self._post = post
        self._metrics: dict[str, Any] = {}
        self._snapshot: tempfile.TemporaryDirectory[str] | None = None  # that is not reported yet
        self._condition = threading.Condition()
        self._waiting, self._ending = False, False
        self._thread: threading.Thread | None = None
        self.count = 0

    def on_report(self, event: ReportEvent) -> bool:
        """A window of training is over; True if somebody has asked to stop."""
        figures = ("step", "episodes", "seconds", "score", "loss", "steps_per_second")
        self._add({name: float(getattr(event, name)) for name in figures})
        return self._post.stopping

    def on_evaluation(self, event: EvaluationEvent) -> None:
        """An evaluation is over."""
        self._add({"evaluation_score": event.score, "evaluation_step": event.step})

    def on_checkpoint(self, event: CheckpointEvent) -> None:
        """A checkpoint that can be resumed is given to Ray, which keeps it where its storage is."""
        if event.resumable:
            self._post.remember_run(str(event.run.absolute()))
            folder = tempfile.TemporaryDirectory(prefix="flashdqn-ray-", ignore_cleanup_errors=True)
            take_snapshot(event.run.absolute(), event.path.absolute(), Path(folder.name) / "run")
            self._add({"step": float(event.step)}, folder)

    def settle(self) -> None:
        """Wait until everything is reported; the thread ends."""
        with self._condition:
            self._ending = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def send_last(self, end: SessionEnd) -> None:
        """The report that all workers end with."""
        self._report(
            self._metrics | {"finished": end.finished, "final_score": end.score, "run": str(end.path)}
        )

    def _add(self, metrics: dict[str, Any], snapshot: tempfile.TemporaryDirectory[str] | None = None) -> None:
        with self._condition:
            self._metrics, self._waiting = self._metrics | metrics, True
            self._snapshot = snapshot or self._snapshot
            self._condition.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ray reports", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                self._waiting = False
                metrics, snapshot, self._snapshot = dict(self._metrics), self._snapshot, None
            self._report(metrics, snapshot)

    def _report(
        self, metrics: dict[str, Any], snapshot: tempfile.TemporaryDirectory[str] | None = None
    ) -> None:
        import ray.train

        self.count += 1
        if snapshot is None:
            ray.train.report(metrics)
            return
        with snapshot as folder:
            ray.train.report(
                metrics, checkpoint=ray.train.Checkpoint.from_directory(str(Path(folder) / "run"))
            )


class ReportFollower:
    """Every worker must report as often as the first one, which alone knows when. So a thread of the others is
    always in a report, which ends when the first worker makes one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._done, self._wanted = 0, float("inf")
        self._thread = threading.Thread(target=self._follow, name="ray reports", daemon=True)
        self._thread.start()

    def finish(self, count: int) -> None:
        """Wait until there have been so many reports: the first worker has made the last one."""
        with self._condition:
            self._wanted = count
        self._thread.join()

    def _follow(self) -> None:
        import ray.train

        while True:
            with self._condition:
                if self._done >= self._wanted:
                    return
            ray.train.report({})
            with self._condition:
                self._done += 1
