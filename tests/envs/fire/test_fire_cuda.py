"""The spread of fire on CUDA: the same bits as on the CPU, and capturable; run on a machine that has one."""

from __future__ import annotations

import pytest
import torch
from test_fire_spread import lit, scene

from flashdqn.compute.kernels import cuda_available
from flashdqn.envs.fuelbreaks.fire import BURN, KEEP, Spread

pytestmark = pytest.mark.skipif(not cuda_available(), reason="needs a CUDA device and numba-cuda")


def twin_on_cuda(host: Spread) -> Spread:
    spread = Spread(host.tables.to("cuda"), host.num_boards, host.fires, host.duration)
    for name in ("table", "ignition", "breaks"):
        getattr(spread, name).copy_(getattr(host, name))
    spread.command.fill_(BURN)
    return spread


def check_equal(host: Spread, spread: Spread) -> None:
    for name in ("arrival", "burned", "breaks"):
        assert torch.equal(getattr(host, name), getattr(spread, name).cpu()), name


@pytest.mark.parametrize("size", [12, 20, 50])
def test_cuda_burns_the_same_cells_at_the_same_times(size: int) -> None:
    host = lit(scene(size=size), 32, 5)
    spread = twin_on_cuda(host)
    spread.launch()
    check_equal(host, spread)
    generator = torch.Generator().manual_seed(3)
    for _ in range(40):
        command = torch.randint(-1, size * size, (32,), generator=generator, dtype=torch.int32)
        command[::7] = KEEP
        host.command.copy_(command)
        spread.command.copy_(command)
        host.launch()
        spread.launch()
        check_equal(host, spread)


def test_a_launch_can_be_captured() -> None:
    host = lit(scene(), 16, 3)
    spread = twin_on_cuda(host)
    spread.launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    spread.command.fill_(KEEP)
    with torch.cuda.graph(graph):
        spread.launch()
    for cell in (5, 100, 250, 399, 210):
        for one in (host, spread):
            one.command.fill_(cell)
        host.launch()
        graph.replay()
        check_equal(host, spread)


def test_savings_are_the_hosts() -> None:
    host = lit(scene(), 4, 3)
    spread = twin_on_cuda(host)
    spread.launch()
    assert torch.equal(spread.savings().cpu(), host.savings())
    check_equal(host, spread)
