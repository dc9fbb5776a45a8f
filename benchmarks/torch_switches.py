"""Whether two of PyTorch's switches would make training faster: cuDNN's benchmark mode, and `inference_mode`.

    python benchmarks/torch_switches.py --device cuda --train 30     # about five minutes on a GPU
    python benchmarks/torch_switches.py --device cpu --rounds 3 --seconds 0.2

flashdqn uses neither today: acting and evaluation run under `no_grad`, and cuDNN chooses its algorithms by rule.

`forward` is a network's pass over a batch as acting does it, under `no_grad` and under `inference_mode`, with both
settings of cuDNN. `update` is a forward and a backward pass over a batch with Adam's step, as autograd does it,
with both settings of cuDNN. All variants take turns, round by round, so another program disturbs them alike; the
median round counts. `training` (only with --train, on CUDA) is the throughput of whole trainings of `snake-grid`,
in turns. A switch is worth having if it wins on the training, not only on a part of it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from flashdqn.compute.device import choose_device, synchronize_device
from flashdqn.compute.precision import allow_tf32
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.runs.tables import read_metrics
from measure import context, write_json

HERE = Path(__file__).parent


class Case(NamedTuple):
    """A network, its observations, and the batches that act and learn."""

    network: NetworkConfig
    obs: ObsSpec
    act: int
    learn: int


CASES = {
    "mlp 2x256": Case(NetworkConfig(hidden=(256, 256)), ObsSpec((14,), torch.float32), 256, 64),
    "nature 84x84": Case(
        NetworkConfig(torso="nature", hidden=(512,)), ObsSpec((4, 84, 84), torch.uint8), 64, 32
    ),
    "resnet 10x10": Case(
        NetworkConfig(torso="resnet", channels=(64, 64, 64), hidden=(512,), dueling=True, layer_norm=True),
        ObsSpec((3, 10, 10), torch.uint8),
        4096,
        4096,
    ),
}
ACTIONS = 4


@contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """cuDNN tries its algorithms for every new shape, and keeps the fastest."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def make_batch(spec: ObsSpec, count: int, device: torch.device) -> Tensor:
    """Random observations."""
    if spec.dtype == torch.uint8:
        return torch.randint(0, 255, (count, *spec.shape), dtype=torch.uint8, device=device)
    return torch.rand((count, *spec.shape), device=device)


def make_variants(case: Case, device: torch.device) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    network = build_network(case.network, case.obs, ACTIONS, torch.Generator().manual_seed(0)).to(device)
    acting, learning = (make_batch(case.obs, count, device) for count in (case.act, case.learn))
    adam = torch.optim.Adam(network.parameters(), fused=device.type == "cuda")
    variants: dict[str, Callable[[], object]] = {}
    for cudnn in (False, True):
        name = "cudnn benchmark" if cudnn else "as today"
        variants[f"forward, {name}, no_grad"] = forward(network, acting, torch.no_grad, cudnn)
        variants[f"forward, {name}, inference_mode"] = forward(network, acting, torch.inference_mode, cudnn)
        variants[f"update, {name}"] = update(network, learning, adam, cudnn)
    return variants


def forward(
    network: QNetwork, obs: Tensor, mode: Callable[[], AbstractContextManager[Any]], cudnn: bool
) -> Callable[[], object]:
    """One pass as acting does it."""

    def run() -> object:
        with cudnn_benchmark(cudnn), mode():
            return network(obs)

    return run


def update(network: QNetwork, obs: Tensor, adam: torch.optim.Optimizer, cudnn: bool) -> Callable[[], object]:
    """One gradient step."""

    def run() -> object:
        with cudnn_benchmark(cudnn):
            adam.zero_grad(set_to_none=True)
            network(obs).square().mean().backward()
            adam.step()
        return None

    return run


def measure_turns(
    variants: dict[str, Callable[[], object]], device: torch.device, rounds: int, seconds: float
) -> dict[str, float]:
    """Microseconds of each variant: the median over rounds, in each of which all of them take turns."""
    counts: dict[str, int] = {}
    for name, run in variants.items():
        for _ in range(5):  # cuDNN's trials, allocations
            run()
        took = time_calls(run, 3, device)
        counts[name] = max(1, int(seconds / max(1e-6, took)))
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            taken[name].append(time_calls(run, counts[name], device))
    return {name: statistics.median(values) * 1e6 for name, values in taken.items()}


def time_calls(run: Callable[[], object], count: int, device: torch.device) -> float:
    """Seconds of one call, from `count` of them."""
    synchronize_device(device)
    begun = time.perf_counter()
    for _ in range(count):
        run()
    synchronize_device(device)
    return (time.perf_counter() - begun) / count


def train(cudnn: bool, seconds: float) -> float:
    """Transitions per second of a training of snake-grid, in its own process: the median window."""
    with tempfile.TemporaryDirectory() as out:
        settings = {
            "out": out,
            "device": "cuda",
            "max_time": seconds,
            "eval.every": 0,
            "log.every": 1_000_000,
        }
        code = (
            f"import torch; torch.backends.cudnn.benchmark = {cudnn}; import flashdqn; "
            f"print(flashdqn.train('snake-grid', progress=False, **{settings!r}).path)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        rows = read_metrics(Path(done.stdout.strip().splitlines()[-1]))
    return statistics.median(row.steps_per_second for row in rows[1:] or rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["cpu", "cuda", "auto"])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each variant in a round")
    parser.add_argument("--train", type=float, default=0.0, help="seconds of each whole training; 0: none")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device, console = choose_device(arguments.device), Console(width=110)
    results: list[dict[str, Any]] = []
    with allow_tf32(device):
        for name in arguments.cases:
            variants = make_variants(CASES[name], device)
            times = measure_turns(variants, device, arguments.rounds, arguments.seconds)
            results += [{"case": name, "variant": variant, "us": us} for variant, us in times.items()]
    for cudnn in (False, True) * 3 if arguments.train and device.type == "cuda" else ():
        rate = train(cudnn, arguments.train)
        variant = f"training, {'cudnn benchmark' if cudnn else 'as today'}"
        results.append({"case": "snake-grid", "variant": variant, "steps_per_second": rate})
    table = Table("case", "variant", "µs", "transitions/s", title="PyTorch's switches")
    for row in results:
        us, rate = row.get("us"), row.get("steps_per_second")
        table.add_row(
            row["case"],
            row["variant"],
            "" if us is None else f"{us:,.1f}",
            "" if rate is None else f"{rate:,.0f}",
        )
    console.print(table)
    path = arguments.json or HERE / "results" / f"torch-switches-{device.type}.json"
    write_json(path, {**context(device.type), "results": results})
    console.print(str(path), highlight=False)


if __name__ == "__main__":
    main()
