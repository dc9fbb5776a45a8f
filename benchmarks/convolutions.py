"""Updates of networks with convolutions on a GPU: time, TFLOP/s, and the share of a large bfloat16 product.

    python benchmarks/convolutions.py [--json FILE] [--presets snake-grid fuelbreaks-20] [--no-torso]
        [--no-compiled]

First the torso of `snake-grid` alone: by the hand-written kernels (`networks/boards`), and by PyTorch, compiled.
Then the products of its streams. Then what trainings run: a step of all boards and an update, each as a CUDA graph:
by the hand-written kernels as they are trained, the same compiled by PyTorch, and PyTorch's compiler alone; and
which kernels of the GPU take the time of an update.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from flashdqn.compute.graphs import ExecutionPlan, compiled
from flashdqn.compute.precision import allow_tf32
from flashdqn.config.presets import base_config
from flashdqn.envs import build_env
from flashdqn.networks.boards.kernels import BoardShape, launch_backward, launch_forward
from flashdqn.networks.boards.packing import pack_layers, pack_stem, pack_transposed
from flashdqn.networks.boards.torso import BoardWeights, can_run_kernels
from flashdqn.networks.flops import count_flops
from flashdqn.networks.torsos import ResNet
from flashdqn.profile.arithmetic import measure_product
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.engine import Engine
from measure import context, write_json

DEVICE = torch.device("cuda", 0)
#: Forward passes that an update of double DQN is worth: two for targets, one for the loss, two for the gradient.
PASSES = 5
REPEATS = 30


class Report:
    """Rows of what was measured, printed as they come."""

    def __init__(self, peak: float, file: Path | None) -> None:
        self.peak, self.file, self.rows = peak, file, list[dict[str, Any]]()

    def add(self, what: str, seconds: float, flops: float, **others: Any) -> None:
        """One row; FLOP/s and share follow from the work."""
        rate = flops / seconds
        row = {"what": what, "us": seconds * 1e6, "tflops": rate / 1e12, "share": rate / self.peak} | others
        self.rows.append(row)
        print(
            f"{what:<44} {seconds * 1e6:9.1f} µs {rate / 1e12:7.0f} TFLOP/s {rate / self.peak:5.0%}",
            flush=True,
        )
        if self.file:
            peak = {"product_tflops": self.peak / 1e12}
            write_json(self.file, {"context": context("cuda") | peak, "rows": self.rows})


def time_calls(function: Callable[[], object]) -> float:
    """The median time of a call, by events, in seconds; the host runs ahead."""
    for _ in range(3):
        function()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPEATS)]
    for first, last in pairs:
        first.record()
        function()
        last.record()
    torch.cuda.synchronize()
    return float(sorted(first.elapsed_time(last) for first, last in pairs)[REPEATS // 2]) / 1000


def measure_torso(report: Report, torso: ResNet, batch: int) -> None:
    """The hand-written kernels and the compiled layers, forward and back."""
    shape = torso.board_shape
    assert shape is not None
    obs = torch.rand(batch, shape.inputs, shape.rows, shape.columns, device=DEVICE)
    gradient = torch.randn(batch, shape.cells * 64, device=DEVICE).bfloat16()
    flops = 2.0 * batch * shape.cells * 9 * 64 * (shape.layers * 64 + shape.inputs)
    if can_run_kernels(shape, 0):
        measure_kernels(report, torso, shape, obs, gradient, flops)

    def forward(numbers: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return torso(numbers).to(torch.bfloat16)

    quick = compiled(forward)
    with torch.no_grad():
        report.add("torso by PyTorch, features", time_calls(lambda: quick(obs)), flops)
    both = compiled(forward)
    parameters = list(torso.parameters())
    spent = time_calls(lambda: torch.autograd.grad(both(obs), parameters, gradient))
    report.add("torso by PyTorch, features and gradient", spent, 3 * flops)


def measure_kernels(
    report: Report, torso: ResNet, shape: BoardShape, obs: Tensor, gradient: Tensor, flops: float
) -> None:
    """Each launch of the kernels."""
    with torch.no_grad():
        weights = BoardWeights(torso)
        packed = pack_stem(weights.stem), pack_layers(weights.layers), weights.constants
        transposed = pack_transposed(weights.layers)
    report.add("torso, features", time_calls(lambda: launch_forward(shape, obs, *packed, save=False)), flops)
    spent = time_calls(lambda: launch_forward(shape, obs, *packed, save=True))
    report.add("torso, features to learn from", spent, flops)
    _, saved = launch_forward(shape, obs, *packed, save=True)
    assert saved is not None
    spent = time_calls(lambda: launch_backward(shape, gradient, transposed, packed[2], saved))
    report.add("torso, gradient (boards, then weights)", spent, 2 * flops)


def measure_streams(report: Report, batch: int, features: int, width: int) -> None:
    """The first layer of both dueling streams, as one product: forward, by its input, by its weights."""
    x = torch.randn(batch, features, device=DEVICE).bfloat16()
    w = torch.randn(width, features, device=DEVICE).bfloat16()
    g = torch.randn(batch, width, device=DEVICE).bfloat16()
    flops = 2.0 * batch * features * width
    for name, call in (
        ("forward", lambda: x @ w.t()),
        ("by its input", lambda: g @ w),
        ("by its weights", lambda: g.t() @ x),
    ):
        report.add(f"streams, {name}", time_calls(call), flops)


#: Ways to run an update: whether by hand-written kernels, and the plan.
WAYS = {
    "by the kernels": (True, ExecutionPlan("eager", graph=True)),
    "by the kernels, compiled": (True, ExecutionPlan("compile", graph=True)),
    "by PyTorch": (False, ExecutionPlan("compile", graph=True)),
}


def measure_training(report: Report, preset: str, name: str) -> None:
    """A step of all boards and an update, as CUDA graphs."""
    config, (kernels, plan) = base_config(preset), WAYS[name]
    smaller = replace(config.replay, capacity=min(config.replay.capacity, 200_000))
    config = replace(config, replay=smaller)
    parts = assemble_parts(config, build_env(config.env, config.envs, DEVICE))
    batch = config.update_size
    if not kernels:
        for network in (parts.learner.online, parts.learner.target):
            for module in network.modules():
                for flag, off in (("uses_kernels", False), ("fused_on", None)):
                    if hasattr(module, flag):
                        setattr(module, flag, off)
    engine = Engine(config, parts)
    begun = time.perf_counter()
    warm_up_plan(engine, plan)
    torch.cuda.synchronize()
    warm = time.perf_counter() - begun
    for _ in range(20):
        engine.collect()
    flops = count_flops(parts.learner.online, parts.env.obs_spec)
    spent = time_calls(lambda: engine.learn(1))
    more = {"preset": preset, "batch": batch, "warm_up_seconds": warm}
    report.add(f"{preset}, update {name}", spent, PASSES * batch * flops, **more)
    report.add(f"{preset}, step of all boards {name}", time_calls(engine.collect), config.envs * flops)
    print(f"{'':44} compiled and captured in {warm:.0f} s")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        engine.learn(1)
        torch.cuda.synchronize()
    times = {event.key: event.device_time_total for event in profiler.key_averages()}
    largest = sorted(times.items(), key=lambda item: -item[1])[:15]
    report.rows[-2]["kernels_us"] = dict(largest)
    for kernel, microseconds in largest:
        print(f"    {kernel[:84]:<84} {microseconds:9.1f} µs")
    print(f"    {'all kernels of the update':<84} {sum(times.values()):9.1f} µs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=["snake-grid", "fuelbreaks-20"])
    parser.add_argument("--torso", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compiled", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.manual_seed(1)
    with allow_tf32(DEVICE):
        report = Report(measure_product(DEVICE, "bf16"), asked.json)
        print(f"a product of 8192 x 8192 in bfloat16: {report.peak / 1e12:.0f} TFLOP/s")
        if asked.torso:
            batch = base_config("snake-grid").update_size
            measure_torso(report, ResNet((3, 10, 10), (64, 64, 64), (), True).to(DEVICE), batch)
            measure_streams(report, batch, 6400, 1024)
        for preset in asked.presets:
            for name in WAYS if asked.compiled else list(WAYS)[:1]:
                measure_training(report, preset, name)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
