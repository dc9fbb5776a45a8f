"""A sweep on a Ray cluster: Ray Tune runs the trials, and the same search decides about them.

Tune asks a searcher for the next trial and a scheduler whether to go on with one. Both pass the question on to what
a local sweep uses too, so that the journal, --resume, pruning, the display and the report are the same.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashdqn.cluster.ray_link import import_ray
from flashdqn.core.errors import FlashDQNError
from flashdqn.core.text import clean_line
from flashdqn.sweep.pool import TrialMessage, TrialTask
from flashdqn.sweep.trial_process import train_trial

#: The trial's name in what Tune passes around.
NAME, TASK = "flashdqn_trial", "flashdqn_task"


class TuneLink:
    """Tells Tune what a local trial tells its sweep. Tune ends a trial that it prunes, so nobody asks here."""

    def send(self, event: str, **data: Any) -> None:
        """Report to Tune."""
        from ray import tune

        tune.report({"event": event, **data})

    def ask(self, event: str, **data: Any) -> bool:
        """Report to Tune; it does not answer."""
        self.send(event, **data)
        return False


def run_tune_trial(config: dict[str, Any]) -> None:
    """What a process of Tune runs: one training, on one worker."""
    task = config[TASK]
    if task["working_folder"] not in ("", *sys.path):
        sys.path.append(task["working_folder"])
    link = TuneLink()
    try:
        end = train_trial(link, task["config"])
    except FlashDQNError as error:
        link.send("failed", reason=clean_line(str(error), 500))
        return
    link.send("ended", **end)


class TunePool:
    """Takes the place of local processes: `run` lets Tune work off what the search starts."""

    def __init__(self, jobs: int, working_folder: bool = False) -> None:
        self.jobs = jobs
        self.working_folder = str(Path.cwd()) if working_folder else ""
        self.pending: list[TrialTask] = []
        self.running: dict[str, float] = {}
        self.pruned: set[str] = set()

    def __enter__(self) -> TunePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.running.clear()

    @property
    def is_full(self) -> bool:
        """Whether Tune has not taken the last task yet."""
        return bool(self.pending)

    @property
    def is_idle(self) -> bool:
        """Whether no trial runs."""
        return not self.running and not self.pending

    def start(self, task: TrialTask) -> None:
        """Have Tune start it as soon as there is room."""
        self.pending.append(task)

    def answer(self, name: str, prune: bool) -> None:
        """Note what the search says about an evaluation."""
        if prune:
            self.pruned.add(name)

    def find_late(self, patience: float) -> list[str]:
        """Tune looks after its processes itself."""
        return []

    def end_trial(self, name: str) -> None:
        """Forget a trial: Tune ends it at its next word."""
        self.running.pop(name, None)

    def stop_all(self) -> None:
        """Nothing: Tune has ended them."""
        self.running.clear()

    def run(
        self,
        propose: Callable[[], None],
        handle: Callable[[TrialMessage], None],
        watch: Callable[[], bool],
    ) -> None:
        """Let Tune run what `propose` starts, until it starts nothing more or `watch` is true."""
        import_ray()
        from ray import tune

        driver = tune.with_resources(run_tune_trial, {"CPU": 1})
        with tempfile.TemporaryDirectory(prefix="flashdqn-tune-") as storage:
            config = tune.TuneConfig(
                search_alg=make_searcher(self, propose, handle),
                scheduler=make_scheduler(self, handle),
                num_samples=-1,
                max_concurrent_trials=self.jobs,
            )
            run_config = tune.RunConfig(storage_path=storage, verbose=0, stop=make_stopper(self, watch))
            tune.Tuner(driver, tune_config=config, run_config=run_config).fit()


class LivesHere:
    """Tune keeps copies of its parts on disk, to be restored. These talk to the search in this process, and a
    resumed sweep makes new ones from the journal: what is kept is nothing."""

    def __reduce__(self) -> Any:
        return (type(None), ())


def make_searcher(pool: TunePool, propose: Callable[[], None], handle: Callable[[TrialMessage], None]) -> Any:
    """Tune's question for the next trial."""
    from ray.tune.search import Searcher

    class StudySearcher(LivesHere, Searcher):  # type: ignore[misc]
        """Gives Tune what the search has started."""

        def __init__(self) -> None:
            super().__init__(metric="score", mode="max")
            self.names: dict[str, str] = {}

        def suggest(self, trial_id: str) -> Any:
            if not pool.pending:
                propose()
            if not pool.pending:
                return Searcher.FINISHED
            task = pool.pending.pop(0)
            self.names[trial_id] = task.name
            pool.running[task.name] = time.monotonic()
            plain = {"config": dict(task.config), "working_folder": pool.working_folder}
            return {NAME: task.name, TASK: plain}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            name = self.names.get(trial_id, "")
            if pool.running.pop(name, None) is not None:  # it has not said how it ended
                reason = "its process on the cluster was lost" if error else "it was ended"
                handle(TrialMessage(name, "failed", {"reason": reason}))

        def save(self, checkpoint_path: str) -> None:
            """Nothing: the journal has it all."""

        def restore(self, checkpoint_path: str) -> None:
            """Nothing: a resumed sweep starts from its journal."""

    return StudySearcher()


def make_scheduler(pool: TunePool, handle: Callable[[TrialMessage], None]) -> Any:
    """Tune's question whether to go on with a trial."""
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler

    class StudyScheduler(LivesHere, FIFOScheduler):  # type: ignore[misc]
        """Passes on what trials say; stops those that the search prunes."""

        def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
            name, event = str(trial.config[NAME]), str(result.get("event"))
            if name not in pool.running:
                return str(TrialScheduler.STOP)
            if event != "evaluation":
                del pool.running[name]
                handle(TrialMessage(name, event, result))
                return str(TrialScheduler.CONTINUE)
            handle(TrialMessage(name, event, result))
            if name not in pool.pruned:
                return str(TrialScheduler.CONTINUE)
            del pool.running[name]
            end = {"run": trial.config[TASK]["config"]["out"], "finished": True, "steps": result["step"]}
            figures = {"seconds": result["seconds"], "score": result["score"], "score_error": None}
            handle(TrialMessage(name, "ended", end | figures))
            return str(TrialScheduler.STOP)

    return StudyScheduler()


def make_stopper(pool: TunePool, watch: Callable[[], bool]) -> Any:
    """Tune's question whether to end everything."""
    from ray.tune import Stopper

    class SweepStopper(LivesHere, Stopper):  # type: ignore[misc]
        """Ends the sweep when its time is over or a signal came."""

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return False

        def stop_all(self) -> bool:
            over = watch()
            if over:
                pool.running.clear()  # they have not failed: a resumed sweep tries them again
            return over

    return SweepStopper()
