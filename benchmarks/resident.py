"""The resident update on a GPU, by size: is it right, how fast is it in a CUDA graph, and where its cycles go;
beside it the three kernels of Triton, where they fit.

    python benchmarks/resident.py [--only "2x256 b64" …] [--json PATH] [--profile]

Every time is the median of 30 replays of a graph with ten launches. A launch draws its samples, and does eight
updates; or one.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "training"))
sys.path.insert(0, str(Path(__file__).parent))
from resident_cases import Case, distance, draw_bits, list_state, pick_batches

from flashdqn.replay.samplers import split_batch
from flashdqn.training.backends.cuda.backend import build_fused_update, fits_fused
from flashdqn.training.backends.cuda.resident import ResidentUpdates
from flashdqn.training.backends.cuda.resident_layout import Cut
from measure import context, write_json

HERE = Path(__file__).parent
#: Updates in one launch, and launches in one graph.
MOST, LAUNCHES = 8, 10
LEARN = {"lr": 1e-3, "grad_clip": 10.0, "target_tau": 0.005}


def make_case(hidden: tuple[int, ...], batch: int, envs: int = 256) -> Case:
    return Case(hidden=hidden, inputs=27, actions=4, batch=batch, envs=envs, learn=LEARN)


CASES = {
    "2x256 b64": make_case((256, 256), 64),
    "120-84 b128": make_case((120, 84), 128, envs=10),
    "48-200-72 b128": make_case((48, 200, 72), 128, envs=64),
    "256 b64": make_case((256,), 64),
    "2x256 b128": make_case((256, 256), 128),
    "2x256 b256": make_case((256, 256), 256),
    "2x256 b512": make_case((256, 256), 512),
    "2x256 b1024": make_case((256, 256), 1024),
    "2x512 b64": make_case((512, 512), 64),
    "2x512 b256": make_case((512, 512), 256),
    "4x256 b64": make_case((256,) * 4, 64),
    "2x1024 b64": make_case((1024, 1024), 64),
}


def count(updates: int) -> Tensor:
    return torch.tensor([updates], dtype=torch.int32, device="cuda")


def check_against_autograd(case: Case, cut: Cut | None, updates: int = 3) -> float:
    """The largest distance of parameters, moments, target and sums from what `Learner.step` leaves."""
    fast, slow = case.make_parts("cuda"), case.make_parts("cuda")
    bits = draw_bits(case, MOST, "cuda")
    ResidentUpdates(fast, MOST, cut).updates(bits, count(updates))
    for batch in split_batch(pick_batches(slow, case, bits), MOST, case.batch)[:updates]:
        slow.learner.update(batch)
    found, wanted = list_state(fast), list_state(slow)
    return max(distance(found[name], wanted[name]) for name in wanted)


def time_graph(work: Any) -> float:
    """Microseconds of one call, in a graph of `LAUNCHES` of them."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            work()
    times = []
    for _ in range(30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / LAUNCHES)
    return sorted(times)[len(times) // 2]


def time_group(case: Case, cut: Cut | None, updates: int) -> tuple[float, ResidentUpdates]:
    kernel = ResidentUpdates(case.make_parts("cuda"), MOST, cut)
    bits, due = draw_bits(case, MOST, "cuda"), count(updates)
    return time_graph(lambda: kernel.updates(bits, due)), kernel


def time_triton(case: Case) -> float | None:
    """Microseconds of one update in three kernels, without sampling; None where they do not fit."""
    parts = case.make_parts("cuda")
    if not fits_fused(parts):
        return None
    batch = pick_batches(parts, case, draw_bits(case, 1, "cuda"))
    update = build_fused_update(parts)
    return time_graph(lambda: update(batch))


def measure_case(name: str, cut: Cut | None = None, triton: bool = True) -> dict[str, Any]:
    case = CASES[name]
    gap = check_against_autograd(case, cut)
    group, kernel = time_group(case, cut, MOST)
    single, _ = time_group(case, cut, 1)
    known: Any = kernel._kernels[0]
    used, layout = kernel.cut, kernel.layout
    return {
        "case": name, "blocks": used.blocks, "warps": used.warps, "group": used.group, "cluster": used.cluster,
        "fuses": layout.fuses, "ahead": layout.is_ahead, "keeps": layout.keeps_moments,
        "registers": known.read_attribute("NUM_REGS"), "local_bytes": known.read_attribute("LOCAL_SIZE_BYTES"),
        "shared_bytes": layout.shared_bytes, "gap": gap, "us_per_update": group / MOST, "us_single": single,
        "us_triton": time_triton(case) if triton else None,
    }  # fmt: skip


def show_case(name: str, cuts: list[Cut | None], profile: bool, triton: bool = False) -> list[dict[str, Any]]:
    rows = []
    for cut in cuts:
        try:
            rows.append(measure_case(name, cut, triton))
            print(
                " ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in rows[-1].items()),
                flush=True,
            )
            if profile:
                show_phases(CASES[name], cut)
        except Exception as error:
            print(f"{name} {cut}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    return rows


def show_phases(case: Case, cut: Cut | None) -> None:
    """Cycles of the first thread of the first block in each phase, per update (`Clock.mark` in the source)."""
    chosen = cut or ResidentUpdates(case.make_parts("cuda"), MOST).cut
    _, kernel = time_group(case, replace(chosen, profile=True), MOST)
    launches = 30 * LAUNCHES + 1
    cycles = (kernel.times / (launches * MOST)).tolist()
    print(
        "    cycles per update:", " ".join(f"{i}:{x:.0f}" for i, x in enumerate(cycles) if x > 0), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=HERE / "results" / "resident-h200.json")
    parser.add_argument("--only", nargs="*", choices=CASES, help="some of the cases")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    rows = [
        row
        for name in arguments.only or CASES
        for row in show_case(name, [None], arguments.profile, triton=True)
    ]
    write_json(arguments.json, {"context": context("cuda"), "rows": rows})


if __name__ == "__main__":
    main()
