"""The network of fuel breaks on a GPU: the ideal time of its convolutions and normalizations, and the real one.

    python benchmarks/cells.py [--json FILE] [--batch 32] [--boards 128]

First the ceiling: a bfloat16 product of the same size as a convolution. Then the layers alone, forward and
backward. Then acting and gradient steps as training runs them (compiled), and which kernels take their time.
"""

from __future__ import annotations

import argparse
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
from flashdqn.networks.torsos import BoardNorm
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.engine import Engine
from measure import context, write_json

SIDE = 50


def milliseconds(function: Callable[[], object], repeats: int = 20) -> float:
    """The best time, by CUDA events."""
    for _ in range(3):
        function()
    best = float("inf")
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end))
    return best


def planes(batch: int, channels: int) -> Tensor:
    cells = torch.randn(batch, SIDE, SIDE, channels, device="cuda", dtype=torch.bfloat16)
    return cells.permute(0, 3, 1, 2)


def time_product(batch: int, channels: int) -> dict[str, Any]:
    """The matrix product that equals a 3x3 convolution."""
    left = torch.randn(batch * SIDE * SIDE, 9 * channels, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(9 * channels, channels, device="cuda", dtype=torch.bfloat16)
    spent = milliseconds(lambda: left @ right)
    return {"what": f"product {channels}", "ms": spent, "tflops": flops(batch, channels) / spent / 1e9}


def flops(batch: int, channels: int) -> float:
    return 2.0 * batch * SIDE * SIDE * 9 * channels * channels


def time_convolution(batch: int, channels: int, dilation: int, pick: bool) -> list[dict[str, Any]]:
    """Forward, gradient by input, gradient by weights; `pick`: cuDNN tries its algorithms first."""
    torch.backends.cudnn.benchmark = pick
    x, gradient = planes(batch, channels), planes(batch, channels)
    weight = torch.randn(channels, channels, 3, 3, device="cuda", dtype=torch.bfloat16)
    weight = weight.contiguous(memory_format=torch.channels_last)
    d = [dilation, dilation]

    def back(by_input: bool) -> object:
        mask = [by_input, not by_input, False]
        return torch.ops.aten.convolution_backward(
            gradient, x, weight, None, [1, 1], d, d, False, [0, 0], 1, mask
        )

    ways = {
        "forward": lambda: torch.nn.functional.conv2d(x, weight, None, 1, dilation, dilation),
        "by input": lambda: back(True),
        "by weight": lambda: back(False),
    }
    rows = []
    for name, way in ways.items():
        spent = milliseconds(way)
        what = f"convolution {channels} dilated {dilation} {name}{' picked' if pick else ''}"
        rows.append({"what": what, "ms": spent, "tflops": flops(batch, channels) / spent / 1e9})
    torch.backends.cudnn.benchmark = False
    return rows


def time_norm(batch: int, channels: int) -> list[dict[str, Any]]:
    """Normalization and ReLU, alone and with its gradient; compiled."""
    norm, x = BoardNorm(channels).cuda(), planes(batch, channels)
    learned = planes(batch, channels).requires_grad_()

    def forward(into: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return torch.relu(norm(into)).to(torch.bfloat16)

    quick = compiled(forward)

    def both() -> None:
        quick(learned).backward(x)

    with torch.no_grad():
        alone = milliseconds(lambda: quick(x))
    gigabytes = 2 * x.numel() * 2 / 1e9
    rows = [{"what": f"norm {channels} forward", "ms": alone, "tbps": gigabytes / alone}]
    spent = milliseconds(both)
    return [*rows, {"what": f"norm {channels} both", "ms": spent, "tbps": 3 * gigabytes / spent}]


def time_training(batch: int, boards: int, precision: str, pick: bool) -> tuple[list[dict[str, Any]], Any]:
    """A gradient step and a step of acting, compiled, and their kernels."""
    torch.backends.cudnn.benchmark = pick
    preset = base_config("fuelbreaks")
    config = replace(
        preset,
        envs=boards,
        env=replace(preset.env, fires=3),  # type: ignore[type-var]
        replay=replace(preset.replay, capacity=20_000),
        learn=replace(preset.learn, batch_size=batch),
        runtime=replace(preset.runtime, precision=precision),
    )
    device = torch.device("cuda")
    env = build_env(config.env, config.envs, device)
    parts = assemble_parts(config, env)
    engine = Engine(config, parts)
    warm_up_plan(engine, ExecutionPlan("compile"))
    count = 2
    learning = milliseconds(lambda: engine.learn(count), 10) / count
    acting = milliseconds(engine.collect, 10)
    name = f"{precision}{' picked' if pick else ''}"
    whole = {
        "what": f"training {name}",
        "update_ms": learning,
        "collect_ms": acting,
        "transitions_per_second": 1e3 / (learning / 32 + acting / boards),
    }
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        engine.learn(count)
        engine.collect()
        torch.cuda.synchronize()
    torch.backends.cudnn.benchmark = False
    return [whole], profiler


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--boards", type=int, default=128)
    parser.add_argument("--precisions", nargs="*", default=["bf16"])
    parser.add_argument("--layers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kernels", type=Path, help="a text file for the tables of kernels")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def keep(new: list[dict[str, Any]]) -> None:
        rows.extend(new)
        for row in new:
            figures = {key: round(value, 3) for key, value in row.items() if key != "what"}
            print(f"{row['what']:<44} {figures}", flush=True)
        if asked.json:
            write_json(asked.json, {"context": context("cuda"), "rows": rows})

    with allow_tf32(torch.device("cuda")):
        if asked.layers:
            for channels in (128, 256):
                keep([time_product(asked.batch, channels)])
                for dilation in (1, 2, 4):
                    for pick in (False, True):
                        keep(time_convolution(asked.batch, channels, dilation, pick))
                keep(time_norm(asked.batch, channels))
        for precision in asked.precisions:
            for pick in (False, True):
                new, profiler = time_training(asked.batch, asked.boards, precision, pick)
                keep(new)
                if asked.kernels:
                    with asked.kernels.open("a") as file:
                        file.write(f"{new[0]}\n")
                        file.write(
                            profiler.key_averages().table(
                                sort_by="self_device_time_total", row_limit=40, max_name_column_width=110
                            )
                        )


if __name__ == "__main__":
    main()
