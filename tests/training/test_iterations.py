"""Several iterations in one launch: the same training, whatever their number; and kernels against plain twins.

Without a GPU the kernels are compiled by g++ (`cuda_on_cpu.py`), a graph is the function that it would hold, and
the updates are plain ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuda_on_cpu
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.types import Step
from flashdqn.envs import build_env
from flashdqn.replay.samplers import TRIES
from flashdqn.runs.folder import RunFolder
from flashdqn.training import engine as engines
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.backends.cuda import acting, backend, picking, recording, resident_backend
from flashdqn.training.backends.cuda.acting import ActingKernel, SetRates, choose_rows, list_matrices
from flashdqn.training.backends.cuda.picking import PickingKernel
from flashdqn.training.backends.cuda.recording import Decision, RecordingKernel, make_decision
from flashdqn.training.backends.cuda.resident_backend import ResidentBackend, count_most_updates
from flashdqn.training.budget import Limits, find_limits
from flashdqn.training.counts import Counts
from flashdqn.training.engine import Engine
from flashdqn.training.iterations import SEVERAL, Iterations
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.ratio import TrainRatio
from flashdqn.training.schedules import Schedules
from flashdqn.training.warmup import clone_tensors

CPU = torch.device("cpu")
SETTINGS: dict[str, Any] = {
    "device": "cpu",
    "envs": 6,
    "steps": 1000,
    "train_ratio": 0.3,
    "network.hidden": (24, 20),
    "replay.capacity": 600,
    "learn": {"batch_size": 8, "starts": 60, "target_every": 7, "lr_end": 1e-5, "lr_over": 700},
    "explore.over": 500,
    "eval": {"every": 400, "episodes": 2},
    "log": {"every": 250, "tensorboard": False, "checkpoint_every": 300},
}
needs_compiler = pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="needs g++")


def make_config(preset: str = "snake", **changes: Any) -> Config:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return apply_settings(apply_settings(base_config(preset), SETTINGS), named)


def make_parts(config: Config) -> Parts:
    return assemble_parts(config, build_env(config.env, config.envs, CPU))


class PlainUpdates:
    """What `ResidentUpdates` does, by plain operations."""

    def __init__(self, parts: Parts, most: int) -> None:
        self.parts, self.most = parts, most

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        return None

    def updates(self, bits: Tensor, due: Tensor) -> None:
        learner, sampler, size = self.parts.learner, self.parts.sampler, self.parts.config.update_size
        assert sampler.uniform is not None
        every, done = learner.config.target_every, int(learner.adam.steps)
        assert 0 <= int(due) <= self.most
        for k in range(int(due)):
            with torch.enable_grad():
                learner.step(sampler.uniform.pick(bits[:, k * size : (k + 1) * size]))
            if every and (done + k + 1) % every == 0:
                learner.target_flat.values.copy_(learner.flat.values)


class PlainGraphs:
    """In place of `Recorder`: what was captured is simply called."""

    def __init__(self, device: torch.device) -> None:
        pass

    def rehearse(self, function: Callable[[], object]) -> None:
        function()

    def capture(self, function: Callable[[], object], generators: Iterable[torch.Generator]) -> Any:
        return function


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels, graphs and updates that need no GPU."""
    for module in (acting, picking, recording):
        monkeypatch.setattr(module, "CompiledCuda", cuda_on_cpu.CudaOnCpu)
    monkeypatch.setattr(acting, "THREADS", 64)  # each costs a coroutine
    monkeypatch.setattr(resident_backend, "ResidentUpdates", PlainUpdates)
    monkeypatch.setattr(resident_backend, "explain_missing_nvrtc", lambda: None)
    monkeypatch.setattr(resident_backend, "prefers_resident", lambda parts: True)
    monkeypatch.setattr(backend, "explain_missing_nvrtc", lambda: None)
    monkeypatch.setattr(engines, "Recorder", PlainGraphs)


class Late(Counts):
    """Counts that arrive late, as on CUDA; every one is a copy, because plain graphs run at once."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.waiting: list[tuple[list[int], int]] = []
        self.waits = 0

    def publish(self, iterations: int = 1) -> None:
        self.waiting.append((self.board.tolist(), iterations))
        self.unseen += iterations
        if len(self.waiting) > self.LAG:
            self._take()

    def settle(self) -> None:
        self.waits += bool(self.waiting)
        while self.waiting:
            self._take()

    def load(self, transitions: int, episodes: int, updates: int = 0) -> None:
        super().load(transitions, episodes, updates)
        self.waiting.clear()

    def _take(self) -> None:
        (self.transitions, self.episodes, self.updates), iterations = self.waiting.pop(0)
        self.unseen -= iterations


def make_engine(config: Config, parts: Parts, largest: int) -> Engine:
    """An engine of whole iterations, `largest` in one launch, on the CPU."""
    engine = Engine(config, parts, ResidentBackend(parts, engines.Compiler()))
    own = engine.backend
    assert isinstance(own, ResidentBackend)
    launches = {n: functools.partial(own.iterate, n) for n in (1, largest)}
    engine._iterations = Iterations(parts, launches)
    return engine


def watch_loop(
    config: Config, folder: Path, largest: int, late: bool
) -> tuple[Loop, list[tuple[str, int, float]]]:
    """A loop, and a list of what happens in it: when, and with which weights."""
    parts = make_parts(config)
    if late:
        parts.counts = parts.collector.counts = Late(CPU)
    loop = Loop(config, parts, RunFolder(folder), Silent(), build_env(config.env, 2, CPU))
    loop.engine = make_engine(config, parts, largest) if largest else loop.engine
    seen: list[tuple[str, int, float]] = []

    def note(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            weights = float(parts.learner.flat.values.double().sum())
            seen.append((name, int(parts.counts.board[0]), weights))
            return function(*args, **kwargs)

        return noted

    for name in ("report", "evaluate", "save", "finish"):
        setattr(loop, name, note(name, getattr(loop, name)))
    folder.mkdir(parents=True, exist_ok=True)
    loop.folder.path.joinpath("checkpoints").mkdir(exist_ok=True)
    loop.start()
    return loop, seen


def read_state(parts: Parts) -> dict[str, Tensor]:
    found = clone_tensors(parts.learner.weights()) | clone_tensors(parts.state_dict())
    return found | {"board": parts.counts.board.clone()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


# -------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", [1, 5, 6, 7, 12, 13, 100])
def test_safe_iterations_never_reach_a_limit(limit: int) -> None:
    counts = Counts(CPU)
    room = Limits(limit).count_safe_iterations(counts, 6)
    assert room * 6 < limit <= (room + 1) * 6
    assert Limits(episodes=limit).count_safe_iterations(counts, 6) == room
    counts.unseen = 1
    assert Limits(limit).count_safe_iterations(counts, 6) == room - 1
    assert Limits().count_safe_iterations(counts, 6) == math.inf


def test_the_next_limit_is_the_nearest_of_all() -> None:
    counts, config = Counts(CPU), make_config(episodes=50)
    found = []
    for transitions in (0, 60, 249, 250, 300, 400, 750, 900, 1000):
        counts.transitions = transitions
        found.append(find_limits(config, counts, starts=60))
    assert [limits.transitions for limits in found] == [60, 250, 250, 300, 400, 500, 800, 1000, 1200]
    assert {limits.episodes for limits in found} == {50}


# -------------------------------------------------------------------------------------------------- kernels


def copy_of(parts: Parts, config: Config) -> Parts:
    """Other parts in the same state."""
    other = make_parts(config)
    weights, state = clone_tensors(parts.learner.weights()), clone_tensors(parts.state_dict())
    other.load(weights, state, {"transitions": 0, "episodes": 0, "updates": 0})
    return other


def play(config: Config, steps: int) -> Parts:
    parts = make_parts(config)
    parts.collector.start(3)
    for _ in range(steps):
        parts.collector.collect()
    return parts


def make_steps(parts: Parts, count: int) -> list[tuple[Tensor, Step, Tensor]]:
    """Random answers of environments, with many ends."""
    generator = torch.Generator().manual_seed(5)
    envs, collector = parts.config.envs, parts.collector
    found, ended = [], torch.zeros(envs, dtype=torch.bool)
    for _ in range(count):
        chance = torch.rand((3, envs), generator=generator)
        terminated, truncated = (chance[0] < 0.3) & ~ended, (chance[1] < 0.2) & ~ended
        ended = terminated | truncated
        obs = (torch.rand(collector.obs.shape, generator=generator) * 255).to(collector.obs.dtype)
        mask = None
        if collector.mask is not None:
            mask = torch.rand(collector.mask.shape, generator=generator) < 0.6
            mask[:, 0] |= ~mask.any(1)
        outcomes = torch.rand((envs, len(parts.metrics.names) - 3), generator=generator)
        outcomes[~ended] = math.nan
        actions = torch.randint(parts.env.num_actions, (envs,), generator=generator)
        found.append((actions, Step(obs, chance[2] - 0.5, terminated, truncated, mask), outcomes))
    return found


KINDS = {
    "snake": {},
    "planes": {"env.features": "grid", "network.torso": "mlp"},
    "sfc": {},
    "many": {"envs": 1100, "replay.capacity": 11_000},
}


def make_kind(name: str) -> Config:
    changes = {key.replace(".", "__"): value for key, value in KINDS[name].items()}
    return make_config("sfc" if name == "sfc" else "snake", **changes)


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_recording_equals_the_collector(kind: str, on_cpu: None) -> None:
    config = make_kind(kind)
    plain = play(config, 3)
    other = copy_of(plain, config)
    plain.counts.load(0, 0)
    record = RecordingKernel(other)
    steps = make_steps(plain, 2 * plain.ring.rows if config.envs < 100 else 20)
    for step in steps:
        plain.collector.record(*step)
        record(*step)
    assert torch.equal(plain.counts.board, other.counts.board)
    assert int(plain.counts.totals[1]) > 10
    assert torch.equal(plain.collector.obs, other.collector.obs)
    if plain.collector.mask is not None:
        assert other.collector.mask is not None
        assert torch.equal(plain.collector.mask, other.collector.mask)
    assert_same(plain.ring.state_dict(), other.ring.state_dict())
    assert torch.equal(plain.metrics.running, other.metrics.running)
    torch.testing.assert_close(plain.metrics.sums, other.metrics.sums, rtol=1e-5, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", ["snake", "planes", "sfc"])
def test_picking_equals_the_sampler(kind: str, n_step: int, on_cpu: None) -> None:
    config = apply_settings(make_kind(kind), {"replay.n_step": n_step})
    parts = play(config, 1)
    sampler, generator = parts.sampler.uniform, torch.Generator().manual_seed(1)
    assert sampler is not None
    assert PickingKernel.fits(parts.ring)
    pick = PickingKernel(sampler)
    for step in make_steps(parts, 130):  # the ring has fewer rows
        parts.collector.record(*step)
        if int(parts.ring.filled) in (7, 50, parts.ring.rows - 1):
            bits = torch.empty((TRIES, 75), dtype=torch.int64).random_(generator=generator)
            found, expected = pick(bits), sampler.pick(bits)
            assert torch.equal(found.index, expected.index)
            assert torch.equal(found.weight, expected.weight)
            for name, value, wanted in zip(
                expected.transition._fields, found.transition, expected.transition, strict=True
            ):
                if wanted is None:
                    assert value is None
                elif name == "reward" and n_step > 1:
                    torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6)
                else:
                    assert torch.equal(value, wanted), name


NETWORKS = [(120, 84), (48, 200, 72), (17,), (16, 32, 24, 40), (256, 256)]


@needs_compiler
@pytest.mark.parametrize("hidden", NETWORKS)
@pytest.mark.parametrize("kind", ["snake", "planes", "sfc"])
def test_actions_equal_the_networks(kind: str, hidden: tuple[int, ...], on_cpu: None) -> None:
    if kind != "snake" and hidden not in ((120, 84), (17,)):
        pytest.skip("sizes of hidden layers and kinds of observations do not meet in the kernel")
    config = apply_settings(make_kind(kind), {"network.hidden": hidden})
    if list_matrices(make_parts(config).learner.online) is None:
        config = apply_settings(config, {"network.dueling": False, "network.layer_norm": False})
    parts = play(config, 4)
    act, collector = ActingKernel(parts), parts.collector
    for k, eps in enumerate((0.0, 0.5, 1.0)):
        collector.luck.uniform_(generator=torch.Generator().manual_seed(k))
        collector.eps.fill_(eps)
        obs, mask = collector.obs, collector.mask
        if obs.dtype == torch.float32:
            obs = torch.randn(obs.shape, generator=torch.Generator().manual_seed(k))
        expected = collector.act(obs, mask, collector.eps, collector.luck)
        assert torch.equal(act(obs, mask, collector.eps, collector.luck), expected)


@needs_compiler
@pytest.mark.parametrize("schedule", ["linear", "exponential", "spread"])
@pytest.mark.parametrize("lr_end", [None, 1e-5])
def test_rates_equal_the_schedules(schedule: str, lr_end: float | None, on_cpu: None) -> None:
    config = make_config(
        explore__schedule=schedule, learn__lr_end=lr_end, explore__over=5000, explore__end=0.013
    )
    plain, other = make_parts(config), make_parts(config)
    host, _ = (Schedules(config, p.collector.eps, p.learner.lr, p.sampler) for p in (plain, other))
    act, set_rates = ActingKernel(other), SetRates(other)
    collector = other.collector
    for k, transitions in enumerate((0, 1, 17, 333, 699, 701, 2500, 4999, 5000, 10**12)):
        host.write(transitions)
        other.counts.load(transitions, 0)
        if k % 2:
            set_rates()
        else:
            act(collector.obs, None, collector.eps, collector.luck, decide=True)
        assert torch.equal(plain.collector.eps, collector.eps), transitions
        assert torch.equal(plain.learner.lr, other.learner.lr), transitions


@needs_compiler
@pytest.mark.parametrize(
    "ratio", [0.0, 1 / 32, 0.1, 0.3, 1.0, 2.5, 1 / 3, 0.12345678901234567, 1.2345678901234567e-07]
)
def test_due_updates_equal_the_ratio(ratio: float, on_cpu: None) -> None:
    config = make_config(train_ratio=ratio)
    parts = play(config, 1)
    record, steps = RecordingKernel(parts), make_steps(parts, 40)
    due = torch.zeros(1, dtype=torch.int32)
    exact = TrainRatio(ratio, starts=60)
    for most, start in ((1000, 0), (2, 0), (1000, 3 * 10**11)):
        updates = exact.due(start, 0)
        parts.counts.load(start, 0, updates)
        for step in steps:
            record(*step, make_decision(exact, most, due))
            expected = min(most, exact.due(int(parts.counts.totals[0]), updates))
            updates += expected
            assert int(due) == expected
            assert int(parts.counts.board[2]) == updates
    record(*steps[0], Decision())  # it decides nothing
    assert int(parts.counts.board[2]) == updates


def test_rows_of_a_block_fit() -> None:
    for envs in (1, 10, 64, 256, 1000, 65536):
        for widest in (16, 120, 256, 1024, 6144):
            rows = choose_rows(envs, widest)
            assert rows * widest <= 6144
            assert rows == 1 or envs > 128
    assert choose_rows(10, 120) == 1
    assert choose_rows(65536, 256) == 16


@pytest.mark.parametrize(
    ("ratio", "envs", "most"), [(0.1, 10, 1), (0.1, 64, 7), (1 / 32, 256, 8), (0.0, 5, 1)]
)
def test_most_updates_are_those_a_step_can_earn(ratio: float, envs: int, most: int) -> None:
    assert count_most_updates(make_config(train_ratio=ratio, envs=envs)) == most


# -------------------------------------------------------------------------------------------------- trainings


@needs_compiler
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("ends", [{"steps": 1000}, {"steps": None, "episodes": 12}])
def test_several_iterations_equal_single_ones(
    late: bool, ends: dict[str, Any], tmp_path: Path, on_cpu: None
) -> None:
    config = make_config(**ends)
    found = []
    for largest in (1, SEVERAL, 5):
        loop, seen = watch_loop(config, tmp_path / str(largest), largest, late)
        assert loop.run()
        found.append((read_state(loop.parts), seen, loop.parts.learner.updates, loop.reporter.step))
    for state, seen, updates, step in found[1:]:
        assert seen == found[0][1]
        assert (updates, step) == found[0][2:]
        assert_same(state, found[0][0])
    state, seen, updates, _ = found[0]
    transitions = int(state["board"][0])
    assert updates == int(state["board"][2]) == math.floor(0.3 * (transitions - 60)) > 20
    assert "report" in [name for name, *_ in seen]


@needs_compiler
def test_a_network_that_acts_by_other_means(
    tmp_path: Path, on_cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_backend, "choose_acting", lambda parts, compiler: parts.collector.act)
    config = make_config(network__dueling=True, steps=500)
    assert list_matrices(make_parts(config).learner.online) is None
    found = []
    for largest in (1, SEVERAL):
        loop, seen = watch_loop(config, tmp_path / str(largest), largest, late=True)
        assert loop.run()
        found.append((read_state(loop.parts), seen))
    assert_same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert float(loop.parts.collector.eps[0]) < 0.5  # the device has lowered it


class HostDecides(Engine):
    """The host counts, schedules and decides, in plain operations; but it draws numbers as the device does."""

    def learn(self, due: int) -> None:
        parts, most = self.parts, count_most_updates(self.config)
        bits = torch.empty((TRIES, most * self.config.update_size), dtype=torch.int64)
        bits.random_(generator=parts.generators["replay"])
        PlainUpdates(parts, most).updates(bits, torch.tensor([due]))
        parts.learner.updates += due


@needs_compiler
@pytest.mark.parametrize("ratio", [0.3, 1 / 32])
def test_it_learns_what_a_host_that_decides_learns(ratio: float, tmp_path: Path, on_cpu: None) -> None:
    config = make_config(train_ratio=ratio)
    device, seen = watch_loop(config, tmp_path / "device", SEVERAL, late=True)
    host, expected = watch_loop(config, tmp_path / "host", 0, late=False)
    host.engine = HostDecides(config, host.parts)
    assert device.run()
    assert host.run()
    assert seen == expected
    assert device.parts.learner.updates == host.parts.learner.updates > 20
    state, other = read_state(device.parts), read_state(host.parts)
    for one in (state, other):
        for name in ("generator.replay", "board", "metrics.sums"):
            del one[name]
    assert_same(state, other)
    assert torch.equal(device.parts.collector.eps, host.parts.collector.eps)


@needs_compiler
def test_stopped_and_resumed_equals_never_stopped(tmp_path: Path, on_cpu: None) -> None:
    config = make_config()
    whole, _ = watch_loop(config, tmp_path / "whole", SEVERAL, late=True)
    assert whole.run()
    first, _ = watch_loop(config, tmp_path / "first", SEVERAL, late=True)
    first.fill()
    for _ in range(5):
        first.iterate()
    path = first.save(timed=True)  # without telling the loop anything new
    second, _ = watch_loop(config, tmp_path / "first", SEVERAL, late=True)
    second.resume(path)
    assert second.parts.learner.updates == int(second.parts.counts.board[2]) > 0
    assert second.run()
    assert_same(read_state(second.parts), read_state(whole.parts))


@needs_compiler
def test_the_host_waits_only_near_limits(tmp_path: Path, on_cpu: None) -> None:
    config = make_config(steps=2000, log__every=2000, eval__every=0, log__checkpoint_every=0)
    loop, _ = watch_loop(config, tmp_path, SEVERAL, late=True)
    counts = loop.parts.counts
    assert isinstance(counts, Late)
    assert loop.run()
    assert 0 < counts.waits < 40  # of more than 330 iterations


@needs_compiler
def test_an_engine_captures_graphs_of_one_and_of_several(on_cpu: None) -> None:
    config = make_config()
    parts = make_parts(config)
    engine = Engine(config, parts)
    parts.env.capturable = True  # type: ignore[attr-defined]
    plan = ExecutionPlan("native", graph=True, several=True)
    engine.plan, engine._backend = plan, ResidentBackend(parts, engine.compiler)
    parts.collector.start(0)
    for _ in range(5):
        engine.collect()
    engine.capture(lambda: None)
    assert engine.decides_on_device
    before = int(parts.counts.totals[0])
    assert engine.iterate(Limits(before + 7))
    assert before < int(parts.counts.totals[0]) <= before + 6
    assert engine.iterate(Limits())
    assert int(parts.counts.totals[0]) > before + 10 * SEVERAL / 4
    updates = parts.learner.updates
    engine.learn(2)
    assert int(parts.counts.board[2]) == parts.learner.updates == updates + 2


def test_what_does_not_fit_is_said_in_a_sentence(on_cpu: None) -> None:
    def reason(**changes: Any) -> str | None:
        return ResidentBackend.fits(make_parts(make_config(**changes)))

    assert reason() is None
    assert "draw uniformly" in str(reason(replay__priority=0.5))
    assert "600 updates" in str(reason(train_ratio=100.0))
    assert "means of observations" in str(reason(network__normalize=True))
