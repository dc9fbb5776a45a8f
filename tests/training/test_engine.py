"""What could go wrong between plans: state left behind, code compiled for another training, errors in disguise."""

from __future__ import annotations

import functools
import gc
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_modes import SMALL, filled, make, small
from torch import Tensor, nn

import flashdqn
from conftest import forge_settings
from flashdqn.compute.graphs import ExecutionPlan, compiled, copy_function_code
from flashdqn.core.errors import BadNumbersError, CheckpointError, EnvError, ExecutionError
from flashdqn.core.files import read_signed_json, write_json_atomically
from flashdqn.core.types import Batch
from flashdqn.learn.learner import Learner
from flashdqn.runs import checkpoint
from flashdqn.runs.records import CONFIG_FILE
from flashdqn.training import autotune as choosing
from flashdqn.training import engine as engines
from flashdqn.training.autotune import choose_execution_plan, choose_threads, prepare_engine, warm_up_plan
from flashdqn.training.backends import compiled as compiled_backend
from flashdqn.training.backends import compiler
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.counts import Counts
from flashdqn.training.engine import Engine, all_group_sizes
from flashdqn.training.warmup import exercise_engine, restore_after

CPU = torch.device("cpu")

#: What a warm-up may leave as it likes: written before it is read, or never read again.
SCRATCH = {
    "env.action_buffer",
    "collector.obs",  # `collector.start` and `resume` write it
    "collector.mask",
    "collector.luck",  # drawn before every use
    "collector._drawn",  # the luck of all ranks
    "env._action",
    "env._launch.arguments.1",  # the same memory
    "learner.flat.gradient",
    "learner._one_pass.settings.array",  # written before every pass
    "sampler._rows",
    "sampler._index",  # what belongs to a rollout is written when it is complete
    "sampler._order",
    "sampler._returns",
    "sampler._used",
    "sampler._weight",
}
RING = {f"ring.{name}" for name in ("obs", "action", "reward", "kind", "mask")}  # from the second row on


def reachable(thing: Any, path: str, seen: set[int], found: dict[str, Any]) -> dict[str, Any]:
    """Every tensor, number and generator that hangs on a thing, by its path."""
    if thing is None or isinstance(thing, bool | int | float | str | torch.dtype | torch.device):
        found[path] = thing
    elif id(thing) in seen:
        return found
    elif isinstance(thing, Tensor):
        found[path] = thing.detach().clone()
    elif isinstance(thing, np.ndarray):
        found[path] = torch.from_numpy(thing.copy())
    elif isinstance(thing, torch.Generator):
        found[path] = thing.get_state()
    else:
        seen.add(id(thing))
        for name, part in parts_of(thing):
            reachable(part, f"{path}.{name}" if path else str(name), seen, found)
    return found


def parts_of(thing: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(thing, dict):
        yield from thing.items()
    elif isinstance(thing, list | tuple):
        yield from enumerate(thing)
    elif isinstance(thing, nn.Module) or type(thing).__module__.startswith("flashdqn"):
        yield from getattr(thing, "__dict__", {}).items()


@pytest.mark.parametrize("algo", ["double", "rainbow", "iqn", "munchausen", "pqn"])
def test_preparing_touches_nothing_that_is_read_later(algo: str) -> None:
    config = small(algo)
    _, parts = make(config)
    named = {"ring": parts.ring} | vars(parts)  # the learner reaches the ring, too
    before = reachable(named, "", set(), {})
    prepare_engine(config, parts, note=pytest.fail)
    after = reachable(named, "", set(), {})
    assert len(before) > 60
    for name in before.keys() - SCRATCH:
        one, other = before[name], after[name]
        if isinstance(one, Tensor):
            assert torch.equal(one[:1], other[:1]) if name in RING else torch.equal(one, other), name
        else:
            assert one == other, name


# ---- compiled code


class Adder:
    def __init__(self, number: float) -> None:
        self.number = number

    def add(self, x: Tensor, times: int = 1, *, sign: int = 1) -> Tensor:
        return x + sign * times * self.number


def test_own_code_is_the_same_function() -> None:
    adder, x = Adder(3.0), torch.zeros(2)
    copy = copy_function_code(adder.add)
    assert copy.__code__ is not adder.add.__code__
    assert copy(x, 2, sign=-1).tolist() == [-6.0, -6.0]
    assert copy(x).tolist() == [3.0, 3.0]
    assert copy.__self__ is adder  # type: ignore[attr-defined]
    number = 4.0
    assert copy_function_code(lambda y, k=2: y + k * number)(x).tolist() == [8.0, 8.0]


def test_trainings_in_one_process_do_not_use_up_each_others_compilations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch compiles the same code eight times and then refuses; here, twice. No compiler is asked: it is the
    tracing that counts."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    with torch._dynamo.config.patch(recompile_limit=2):
        for k in range(4):
            assert compiled(Adder(float(k)).add)(torch.ones(3)).tolist() == [1.0 + k] * 3


def test_an_engine_compiles_once_for_each_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(function: Any) -> Any:
        asked.append(function.__name__)
        return lambda *arguments: function(*arguments)

    monkeypatch.setattr(compiler, "compiled", noted)
    monkeypatch.setattr(compiled_backend, "compiler_missing", lambda device: None)
    engine, _ = make(small())
    every = ["act", "apply", "goals", "gradients", "pick", "record"]
    warm_up_plan(engine, ExecutionPlan("compile"))
    assert sorted(asked) == every
    for plan in (ExecutionPlan("eager"), ExecutionPlan("compile")):
        warm_up_plan(engine, plan)
    assert sorted(asked) == every
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    warm_up_plan(engine, ExecutionPlan("compile"))
    assert sorted(asked) == sorted(2 * every)


def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions that would be compiled, as they are: a compiler takes a minute."""
    monkeypatch.setattr(compiler, "compiled", lambda function: lambda *arguments: function(*arguments))
    monkeypatch.setattr(compiled_backend, "compiler_missing", lambda device: None)


def recording_of(engine: Engine) -> Any:
    """The function that takes in a step, as it was compiled."""
    return vars(engine.backend)["_record"]


@pytest.mark.parametrize("way", ["native", "compile"])
@pytest.mark.parametrize(("all_of_them", "best"), [(1.0, 1), (0.9, 1), (0.7, 2)])
def test_threads_must_pay(way: Any, all_of_them: float, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    uncompiled(monkeypatch)
    monkeypatch.setattr(
        choosing, "time_updates", lambda engine: 1.0 if torch.get_num_threads() == 1 else all_of_them
    )
    engine, _ = make(small())
    warm_up_plan(engine, ExecutionPlan(way))
    try:
        assert choose_threads(engine) == 0  # one is all there is
        torch.set_num_threads(2)
        warm_up_plan(engine, ExecutionPlan(way))
        made = recording_of(engine)
        assert choose_threads(engine) == torch.get_num_threads() == best
        # compiled code belongs to a number of threads, and everything was run with it
        if way == "compile":
            assert (recording_of(engine) is made) == (best == 2)
    finally:
        torch.set_num_threads(1)


# ---- groups


@pytest.mark.parametrize("every", [0, 1, 3, 7, 16, 23, 1000])
@pytest.mark.parametrize("done", [0, 5])
def test_the_warm_up_sees_every_size_of_group(every: int, done: int) -> None:
    engine, parts = make(small(train_ratio=1.0, learn__target_every=every))
    assert engine.largest <= (every or 16)
    drawn: list[int] = []
    sample = engine.backend.sample
    engine.backend.sample = lambda count: drawn.append(count) or sample(count)  # type: ignore
    parts.learner.updates = done
    exercise_engine(engine)
    assert drawn == all_group_sizes(engine.largest)
    drawn.clear()
    engine.learn(100)
    assert set(drawn) <= set(all_group_sizes(engine.largest))


# ---- errors


class TroubleError(Exception):
    """Like Triton's: no RuntimeError."""


def test_whatever_a_mode_raises_leads_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise TroubleError("out of resource: shared memory, Required: 270336, Hardware limit: 101376.\nmore")

    monkeypatch.setattr(CpuBackend, "__init__", broken)
    heard: list[str] = []
    engine, _ = make(small(runtime__mode="native"))
    assert (
        choose_execution_plan(engine.config, engine, heard.append).plan
        == engine.plan
        == ExecutionPlan("eager")
    )
    assert len(heard) == 1
    assert "'native' does not work here: out of resource: shared memory" in heard[0]


@pytest.mark.parametrize("error", [TroubleError("as it is"), EnvError("as it is"), RuntimeError("as it is")])
def test_an_error_that_no_mode_is_to_blame_for_comes_out_as_it_is(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small()
    _, parts = make(config)

    def step(action: Tensor) -> Any:
        raise error

    monkeypatch.setattr(parts.env, "step", step)
    with pytest.raises(type(error), match="as it is") as caught:
        prepare_engine(config, parts, note=lambda text: None)
    assert not isinstance(caught.value, ExecutionError)


def test_without_a_warm_up_a_mode_that_does_not_apply_is_named_too() -> None:
    heard: list[str] = []
    config = small(runtime__mode="native", runtime__warmup=False, network__normalize=True)
    engine, choice = prepare_engine(config, make(config)[1], heard.append)
    assert choice.plan == engine.plan == ExecutionPlan("eager")
    assert len(heard) == 1
    assert "does not support observations that the network normalizes" in heard[0]


@pytest.mark.parametrize("way", ["eager", "native", "compile"])
def test_a_bad_loss_is_reported_with_its_own_number_also_inside_a_group(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncompiled(monkeypatch)
    engine, _ = filled(small(learn__target_every=0, train_ratio=0.5), ExecutionPlan(way))
    engine.learn(3)
    sample, size = engine.backend.sample, engine.config.update_size

    def spoiled(count: int) -> list[Batch]:
        batches = sample(count)
        for number, batch in enumerate(batches):
            third = 0 if len(batches) > 1 else min(2, len(batch.index) // size - 1) * size
            if number == min(2, len(batches) - 1):
                batch.transition.reward[third : third + size] = float("nan")
        return batches

    engine.backend.sample = spoiled  # type: ignore[method-assign]
    # The third of the group after 0, 1, 2.
    with pytest.raises(BadNumbersError, match="gradient step 5 holds"):
        engine.learn(4)


# ---- graphs, as far as the CPU can tell


class Replayed:
    """Records which functions would become graphs."""

    def __init__(self, device: torch.device) -> None:
        self.captured: list[Any] = []

    def rehearse(self, function: Any) -> None:
        function()

    def capture(self, function: Any, generators: Any) -> Any:
        list(generators)
        return function


@pytest.mark.parametrize("resumable", [True, False])
def test_games_that_are_only_tried_out_never_end_up_in_a_graph(
    resumable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Recorder", Replayed)
    config = small()
    engine, parts = make(config)
    parts.env.capturable, parts.env.resumable = True, resumable  # type: ignore[attr-defined]
    with restore_after(config, parts):
        assert (parts.collector.env is parts.env) == resumable
        engine.capture(rehearse=lambda: exercise_engine(engine))
    assert (engine._collect is not None) == resumable
    assert list(engine._graphs) == all_group_sizes(engine.largest)


# ---- resuming


def settings(path: Path, **changes: Any) -> dict[str, Any]:
    common = {"steps": 1500, "device": "cpu", "out": str(path), "progress": False}
    # A schedule that is not given would follow the number of steps.
    given = {"explore": {"over": 2000}, "learn": SMALL["learn"] | {"lr_over": 2000}}
    return SMALL | common | given | changes


def change_mode(run: Path, mode: str) -> None:
    forge_settings(run, lambda data: data["config"]["runtime"].update(mode=mode))


@pytest.mark.parametrize(("first", "then"), [("eager", "native"), ("native", "eager"), ("native", "graph")])
def test_a_run_can_go_on_in_another_mode(first: str, then: str, tmp_path: Path) -> None:
    run = flashdqn.train("snake", **settings(tmp_path / "one", runtime={"mode": first}))
    change_mode(run.path, then)
    flashdqn.train(resume=run.path, steps=2500, progress=False)
    whole = flashdqn.train("snake", **settings(tmp_path / "two", runtime={"mode": first}, steps=2500))
    ours, theirs = (
        checkpoint.load_checkpoint(checkpoint.list_checkpoints(path / "checkpoints")[-1], with_state=False)[0]
        for path in (run.path, whole.path)
    )
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("updates", [True, False])
def test_a_checkpoint_of_before_flat_parameters_is_refused_in_one_sentence(
    updates: bool, tmp_path: Path
) -> None:
    run = flashdqn.train("snake", **settings(tmp_path))
    path = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-1]
    weights, state, counters = checkpoint.load_checkpoint(path, with_state=True)
    state = {name: tensor for name, tensor in state.items() if ".optimizer." not in name}
    if updates:  # PyTorch's own optimizer, parameter by parameter
        for i, tensor in enumerate(weights.values()):
            state[f"learner.optimizer.{i}.step"] = torch.tensor(9.0)
            state[f"learner.optimizer.{i}.exp_avg"] = torch.zeros_like(tensor)
    record = read_signed_json(run.path / CONFIG_FILE)
    write_json_atomically(run.path / CONFIG_FILE, {key: record[key] for key in ("config", "hardware")})
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    checkpoint.save(path.parent, weights, state, counters)
    with pytest.raises(CheckpointError, match="written by an earlier flashdqn: resume with that version"):
        flashdqn.train(resume=run.path, steps=2500, progress=False)
    assert flashdqn.load(run.path).evaluate(2).episodes == 2


# ---- memory


@pytest.mark.parametrize("mode", ["eager", "native"])
def test_a_finished_training_leaves_nothing_in_memory(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[weakref.ref[Any]] = []
    start = Learner.__init__

    def noted(self: Learner, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        kept.append(weakref.ref(self))

    monkeypatch.setattr(Learner, "__init__", noted)
    flashdqn.train("snake", **settings(tmp_path, runtime={"mode": mode}))
    gc.collect()
    assert len(kept) > 1
    assert [reference() for reference in kept] == [None] * len(kept)


# ---- counts


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_couriers_are_few_pinned_and_late_by_a_fixed_number() -> None:
    counts = Counts(torch.device("cuda"))
    seen = []
    for _ in range(50):
        counts.totals += torch.tensor([8, 1], device="cuda")
        counts.publish()
        seen.append((counts.transitions, counts.episodes))
    expected = [max(0, k + 1 - Counts.LAG) for k in range(50)]
    assert seen == [(8 * k, k) for k in expected]
    couriers = [courier for courier, *_ in (*counts._traveling, *counts._idle)]
    assert len(couriers) == Counts.LAG + 1
    assert all(courier.is_pinned() for courier in couriers)
    counts.settle()
    assert (counts.transitions, counts.episodes) == (400, 50)
    counts.load(5, 2)
    assert counts.totals.tolist() == [5, 2]
    assert (counts.transitions, counts.episodes) == (5, 2)


def test_on_the_cpu_the_host_knows_at_once() -> None:
    counts = Counts(CPU)
    counts.totals += torch.tensor([8, 1])
    counts.publish()
    assert (counts.transitions, counts.episodes) == (8, 1)
