"""The fused update on a GPU: is it right, and how long does each kernel take? Tries several ways to split the work.

    python benchmarks/fused_check.py [--quick] [--out folder]

All times are medians over replays of a CUDA graph that holds many launches, in µs per launch. Configurations are
compiled first, by several processes at once, so little GPU time goes into compiling.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import BOOTSTRAPS
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.loss import td_loss
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.networks.roles import make_target
from flashdqn.training.backends.cuda.network import mlp_sizes
from flashdqn.training.backends.cuda.plans import (
    PolicyPlan,
    UpdatePlan,
    choose_policy_plan,
    choose_update_plan,
)
from flashdqn.training.backends.cuda.policy import FusedPolicy
from flashdqn.training.backends.cuda.stages import JointStages
from flashdqn.training.backends.cuda.update import FusedUpdate

Case = tuple[int, int, int, int]  # inputs, width, actions, batch size
CASES: list[Case] = [(11, 256, 3, 64), (14, 128, 3, 256), (11, 256, 3, 16384)]
POLICIES = [(11, 256, 3, 256), (11, 256, 3, 65536)]
CONFIG = LearnConfig(lr=1e-4, grad_clip=10.0, target_every=0, target_tau=0.005)
CUDA = torch.device("cuda")
INNER, REPLAYS = 16, 64


def flat_parameters(network: nn.Module) -> Tensor:
    flat = Flat(network)
    return flat.without_tail(flat.values)


class Setup:
    """A network, its batches, and the fused update with everything that it changes."""

    def __init__(
        self, case: Case, plan: UpdatePlan | None = None, batches: int = 4, config: LearnConfig = CONFIG
    ) -> None:
        inputs, _, actions, size = case
        self.online, self.target = make_networks(case)
        self.flat, self.target_flat = flat_parameters(self.online), flat_parameters(self.target)
        self.target_flat += (
            0.02 * torch.randn(self.flat.shape, generator=torch.Generator().manual_seed(5)).cuda()
        )
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.step, self.lr = torch.zeros((), device=CUDA), torch.tensor(config.lr, device=CUDA)
        self.sums, self.first_bad = torch.zeros(3, device=CUDA), torch.tensor(-1, device=CUDA)
        self.batches = [make_batch(size, inputs, actions, seed) for seed in range(batches)]
        self.update = FusedUpdate(
            self.online, self.target, flat=self.flat, target_flat=self.target_flat, exp_avg=self.exp_avg,
            exp_avg_sq=self.exp_avg_sq, step=self.step, lr=self.lr, sums=self.sums, first_bad=self.first_bad,
            head=ScalarHead(config.huber), bootstrap=BOOTSTRAPS[config.bootstrap], config=config,
            batch_size=size, plan=plan,
        )  # fmt: skip

    def stages(self) -> dict[str, Callable[[Batch], Any]]:
        update, stages = self.update, self.update.stages
        parts: dict[str, Callable[[Batch], Any]] = {"forward": stages.forward, "gradient": stages.gradient}
        if isinstance(stages, JointStages):
            parts |= {"transpose": lambda batch: stages.transpose(), "backward": stages.backward}
        if isinstance(stages, JointStages) or stages.chunks > 1:
            parts["reduce"] = lambda batch: stages.reduce()
        return parts | {"adam": lambda batch: update.adam(), "all": update}


def make_networks(case: Case) -> tuple[QNetwork, QNetwork]:
    inputs, width, actions, _ = case
    config = NetworkConfig(torso="mlp", hidden=(width, width))
    generator = torch.Generator().manual_seed(1)
    online = build_network(config, ObsSpec((inputs,), torch.float32), actions, generator).to(CUDA)
    target = make_target(online)
    assert isinstance(target, QNetwork)
    return online, target


def make_batch(size: int, inputs: int, actions: int, seed: int) -> Batch:
    g = torch.Generator(device=CUDA).manual_seed(seed)
    obs, next_obs = torch.randn(2, size, inputs, generator=g, device=CUDA)
    transition = Transition(
        obs,
        torch.randint(actions, (size,), generator=g, device=CUDA),
        torch.randn(size, generator=g, device=CUDA),
        torch.where(torch.rand(size, generator=g, device=CUDA) < 0.1, 0.0, 0.97),
        next_obs,
        torch.rand(size, actions, generator=g, device=CUDA) < 0.7,
    )
    return Batch(transition, torch.rand(size, generator=g, device=CUDA), torch.arange(size, device=CUDA))


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:150]


# ---------------------------------------------------------------------------------------------- is it right?


def reference(setup: Setup, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Priorities, first moment, new weights and sums after one update from the current weights, in float64."""
    online, target = setup_copies(setup)
    wide = [t.double() if t is not None and t.is_floating_point() else t for t in batch.transition]
    batch = Batch(Transition(*wide), batch.weight.double(), batch.index)

    def double_precision(network: QNetwork) -> Callable[[Tensor], Tensor]:
        return lambda obs: network.output(network.torso(obs.double()))

    result = td_loss(
        double_precision(online),
        double_precision(target),
        batch,
        ScalarHead(CONFIG.huber),
        BOOTSTRAPS["double"],
    )
    result.loss.backward()
    norm = nn.utils.clip_grad_norm_(online.parameters(), CONFIG.grad_clip)
    optimizer = torch.optim.Adam(online.parameters(), lr=CONFIG.lr, eps=CONFIG.adam_eps)
    optimizer.step()
    moment = torch.cat([optimizer.state[p]["exp_avg"].flatten() for p in online.parameters()])
    weights = torch.cat([p.detach().flatten() for p in online.parameters()])
    return result.priority, moment, weights, torch.stack((result.loss.detach(), result.q, norm))


def setup_copies(setup: Setup) -> tuple[QNetwork, QNetwork]:
    online, target = make_target(setup.online), make_target(setup.target)
    assert isinstance(online, QNetwork)
    assert isinstance(target, QNetwork)
    return online.double().requires_grad_(True), target.double()


def check(case: Case, plan: UpdatePlan) -> dict[str, float]:
    """Relative distances ‖found − expected‖ / ‖expected‖ after one update; all outputs start as NaN."""
    setup = Setup(case, plan, batches=1)
    expected = reference(setup, setup.batches[0])
    update = setup.update
    for buffer in update.work:
        buffer.fill_(float("nan"))
    before = setup.flat.double()
    priority = update(setup.batches[0])
    found = (priority, setup.exp_avg, setup.flat.double() - before, setup.sums)
    truth = (expected[0], expected[1], expected[2] - before, expected[3])
    names = ("priority", "moment", "change", "sums")
    return {
        name: float((one.double() - other).norm() / other.norm())
        for name, one, other in zip(names, found, truth, strict=True)
    }


def check_repeats(case: Case, plan: UpdatePlan) -> bool:
    """The same inputs must give the same bits over twenty updates."""
    ends = []
    for _ in range(2):
        setup = Setup(case, plan)
        for i in range(20):
            setup.update(setup.batches[i % 4])
        ends.append(setup.flat.clone())
    return torch.equal(*ends)


def check_all(say: Callable[[str], None]) -> None:
    cases: list[Case] = [(11, 256, 3, 1), (11, 256, 3, 64), (14, 128, 3, 256), (11, 256, 3, 300), (40, 64, 17, 100),
                         (200, 512, 32, 700), (11, 256, 3, 5000), (11, 256, 3, 16384)]  # fmt: skip
    for case, precision in itertools.product(cases, ("tf32", "ieee")):
        try:
            plan = replace(
                choose_update_plan(mlp_sizes(make_networks(case)[0]), case[3]), precision=precision
            )  # type: ignore[arg-type]
            far = check(case, plan)
            same = check_repeats(case, plan) if precision == "tf32" else True
            # Adam's first step is the gradient's sign, so a change near 0 shows only rounding.
            limit = 5e-3 if precision == "tf32" else 2e-4
            good = same and all(far[name] < limit for name in ("priority", "moment", "sums"))
            numbers = " ".join(f"{name} {value:.1e}" for name, value in far.items())
            verdict = ("ok " if good else "BAD") + ("" if same else " NOT DETERMINISTIC")
            say(f"check {case} {precision:5} {verdict} {numbers}")
        except Exception as error:  # one bad configuration must not stop the others
            say(f"check {case} {precision:5} FAILED {first_line(error)}")


# ------------------------------------------------------------------------------------------------ how long?


def time_launches(call: Callable[[int], Any], inner: int = INNER) -> float:
    """Median µs of one call, `inner` of them in a graph."""
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(inner):
            call(i)
    for _ in range(5):
        graph.replay()
    times = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / inner)
    return statistics.median(times)


def time_stage(case: Case, plan: UpdatePlan, stage: str) -> float:
    setup = Setup(case, plan)
    call = setup.stages()[stage]
    for batch in setup.batches:
        setup.update(batch)
    return time_launches(lambda i: call(setup.batches[i % 4]))


def time_policy(case: Case, plan: PolicyPlan) -> float:
    inputs, _, actions, count = case
    online, _ = make_networks(case)
    flat_parameters(online)
    policy = FusedPolicy(online, count, plan)
    obs, mask = torch.randn(4, count, inputs, device=CUDA), torch.rand(4, count, actions, device=CUDA) < 0.7
    eps, coin, luck = torch.rand(3, count, device=CUDA)
    return time_launches(lambda i: policy(obs[i % 4], mask[i % 4], eps, coin, luck))


def forward_variants(case: Case, base: UpdatePlan) -> list[UpdatePlan]:
    names = ("rows", "columns", "depth", "units", "forward_warps", "forward_stages")
    if case[3] < 1024:
        grid = [(16, 32, 256, 128, 4, 2), (16, 32, 256, 128, 8, 2), (16, 32, 128, 128, 4, 2),
                (16, 32, 64, 128, 4, 4), (16, 64, 256, 128, 8, 2), (32, 32, 256, 128, 4, 2),
                (32, 32, 256, 128, 8, 2), (32, 32, 64, 128, 4, 4), (32, 64, 256, 128, 8, 2),
                (64, 32, 256, 128, 4, 2), (64, 32, 128, 128, 4, 2), (64, 64, 128, 128, 8, 2),
                (16, 16, 256, 128, 4, 2), (32, 16, 256, 128, 4, 2)]  # fmt: skip
    else:
        grid = [(64, 128, 32, 128, 4, 2), (64, 128, 32, 64, 4, 3), (64, 64, 32, 64, 4, 3),
                (128, 128, 32, 128, 8, 3), (128, 128, 32, 128, 8, 2), (128, 64, 32, 64, 8, 3),
                (128, 256, 32, 128, 8, 2), (128, 128, 32, 64, 8, 2), (64, 256, 32, 128, 8, 2),
                (128, 128, 64, 128, 8, 2), (64, 64, 64, 64, 4, 2)]  # fmt: skip
    return [replace(base, **dict(zip(names, values, strict=True))) for values in grid]


def gradient_variants(case: Case, base: UpdatePlan) -> list[UpdatePlan]:
    names = ("chunks", "block1", "block2", "block3", "gradient_warps", "gradient_stages")
    if case[3] < 1024:
        grid = [(1, (64, 32, 128), (64, 32, 64), (64, 32), 8, 1), (1, (64, 32, 128), (64, 32, 64), (64, 32), 4, 1),
                (1, (64, 32, 64), (64, 32, 64), (64, 32), 8, 2), (1, (64, 16, 64), (64, 32, 64), (64, 32), 4, 1),
                (1, (64, 16, 128), (64, 32, 64), (64, 32), 8, 1), (1, (64, 16, 128), (64, 32, 32), (64, 16), 4, 1),
                (1, (32, 32, 128), (32, 32, 64), (32, 32), 4, 1), (1, (64, 16, 64), (64, 64, 64), (64, 32), 4, 1),
                (1, (64, 16, 256), (64, 32, 64), (64, 32), 8, 1)]  # fmt: skip
        if case[3] > 64:
            grid += [(2, *values[1:]) for values in grid[:4]] + [(4, *values[1:]) for values in grid[:4]]
            grid += [
                (1, (128, 16, 64), (128, 32, 32), (128, 16), 8, 1),
                (1, (256, 16, 32), (256, 16, 32), (256, 16), 8, 1),
            ]
    else:
        grid = [(chunks, base.block1, block2, base.block3, warps, stages)
                for chunks, block2, warps, stages in [
                    (32, (32, 128, 128), 8, 3), (32, (32, 128, 128), 8, 5), (32, (32, 128, 128), 4, 4),
                    (64, (32, 128, 128), 8, 4), (64, (32, 128, 128), 4, 3), (66, (32, 128, 256), 8, 3),
                    (32, (64, 128, 128), 8, 3), (16, (32, 128, 64), 4, 4), (16, (32, 64, 128), 4, 5)]]  # fmt: skip
    return [replace(base, **dict(zip(names, values, strict=True))) for values in grid]


def adam_variants(base: UpdatePlan) -> list[UpdatePlan]:
    sizes = [(512, 4), (512, 2), (1024, 4), (1024, 8), (256, 2), (2048, 8)]
    return [replace(base, adam_size=size, adam_warps=warps) for size, warps in sizes]


def policy_variants(count: int) -> list[PolicyPlan]:
    if count < 1024:
        grid = [(16, 256, 32, 8, 4), (16, 256, 32, 4, 4), (16, 256, 64, 8, 3), (16, 256, 16, 8, 6),
                (16, 128, 64, 4, 4), (16, 256, 64, 16, 2), (32, 256, 32, 8, 4)]  # fmt: skip
    else:
        grid = [(128, 128, 32, 8, 3), (64, 128, 32, 4, 3), (64, 128, 32, 4, 4), (64, 128, 64, 4, 2),
                (128, 256, 32, 8, 3), (64, 256, 32, 8, 2), (128, 128, 64, 8, 3)]  # fmt: skip
    return [PolicyPlan(*values) for values in grid]


Job = tuple[str, Case, Any]  # stage or "policy", case, plan


def all_jobs(quick: bool, cases: list[Case]) -> list[Job]:
    jobs: list[Job] = []
    for case in cases:
        base = choose_update_plan(mlp_sizes(make_networks(case)[0]), case[3])  # type: ignore[arg-type]
        plans = {"forward": [base], "gradient": [base], "adam": [base]}
        if not quick:
            plans["forward"] += forward_variants(case, base)
            plans["gradient"] += gradient_variants(case, base)
            plans["adam"] += adam_variants(base)
        jobs += [(stage, case, plan) for stage, choices in plans.items() for plan in dict.fromkeys(choices)]
    for case in POLICIES:
        policy = choose_policy_plan(mlp_sizes(make_networks(case)[0]), case[3])  # type: ignore[arg-type]
        jobs += [
            ("policy", case, plan)
            for plan in dict.fromkeys([policy, *([] if quick else policy_variants(case[3]))])
        ]
    return jobs


def compile_job(job: Job) -> None:
    """In its own process: launch once, so the disk cache has the kernel."""
    stage, case, plan = job
    if stage == "policy":
        online, _ = make_networks(case)
        flat_parameters(online)
        count = torch.zeros(case[3], device=CUDA)
        mask = torch.ones(case[3], case[2], dtype=torch.bool, device=CUDA)
        FusedPolicy(online, case[3], plan)(
            torch.zeros(case[3], case[0], device=CUDA), mask, count, count, count
        )
    else:
        setup = Setup(case, plan, batches=1)
        setup.stages()[stage](setup.batches[0])
    torch.cuda.synchronize()


def compile_ahead(jobs: list[Job], say: Callable[[str], None]) -> None:
    start = time.perf_counter()
    workers = max(1, min(14, (os.cpu_count() or 2) - 1))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        for job, future in [(job, pool.submit(compile_job, job)) for job in jobs]:
            try:
                future.result()
            except Exception as error:  # reported, and again where it is timed
                say(f"compile {job[0]} {job[1]} {short(job[2], job[0])}: {first_line(error)}")
    say(f"compiled {len(jobs)} configurations in {time.perf_counter() - start:.0f} s")


STAGE_FIELDS = {
    "forward": ("rows", "columns", "depth", "units", "forward_warps", "forward_stages"),
    "gradient": ("chunks", "block1", "block2", "block3", "gradient_warps", "gradient_stages"),
    "reduce": ("chunks", "reduce_size"),
    "transpose": ("joint",),
    "backward": ("rows", "units", "gradient_warps", "gradient_stages"),
    "adam": ("adam_size", "adam_warps"),
}


def short(plan: Any, stage: str) -> str:
    names = STAGE_FIELDS.get(stage) or [field.name for field in fields(plan)]
    words = [f"{name.split('_')[-1]}={getattr(plan, name)}" for name in names]
    return " ".join(words).replace(", ", ",").replace("True", "1").replace("False", "0")


def take(into: UpdatePlan, stage: str, source: UpdatePlan) -> UpdatePlan:
    return replace(into, **{name: getattr(source, name) for name in STAGE_FIELDS[stage]})


def measure(jobs: list[Job], say: Callable[[str], None], cases: list[Case]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def record(stage: str, case: Case, plan: Any, note: str = "") -> None:
        try:
            us = time_policy(case, plan) if stage == "policy" else time_stage(case, plan, stage)
        except Exception as error:  # too much shared memory, for example
            say(f"{stage:9} {case} {short(plan, stage)}: {first_line(error)}")
            return
        rows.append(
            {"stage": stage, "case": case, "us": us, "plan": asdict(plan), "object": plan, "note": note}
        )
        say(f"{stage:9} {case} {us:8.2f} µs  {short(plan, stage)} {note}")

    for stage, case, plan in jobs:
        record(stage, case, plan)
    for case in cases:
        base = choose_update_plan(mlp_sizes(make_networks(case)[0]), case[3])  # type: ignore[arg-type]
        record("all", case, base, "default")
        record("all", case, replace(base, pdl=True), "default with PDL")
        if base.chunks > 1:
            for size in (256, 512, 1024):
                record("reduce", case, replace(base, reduce_size=size))
        if base.joint:
            record("transpose", case, base)
            for units, warps, depth in [(128, 4, 4), (128, 8, 4), (64, 4, 4), (256, 8, 3), (128, 4, 3)]:
                record(
                    "backward", case, replace(base, units=units, gradient_warps=warps, gradient_stages=depth)
                )
        best = {stage: ranked(rows, stage, case)[:2] for stage in ("forward", "gradient", "adam")}
        for forward, gradient, pdl in itertools.product(best["forward"], best["gradient"], (False, True)):
            plan = take(take(base, "forward", forward["object"]), "gradient", gradient["object"])
            plan = take(plan, "adam", best["adam"][0]["object"]) if best["adam"] else plan
            if plan != base:
                record("all", case, replace(plan, pdl=pdl), "combined" + (" with PDL" if pdl else ""))
    return rows


def ranked(rows: list[dict[str, Any]], stage: str, case: Case) -> list[dict[str, Any]]:
    found = [row for row in rows if row["stage"] == stage and row["case"] == case]
    return sorted(found, key=lambda row: float(row["us"]))


def table(rows: list[dict[str, Any]], say: Callable[[str], None]) -> None:
    say("\ncase                 stage        µs  configuration (best three)")
    for case in dict.fromkeys(row["case"] for row in rows):
        for stage in dict.fromkeys(row["stage"] for row in rows if row["case"] == case):
            for row in ranked(rows, stage, case)[:3]:
                say(f"{case!s:20} {stage:9} {row['us']:6.2f}  {short(row['object'], stage)} {row['note']}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only the default configurations")
    parser.add_argument("--batch", type=int, help="only the case of this batch size")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    arguments = parser.parse_args()
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    import triton

    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    rows: list[dict[str, Any]] = []
    try:
        cases = [case for case in CASES if arguments.batch in (None, case[3])]
        jobs = all_jobs(arguments.quick, cases)
        compile_ahead(jobs, say)
        check_all(say)
        rows = measure(jobs, say, cases)
        table(rows, say)
    finally:
        (arguments.out / "fused_check.txt").write_text("\n".join(lines) + "\n")
        numbers = [{key: value for key, value in row.items() if key != "object"} for row in rows]
        (arguments.out / "fused_check.json").write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
