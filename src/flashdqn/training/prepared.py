"""A training that is ready: its settings checked, its parts created and warm, before its first step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import torch

from flashdqn.compute.compilation import expect_kernels, get_log, report_stage
from flashdqn.compute.compile_ahead import Job, KernelJob, compile_ahead
from flashdqn.compute.core_count import cores
from flashdqn.compute.device import choose_device
from flashdqn.compute.graphs import load_torch_compiler
from flashdqn.compute.kernels import skip_kernels
from flashdqn.compute.precision import allow_tf32
from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.compute.threads import limit_threads, threads_for_flops
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.signals import Interrupt
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.networks.flops import count_flops
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import Choice, Note, prepare_engine
from flashdqn.training.backends.cpu.policy import plan_policy_kernel
from flashdqn.training.backends.cpu.update import plan_update_kernel
from flashdqn.training.callbacks import Callbacks
from flashdqn.training.clock import RunClock
from flashdqn.training.compile_budget import guess_kernels, may_use_torch_compiler
from flashdqn.training.compile_games import plan_games
from flashdqn.training.demonstrate import check_expert_source
from flashdqn.training.ending import (
    Pages,
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
from flashdqn.training.rank_share import (
    share_config,
)
from flashdqn.training.rehearse import note_done, plan_rehearsals
from flashdqn.training.sinks import check_installed
from flashdqn.training.summary import SessionEnd, run_and_summarize
from flashdqn.training.warm_times import WarmUp


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
        cls,
        whole: Config,
        note: Note,
        limits: AbstractContextManager[None] | None = None,
        ranks: Ranks = ALONE,
    ) -> Iterator[Session]:
        """Check the settings, create the parts and warm them up; threads and precision apply while it is open.

        `limits` sets threads that were chosen before. The environments stay open: the caller closes them. With
        several ranks, the parts are this rank's share of the `whole` training.
        """
        report_stage("checking the settings")
        config, start = share_config(whole, ranks), time.perf_counter()
        device = ranks.device or choose_device(config.device)
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
            env = build_env(config.env, config.envs, device)
            report_stage("allocating")
            try:
                if said := describe_replay_memory(config, env):
                    note(said)
                parts = assemble_parts(config, env, ranks)
                engine, choice = prepare_engine(config, parts, note)
                if device.type == "cuda" and choice.plan.way == "compile":
                    note_done(config)
            except BaseException:
                close_env(env)
                raise
            seconds = time.perf_counter() - start
            yield cls(apply_choice(whole, choice), parts, engine, choice, seconds)

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
            games = build_evaluation_env(self.config.env, self.parts.config.eval.episodes, device)
        return Loop(self.config, self.parts, folder, progress, games, self.engine, clock)

    def train(self, loop: Loop, pages: Pages, interrupt: Interrupt, callbacks: Callbacks) -> SessionEnd:
        """Run its loop to the end, and summarize it."""
        warm_up = WarmUp.took(self.config, self.warm_up_seconds, self.choice)
        return run_and_summarize(loop, warm_up, pages, interrupt, callbacks)


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
