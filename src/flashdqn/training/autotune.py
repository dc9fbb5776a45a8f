"""Which mode: the configured one, or the fastest of those that work here, by a short trial."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

import torch

from flashdqn.compute.compilation import (
    NotCompiledError,
    expect_kernels,
    get_log,
    list_compiled,
    refuse_compilation,
    report_stage,
)
from flashdqn.compute.device import synchronize_device
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config import Config
from flashdqn.core.contract import is_capturable
from flashdqn.core.errors import BadNumbersError, DivergedError, ExecutionError, FlashDQNError
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.catalog import explain_misfit
from flashdqn.training.compile_budget import (
    EAGER_KERNELS,
    is_long_training,
    is_worth_waiting,
    list_native_kernels,
)
from flashdqn.training.engine import Engine, first_error_line
from flashdqn.training.rank_times import measure_saving
from flashdqn.training.warmup import exercise_engine, restore_after, warm_up_evaluation

#: A trial repeats the work of an iteration for this long, and the best time counts: the machine may be busy.
TRIAL_SECONDS = 0.3

#: A trial is over sooner if its best time has not fallen by `LESS` for `PATIENCE` seconds, or if after `FEW` rounds
#: that time is still `HOPELESS` times that of the best candidate before it.
PATIENCE, LESS, FEW, HOPELESS = 0.1, 0.02, 5, 2.0

#: A later candidate of a trial must take less than this share of the best time. So a busy machine does not decide
#: by chance; otherwise the same seed would not give the same weights. And while another program runs, threads can
#: cost far more than they gain.
WORTH = 0.8

Note = Callable[[str], None]


@dataclass
class Choice:
    """The plan that was picked, and what it was compared with."""

    plan: ExecutionPlan
    threads: int = 0  # PyTorch's, if a trial chose them; 0: by the rule
    seconds: dict[str, float] = field(default_factory=dict)  # of a round of updates, by plan
    saving: float | None = (
        None  # seconds of an update that a rank saves by its smaller batch, if it was measured
    )

    @property
    def why(self) -> str:
        """The reason, in one line."""
        if len(self.seconds) < 2:
            return str(self.plan)
        times = ", ".join(f"{name} {seconds * 1e6:,.0f} µs" for name, seconds in self.seconds.items())
        return f"{self.plan} (a round of updates takes: {times})"


def prepare_engine(config: Config, parts: Parts, note: Note) -> tuple[Engine, Choice]:
    """A warm engine, in the configured or chosen mode; the parts are as before."""
    with parts.ranks.muted() if not parts.ranks.captures else nullcontext():
        return _prepare_engine(config, parts, note)


def _prepare_engine(config: Config, parts: Parts, note: Note) -> tuple[Engine, Choice]:
    engine = Engine(config, parts)
    first = candidate_plans(config, parts)[0]
    if not config.runtime.warmup and first in (
        ExecutionPlan("eager"),
        ExecutionPlan("native"),
    ):  # the others need it
        try:
            engine.use(first)
        except ExecutionError as error:
            note(fallback_message(first, error))
        return engine, Choice(engine.plan, config.runtime.threads)
    with restore_after(config, parts):
        choice = choose_execution_plan(config, engine, note)
        choice.threads = config.runtime.threads or choose_threads(engine)
        choice.saving = measure_saving(engine)
        warm_up_evaluation(config, parts)
    return engine, choice


def choose_execution_plan(config: Config, engine: Engine, note: Note) -> Choice:
    """Try plans until one works; with `auto` try all that are worth it, and keep the fastest.

    On the CPU, `auto` first uses only code that is compiled already. What is missing is compiled if the budget is
    worth the wait, or if `FLASHDQN_COMPILE=always` asks for it; or if another process compiles it already.
    """
    always = os.environ.get("FLASHDQN_COMPILE") == "always" or bool(get_log().elsewhere)
    if config.runtime.mode != "auto" or engine.parts.learner.device.type != "cpu" or always:
        return try_plans(config, engine, note)
    report_stage("trying what is compiled already")
    with refuse_compilation() as missing:
        choice = try_plans(config, engine, note)
    if not missing:
        return choice
    kernels = list_missing_kernels(engine, missing)
    log = get_log()
    wait = sum(map(log.guess_seconds, kernels)) * log.measure_busyness(time.perf_counter())
    updates = choice.seconds[str(choice.plan)] / engine.largest
    if not is_worth_waiting(config, wait, updates):
        note(
            f"The updates are not compiled: too short a training to earn the {format_wait(wait)} that it takes"
        )
        return choice
    expect_kernels(kernels)
    return try_plans(config, engine, note)


def list_missing_kernels(engine: Engine, missing: list[str]) -> list[str]:
    """The kernels that would be compiled, by what is known of them: the first that is missing hides the others."""
    native = explain_misfit(ExecutionPlan("native"), engine.parts) is None
    known = (*EAGER_KERNELS, *list_native_kernels(engine.config) * native)
    there = list_compiled()
    return [name for name in dict.fromkeys((*missing, *known)) if name in missing or name not in there]


def format_wait(seconds: float) -> str:
    """A number of seconds for a sentence."""
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "second"


def try_plans(config: Config, engine: Engine, note: Note) -> Choice:
    """Try plans until one works; with `auto`, all of them."""
    trial, choice = config.runtime.mode == "auto", Choice(ExecutionPlan("eager"))
    best: tuple[float, ExecutionPlan] | None = None
    for plan in candidate_plans(config, engine.parts):
        if plan.way == "compile" and get_log().refused:
            continue  # it comes later, when everything may be compiled
        report_stage(f"trying the mode '{plan}'")
        try:
            warm_up_plan(engine, plan)
        except NotCompiledError:
            continue
        except ExecutionError as error:
            note(fallback_message(plan, error))
            continue
        choice.plan = plan
        if not trial or plan.graph:  # on a GPU, nothing that is launched operation by operation beats a graph
            return choice
        seconds = choice.seconds[str(plan)] = time_updates(engine, best[0] if best else math.inf)
        if best is None or seconds < WORTH * best[0]:
            best = seconds, plan
    assert best is not None
    if choice.plan != best[1]:
        choice.plan = best[1]
        warm_up_plan(engine, choice.plan)
    return choice


def warm_up_plan(engine: Engine, plan: ExecutionPlan) -> None:
    """Switch to a plan, compile and capture, and run everything once.

    Raises ExecutionError if it does not work. Errors of the eager plan are passed on: there is no plan after it.
    """
    try:
        engine.use(plan)
        if plan.graph:
            engine.capture(rehearse=lambda: exercise_engine(engine))
        exercise_engine(engine)
    except FlashDQNError:
        raise
    except Exception as error:  # compilers and capture raise many kinds, not only RuntimeErrors
        if plan == ExecutionPlan("eager"):
            raise
        raise ExecutionError(first_error_line(error)) from error


def fallback_message(plan: ExecutionPlan, error: ExecutionError) -> str:
    """What to say when a plan does not work."""
    return f"The mode '{plan}' does not work here: {error}. Falling back to the next."


def candidate_plans(config: Config, parts: Parts) -> list[ExecutionPlan]:
    """What to try for a mode, best first; with the mode `auto`, what is worth a trial."""
    mode, cuda = config.runtime.mode, parts.learner.device.type == "cuda"
    native = explain_misfit(ExecutionPlan("native"), parts) is None
    compiles = explain_misfit(ExecutionPlan("compile"), parts) is None
    eager, graph = ExecutionPlan("eager"), ExecutionPlan("eager", graph=True)
    if cuda and mode in ("auto", "graph") and parts.ranks.capturable:
        return (
            # it says itself why it does not fit
            [ExecutionPlan("native", graph=True, several=True)]
            + [ExecutionPlan("native", graph=True)] * native
            + [ExecutionPlan("compile", graph=True)] * compiles
            + [graph, eager]
        )
    if mode in ("auto", "graph"):  # a requested graph reports itself that it needs CUDA
        worth_compiling = compiles and not native and is_long_training(config)
        asked = [graph] * (mode == "graph")
        return [
            *asked,
            *[ExecutionPlan("native")] * native,
            eager,
            *[ExecutionPlan("compile")] * worth_compiling,
        ]
    return [ExecutionPlan(mode), eager] if mode == "compile" or mode == "native" else [eager]


def choose_threads(engine: Engine) -> int:
    """PyTorch's threads if the rule allows several: one or all, whichever is faster in a trial; otherwise 0."""
    allowed = torch.get_num_threads()
    if allowed == 1 or engine.parts.learner.device.type == "cuda":
        return 0
    seconds = {}
    for threads in (1, allowed):
        set_torch_threads(engine, threads)
        seconds[threads] = time_updates(engine)
    best = allowed if seconds[allowed] < WORTH * seconds[1] else 1
    set_torch_threads(engine, best)
    return best


def set_torch_threads(engine: Engine, count: int) -> None:
    """Use `count` of PyTorch's threads from now on; compiled code depends on their number."""
    if count == torch.get_num_threads():
        return
    torch.set_num_threads(count)
    if engine.plan.way == "compile":
        warm_up_plan(engine, engine.plan)


def time_updates(engine: Engine, best: float = math.inf) -> float:
    """Best time of a group of updates, in seconds; with a step of the environments if a graph can hold that too.

    `best` is the time of another candidate. Other environments do not play for a trial: they may be slow, or fail.
    """
    parts, device = engine.parts, engine.parts.learner.device
    least, rounds = math.inf, 0
    began = improved = now = time.perf_counter()
    while now < min(began + TRIAL_SECONDS, improved + PATIENCE) or not rounds:
        parts.sampler.draw_again()
        start = time.perf_counter()
        with parts.ranks.muted():
            if is_capturable(parts.collector.env):
                engine.collect()
            with suppress(BadNumbersError, DivergedError):  # the run itself reports it
                engine.learn(engine.largest)
        synchronize_device(device)
        now, rounds = time.perf_counter(), rounds + 1
        if now - start < (1 - LESS) * least:
            improved = now
        least = min(least, now - start)
        if rounds >= FEW and least > HOPELESS * best:
            break
    return least
