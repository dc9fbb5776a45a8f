"""The engine: collection and updates, run according to a plan. The loop calls `iterate(limits)` or, where the host
decides, `collect()` and `learn(count)`.

A backend does the work. The engine splits it into groups, does the host's part for learner and sampler, and
replays CUDA graphs if the plan has them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from flashdqn.compute.graphs import ExecutionPlan, Recorder
from flashdqn.config import Config
from flashdqn.core.contract import is_capturable
from flashdqn.core.errors import ExecutionError
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.backend import Backend, DecidingBackend
from flashdqn.training.backends.catalog import explain_misfit, find_backend
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.budget import Limits
from flashdqn.training.iterations import SEVERAL, Iterations

#: Batches gathered at once: enough to spread the cost, few enough to stay in the cache.
GROUP = 16


class Engine:
    """Runs the parts of a training with one backend at a time: first the given one, or eager."""

    def __init__(self, config: Config, parts: Parts, backend: Backend | None = None) -> None:
        self.config, self.parts = config, parts
        self.largest = largest_group(config, parts)
        self.compiler = Compiler()
        self.plan = ExecutionPlan("eager")
        self._backend = backend
        self._graphs: dict[int, Callable[[], None]] = {}  # by the number of updates they hold
        self._collect: Callable[[], None] | None = None  # a graph, if it can hold the environment
        self._iterations: Iterations | None = (
            None  # graphs of whole iterations, if the device decides everything
        )
        self.vector_steps = 0  # steps of all environments so far

    @property
    def backend(self) -> Backend:
        """The current backend."""
        if self._backend is None:
            self.use(self.plan)
        assert self._backend is not None
        return self._backend

    def use(self, plan: ExecutionPlan) -> None:
        """Run as this plan says from now on, except for graphs, which `capture` adds.

        Raises ExecutionError if the plan does not apply.
        """
        learner = self.parts.learner
        assert learner.flat.holds(learner.online), "the network was moved after its learner was made"
        if reason := explain_misfit(plan, self.parts):
            raise ExecutionError(reason)
        self._graphs.clear()
        self._collect = self._iterations = None
        self._backend = find_backend(plan.way, learner.device, plan.several)(self.parts, self.compiler)
        self.plan = plan

    @property
    def decides_on_device(self) -> bool:
        """Whether the device itself counts the updates that are due."""
        return self._iterations is not None

    def iterate(self, limits: Limits) -> bool:
        """One iteration, or several that come to none of the limits; False if the host must decide in each."""
        if self._iterations is None:
            return False
        with self.parts.phases("iterate"):
            self.vector_steps += self._iterations.launch(limits)
        return True

    def settle(self) -> None:
        """Wait until the host knows the newest totals."""
        self.parts.counts.settle()
        if self._iterations is not None:
            self._iterations.tell_learner()

    def collect(self) -> None:
        """One step of every environment."""
        if self._collect is None:
            self.parts.collector.collect(self.backend)
        else:
            with self.parts.phases("collect"):
                self._collect()
        self.parts.sampler.rows_added()
        self.vector_steps += 1

    def learn(self, due: int) -> None:
        """`due` gradient steps, in groups."""
        learner, sampler = self.parts.learner, self.parts.sampler
        if self._iterations is not None and self.parts.counts.unseen:
            self.settle()
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
            if self._iterations is not None:
                self._iterations.tell_device()

    def _learn(self, count: int) -> None:
        backend, phases = self.backend, self.parts.phases
        with phases("sample"):
            batches = backend.sample(count)
        with phases("update"):
            backend.update(batches)

    def capture(self, rehearse: Callable[[], None]) -> None:
        """Record the graphs of a graph plan; `rehearse` really runs everything on the capturing stream first."""
        parts = self.parts
        recorder = Recorder(parts.learner.device)
        recorder.rehearse(rehearse)
        playing = [g for name, g in parts.generators.items() if name in ("explore", "fractions")]
        outside = ("explore",) if parts.sampler.draws_on_device else ("explore", "replay")
        learning = [g for name, g in parts.generators.items() if name not in outside]
        parts.phases.inside_graph = True
        try:
            if is_capturable(parts.env) and parts.collector.env is parts.env:  # not a substitute for trials
                collect = functools.partial(parts.collector.collect, self.backend)
                self._collect = recorder.capture(collect, playing)
            for count in all_group_sizes(self.largest):
                self._graphs[count] = recorder.capture(functools.partial(self._learn, count), learning)
            if self.plan.several:
                self._iterations = self._capture_iterations(recorder)
        finally:
            parts.phases.inside_graph = False

    def _capture_iterations(self, recorder: Recorder) -> Iterations:
        """Graphs of one iteration and of several; a rehearsal runs one first."""
        backend, parts = self.backend, self.parts
        assert isinstance(backend, DecidingBackend)
        recorder.rehearse(functools.partial(backend.iterate, 1))
        drawn = [parts.generators[name] for name in ("explore", "replay")]
        graphs = {n: recorder.capture(functools.partial(backend.iterate, n), drawn) for n in (1, SEVERAL)}
        return Iterations(parts, graphs)


def group_size(due: int) -> int:
    """Updates to do at once: a power of two, so a few graphs serve every number."""
    return 1 << (due.bit_length() - 1)


def all_group_sizes(largest: int) -> list[int]:
    """All group sizes, the largest first."""
    return [1 << k for k in reversed(range(largest.bit_length()))]


def largest_group(config: Config, parts: Parts) -> int:
    """The updates per iteration as a power of two, but at most `GROUP`, or the steps between two hard copies."""
    boards = config.envs * parts.ranks.world  # the ratio is that of all ranks
    usual = min(math.ceil(config.train_ratio * boards), config.learn.target_every or GROUP)
    if parts.rollouts is not None:
        usual = parts.rollouts.updates
    return group_size(max(1, min(usual, GROUP)))


def first_error_line(error: BaseException) -> str:
    """The first useful line of an error."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    if lines[0].endswith("raised:") and len(lines) > 1:  # PyTorch names the backend first
        return lines[1].strip()
    return lines[0].rstrip(".")
