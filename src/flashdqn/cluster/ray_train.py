"""`flashdqn train --launcher ray`: Ray Train's workers are the ranks of a training, on one machine or on many."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashdqn.cluster.mailbox import Mailbox, show_word
from flashdqn.cluster.ray_link import connect_ray
from flashdqn.cluster.ray_worker import END, FAILURE, train_on_worker
from flashdqn.compute.core_count import cores
from flashdqn.config import Config
from flashdqn.config.rank_share import check_share
from flashdqn.config.settings import to_dict
from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.core.ranges import describe_value
from flashdqn.core.signals import Interrupt, name_signal
from flashdqn.core.text import clean_line
from flashdqn.training.progress import Progress

if TYPE_CHECKING:
    from flashdqn.training.summary import SessionEnd

#: Seconds between two looks into the mailbox.
TICK = 0.2
#: Seconds that a training has to save and end after it was asked to.
STOP_SECONDS = 120.0


class ClusterFailureError(FlashDQNError):
    """A training on a cluster failed, more often than it may be tried again."""

    exit_code = 1


@dataclass(frozen=True)
class RayOptions:
    """Where and how Ray trains."""

    workers: tuple[int, int]  # the least and the most
    address: str = ""
    retries: int = 3
    storage: str = ""  # a folder or an address that all machines reach; empty: beside the runs


def parse_workers(text: str) -> tuple[int, int]:
    """`8`, or `2:8` for as many as there are, from 2 to 8."""
    found = re.fullmatch(r"(\d{1,5})(?::(\d{1,5}))?", text)
    least = int(found[1]) if found else 0
    most = int(found[2] or found[1]) if found else 0
    if not 1 <= least <= most:
        raise ConfigError(
            f"--workers is a number, 8, or a range, 2:8, and {describe_value(text)} is neither."
        )
    return least, most


def check_workers(config: Config, workers: tuple[int, int]) -> None:
    """Refuse numbers of workers that cannot share the boards and the batch. Of a range, Ray may take any number."""
    least, most = workers
    for count in range(least, most + 1):
        try:
            check_share(config, count)
        except ConfigError as error:
            if least == most:
                raise
            raise ConfigError(f"Ray may take any number of --workers {least}:{most}. {error}") from None


def train_on_ray(
    config: Config, resume: Path | None, progress: Progress, options: RayOptions, working_folder: bool
) -> SessionEnd:
    """Train on a cluster, show how it goes, and return how it ended."""
    out = str(Path(config.out).absolute())
    job = {
        "config": json.loads(json.dumps(to_dict(config))) | {"out": out},
        "resume": "" if resume is None else str(resume.absolute()),
        "working_folder": str(Path.cwd()) if working_folder else "",
    }
    with (
        Interrupt(waits=True) as interrupt,
        connect_ray(options.address, max(cores(), options.workers[1])) as ray,
    ):
        mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=stay_here(ray)).remote()
        trainer = make_trainer(ray, config, job | {"mailbox": mailbox}, options)
        warn_of_waiting(ray, options, progress)
        watched = FitThread(trainer)
        words = watch_training(ray, mailbox, watched, progress, interrupt)
    return make_end(config, words, watched, interrupt)


def stay_here(ray: Any) -> Any:
    """An actor on the command's own machine: it is not lost with another one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def make_trainer(ray: Any, config: Config, job: dict[str, Any], options: RayOptions) -> Any:
    """Ray's trainer: its workers, its storage, and how often it tries again."""
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    least, most = options.workers
    gpus = config.device != "cpu" and bool(ray.cluster_resources().get("GPU"))
    if config.device == "cuda" and not gpus:
        raise ConfigError("--device cuda needs a cluster with GPUs, and this one has none.")
    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '-', config.preset)}-{time.strftime('%Y%m%d-%H%M%S')}"
    storage = options.storage or str(Path(config.out).absolute() / "ray")
    return TorchTrainer(
        train_on_worker,
        train_loop_config=job,
        torch_config=TorchConfig(backend=None if gpus else "gloo"),
        scaling_config=ScalingConfig(num_workers=least if least == most else (least, most), use_gpu=gpus),
        run_config=RunConfig(
            name=name,
            storage_path=storage,
            failure_config=FailureConfig(max_failures=options.retries),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )


def warn_of_waiting(ray: Any, options: RayOptions, progress: Progress) -> None:
    """Say so where the cluster is too small: Ray waits until it has grown."""
    there = int(ray.cluster_resources().get("CPU", 0))
    if there < options.workers[0]:
        progress.note(
            f"The cluster has {there} CPUs, and {options.workers[0]} workers need one each: waiting for more."
        )


class FitThread:
    """Ray's `fit`, which blocks, in a thread."""

    def __init__(self, trainer: Any) -> None:
        self.problem: BaseException | None = None
        self._trainer = trainer
        self._thread = threading.Thread(target=self._fit, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still trains."""
        return self._thread.is_alive()

    def _fit(self) -> None:
        try:
            self._trainer.fit()
        except BaseException as error:
            self.problem = error


def watch_training(
    ray: Any, mailbox: Any, fit: FitThread, progress: Progress, interrupt: Interrupt
) -> dict[str, tuple[Any, ...]]:
    """Show what the training posts until it has ended; returns its last words."""
    last: dict[str, tuple[Any, ...]] = {}
    until = float("inf")
    alive = True
    while alive and time.monotonic() < until:
        alive = fit.is_alive  # before the mailbox is emptied for the last time
        if interrupt.requested and until == float("inf"):
            ray.get(mailbox.ask_to_stop.remote())
            until = time.monotonic() + STOP_SECONDS
        for name, parts in ray.get(mailbox.take.remote()):
            if name in (END, FAILURE):
                last[name] = parts
            else:
                show_word(progress, name, parts)
        time.sleep(TICK if alive else 0)
    return last


def make_end(
    config: Config, words: dict[str, tuple[Any, ...]], fit: FitThread, interrupt: Interrupt
) -> SessionEnd:
    """How the training ended, or the error that ended it."""
    from flashdqn.training.summary import SessionEnd

    if END in words and fit.problem is None:
        path, finished, summary = words[END]
        if interrupt.signal is not None and str(summary.get("stopped", "")).startswith("callback"):
            finished, summary = False, summary | {"finished": False, "stopped": name_signal(interrupt.signal)}
        return SessionEnd(Path(path), config, bool(finished), summary)
    interrupt.stop_if_requested()
    if FAILURE in words:
        text, code = words[FAILURE]
        failure = ClusterFailureError(text)
        failure.exit_code = int(code)
        raise failure
    lines = str(fit.problem or "it ended without a word").strip().splitlines()
    raise ClusterFailureError(f"The training on Ray failed: {clean_line(lines[-1] if lines else '', 300)}")
