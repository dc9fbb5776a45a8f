"""A training session: check, create the parts, warm up, run the loop (see summary.py)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from flashdqn.compute.compilation import expect_kernels, get_log, report_stage
from flashdqn.compute.compile_ahead import Job, KernelJob, compile_ahead
from flashdqn.compute.core_count import cores
from flashdqn.compute.device import choose_device, describe_hardware
from flashdqn.compute.graphs import load_torch_compiler
from flashdqn.compute.kernels import skip_kernels
from flashdqn.compute.precision import allow_tf32
from flashdqn.compute.threads import limit_threads, threads_for_flops
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.errors import ConfigError, DivergedError
from flashdqn.core.files import remove_anything
from flashdqn.core.guard import end_stuck_process
from flashdqn.core.signals import (
    Interrupt,
    Stopped,
)
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.networks.flops import count_flops
from flashdqn.runs import checkpoint
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.output import check_output_folder
from flashdqn.runs.records import SUMMARY_FILE
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import Choice, Note, prepare_engine
from flashdqn.training.backends.cpu.policy import plan_policy_kernel
from flashdqn.training.backends.cpu.update import plan_update_kernel
from flashdqn.training.budget import Budget
from flashdqn.training.callbacks import NO_CALLBACKS, Callbacks
from flashdqn.training.clock import RunClock
from flashdqn.training.compile_budget import guess_kernels, may_use_torch_compiler
from flashdqn.training.compile_games import plan_games
from flashdqn.training.counts import Counts
from flashdqn.training.demonstrate import check_expert_source
from flashdqn.training.ending import (
    NO_PAGES,
    Pages,
    close_loop,
    format_resume_command,
)
from flashdqn.training.engine import Engine
from flashdqn.training.loop import Loop
from flashdqn.training.memory import (
    check_memory_fits,
    check_training_fits,
    describe_replay_memory,
    measure_kept_bytes,
)
from flashdqn.training.progress import Progress
from flashdqn.training.rehearse import note_done, plan_rehearsals
from flashdqn.training.sinks import check_installed
from flashdqn.training.summary import SessionEnd, run_and_summarize
from flashdqn.training.warm_times import WarmUp
from flashdqn.training.workers.games import build_games


@dataclass(frozen=True)
class Session:
    """A training that is ready: checked, created and warm, before its first step."""

    config: Config  # including what `auto` chose
    parts: Parts
    engine: Engine
    choice: Choice
    warm_up_seconds: float

    @classmethod
    @contextmanager
    def open(
        cls, config: Config, note: Note, limits: AbstractContextManager[None] | None = None
    ) -> Iterator[Session]:
        """Check the settings, create the parts and warm them up; threads and precision apply while it is open.

        `limits` sets threads that were chosen before. The environments stay open: the caller closes them.
        """
        report_stage("checking the settings")
        start, device = time.perf_counter(), choose_device(config.device)
        expect_kernels(guess_kernels(config, device.type))
        compute, jobs = check_settings(config, device)
        expect_kernels(kernels := guess_kernels(config, device.type, [job.name for job in jobs]))
        wanted: list[Job] = [job for job in jobs if job.name in kernels]
        if device.type == "cuda":
            wanted = [*plan_games(config), *plan_rehearsals(config)]
        with (
            compile_ahead(wanted, cores() - 1),
            limits or use_run_threads(config, compute),
            allow_tf32(device),
        ):
            if device.type == "cuda" and get_log().elsewhere and may_use_torch_compiler(config):
                report_stage("loading PyTorch's compiler")
                load_torch_compiler()
            report_stage("making the environments")
            env = build_games(config, device)
            report_stage("allocating")
            try:
                if said := describe_replay_memory(config, env):
                    note(said)
                parts = assemble_parts(config, env)
                engine, choice = prepare_engine(config, parts, note)
                if device.type == "cuda" and choice.plan.way == "compile":
                    note_done(config)
            except BaseException:
                close_env(env)
                raise
            seconds = time.perf_counter() - start
            yield cls(apply_choice(config, choice), parts, engine, choice, seconds)

    def make_loop(
        self,
        folder: RunFolder,
        progress: Progress,
        games: VecEnv | None = None,
        clock: RunClock | None = None,
    ) -> Loop:
        """The loop that trains it and writes into a folder; `games` are for evaluation."""
        if games is None:
            device = self.parts.learner.device
            games = build_evaluation_env(self.config.env, self.config.eval.episodes, device)
        return Loop(self.config, self.parts, folder, progress, games, self.engine, clock)

    def train(self, loop: Loop, pages: Pages, interrupt: Interrupt, callbacks: Callbacks) -> SessionEnd:
        """Run its loop to the end, and summarize it."""
        warm_up = WarmUp.took(self.config, self.warm_up_seconds, self.choice)
        return run_and_summarize(loop, warm_up, pages, interrupt, callbacks)


def start_run(
    config: Config,
    progress: Progress,
    pages: Pages = NO_PAGES,
    callbacks: Callbacks = NO_CALLBACKS,
    clock: RunClock | None = None,
) -> SessionEnd:
    """Start a new run from its first step; `pages` are drawn of it when it ends. `clock` runs since the command
    began."""
    clock = clock or RunClock()
    if config.steps is None and config.episodes is None and config.max_time is None:
        raise ConfigError("Say when to stop: --steps, --episodes or --max-time.")
    check_output_folder(config.out)
    home = Path.cwd()
    with (
        work_in(home),
        Interrupt() as interrupt,
        explain_early_end(interrupt, "there is nothing to save"),
    ):
        interrupt.stop_if_requested()
        with show_warm_up(progress), Session.open(config, progress.note) as session:
            clock.end_start_up(session.warm_up_seconds)
            interrupt.stop_if_requested()
            interrupt.waits = True  # from here on there is something to save
            hardware = describe_hardware(session.parts.learner.device) | {"mode": session.choice.why}
            with work_in(home):  # where the environments have not led
                folder = RunFolder.create(session.config, hardware)
                folder.make_absolute()
            with folder.locked(), discard_unstarted(folder):
                with end_stuck_process(lambda reason: remove_anything(folder.path)):  # nothing has begun
                    loop = make_closing_loop(session, folder, progress, Loop.start, clock)
                return session.train(loop, pages, interrupt, callbacks)


def resume_run(
    config: Config,
    path: Path,
    progress: Progress,
    pages: Pages = NO_PAGES,
    callbacks: Callbacks = NO_CALLBACKS,
    clock: RunClock | None = None,
) -> SessionEnd:
    """Continue a run; `config` is its own, except for the budget. `clock` runs since the command began."""
    clock = clock or RunClock()
    folder = RunFolder.open(path)
    folder.make_absolute()
    again = format_resume_command(folder, config)
    with (
        work_in(Path.cwd()),
        Interrupt() as interrupt,
        explain_early_end(interrupt, f"the run is as it was; go on with: {again}"),
        folder.locked(),
    ):
        interrupt.stop_if_requested()
        return _resume_locked(config, folder, path, progress, pages, interrupt, callbacks, clock)


def _resume_locked(
    config: Config,
    folder: RunFolder,
    path: Path,
    progress: Progress,
    pages: Pages,
    interrupt: Interrupt,
    callbacks: Callbacks,
    clock: RunClock,
) -> SessionEnd:
    folder.recover()
    point = folder.resume_point(path)
    counters = checkpoint.load_or_suggest_older(point, with_state=True, command="flashdqn train --resume")[2]
    check_budget_left(config, folder, counters)
    check_output_folder(str(folder.path))
    with show_warm_up(progress), Session.open(config, progress.note) as session:
        clock.end_start_up(session.warm_up_seconds)
        interrupt.stop_if_requested()
        interrupt.waits = True
        loop = make_closing_loop(session, folder, progress, lambda loop: loop.resume(point), clock)
        remove_anything(folder.path / SUMMARY_FILE)
        folder.change_budget(config, counters["transitions"])
        return session.train(loop, pages, interrupt, callbacks)


def make_closing_loop(
    session: Session,
    folder: RunFolder,
    progress: Progress,
    begin: Callable[[Loop], None],
    clock: RunClock | None = None,
) -> Loop:
    """The loop, begun; if that fails, its environments are closed."""
    try:
        loop = session.make_loop(folder, progress, clock=clock)
    except BaseException:
        close_env(session.parts.env)
        raise
    try:
        begin(loop)
    except BaseException:
        close_loop(loop)
        raise
    return loop


@contextmanager
def work_in(folder: Path) -> Iterator[None]:
    """Work in a folder, and return to the one before."""
    try:
        before = Path.cwd()
    except OSError:  # somebody, such as an environment, has removed it
        before = folder
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def explain_early_end(interrupt: Interrupt, what: str) -> Iterator[None]:
    """Say what a signal means that comes before there is anything to save."""
    try:
        yield
    except Stopped as error:
        if interrupt.waits:
            raise
        raise Stopped(error.signal, f"Stopped before the first step; {what}.") from None


@contextmanager
def discard_unstarted(folder: RunFolder) -> Iterator[None]:
    """Remove the new folder of a run that ends before its first step: nothing could go on from it."""
    try:
        yield
    except DivergedError:
        raise
    except BaseException:
        empty = not checkpoint.list_checkpoints(folder.checkpoints)
        if empty and not any((folder.path / name).exists() for name in ("metrics.csv", "evaluations.csv")):
            with suppress(OSError):
                remove_anything(folder.path)
        raise


def apply_choice(config: Config, choice: Choice) -> Config:
    """The configuration with what `auto` chose, so a resumed run continues in the same way."""
    return replace(config, runtime=replace(config.runtime, mode=choice.plan.mode, threads=choice.threads))


def check_settings(config: Config, device: torch.device) -> tuple[int, list[KernelJob]]:
    """Find what cannot work before anything is written: the task's own rules, the network, the memory.

    Returns the number of threads for the network, and the kernels that updates and actions will need.
    """
    with skip_kernels():
        probe = build_evaluation_env(config.env, 1, device)
    probe.num_envs = config.envs
    check_memory_fits(config, probe)
    check_training_fits(config, probe)
    learner = build_learner(config, probe, torch.device("cpu"))
    check_training_fits(config, probe, measure_kept_bytes(learner.online, probe.obs_spec))
    check_expert_source(config, probe)
    check_installed(config.log)
    close_env(probe)
    dtype = probe.obs_spec.dtype
    jobs = [
        plan_update_kernel(learner.online, learner.head, learner.bootstrap, dtype, learner.margin),
        plan_policy_kernel(learner.online, dtype, learner.head),
    ]
    threads = 1  # beside a GPU, PyTorch has little to do on the CPU
    if device.type == "cpu":
        threads = threads_for_flops(config.update_size * count_flops(learner.online, probe.obs_spec))
    return threads, [job for job in jobs if job is not None]


def use_run_threads(config: Config, compute: int) -> AbstractContextManager[None]:
    """The configured threads, or those that the rule chooses."""
    asked = config.runtime.threads
    return limit_threads(asked or compute, asked or cores())


def check_budget_left(config: Config, folder: RunFolder, counters: dict[str, Any]) -> None:
    """Refuse to resume a finished run that has nothing left to do, before anything is changed."""
    done = Counts(torch.device("cpu"))
    done.load(counters["transitions"], counters["episodes"])
    if Budget.of(config).share(done, counters["seconds"]) >= 1.0 and folder.finished():
        raise ConfigError(
            f"{folder.shown} has used its budget ({done.transitions:,} steps, {done.episodes:,} episodes, "
            f"{counters['seconds']:.0f} s): give a larger --steps, --episodes or --max-time to go on."
        )


@contextmanager
def show_warm_up(progress: Progress) -> Iterator[None]:
    """Show the warm-up, until the training begins or something goes wrong."""
    progress.prepare()
    try:
        yield
    finally:
        progress.prepared()
