"""Two ranks in two processes, connected by gloo, learn what one process learns."""

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
from rank_twin import CPU, Twin, make_config
from safetensors.torch import load_file
from torch import Tensor

from flashdqn.cli.launch_ranks import find_free_port
from flashdqn.compute.seeds import purpose_seed
from flashdqn.compute.threads import limit_threads
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.evaluate import evaluate
from flashdqn.training.schedules import Schedules

ALGORITHMS = ["dqn", "per", "rainbow", "pqn"]
WAYS = ["eager", "native"]
#: Iterations until the first update, and of a whole test: some fifty updates.
BEFORE_LEARNING, ITERATIONS = 12, 30

Found = dict[str, Tensor]


def list_jobs() -> list[dict[str, Any]]:
    jobs = [
        {"name": f"{algo}-{way}", "algo": algo, "way": way, "iterations": ITERATIONS}
        for algo in ALGORITHMS
        for way in WAYS
    ]
    spread = {"explore__schedule": "spread", "replay__n_step": 3}
    return [
        *jobs,
        {"name": "start", "algo": "dqn", "way": "eager", "iterations": BEFORE_LEARNING},
        {"name": "spread", "algo": "dqn", "way": "eager", "iterations": ITERATIONS, "changes": spread},
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Found]]:
    """What two processes have come to, by job and rank."""
    out = tmp_path_factory.mktemp("ranks")
    (out / "jobs.json").write_text(json.dumps(list_jobs()), encoding="utf-8")
    run_ranks([sys.executable, str(Path(__file__).with_name("rank_worker.py")), str(out), "cpu"], 2)
    return lambda name: [load_file(out / f"{name}-{rank}.safetensors") for rank in range(2)]


def run_ranks(command: list[str], count: int) -> None:
    """The same command as several ranks; all must succeed."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_port()), "WORLD_SIZE": str(count)}
    processes = [
        subprocess.Popen(command, env=os.environ | place | {"RANK": str(rank)}, stderr=subprocess.PIPE)
        for rank in range(count)
    ]
    errors = [process.communicate(timeout=300)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * count, errors


def run_twin(algo: str, whole: bool, iterations: int = ITERATIONS, **changes: Any) -> Twin:
    with limit_threads(1, 1):
        twin = Twin(make_config(algo, **changes), whole)
        twin.start()
        for _ in range(iterations):
            twin.iterate()
    return twin


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_two_processes_have_the_same_bits_as_one_that_adds_two_gradients(
    algo: str, trained: Callable[[str], list[Found]]
) -> None:
    twin, ranks = run_twin(algo, whole=False), trained(f"{algo}-eager")
    updates = twin.learner.updates
    assert updates >= (16 if algo == "pqn" else 40)
    for found in ranks:
        assert found["totals"].tolist()[::2] == [twin.transitions, updates]
        assert torch.equal(found["weights"], twin.learner.flat.values)
        assert torch.equal(found["target"], twin.learner.target_flat.values)
    for found, parts in zip(ranks, twin.halves, strict=True):
        assert torch.equal(found["obs"], parts.ring.obs)
        assert torch.equal(found["action"], parts.ring.action)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_two_halves_of_a_batch_teach_what_the_whole_batch_teaches(
    algo: str, way: str, trained: Callable[[str], list[Found]]
) -> None:
    """Within rounding: the mean of two means is not the mean of all, bit by bit."""
    twin = run_twin(algo, whole=True)
    for found in trained(f"{algo}-{way}"):
        assert found["totals"].tolist()[::2] == [twin.transitions, twin.learner.updates]
        torch.testing.assert_close(found["weights"], twin.learner.flat.values, rtol=1e-3, atol=1e-4)


def test_boards_play_the_same_games_whichever_rank_has_them(trained: Callable[[str], list[Found]]) -> None:
    """Until learning starts, two rings side by side are the ring of one process, bit by bit."""
    config = make_config("dqn")
    parts = assemble_parts(config, build_env(config.env, config.envs, CPU))
    parts.start()
    schedules = Schedules(config, parts.collector.eps, parts.learner.lr, parts.sampler)
    for _ in range(BEFORE_LEARNING):
        schedules.write(parts.counts.transitions)
        parts.collector.collect()
        parts.counts.publish()
    for name in ("obs", "action", "kind"):
        both = torch.cat([found[name] for found in trained("start")], 1)
        assert torch.equal(both, getattr(parts.ring, name)), name
    assert int(parts.ring.filled) == BEFORE_LEARNING


def test_spread_exploration_is_that_of_all_boards(trained: Callable[[str], list[Found]]) -> None:
    twin = run_twin("dqn", False, explore__schedule="spread", replay__n_step=3)
    assert all(torch.equal(found["weights"], twin.learner.flat.values) for found in trained("spread"))


def test_evaluation_games_are_shared_out(trained: Callable[[str], list[Found]]) -> None:
    """All ranks have the result of all games, which are those of one process."""
    ranks = trained("dqn-eager")
    twin = run_twin("dqn", whole=False)
    config = twin.config
    games = build_evaluation_env(config.env, config.eval.episodes, CPU)
    result = evaluate(games, twin.learner.online, twin.learner.head, purpose_seed(config.seed, "evaluation"))
    for found in ranks:
        expected = [result.mean_score, result.mean_length, float(result.episodes)]
        torch.testing.assert_close(found["score"], torch.tensor(expected))
