"""Ranks on a GPU: two of them share one by gloo; NCCL, alone on it, inside CUDA graphs.

NCCL refuses two ranks on one GPU. So its exchange is tested with one rank: it is captured and replayed as with
many, and the mean over one rank changes no bit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_twin import Twin, make_config
from safetensors.torch import load_file
from torch import Tensor

from flashdqn.cli.launch_ranks import find_free_port

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

ALGORITHMS = ["dqn", "per", "rainbow", "pqn"]
ITERATIONS = 30
GPU = torch.device("cuda", 0)

Found = dict[str, Tensor]


def run_ranks(
    out: Path, jobs: list[dict[str, Any]], count: int, device: str = "cuda:0", local: int = 1
) -> None:
    """Do the jobs on `count` ranks, or without an exchange if it is 0. `local` ranks share this machine."""
    out.mkdir(exist_ok=True)
    (out / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("rank_worker.py")), str(out), device]
    port = str(find_free_port())
    processes = []
    for rank in range(max(1, count)):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count), "RANK": str(rank)}
        place |= {"LOCAL_WORLD_SIZE": str(local), "LOCAL_RANK": str(rank)}
        environment = os.environ | (place if count else {})
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
    errors = [process.communicate(timeout=300)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), errors


def list_jobs(ways: list[tuple[str, bool]], algorithms: list[str] = ALGORITHMS) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{algo}-{way}", "algo": algo, "way": way, "graph": graph,
            "iterations": ITERATIONS, "device": "cuda",
        }
        for way, graph in ways
        for algo in (algorithms if way == "eager" else ["dqn"])
    ]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Found]]:
    """What two ranks on one GPU have come to."""
    out = tmp_path_factory.mktemp("gloo")
    run_ranks(out, list_jobs([("eager", False), ("native", False)]), 2, local=2)
    return lambda name: [load_file(out / f"{name}-{rank}.safetensors") for rank in range(2)]


def run_twin(algo: str, whole: bool) -> Twin:
    twin = Twin(make_config(algo, device="cuda"), whole, GPU)
    twin.start()
    for _ in range(ITERATIONS):
        twin.iterate()
    return twin


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_two_ranks_on_one_gpu_have_the_same_bits_as_one_process_that_adds_two_gradients(
    algo: str, shared: Callable[[str], list[Found]]
) -> None:
    twin, ranks = run_twin(algo, whole=False), shared(f"{algo}-eager")
    assert twin.learner.updates >= (16 if algo == "pqn" else 30)
    for found, parts in zip(ranks, twin.halves, strict=True):
        assert found["totals"].tolist()[::2] == [twin.seen, twin.learner.updates]
        assert torch.equal(found["action"], parts.ring.action.cpu())
        assert torch.equal(found["obs"], parts.ring.obs.cpu())
        assert torch.equal(found["weights"], twin.learner.flat.values.cpu())


def test_hand_written_updates_of_two_ranks_teach_what_the_whole_batch_teaches(
    shared: Callable[[str], list[Found]],
) -> None:
    """Within the rounding of TF32."""
    twin, ranks = run_twin("dqn", whole=True), shared("dqn-native")
    assert torch.equal(ranks[0]["weights"], ranks[1]["weights"])
    for found in ranks:
        assert found["totals"].tolist()[::2] == [twin.seen, twin.learner.updates]
        assert distance(found["weights"], twin.learner.flat.values.cpu()) < 0.005


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Found]:
    """What graphs with an exchange by NCCL have come to (`graph`), the same without graphs (`plain`), and graphs
    without an exchange (`alone`)."""
    out = tmp_path_factory.mktemp("nccl")
    ways = [("eager", True), ("native", True)]
    run_ranks(out / "graph", list_jobs(ways), 1)
    run_ranks(out / "plain", list_jobs([("eager", False)]), 1)
    run_ranks(out / "alone", list_jobs(ways, ["dqn", "pqn"]), 0)
    return lambda kind, job: load_file(out / kind / f"{job}-0.safetensors")


COLUMNS = ("totals", "action", "obs", "weights", "target")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_graphs_that_hold_an_exchange_by_nccl_have_the_same_bits_as_no_graphs(
    algo: str, captured: Callable[[str, str], Found]
) -> None:
    graph, plain = captured("graph", f"{algo}-eager"), captured("plain", f"{algo}-eager")
    assert graph["totals"].tolist()[2] >= (16 if algo == "pqn" else 30)
    for name in COLUMNS:
        assert torch.equal(graph[name], plain[name]), name


@pytest.mark.parametrize("algo", ["dqn", "pqn"])
def test_the_mean_over_one_rank_changes_no_bit(algo: str, captured: Callable[[str, str], Found]) -> None:
    """Not so with priorities: on ranks, new transitions enter with the largest that all knew at the last draw."""
    graph, alone = captured("graph", f"{algo}-eager"), captured("alone", f"{algo}-eager")
    for name in COLUMNS:
        assert torch.equal(graph[name], alone[name]), name


def test_hand_written_updates_hold_an_exchange_by_nccl(captured: Callable[[str, str], Found]) -> None:
    """Other kernels than alone: the same within the rounding of TF32."""
    graph, alone = captured("graph", "dqn-native"), captured("alone", "dqn-native")
    assert graph["totals"].tolist() == alone["totals"].tolist()
    assert distance(graph["weights"], alone["weights"]) < 0.01
