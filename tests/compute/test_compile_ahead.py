"""Helpers compile into the cache, end with whoever started them, and are never needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from cache_fixture import cache  # noqa: F401

from conftest import tiny_config
from flashdqn.compute import compile_ahead as ahead
from flashdqn.compute.calls import make_type
from flashdqn.compute.compilation import get_log, list_compiled, restart_log
from flashdqn.compute.compile_ahead import Helper, KernelJob, compile_ahead
from flashdqn.compute.kernels import Array, Kernel, Scalar, inner, skip_kernels
from flashdqn.compute.native import compile_for_types
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner
from flashdqn.training.backends.cpu import policy, update


@inner
def add_shares(worker: Scalar, threads: Scalar, numbers: Array, more: Scalar) -> None:
    for i in range(worker, len(numbers), threads):
        numbers[i] += more


JOB = KernelJob(add_shares, (("int64", 1), ("int64", 0)))


def wait_until(true: Callable[[], Any]) -> None:
    stop = time.monotonic() + 120
    while not true():
        assert time.monotonic() < stop, "it never came"
        time.sleep(0.02)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers find this module, too."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent), str(Path(__file__).parents[1])])


@pytest.mark.usefixtures("cache", "searched")
def test_a_helper_compiles_and_this_process_finds_it() -> None:
    restart_log()
    with compile_ahead([JOB], helpers=3):
        assert "add_shares" in get_log().elsewhere
        wait_until(lambda: "add_shares" in list_compiled())
    driver = compile_for_types(JOB.function, JOB.types)
    assert sum(driver.stats.cache_hits.values()) == 1
    with compile_ahead([JOB], helpers=3):  # nothing is left to do
        assert list(get_log().elsewhere) == ["add_shares"]
    restart_log()


@pytest.mark.usefixtures("cache")
def test_without_a_core_or_a_helper_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    restart_log()
    with compile_ahead([JOB], helpers=0):
        assert not get_log().elsewhere
    for python in ("/no/such/python", "", None):
        monkeypatch.setattr(sys, "executable", python)
        with compile_ahead([JOB], helpers=1):
            assert not get_log().elsewhere


@pytest.mark.usefixtures("cache")
def test_a_program_that_holds_python_inside_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    restart_log()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(ahead.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    with compile_ahead([JOB], helpers=1):
        assert not get_log().elsewhere


def test_a_helper_is_ended_with_its_work() -> None:
    with compile_ahead([], helpers=1):
        pass
    helper = Helper()
    helper.stop()
    assert helper._process.poll() is not None


def test_a_helper_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, signal\n"
        "from flashdqn.compute.compile_ahead import Helper\n"
        "print(Helper()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=found)
    pid = int(done.stdout)
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text())


def test_a_helper_imports_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "flashdqn", "threading"):
        (tmp_path / f"{name}.py").write_text("open('planted', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    helper = Helper("torch")
    helper.send([])
    wait_until(lambda: helper._process.poll() is not None)
    assert helper._process.returncode == 0
    helper.stop()
    assert not (tmp_path / "planted").exists()


def test_an_early_helper_takes_the_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[str]] = []

    class Fake:
        def __init__(self, module: str = "") -> None:
            self.module = module

        def send(self, jobs: list[KernelJob]) -> None:
            sent.append([self.module, *(job.name for job in jobs)])

        def stop(self) -> None:
            sent.append(["stop"])

    monkeypatch.setattr(ahead, "Helper", Fake)
    monkeypatch.setattr(ahead, "list_compiled", set)
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    ahead.start_early("early", "add_shares")
    ahead.start_early("early", "add_shares")
    jobs = [JOB, KernelJob(policy.run_policy, ()), KernelJob(update.plain_mlp_layers, ())]
    with compile_ahead(jobs, helpers=2):
        assert sent == [["early", "add_shares", "plain_mlp_layers"], ["", "run_policy"]]
    assert sent[2:] == [["stop"], ["stop"]]
    assert not ahead._early


@pytest.mark.parametrize(
    "changes",
    [
        {"network__hidden": (16, 16)},
        {"network__hidden": (16,)},
        {"network__hidden": (16, 16, 16)},
        {"network__dueling": True, "network__noisy": True},
        {"learn__head": "categorical"},
        {"learn__head": "quantile", "learn__bootstrap": "munchausen"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_jobs_have_the_types_that_a_training_uses(
    changes: dict[str, Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(runtime__mode="native", **changes)
    env = build_env(config.env, config.envs, torch.device("cpu"))
    learner = build_learner(config, env, torch.device("cpu"))
    jobs = [
        update.plan_update_kernel(learner.online, learner.head, learner.bootstrap, dtype),
        policy.plan_policy_kernel(learner.online, dtype, learner.head),
    ]
    used: dict[str, tuple[Any, ...]] = {}

    def note(function: Any, arguments: tuple[Any, ...]) -> Any:
        used[function.py_func.__name__] = tuple(map(numba.typeof, arguments))
        raise InterruptedError

    monkeypatch.setattr(update, "compile_for_threads", note)
    monkeypatch.setattr(policy, "compile_for_threads", note)
    obs = torch.zeros(8, *env.obs_spec.shape, dtype=dtype)
    with pytest.raises(InterruptedError):
        policy.NativePolicy(learner.online, 8, head=learner.head)(
            obs, None, torch.zeros(8), torch.zeros(2, 8)
        )
    updates = update.NativeUpdates(learner.online, learner.target, learner.head, learner.bootstrap)
    with pytest.raises(InterruptedError):
        updates.gradient(make_batch(obs))
    for job in jobs:
        assert job is not None
        assert used[job.name] == tuple(make_type(*named) for named in job.types)


def make_batch(obs: torch.Tensor) -> Any:
    from flashdqn.core.types import Batch, Transition

    rows = len(obs)
    number, whole = torch.zeros(rows), torch.zeros(rows, dtype=torch.int64)
    return Batch(
        transition=Transition(obs, whole, number, number, obs, None, None),
        index=whole,
        weight=torch.ones(rows),
    )


def test_an_environment_that_is_only_looked_at_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "_bind_cpu", lambda *_: pytest.fail("compiled"))
    config = tiny_config()
    with skip_kernels():
        env = build_env(config.env, 3, torch.device("cpu"))
    assert env.obs_spec == build_env_spec(config)


def build_env_spec(config: Any) -> Any:
    from flashdqn.envs.snake.env import _obs_spec

    return _obs_spec(config.env)
