"""Where the time of a training goes: its phases per transition, and what happens now and then."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace

import torch

from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.compute.seeds import purpose_seed
from flashdqn.core.contract import close_env
from flashdqn.envs import build_evaluation_env
from flashdqn.profile.arithmetic import measure_arithmetic
from flashdqn.profile.graph_phases import measure_graph_parts
from flashdqn.profile.ready import Ready, TurnResult
from flashdqn.profile.result import Aside, Spent, TimedPhase
from flashdqn.runs.columns import GRAPHS, PHASES
from flashdqn.training.evaluate import evaluate

#: An untrained agent may walk in circles: an evaluation is cut off after this many steps.
LONGEST = 2_000
REPORTS = 5
#: On CUDA one iteration in seven is timed. Updates repeat in powers of two: seven is in step with none of them.
EVERY = 7

ABOUT = {
    "act": "random numbers, the network, ε-greedy",
    "step": "the games, and what the agent sees of them",
    "append": "into the ring; episode figures; priorities",
    "sample": "draw transitions and gather their batches",
    "update": "loss, gradients, optimizer, target",
    "collect": "act, step and append: one CUDA graph",
    "learn": "sample and update: CUDA graphs",
    "iterate": "all of them, several times: one CUDA graph",
    "loop": "schedules, counts, the display, Python between the phases",
}


def measure_time_spent(ready: Ready, seconds: float) -> Spent:
    """Train for `seconds` without reports; then time a report, an evaluation and a checkpoint, each by itself."""
    phases = ready.loop.parts.phases
    phases.every = EVERY
    cuda = ready.loop.parts.learner.device.type == "cuda"
    turn = ready.turn(seconds, reports=False, least=8 * EVERY if cuda else 1)
    spent = summarize_turn(turn, phases.read(), ready.ratio_asked, ready.loop.config.update_size)
    with ready.own_threads():
        asides = (
            *_make_warm_up_aside(ready),
            _measure_report(ready),
            _measure_evaluation(ready),
            *_measure_checkpoint(ready),
        )
        apart, reason = measure_graph_parts(ready, spent)
        spent = replace(spent, asides=asides, apart=apart, not_apart=reason)
        arithmetic = measure_arithmetic(ready, spent)
    fused = describe_fused_phases(ready.choice.plan, cuda)
    return replace(spent, arithmetic=arithmetic, fused=fused)


def summarize_turn(turn: TurnResult, seconds: Mapping[str, float], ratio_asked: float, batch: int) -> Spent:
    """Phases per transition, and their rates; the time outside all phases is the loop itself."""
    known = {name: seconds[name] for name in (*PHASES, *GRAPHS) if seconds.get(name, 0.0) > 0}
    total = max(turn.seconds, sum(known.values()))  # on CUDA the phases are samples
    known["loop"] = total - sum(known.values())
    transitions = max(1, turn.transitions)
    rows = (
        TimedPhase(name, part / transitions * 1e6, part / total if total else 0.0, ABOUT[name])
        for name, part in known.items()
    )
    return Spent(
        seconds=turn.seconds,
        iterations=turn.iterations,
        transitions=turn.transitions,
        updates=turn.updates,
        transitions_per_second=turn.transitions / turn.seconds,
        updates_per_second=turn.updates / turn.seconds,
        ratio_asked=ratio_asked,
        ratio_done=turn.updates / transitions,
        batch=batch,
        reuse=batch * turn.updates / transitions,
        phases=tuple(rows),
        fused=(),
        asides=(),
        apart=(),
        not_apart="",
    )


def describe_fused_phases(plan: ExecutionPlan, cuda: bool) -> tuple[str, ...]:
    """What cannot be measured separately in this mode, and why."""
    words: list[str] = []
    if not cuda and plan.way != "compile":
        words.append(
            "append is one compiled pass over ring, episode figures and observations; sample draws and gathers "
            "in one pass (uniform replay)."
        )
    if plan.several:
        words.append(
            "iterate holds several iterations: acting, recording and a group of updates are a kernel each, and "
            "random numbers are drawn beside them."
        )
    elif plan.way == "native":
        words.append(
            "update is written by hand: "
            + ("loss, gradients, optimizer and target are three kernels." if cuda else "one block of code.")
        )
    if plan.way == "compile":
        words.append("update is one compiled function; act, append and the drawing of samples are one each.")
    if plan.graph:
        words.append(
            "A CUDA graph replays as a whole: inside it there is nothing to time; see 'measured apart'."
        )
    return tuple(words)


def _make_aside(name: str, seconds: float, every: int, steps: int | None, about: str) -> Aside:
    """Spread its cost over its period, or over the whole run if it happens once."""
    over = every or steps
    return Aside(name, seconds, every or None, seconds / over * 1e6 if over else None, about)


def _make_warm_up_aside(ready: Ready) -> tuple[Aside, ...]:
    about = "compiling and allocating, before the clock starts"
    return (_make_aside("warm-up", ready.warm_up, 0, ready.loop.config.steps, about),)


def _measure_report(ready: Ready) -> Aside:
    loop, times = ready.loop, []
    for _ in range(REPORTS):
        begun = time.perf_counter()
        loop.reporter.report(0.0)
        times.append(time.perf_counter() - begun)
    what = "metrics.csv, TensorBoard, display" if loop.config.log.tensorboard else "metrics.csv, display"
    return _make_aside("report", statistics.median(times), loop.config.report_every, None, what)


def _measure_evaluation(ready: Ready) -> Aside:
    config, learner = ready.loop.config, ready.loop.parts.learner
    games = build_evaluation_env(config.env, config.eval.episodes, learner.device)
    try:
        begun = time.perf_counter()
        seed = purpose_seed(config.seed, "evaluation")
        result = evaluate(games, learner.online, learner.head, seed, LONGEST)
        seconds = time.perf_counter() - begun
    finally:
        close_env(games)
    about = f"{config.eval.episodes} games with the current weights"
    if result.unfinished:
        about += f"; {result.unfinished} were cut off after {LONGEST:,} steps: it may take longer"
    return _make_aside("evaluation", seconds, config.eval.every, config.steps, about)


def _measure_checkpoint(ready: Ready) -> tuple[Aside, ...]:
    """A checkpoint in the temporary folder, where the disk has room for it."""
    loop, parts, config = ready.loop, ready.loop.parts, ready.loop.config
    size = sum(tensor.nbytes for tensor in parts.state_dict().values())
    if shutil.disk_usage(loop.folder.path).free < 2 * size:
        return ()
    if parts.learner.device.type == "cuda":
        torch.cuda.synchronize(parts.learner.device)
    begun = time.perf_counter()
    loop.save()
    seconds = time.perf_counter() - begun
    held = min(parts.counts.transitions, config.replay.capacity)
    about = f"{size / 1e6:,.0f} MB"
    if config.learn.method == "replay":
        about += f", with {held:,} of {config.replay.capacity:,} transitions in the replay"
    return (_make_aside("checkpoint", seconds, config.log.checkpoint_every, config.steps, about),)
