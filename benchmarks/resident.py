"""The resident update on a GPU: right, how fast by size and cut, and where its cycles go.

python benchmarks/resident.py [--profile]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "training"))
from resident_cases import Case, distance, draw_bits, list_state, pick_batches

from flashdqn.replay.samplers import split_batch
from flashdqn.training.backends.cuda.resident import ResidentUpdates, choose_cut
from flashdqn.training.backends.cuda.resident_layout import Cut

#: Updates in one launch.
MOST = 8
LEARN = {"lr": 1e-3, "grad_clip": 10.0, "target_tau": 0.005}
CASES = {
    "2x256 b64": Case(hidden=(256, 256), inputs=27, actions=4, batch=64, envs=256, learn=LEARN),
    "120-84 b128": Case(hidden=(120, 84), inputs=27, actions=4, batch=128, envs=10, learn=LEARN),
    "48-200-72 b128": Case(hidden=(48, 200, 72), inputs=27, actions=4, batch=128, envs=64, learn=LEARN),
    "2x256 b256": Case(hidden=(256, 256), inputs=27, actions=4, batch=256, envs=256, learn=LEARN),
    "2x512 b64": Case(hidden=(512, 512), inputs=27, actions=4, batch=64, envs=256, learn=LEARN),
    "2x1024 b64": Case(hidden=(1024, 1024), inputs=27, actions=4, batch=64, envs=256, learn=LEARN),
}


def check_against_autograd(case: Case, cut: Cut, updates: int = 3) -> float:
    """The largest distance of parameters, moments, target and sums from what `Learner.step` leaves."""
    fast, slow = case.make_parts("cuda"), case.make_parts("cuda")
    bits = draw_bits(case, updates, "cuda")
    ResidentUpdates(fast, updates, cut).updates(
        bits, torch.tensor([updates], dtype=torch.int32, device="cuda")
    )
    for batch in split_batch(pick_batches(slow, case, bits), updates, case.batch):
        slow.learner.update(batch)
    found, wanted = list_state(fast), list_state(slow)
    return max(distance(found[name], wanted[name]) for name in wanted)


def time_group(case: Case, cut: Cut, updates: int) -> tuple[float, ResidentUpdates]:
    """Microseconds of one launch of `updates` updates in a CUDA graph of ten launches."""
    parts = case.make_parts("cuda")
    kernel = ResidentUpdates(parts, MOST, cut)
    bits, due = draw_bits(case, MOST, "cuda"), torch.tensor([updates], dtype=torch.int32, device="cuda")
    kernel.updates(bits, due)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            kernel.updates(bits, due)
    times = []
    kernel.times.zero_()
    for _ in range(30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 100)
    return sorted(times)[len(times) // 2], kernel


def show_case(name: str, cuts: list[Cut], profile: bool) -> None:
    case = CASES[name]
    for cut in cuts:
        began = time.perf_counter()
        try:
            gap = check_against_autograd(case, cut)
            compiled = time.perf_counter() - began
            group, kernel = time_group(case, cut, MOST)
            single, _ = time_group(case, cut, 1)
            known = kernel._kernels[0]
            registers, local = (known.read_attribute(x) for x in ("NUM_REGS", "LOCAL_SIZE_BYTES"))
            print(
                f"{name:15} {cut.blocks:4}x{cut.warps:2} {'cluster' if cut.cluster else 'grid':7}"
                f" loads {cut.loads:2}"
                f" group {cut.group} fuse {kernel.layout.fuses:d} keep {kernel.layout.keeps_moments:d}"
                f" regs {registers} local {local} gap {gap:.1e}"
                f" group of 8: {group:6.1f} µs = {group / MOST:5.2f} each; single {single:5.1f} µs;"
                f" first {compiled:.1f} s",
                flush=True,
            )
            if profile:
                show_phases(case, replace(cut, profile=True))
        except Exception as error:
            print(f"{name:15} {cut}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def show_phases(case: Case, cut: Cut) -> None:
    _, kernel = time_group(case, cut, MOST)
    cycles = (kernel.times / (300 * MOST)).tolist()
    print(
        "    cycles per update:", " ".join(f"{i}:{x:.0f}" for i, x in enumerate(cycles) if x > 0), flush=True
    )


def main() -> None:
    profile = "--profile" in sys.argv
    for name, case in CASES.items():
        parts = case.make_parts("cpu")
        from flashdqn.training.backends.cuda.resident import describe_task, read_network

        chosen = choose_cut(read_network(parts), describe_task(parts, 8))
        show_case(name, [chosen], profile)


if __name__ == "__main__":
    main()
