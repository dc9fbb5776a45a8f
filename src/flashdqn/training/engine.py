"""The engine: collection and updates as a plan runs them. The loop calls `collect()` and `learn(count)`.

Every mode draws the same random numbers in the same order, so that all of them learn the same but for rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from flashdqn.compute.graphs import ExecutionPlan, Recorder, Way, compiled, compiler_missing
from flashdqn.compute.threads import make_team
from flashdqn.config import Config
from flashdqn.core.contract import is_capturable
from flashdqn.core.errors import ExecutionError
from flashdqn.core.types import Batch
from flashdqn.learn.adam import Adam
from flashdqn.learn.learner import Learner
from flashdqn.learn.pqn import RolloutSampler
from flashdqn.learn.user_variants import UserSampler
from flashdqn.replay import MixedSampler, PrioritizedSampler, UniformSampler, replay_sampler
from flashdqn.replay.samplers import split_batch
from flashdqn.replay.samplers_cpu import NativePick
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.cpu.policy import NativePolicy
from flashdqn.training.backends.cpu.record import NativeRecord
from flashdqn.training.backends.cpu.update import NativeUpdates
from flashdqn.training.backends.cuda.update import FusedPolicy, FusedUpdate, fused_available

F = TypeVar("F", bound=Callable[..., Any])

#: Batches gathered at once: enough to spread the cost, few enough to stay in the cache.
GROUP = 16


class Engine:
    """Runs the parts of a training in one of the modes."""

    def __init__(self, config: Config, parts: Parts) -> None:
        self.config, self.parts = config, parts
        self.largest = largest_group(config, parts)
        self.plan = ExecutionPlan("eager")
        self._graphs: dict[int, Callable[[], None]] = {}  # of so many updates at once
        self._collect: Callable[[], None] | None = None  # a graph, where the environment can be in one
        self._group: Callable[[int, int], None] | None = (
            None  # does so many updates of such a size in one call
        )
        self._kept: dict[tuple[Callable[..., Any], int], Callable[..., Any]] = {}  # what was compiled

    def use(self, plan: ExecutionPlan) -> None:
        """Run as this plan says from now on, but for graphs, which `capture` adds.

        Raises ExecutionError where the plan does not apply.
        """
        self._graphs.clear()
        self._collect = None
        self._bind(plan)
        self.plan = plan

    def collect(self) -> None:
        """One step of every environment."""
        if self._collect is None:
            self.parts.collector.collect()
        else:
            with self.parts.phases("collect"):
                self._collect()
        self.parts.sampler.rows_added()

    def learn(self, due: int) -> None:
        """So many gradient steps, in groups."""
        learner, sampler = self.parts.learner, self.parts.sampler
        while due > 0:
            count = group_size(min(due, self.largest, learner.until_copy))
            sampler.drawing(count)
            if count in self._graphs:
                with self.parts.phases("learn"):
                    self._graphs[count]()
            else:
                self._learn(count)
            learner.counted(count)
            due -= count

    def _learn(self, count: int) -> None:
        parts, size = self.parts, self.config.update_size
        if self._group is not None:
            self._group(count, size)
            return
        with parts.phases("sample"):
            batches = parts.sampler.batches(count, size)
        with parts.phases("update"):
            for batch in batches:
                parts.sampler.update(batch.index, parts.learner.step(batch))

    def capture(self, rehearse: Callable[[], None]) -> None:
        """Record the graphs of a graph plan; `rehearse` runs everything for real where it will be captured."""
        parts = self.parts
        recorder = Recorder(parts.learner.device)
        recorder.rehearse(rehearse)
        playing = [g for name, g in parts.generators.items() if name in ("explore", "fractions")]
        outside = ("explore", "replay") if isinstance(parts.sampler, RolloutSampler) else ("explore",)
        learning = [g for name, g in parts.generators.items() if name not in outside]
        parts.phases.inside_graph = True
        try:
            if is_capturable(parts.env) and parts.collector.env is parts.env:  # not one to try out
                self._collect = recorder.capture(parts.collector.collect, playing)
            for count in all_group_sizes(self.largest):
                self._graphs[count] = recorder.capture(functools.partial(self._learn, count), learning)
        finally:
            parts.phases.inside_graph = False

    def _bind(self, plan: ExecutionPlan) -> None:
        """Put compiled or hand-written code in the place of plain calls."""
        parts, device = self.parts, self.parts.learner.device
        collector, learner, sampler = parts.collector, parts.learner, replay_sampler(parts.sampler)
        assert learner.flat.holds(learner.online), "the network was moved after its learner was made"
        if plan.graph and device.type != "cuda":
            raise ExecutionError("CUDA graphs need --device cuda")
        collector.act, collector.record = collector.act_eagerly, collector.record_eagerly
        learner.compute_by(learner.step_eagerly)
        self._group = None
        if isinstance(sampler, UniformSampler):
            sampler.pick = sampler.pick_eagerly
        if device.type == "cpu" and plan.way != "compile":
            collector.record = NativeRecord(collector)
            if isinstance(sampler, UniformSampler):
                sampler.pick = NativePick(sampler)
        if plan.way == "eager":
            return
        if reason := explain_missing_way(self.config, parts, plan.way):
            raise ExecutionError(reason)
        if (device.type == "cuda" or plan.way == "compile") and compiler_missing(device) is None:
            self._compile_around()
        if plan.way == "compile":
            learner.compute_by(self._compiled())
        elif device.type == "cuda":
            learner.compute_by(self._fused())
        else:
            self._write()

    def _compile_around(self) -> None:
        """Compile what surrounds the update: acting, taking in, picking samples."""
        collector, sampler = self.parts.collector, replay_sampler(self.parts.sampler)
        if self.parts.learner.head.fractions is None:
            collector.act = self._compile(collector.act_eagerly)
        collector.record = self._compile(collector.record_eagerly)
        if isinstance(sampler, UniformSampler):
            sampler.pick = self._compile(sampler.pick_eagerly)

    @property
    def collects_compiled(self) -> bool:
        """Whether PyTorch compiles what takes in a step: it does so at the first call."""
        return self.parts.collector.record in self._kept.values()

    def _compile(self, function: F) -> F:
        """Compiled once, also if a trial comes back to it; anew for another number of threads, which is part of
        the code."""
        key = function, torch.get_num_threads()
        if key not in self._kept:
            self._kept[key] = compiled(function)
        return cast(F, self._kept[key])

    def _compiled(self) -> Callable[[Batch], Tensor]:
        learner = self.parts.learner
        whole = self._compile(learner.step_whole)
        if learner.device.type == "cuda":
            return whole

        def step(batch: Batch) -> Tensor:
            priority = whole(batch)
            learner.look_back(batch)
            return priority

        return step

    def _fused(self) -> Callable[[Batch], Tensor]:
        """Triton's kernels, for acting too."""
        policy = FusedPolicy(self.parts.learner.online, self.config.envs)  # type: ignore[arg-type]
        self.parts.collector.act = lambda obs, mask, eps, luck: policy(obs, mask, eps, *luck)
        return make_fused_update(self.parts.learner, self.config)

    def _write(self) -> None:
        """Loops compiled for the CPU, for acting too."""
        learner, sampler, asked = self.parts.learner, self.parts.sampler, self.config.runtime.threads
        adam = learner.adam
        assert isinstance(sampler, UniformSampler | PrioritizedSampler)
        assert isinstance(adam, Adam)
        self.parts.collector.act = NativePolicy(learner.online, self.config.envs, make_team(asked))
        written = NativeUpdates(
            learner.online, learner.target, learner.head, learner.bootstrap, adam,
            learner.target_flat.values, learner.tau, make_team(asked),
        )  # fmt: skip

        def by_gradient(batch: Batch) -> Tensor:
            result = written.gradient(batch)
            learner.watch.look(result.loss, batch, learner.adam.steps)
            return learner.apply(result)

        def steps(batch: Batch, count: int) -> Tensor:
            priority, done, loss = written.steps(batch, count, learner.sums)
            if done < count:
                bad = split_batch(batch, count, len(batch.index) // count)[done]
                learner.watch.look(torch.tensor(loss), bad, learner.adam.steps)
            return priority

        # A group is learned from before the next is drawn, so its memory can serve again.
        pick = sampler.pick if isinstance(sampler, UniformSampler) else None
        draw = (
            (lambda count, size: pick.again(count * size)) if isinstance(pick, NativePick) else sampler.group
        )

        def group(count: int, size: int) -> None:
            with self.parts.phases("sample"):
                batch = draw(count, size)
            with self.parts.phases("update"):
                priority = steps(batch, count)
                if isinstance(sampler, PrioritizedSampler):
                    pairs = zip(torch.split(batch.index, size), torch.split(priority, size), strict=True)
                    for index, errors in pairs:
                        sampler.update(index, errors)

        if not adam.fused:  # RAdam, which the compiled loops do not know
            learner.compute_by(by_gradient)
        else:
            learner.compute_by(lambda batch: steps(batch, 1))
            self._group = group


def make_fused_update(learner: Learner, config: Config) -> Callable[[Batch], Tensor]:
    """The whole gradient step in a few kernels, on the learner's own tensors."""
    adam = learner.adam
    assert isinstance(adam, Adam)
    dense = learner.flat.without_tail  # there is no other padding, for all widths are multiples of 16
    return FusedUpdate(
        learner.online,  # type: ignore[arg-type]
        learner.target,  # type: ignore[arg-type]
        flat=dense(learner.flat.values),
        target_flat=dense(learner.target_flat.values),
        exp_avg=dense(adam.first),
        exp_avg_sq=dense(adam.second),
        step=adam.steps,
        lr=learner.lr,
        sums=learner.sums,
        first_bad=learner.watch.first_bad,
        head=learner.head,  # type: ignore[arg-type]
        bootstrap=learner.bootstrap,
        config=config.learn,
        batch_size=config.update_size,
    )


def explain_missing_way(config: Config, parts: Parts, way: Way) -> str | None:
    """Why gradient steps cannot be computed this way; None where they can."""
    learner = parts.learner
    if way == "compile":
        if learner.head.fractions is not None:
            return (
                "implicit quantiles draw their fractions inside the network, where the compiler cannot follow"
            )
        missing = compiler_missing(learner.device)
        return f"{missing}, which torch.compile needs" if missing else None
    if way == "written":
        if isinstance(parts.sampler, MixedSampler):
            return "the hand-written update knows no demonstrations that are kept"
        if isinstance(parts.sampler, UserSampler) or not isinstance(learner.adam, Adam):
            return "the hand-written update knows no sampler and no optimizer of your own"
        if learner.precision != "fp32":
            return "the hand-written update computes in fp32 alone"
        if learner.device.type == "cuda":
            if not FusedUpdate.fits(
                learner.online, learner.head, learner.bootstrap, config.learn, config.update_size
            ):
                return (
                    "the hand-written kernels are for MLPs of two layers with a scalar head, greedy or double"
                )
            return None if fused_available() else "there is no Triton, or the GPU is too old for it"
        if not NativeUpdates.fits(learner.online, learner.head, learner.bootstrap):
            return "the hand-written update is for plain MLPs with a scalar head, greedy or double"
    return None


def group_size(due: int) -> int:
    """Updates to do at once: a power of two, so that few graphs serve every number."""
    return 1 << (due.bit_length() - 1)


def all_group_sizes(largest: int) -> list[int]:
    """All sizes of groups, the largest first."""
    return [1 << k for k in reversed(range(largest.bit_length()))]


def largest_group(config: Config, parts: Parts) -> int:
    """What an iteration earns, as a power of two, but no more than `GROUP`, or than lie between two hard copies."""
    sampler = parts.sampler
    usual = min(math.ceil(config.train_ratio * config.envs), config.learn.target_every or GROUP)
    if isinstance(sampler, RolloutSampler):
        usual = sampler.updates
    return group_size(max(1, min(usual, GROUP)))


def first_error_line(error: BaseException) -> str:
    """What went wrong, in one line."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    if lines[0].endswith("raised:") and len(lines) > 1:  # PyTorch names the backend first
        return lines[1].strip()
    return lines[0].rstrip(".")
