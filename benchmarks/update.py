"""What one gradient step costs on the CPU, compared with the matrix products that it needs.

    python benchmarks/update.py [--rounds 40] [--seconds 0.05] [--json FILE] [--picture FILE] [--variants]

Double DQN of a plain MLP; with `--variants` one hand-written update of every variant, each beside its own products.

`floor` is those products alone, into memory that is already allocated: the online network over observations and
next observations, the target over next observations, the gradients of activations and weights. It is measured with
PyTorch's library, and with the tiles of the hand-written update, which give the lower floor. All other rows are
whole updates, with gradient clipping and a soft update of the target. The rows take turns, round by round, on one
thread except for the last. So another program on the machine disturbs all of them alike, and the least time of a
single update is what the work costs.

A transition costs at least reuse / (samples per second), where reuse is batch x gradient steps per transition.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from flashdqn.compute.core_count import cores
from flashdqn.compute.gemm import LANES, multiply_matrices
from flashdqn.compute.kernels import Array, inner
from flashdqn.compute.native import compile_native
from flashdqn.compute.threads import Team, limit_threads
from flashdqn.config import LearnConfig, NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Batch, Transition
from flashdqn.learn.adam import Adam
from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, greedy_target
from flashdqn.learn.distributional import CategoricalHead, QuantileHead
from flashdqn.learn.flat import Flat
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.learner import Learner
from flashdqn.learn.loss import Margin, td_loss
from flashdqn.networks.build import QNetwork, build_network
from flashdqn.networks.roles import make_target
from flashdqn.training.backends.cpu.networks import LayerPlan, plan_layers
from flashdqn.training.backends.cpu.update import NativeUpdates
from measure import context, draw_bars, write_json

#: Below this many inputs, MKL is faster with the transposed form of a layer's weight gradient.
NARROW = 32

LEARN = LearnConfig(bootstrap="double", huber=1.0, target_every=0, lr=1e-4)
Update = Callable[[Batch], Any]
TILED, GROUP = "floor: tiled products", 8


class Case(NamedTuple):
    """An MLP and its batch."""

    inputs: int
    hidden: tuple[int, ...]
    actions: int
    batch: int

    def __str__(self) -> str:
        return "-".join(map(str, (self.inputs, *self.hidden, self.actions))) + f", batch {self.batch}"


class Variant(NamedTuple):
    """What differs from double DQN."""

    head: Callable[[], Head] = lambda: ScalarHead(1.0)
    bootstrap: Bootstrap = double_target
    network: dict[str, bool] = {}  # noqa: RUF012
    margin: Margin | None = None


CPU = torch.device("cpu")
VARIANTS = {
    "dueling": Variant(network={"dueling": True}),
    "noisy": Variant(bootstrap=greedy_target, network={"noisy": True}),
    "layer norm": Variant(network={"layer_norm": True}),
    "munchausen": Variant(bootstrap=Munchausen(0.9, 0.03, -1.0)),
    "c51": Variant(lambda: CategoricalHead(51, -10.0, 10.0, CPU), greedy_target),
    "qr-dqn": Variant(lambda: QuantileHead(32, 1.0, CPU), greedy_target),
    "demonstrations": Variant(margin=Margin(0.8, 1.0)),
    "rainbow": Variant(
        lambda: CategoricalHead(51, -10.0, 10.0, CPU), network={"dueling": True, "noisy": True}
    ),
}


CASES = (Case(11, (256, 256), 3, 64), Case(14, (128, 128), 3, 256))


def make_network(case: Case) -> QNetwork:
    spec = ObsSpec((case.inputs,), torch.float32)
    return build_network(
        NetworkConfig(hidden=case.hidden), spec, case.actions, torch.Generator().manual_seed(0)
    )


def make_batches(case: Case, count: int = 16) -> list[Batch]:
    g = torch.Generator().manual_seed(1)
    rows, batches = case.batch, []
    for _ in range(count):
        transition = Transition(
            torch.rand(rows, case.inputs, generator=g),
            torch.randint(case.actions, (rows,), generator=g),
            torch.randn(rows, generator=g),
            torch.full((rows,), 0.97),
            torch.rand(rows, case.inputs, generator=g),
        )
        batches.append(Batch(transition, torch.ones(rows), torch.arange(rows)))
    return batches


def joined(batches: list[Batch]) -> Batch:
    """Several batches, one after the other in one."""
    columns = zip(*(batch.transition for batch in batches), strict=True)
    transition = Transition(*(None if column[0] is None else torch.cat(column) for column in columns))
    return Batch(
        transition, *(torch.cat(parts) for parts in zip(*(batch[1:3] for batch in batches), strict=True))
    )


def floor(case: Case) -> Update:
    """The products alone."""
    sizes = [case.inputs, *case.hidden, case.actions]
    works: list[tuple[Callable[..., Tensor], tuple[Tensor, ...], Tensor]] = []
    for rows in (2 * case.batch, case.batch):  # online, target
        for i, (width, size) in enumerate(itertools.pairwise(sizes)):
            x, weight, bias = torch.rand(rows, width), torch.rand(size, width), torch.rand(size)
            if i < len(case.hidden):
                works.append((torch.addmm, (bias, x, weight.t()), torch.empty(rows, size)))
            else:
                works.append((torch.addmm, (bias[:, None], weight, x.t()), torch.empty(size, rows)))
    for width, size in reversed(list(itertools.pairwise(sizes))):
        x, weight = torch.rand(case.batch, width), torch.rand(size, width)
        delta = torch.rand(case.batch, size) if size > case.actions else torch.rand(size, case.batch).t()
        if width < NARROW:
            works.append((torch.mm, (x.t(), delta), torch.empty(width, size)))
        else:
            works.append((torch.mm, (delta.t(), x), torch.empty(size, width)))
        if width > case.inputs:
            works.append((torch.mm, (delta, weight), torch.empty(case.batch, width)))

    @torch.no_grad()
    def multiply(batch: Batch) -> None:
        for multiplication, factors, out in works:
            multiplication(*factors, out=out)

    return multiply


@inner
def multiply_all(works: Array, zero: Array) -> None:
    """Products that a table lists: m, n, k, and the addresses of the factors and of the result."""
    for i in range(len(works)):
        m, n, k, a, b, c = works[i, 0], works[i, 1], works[i, 2], works[i, 3], works[i, 4], works[i, 5]
        multiply_matrices(a, k, 1, b, n, c, n, m, n, k, zero[0], 0, np.float32(-np.inf), 0)


def tiled_floor(case: Case, plan: LayerPlan | None = None, passes: int = 3) -> Update:
    """The products alone, by tiles; of a plain MLP, or of the layers of a plan. Double DQN and Munchausen go
    forward three times: through one network twice, through the other once."""
    memory: list[Tensor] = []
    works: list[tuple[int, ...]] = []

    def add(m: int, n: int, k: int) -> None:
        n = -(-n // LANES) * LANES
        matrices = torch.rand(m, k), torch.rand(k, n), torch.rand(m, n)
        memory.extend(matrices)
        works.append((m, n, k, *(matrix.data_ptr() for matrix in matrices)))

    sizes = list(itertools.pairwise([case.inputs, *case.hidden, case.actions]))
    layers = [(width, size, i > 0) for i, (width, size) in enumerate(sizes)]
    if plan is not None:
        layers = [(layer.inputs, layer.outputs, layer.reads.matrix >= 0) for layer in plan.layers]
    for _ in range(passes):
        for width, size, _ in layers:
            add(size, case.batch, width)
    for width, size, goes_back in layers:
        add(size, width, case.batch)
        if goes_back:
            add(width, case.batch, size)
    memory.append(torch.zeros(1))
    arrays = np.array(works), np.array([memory[-1].data_ptr()])
    driver = compile_native(multiply_all, tuple(map(numba.typeof, arrays)))

    def multiply(batch: Batch) -> None:
        assert memory
        driver(*arrays)

    return multiply


def autograd(case: Case, fused: bool | None) -> Update:
    """The usual way: eager PyTorch and its own optimizer."""
    online = make_network(case)
    target, head = make_target(online), ScalarHead(LEARN.huber)
    parameters: list[Tensor] = list(online.parameters())
    old: list[Tensor] = list(target.parameters())
    optimizer = torch.optim.Adam(parameters, lr=LEARN.lr, fused=fused)

    def update(batch: Batch) -> None:
        loss = td_loss(online, target, batch, head, double_target).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, LEARN.grad_clip)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(old, parameters, LEARN.target_tau)

    return update


def learner(case: Case) -> Update:
    """`Learner.update` as the training calls it, with all that it does besides: sums, a check of the loss."""
    return Learner(LEARN, make_network(case), ScalarHead(LEARN.huber), torch.device("cpu"), {}).update


def written(case: Case, group: int = 1, threads: int = 1) -> Update:
    """The hand-written update, `group` at a time."""
    online = make_network(case)
    target = make_target(online)
    flat, old = Flat(online), Flat(target)
    adam, sums = Adam(LEARN, flat, torch.tensor(LEARN.lr)), torch.zeros(3)
    updates = NativeUpdates(
        online, target, ScalarHead(LEARN.huber), double_target, adam, old.values, LEARN.target_tau, Team(threads)
    )  # fmt: skip
    large = joined(make_batches(case, group))
    return lambda batch: updates.steps(large, group, sums)


def make_learner(case: Case, variant: Variant) -> Learner:
    """A learner of a variant."""
    head, spec = variant.head(), ObsSpec((case.inputs,), torch.float32)
    config = NetworkConfig(hidden=case.hidden, **variant.network)  # type: ignore[arg-type]
    network = build_network(config, spec, case.actions, torch.Generator().manual_seed(0), head.size)
    noise = {"noise": torch.Generator().manual_seed(1)} if config.noisy else {}
    made = Learner(LEARN, network, head, CPU, noise, margin=variant.margin)
    made.bootstrap = variant.bootstrap
    return made


def written_variant(case: Case, variant: Variant) -> Update:
    """The hand-written update of a variant, `GROUP` at a time; half of a batch with a margin is demonstrations."""
    made = make_learner(case, variant)
    updates = NativeUpdates(
        made.online, made.target, made.head, made.bootstrap, made.own_adam, made.target_flat.values, made.tau,
        Team(1), made.noise, made.margin,
    )  # fmt: skip
    large = joined(make_batches(case, GROUP))
    if variant.margin is not None:
        large = large._replace(expert=large.transition.action[::2].contiguous())
    return lambda batch: updates.steps(large, GROUP, made.sums)


def variant_rows(case: Case, name: str) -> dict[str, Update]:
    """A variant's products, the learner's update by autograd, and the hand-written one."""
    variant = VARIANTS[name]
    made = make_learner(case, variant)
    return {
        TILED: tiled_floor(case, plan_layers(made.online), 2 if made.bootstrap is greedy_target else 3),
        "Learner.update": made.update,
        f"written, {GROUP} at a time": written_variant(case, variant),
    }


def rows(case: Case) -> dict[str, Update]:
    return {
        TILED: tiled_floor(case),
        "floor: PyTorch's products": floor(case),
        "autograd, Adam": autograd(case, fused=None),
        "autograd, fused Adam": autograd(case, fused=True),
        "Learner.update": learner(case),
        "written": written(case),
        f"written, {GROUP} at a time": written(case, GROUP),
        f"written, {GROUP} at a time, {cores()} threads": written(case, GROUP, cores()),
    }


def microseconds(update: Update, batches: Iterator[Batch], seconds: float) -> list[float]:
    """Times of single updates over `seconds` seconds: short enough for some to run undisturbed."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        update(next(batches))
        times.append((time.perf_counter() - start) * 1e6)
    return times


def measure(
    case: Case, rounds: int, seconds: float, updates: dict[str, Update], title: str
) -> list[dict[str, Any]]:
    """Least and median time of every row."""
    batches = itertools.cycle(make_batches(case))
    times: dict[str, list[float]] = {name: [] for name in updates}
    for update in updates.values():  # warm-up
        microseconds(update, batches, seconds)
    for _ in range(rounds):
        for name, update in updates.items():
            each = GROUP if "at a time" in name else 1
            times[name] += [spent / each for spent in microseconds(update, batches, seconds)]
    least = [min(values) for values in times.values()]
    return [
        {"case": title, "update": name, "min_us": low, "median_us": statistics.median(values)}
        | {"to_floor": low / least[0], "batch": case.batch, "samples_per_second": case.batch / low * 1e6}
        for (name, values), low in zip(times.items(), least, strict=True)
    ]


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """A panel for each network."""
    groups: dict[str, dict[str, float]] = {}
    for row in results:
        groups.setdefault(row["case"], {})[row["update"]] = row["min_us"]
    draw_bars(path, groups, "least µs per update", ours="native")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.05, help="per row and round")
    parser.add_argument("--variants", action="store_true", help="every variant instead")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    works: list[tuple[Case, str | None]] = [(case, None) for case in CASES]
    if arguments.variants:
        works = [(case, name) for case in reversed(CASES) for name in VARIANTS]
    for case, variant in works:
        title = str(case) if variant is None else f"{variant}: {case}"
        with limit_threads(1, cores()):
            updates = rows(case) if variant is None else variant_rows(case, variant)
            measured = measure(case, arguments.rounds, arguments.seconds, updates, title)
        table = Table("µs per update", title=title)
        for column in ("least", "median", "to floor", "samples/s"):
            table.add_column(column, justify="right")
        for row in measured:
            figures = (f"{row['min_us']:,.0f}", f"{row['median_us']:,.0f}", f"{row['to_floor']:.2f}")
            figures = (*figures, f"{row['samples_per_second']:,.0f}")
            table.add_row(row["update"], *figures)
        Console().print(table)
        results += measured
    if arguments.picture:
        draw(results, arguments.picture)
    if arguments.json:
        settings = {"rounds": arguments.rounds, "seconds": arguments.seconds}
        write_json(arguments.json, {**context("cpu"), **settings, "updates": results})


if __name__ == "__main__":
    main()
