"""Modes of execution: the same learning, whatever runs it; what cannot work falls to the next, loudly."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from flashdqn.compute import graphs as execute
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.compute.precision import allow_tf32
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.errors import ExecutionError
from flashdqn.envs import build_env
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.runs.folder import RunFolder
from flashdqn.training import autotune as choosing
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import (
    Choice,
    candidate_plans,
    choose_execution_plan,
    prepare_engine,
    warm_up_plan,
)
from flashdqn.training.backends import compiled as compiled_backend
from flashdqn.training.backends import compiler
from flashdqn.training.engine import Engine, all_group_sizes, group_size
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.warmup import clone_tensors, restore_after

SMALL: dict[str, Any] = {
    "envs": 16,
    "train_ratio": 0.25,
    "network.hidden": (32, 32),
    "replay": {"capacity": 2000},
    "learn": {"batch_size": 32, "starts": 100, "target_every": 5},
    "pqn": {"rollout": 8, "epochs": 2, "minibatches": 4},
    "eval.episodes": 4,
    "log.tensorboard": False,
}
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")),
]


def small(algo: str = "double", **changes: Any) -> Config:
    config = apply_algorithm(apply_settings(base_config("snake-flood"), SMALL), algo)
    return apply_settings(
        config, {"replay.capacity": 2000} | {k.replace("__", "."): v for k, v in changes.items()}
    )


def make(config: Config, device: str = "cpu") -> tuple[Engine, Parts]:
    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device(device)))
    return Engine(config, parts), parts


class EagerActing:
    """The network acts by plain operations, whatever the backend that records."""

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self.act, self.record = parts.collector.act, engine.backend.record


def filled(config: Config, plan: ExecutionPlan, device: str = "cpu") -> tuple[Engine, Parts]:
    """Warm in a plan, then with a replay that eager play has filled: the same whatever the plan."""
    engine, parts = make(config, device)
    with restore_after(config, parts):
        warm_up_plan(engine, plan)
    parts.collector.start(3)
    for _ in range(30 if parts.rollouts is None else config.pqn.rollout):
        parts.collector.collect(EagerActing(parts, engine))
        parts.sampler.rows_added()
    return engine, parts


def learned(
    config: Config, plan: ExecutionPlan, updates: int, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """All that learning has touched after so many updates."""
    with allow_tf32(torch.device(device)):
        engine, parts = filled(config, plan, device)
        engine.learn(updates)
    return clone_tensors(parts.learner.weights()) | clone_tensors(parts.learner.state_dict())


def assert_alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], rtol=tolerance, atol=tolerance), name


# ---- parity


@pytest.mark.parametrize("bootstrap", ["double", "greedy"])
@pytest.mark.parametrize(
    "change", [{}, {"learn__target_every": 0}, {"replay__n_step": 3, "replay__priority": 0.6}]
)
def test_written_learns_what_eager_learns(bootstrap: str, change: dict[str, Any]) -> None:
    config = small(learn__bootstrap=bootstrap, **change)
    assert_alike(
        learned(config, ExecutionPlan("eager"), 12), learned(config, ExecutionPlan("native"), 12), 2e-5
    )


@pytest.mark.parametrize("algo", ["dueling", "per", "noisy", "c51", "qr-dqn", "munchausen", "rainbow", "pqn"])
def test_written_learns_every_algorithm_as_eager_does(algo: str) -> None:
    config = small(algo, learn__target_every=0)
    updates = 8 if algo == "pqn" else 12
    one, other = (learned(config, ExecutionPlan(way), updates) for way in ("eager", "native"))
    assert_alike(one, other, 2e-4)


@pytest.mark.parametrize("algo", ["double", "per", "rainbow"])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_written_learns_from_kept_demonstrations_as_eager_does(algo: str, weight: float) -> None:
    shown = {"demos__episodes": 1, "demos__keep": 64, "demos__share": 0.3, "demos__margin_weight": weight}
    config = small(algo, demos__source="cycle", **shown)
    found = []
    for way in ("eager", "native"):
        engine, parts = filled(config, ExecutionPlan(way))  # type: ignore[arg-type]
        assert parts.demonstrations is not None
        choices = torch.zeros_like(parts.ring.action)
        generator = torch.Generator().manual_seed(4)
        parts.demonstrations.take(parts.ring, choices, config.replay.n_step, 0.9, generator)
        engine.learn(12)
        found.append(clone_tensors(parts.learner.weights()) | clone_tensors(parts.learner.state_dict()))
    assert_alike(*found, 2e-4)


@pytest.mark.skipif(execute.compiler_missing(torch.device("cpu")) is not None, reason="needs a C++ compiler")
@pytest.mark.parametrize("algo", ["double", "rainbow", "iqn"])
def test_compiled_learns_what_eager_learns(algo: str) -> None:
    config = small(algo, learn__target_every=0)
    assert_alike(
        learned(config, ExecutionPlan("eager"), 6), learned(config, ExecutionPlan("compile"), 6), 5e-4
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    "algo", ["double", "per", "noisy", "c51", "qr-dqn", "iqn", "munchausen", "rainbow", "pqn"]
)
def test_a_graph_repeats_eager_bit_by_bit(algo: str) -> None:
    config = small(algo)
    eager = learned(config, ExecutionPlan("eager"), 8, "cuda")
    assert_alike(eager, learned(config, ExecutionPlan("eager", graph=True), 8, "cuda"), 0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("way", ["compile", "native"])
def test_graphs_of_faster_updates_learn_what_eager_learns(way: Any) -> None:
    config = small()
    eager = learned(config, ExecutionPlan("eager"), 8, "cuda")
    assert_alike(eager, learned(config, ExecutionPlan(way, graph=True), 8, "cuda"), 2e-2)  # TF32 has ten bits


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    "plan",
    [ExecutionPlan("eager"), ExecutionPlan("eager", graph=True), ExecutionPlan("native", graph=True)],
    ids=str,
)
@pytest.mark.parametrize("algo", ["double", "per"])
def test_an_iteration_never_waits_for_the_device(plan: ExecutionPlan, algo: str, tmp_path: Path) -> None:
    """PyTorch itself raises at whatever would make the host wait; and a graph does all in a handful of launches."""
    config = small(algo)
    engine, parts = make(config, "cuda")
    with restore_after(config, parts), allow_tf32(parts.env.device):
        warm_up_plan(engine, plan)
    loop = Loop(config, parts, RunFolder(tmp_path), Silent(), parts.env, engine)
    loop.start()
    for _ in range(30):
        loop.iterate()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it is a prototype
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(10):
            loop.iterate()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(10):
                loop.iterate()
    names = {event.key: event.count for event in profile.key_averages()}
    for waiting in (
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaMalloc",
        "cudaHostAlloc",
        "aten::item",
    ):
        assert waiting not in names
    if plan.graph:
        assert names.get("cudaGraphLaunch", 0) >= 10
        # ε, learning rate, β, and two numbers for each generator of a graph
        assert names.get("cudaLaunchKernel", 0) <= 10 * (3 + 2 * 4)


# ---- what the trial does and leaves behind


@pytest.mark.parametrize("algo", ["double", "rainbow", "iqn", "pqn"])
@pytest.mark.parametrize("device", DEVICES)
def test_preparing_leaves_no_trace(algo: str, device: str) -> None:
    config = small(algo)
    _, cold = make(config, device)
    _, warmed = make(config, device)
    prepare_engine(config, warmed, note=lambda text: None)
    assert_alike(cold.learner.weights(), warmed.learner.weights(), 0.0)
    for name, tensor in cold.state_dict().items():
        assert torch.equal(tensor, warmed.state_dict()[name]), name
    assert warmed.counts.transitions == warmed.learner.updates == 0
    assert warmed.phases.read() == {}


def test_auto_takes_the_first_unless_another_is_clearly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small()
    for eager, expected in ((1.0, "native"), (0.9, "native"), (0.5, "eager")):
        engine, _ = make(config)
        monkeypatch.setattr(
            choosing,
            "time_updates",
            lambda engine, best=0.0, t=eager: 1.0 if engine.plan.way == "native" else t,
        )
        choice = choose_execution_plan(config, engine, note=pytest.fail)
        assert choice.plan == engine.plan == ExecutionPlan(expected)  # type: ignore[arg-type]
        assert "native 1,000,000 µs" in choice.why


def test_what_does_not_work_falls_to_the_next_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    for changes, mode in (
        ({}, "graph"),
        ({"network__normalize": True}, "native"),
        ({"learn__head": "iqn"}, "native"),
    ):
        engine, _ = make(small(runtime__mode=mode, **changes))
        assert choose_execution_plan(engine.config, engine, heard.append).plan == ExecutionPlan(
            "eager" if changes else "native"
        )
    assert len(heard) == 3
    assert "'graph' does not work here: CUDA graphs need --device cuda. Falling" in heard[0]
    assert "does not support observations that the network normalizes" in heard[1]
    assert "does not support implicit quantiles" in heard[2]


def test_a_compiler_that_fails_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: Any, dynamic: bool = False) -> Any:
        def fail(*arguments: Any) -> Any:
            raise RuntimeError("internal compiler error\nand a long story")

        return fail

    monkeypatch.setattr(compiler, "compiled", broken)
    monkeypatch.setattr(compiled_backend, "compiler_missing", lambda device: None)
    heard: list[str] = []
    config = small(runtime__mode="compile")
    _, parts = make(config)
    assert prepare_engine(config, parts, heard.append)[1].plan == ExecutionPlan("eager")
    assert heard == [
        "The mode 'compile' does not work here: internal compiler error. Falling back to the next."
    ]


def test_a_run_says_what_it_picked_and_goes_on_with_it(tmp_path: Path) -> None:
    settings = SMALL | {"steps": 1500, "device": "cpu", "out": str(tmp_path), "progress": False}
    run = flashdqn.train("snake", **settings)
    assert run.config.runtime.mode == run.summary["mode"] == "native"
    assert run.summary["first_warm_up_seconds"] > 0
    again = flashdqn.train(resume=run.path, steps=2000, progress=False)
    assert again.config.runtime.mode == "native"


def test_modes_that_differ_in_rounding_alone_give_nearly_the_same_run(tmp_path: Path) -> None:
    settings = SMALL | {"steps": 1000, "device": "cpu", "progress": False}
    weights = []
    for mode in ("eager", "native"):
        run = flashdqn.train("snake", **settings, out=str(tmp_path), runtime={"mode": mode})
        network = flashdqn.load(run.path).network
        weights.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
    assert_alike(weights[0], weights[1], 1e-4)


def test_cpu_plans_of_every_mode() -> None:
    def names(mode: str, **changes: Any) -> list[str]:
        config = small(runtime__mode=mode, **changes)
        return [str(plan) for plan in candidate_plans(config, make(config)[1])]

    assert names("eager") == ["eager"]
    assert names("auto") == ["native", "eager"]
    assert names("auto", network__dueling=True) == ["native", "eager"]
    short: dict[str, Any] = {"network__normalize": True, "steps": 1000}
    compiles = execute.compiler_missing(torch.device("cpu")) is None
    assert names("auto", **short) == ["eager"]
    for long in ({"steps": 200_000}, {"episodes": 5000}, {"max_time": 600.0}):
        assert names("auto", **short | long) == ["eager", *["compile"] * compiles]
    assert names("native", network__normalize=True) == ["native", "eager"]
    assert names("graph") == ["graph", "native", "eager"]


def test_an_engine_refuses_what_does_not_apply() -> None:
    engine, _ = make(small(runtime__precision="bf16"))
    with pytest.raises(ExecutionError, match="only in fp32"):
        engine.use(ExecutionPlan("native"))
    assert Choice(ExecutionPlan("compile", graph=True)).why == "graph of compile updates"


# ---- groups


def test_groups_are_powers_of_two_and_stop_at_a_copy_into_the_target() -> None:
    assert [group_size(n) for n in (1, 2, 3, 4, 7, 8, 15, 16)] == [1, 2, 2, 4, 4, 8, 8, 16]
    assert all_group_sizes(8) == [8, 4, 2, 1]
    config = small(learn__target_every=5, train_ratio=1.0)
    engine, parts = filled(config, ExecutionPlan("eager"))
    drawn: list[int] = []
    sample = engine.backend.sample
    engine.backend.sample = lambda count: drawn.append(count) or sample(count)  # type: ignore
    engine.learn(13)
    assert drawn == [4, 1, 4, 1, 2, 1]  # up to 5, up to 10, and three more
    assert parts.learner.updates == 13
