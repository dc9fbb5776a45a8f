"""What helpers do before a training on a GPU needs it: they are never needed, and change nothing."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from flashdqn.compute import compile_ahead as ahead
from flashdqn.compute import graphs
from flashdqn.compute.compilation import get_log, restart_log
from flashdqn.compute.compile_ahead import CallJob, is_compiled_elsewhere, wait_for
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.learn.learner import Learner
from flashdqn.training import rehearse as rehearse_module
from flashdqn.training.backends import compiler
from flashdqn.training.backends.compiled import CompiledBackend
from flashdqn.training.compile_games import compile_games, plan_games
from flashdqn.training.rehearse import FUNCTIONS, is_done, note_done, plan_rehearsals, rehearse

SMALL: dict[str, Any] = {"envs": 4, "learn.batch_size": 8, "replay.capacity": 400, "runtime.threads": 1}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLASHDQN_CACHE", str(tmp_path))
    monkeypatch.setattr(rehearse_module, "find_cache_folder", lambda: tmp_path)
    monkeypatch.setattr(rehearse_module, "cores", lambda: 16)
    return tmp_path


# ---- by PyTorch's compiler


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("preset", "changes", "planned"),
    [
        ("snake-grid", {}, (ahead.FUSED_LAYERS,)),
        ("fuelbreaks-20", {}, (ahead.FUSED_LAYERS,)),
        ("snake-grid", {"runtime.mode": "eager"}, (ahead.FUSED_LAYERS,)),
        ("snake-grid", {"network.layer_norm": False}, FUNCTIONS),
        ("snake-grid", {"runtime.mode": "compile"}, FUNCTIONS),
        ("sfc-shown", {}, FUNCTIONS),
        ("snake-flood", {}, ()),  # written by hand
        ("cartpole", {"learn.head": "categorical"}, ()),  # somebody else's games are not started twice
        ("snake-grid", {"network.torso": "mine:Torso"}, ()),
    ],
)
def test_networks_with_much_to_compile_are_rehearsed(
    preset: str, changes: Any, planned: tuple[str, ...]
) -> None:
    config = apply_settings(base_config(preset), changes)
    jobs = plan_rehearsals(config)
    assert [job.kernels for job in jobs] == [(name,) for name in planned]
    assert json.dumps([job.to_json() for job in jobs])


def test_what_is_compiled_already_is_not_rehearsed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = base_config("snake-grid")
    assert plan_rehearsals(config)
    note_done(config)
    assert is_done(config)
    assert is_done(dataclasses.replace(config, steps=5, seed=7)), "the code does not depend on these"
    assert not is_done(dataclasses.replace(config, envs=8))
    assert not plan_rehearsals(config)
    other = dataclasses.replace(config, envs=8)
    monkeypatch.setattr(rehearse_module, "cores", lambda: 2)
    assert not plan_rehearsals(other)
    for k in range(3):  # damage does no harm, and nothing is lost in a second training
        note_done(dataclasses.replace(config, envs=16 + k))
    assert is_done(config)
    (cache / rehearse_module.DONE_FILE).write_text("{")
    assert not is_done(config)
    note_done(config)


@pytest.mark.parametrize("preset", ["snake-grid", "sfc-shown", "fuelbreaks-small"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_rehearsal_calls_what_the_training_will_call(
    preset: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same function with the same kinds of arguments; here nothing is compiled."""
    called: list[tuple[str, list[Any]]] = []

    def compiled(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            called.append((function.__name__, describe(arguments)))
            return function(*arguments)

        return call

    monkeypatch.setattr(compiler, "compiled", compiled)
    monkeypatch.setattr(graphs, "load_torch_compiler", lambda: None)
    changes = {"env.landscapes": 2, "env.held_out": 1} if preset.startswith("fuel") else {}
    changes |= {"network.channels": [4]} if preset != "sfc-shown" else {"demos.keep": 50, "demos.episodes": 1}
    config = apply_settings(base_config(preset), SMALL | changes)
    rehearse(json.loads(json.dumps(rehearse_module.to_dict(config))), name, "cpu")
    assert [which for which, _ in called] == [name]
    rehearsed = called.pop()
    play_once(config)
    assert rehearsed in called


@pytest.mark.parametrize("preset", ["snake-grid", "fuelbreaks-small"])
def test_a_rehearsal_of_fused_layers_learns_once(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the batch, the boards and the network of the training; the games may be smaller."""
    learned: list[int] = []
    step = Learner.step

    def watched(self: Learner, batch: Any, *others: Any) -> Any:
        learned.append(len(batch.transition.reward))
        return step(self, batch, *others)

    monkeypatch.setattr(Learner, "step", watched)
    config = apply_settings(base_config(preset), SMALL | {"network.channels": [4]})
    rehearse(json.loads(json.dumps(rehearse_module.to_dict(config))), ahead.FUSED_LAYERS, "cpu")
    assert learned == [8]


def play_once(config: Any) -> None:
    """One step and one update, as a training makes them."""
    from flashdqn.envs import build_env
    from flashdqn.training.assemble import assemble_parts
    from flashdqn.training.backends.compiler import Compiler

    parts = assemble_parts(config, build_env(config.env, config.envs, torch.device("cpu")))
    backend = CompiledBackend(parts, Compiler())
    parts.collector.start(3)
    for _ in range(parts.sampler.least_rows):
        parts.collector.collect(backend)
    backend.update(parts.sampler.batches(2, config.update_size))


def describe(value: Any) -> Any:
    """All that compiled code depends on: types, shapes and strides."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.requires_grad
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(describe, value)]
    return value


# ---- waiting for helpers


class Ended:
    """A helper that has ended."""

    waits = stops = 0

    def wait(self) -> None:
        self.waits += 1

    def stop(self) -> None:
        self.stops += 1


def test_a_function_waits_for_its_helper_once(monkeypatch: pytest.MonkeyPatch) -> None:
    helper, given = Ended(), []
    monkeypatch.setattr(ahead, "_awaited", {"goals": helper})
    monkeypatch.setattr(compiler, "compiled", lambda function, *before: given.append(before) or function)
    kept = compiler.Compiler()
    assert kept.compile("act", len) is len
    assert kept.compile("goals", len) is len
    assert given[0] == ()
    assert is_compiled_elsewhere("goals")
    (before,) = given[1]
    before()
    before()
    assert helper.waits == 1
    assert not is_compiled_elsewhere("goals")
    wait_for("nobody compiles this")
    restart_log()


@pytest.mark.parametrize("found", [True, False])
def test_helpers_in_vain_are_stopped(found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are waited for only while what helpers compile is found."""
    compile_fx = importlib.import_module("torch._inductor.compile_fx")
    counters = importlib.import_module("torch._dynamo.utils").counters

    def pretend(graph: Any, inputs: Any) -> Any:
        counters["inductor"]["fxgraph_cache_hit"] += found
        return graph.forward

    monkeypatch.setattr(compile_fx, "compile_fx", pretend)
    helper, waited = Ended(), []
    monkeypatch.setattr(ahead, "_awaited", {"gradients": helper, "goals": helper})
    double = graphs.compiled(lambda x: 2 * x, lambda: waited.append(1))
    assert double(torch.ones(2)).tolist() == [2.0, 2.0]
    assert double(torch.zeros(2)).tolist() == [0.0, 0.0]
    assert waited == [1]
    assert helper.stops == (0 if found else 1)
    assert is_compiled_elsewhere("goals") is found


@pytest.mark.usefixtures("cache")
def test_a_helper_that_fails_is_waited_for_and_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    restart_log()
    job = CallJob("flashdqn.training.rehearse", "rehearse", {"settings": {}, "name": "?"}, ("?",), wait=True)
    monkeypatch.setattr(sys, "path", [str(Path(graphs.__file__).parents[2]), *sys.path])
    monkeypatch.setattr(ahead, "find_cache_folder", lambda: Path())
    monkeypatch.setattr(ahead, "cores", lambda: 4)
    try:
        ahead.compile_early([job])
        assert list(get_log().elsewhere) == ["?"]
        assert is_compiled_elsewhere("?")
        wait_for("?")
        assert ahead._working[0]._process.poll() not in (None, 0)
    finally:
        with ahead.compile_ahead([], 0):
            pass
    assert not ahead._working
    restart_log()


def test_compiled_code_has_the_same_name_in_every_program() -> None:
    """Python pickles a memory format by the first module that has `torch`, whichever that is."""
    graphs.load_torch_compiler()
    for value in (torch.contiguous_format, torch.channels_last, torch.preserve_format):
        packed = pickle.dumps(value)
        assert b"flashdqn.compute.graphs" in packed
        assert pickle.loads(packed) is value


# ---- the games


@pytest.mark.parametrize("preset", ["snake-flood", "snake-grid", "sfc-shown", "fuelbreaks-20"])
def test_helpers_know_the_kernels_of_the_games(preset: str) -> None:
    config = base_config(preset)
    jobs = plan_games(config)
    assert [job.arguments["device"] for job in jobs] == (
        ["cuda", "cpu"] if preset == "sfc-shown" else ["cuda"]
    )
    assert all(kernel.endswith("_cuda") for kernel in jobs[0].kernels)
    assert not plan_games(base_config("cartpole"))


@pytest.mark.parametrize("preset", ["snake", "sfc-shown", "fuelbreaks-20"])
def test_a_helper_makes_few_games(preset: str) -> None:
    job = plan_games(base_config(preset))[0]
    compile_games(**json.loads(json.dumps(job.arguments)) | {"device": "cpu"})
