"""The seam between the loop and what runs its work: who fits, and the two axes that are open, agents and ranks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_modes import filled, make, small
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config import Config
from flashdqn.core.ops import choose_epsilon_greedy
from flashdqn.core.types import Batch, Step, Transition
from flashdqn.learn.adam import Hyperparameters, clip_by_norm, move_by_adam
from flashdqn.learn.learner import build_learner
from flashdqn.learn.loss import TDLoss, td_loss
from flashdqn.replay.n_step import gather_transitions
from flashdqn.training.assemble import Parts
from flashdqn.training.backends import compiled as compiled_backend
from flashdqn.training.backends import compiler
from flashdqn.training.backends.catalog import BACKENDS, explain_misfit, find_backend
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.backends.cpu.backend import CpuBackend
from flashdqn.training.engine import Engine

CPU = torch.device("cpu")
WAYS: list[Any] = ["eager", "compile", "native"]


@pytest.fixture(autouse=True)
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be compiled runs as it is: a compiler takes a minute."""
    monkeypatch.setattr(compiler, "compiled", lambda function: lambda *arguments: function(*arguments))
    monkeypatch.setattr(compiled_backend, "compiler_missing", lambda device: None)


# ---- who fits


def test_every_way_has_a_backend_on_every_device() -> None:
    assert {way for way, _ in BACKENDS} == set(WAYS)
    assert {device for _, device in BACKENDS} == {"cpu", "cuda"}
    assert len(BACKENDS) == 6


@pytest.mark.parametrize(
    ("algo", "changes", "reason"),
    [
        ("double", {}, None),
        ("per", {}, None),
        ("rainbow", {}, None),
        ("munchausen", {"learn__head": "quantile", "network__layer_norm": True}, None),
        ("pqn", {}, None),
        ("double", {"network__normalize": True}, "does not support observations that the network normalizes"),
        ("iqn", {}, "does not support implicit quantiles"),
        ("double", {"runtime__precision": "bf16"}, "only in fp32"),
    ],
)
def test_a_backend_says_why_it_does_not_fit(algo: str, changes: Any, reason: str | None) -> None:
    _, parts = make(small(algo, **changes))
    said = CpuBackend.fits(parts)
    assert said is None if reason is None else said is not None and reason in said
    assert explain_misfit(ExecutionPlan("native"), parts) == said
    assert explain_misfit(ExecutionPlan("eager"), parts) is None
    assert explain_misfit(ExecutionPlan("eager", graph=True), parts) == "CUDA graphs need --device cuda"


def test_a_backend_changes_nothing_in_the_parts() -> None:
    """Another can take over at any moment: nothing of the last one is left behind."""
    config = small()
    engine, parts = filled(config, ExecutionPlan("native"))
    names = ("collector", "sampler", "learner", "ring")
    before = {name: set(vars(getattr(parts, name))) for name in names}
    functions = functions_in(parts, names)
    for way in (*WAYS, "eager"):
        engine.use(ExecutionPlan(way))
        engine.learn(2)
    for name in names:
        left = set(vars(getattr(parts, name))) - before[name]
        assert left <= {"_one_pass"}, name  # the learner's own, made at its first update
    assert functions == functions_in(parts, names)


def functions_in(parts: Parts, names: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Everything that can be called and hangs on a part, by its name and identity."""
    held = [(name, key, value) for name in names for key, value in vars(getattr(parts, name)).items()]
    return [(name, key, id(value)) for name, key, value in held if callable(value) and key != "_one_pass"]


# ---- ranks: one exchange of the flat gradient between backward and Adam


class MeetingPoint:
    """Two ranks in threads: each gets the mean of both gradients, as an all-reduce gives it."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=60)
        self.gradients: dict[int, Tensor] = {}
        self.calls = 0

    def exchange(self, rank: int) -> Callable[[Tensor], None]:
        def average(gradient: Tensor) -> None:
            self.gradients[rank] = gradient.clone()
            self.barrier.wait()
            gradient.copy_((self.gradients[0] + self.gradients[1]) / 2)
            self.barrier.wait()
            self.calls += 1

        return average


def run_both(*functions: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("soft", [True, False])
def test_two_ranks_with_half_a_batch_learn_what_one_learns(way: Any, soft: bool) -> None:
    changes: dict[str, Any] = {"learn__target_every": 0} if soft else {"learn__target_every": 100}
    engine, whole = filled(small(learn__batch_size=32, **changes), ExecutionPlan("eager"))
    batches = whole.sampler.batches(3, 32)
    meeting, ranks = MeetingPoint(), []
    for rank in range(2):
        _, parts = make(small(learn__batch_size=16, **changes))
        parts = dataclasses.replace(parts, exchange=meeting.exchange(rank))
        ranks.append((parts, find_backend(way, CPU)(parts, Compiler())))
    for batch in batches:
        engine.backend.update([batch])
        halves = [half_of(batch, rank) for rank in range(2)]
        run_both(*(lambda b=b, h=h: b.update([h]) for (_, b), h in zip(ranks, halves, strict=True)))
    assert meeting.calls == 6
    first, second = (parts.learner for parts, _ in ranks)
    assert torch.equal(first.flat.values, second.flat.values)
    assert not torch.equal(first.flat.values, make(small())[1].learner.flat.values)
    for ours, theirs in ((first.flat, whole.learner.flat), (first.target_flat, whole.learner.target_flat)):
        torch.testing.assert_close(ours.values, theirs.values, rtol=1e-4, atol=1e-6)


def half_of(batch: Batch, rank: int) -> Batch:
    size = len(batch.index) // 2
    rows = slice(rank * size, (rank + 1) * size)
    columns = (None if x is None else x[rows].contiguous() for x in batch.transition)
    return Batch(Transition(*columns), batch.weight[rows].contiguous(), batch.index[rows].contiguous())


# ---- agents: K learners stepped at once, hyperparameters as tensors


class Population:
    """A backend for K agents with N boards each: parameters [K, P], learning rates and limits [K, 1]."""

    compiles_recording = False

    def __init__(self, parts: Parts, lr: Tensor, grad_clip: Tensor) -> None:
        self.parts, self.agents, self.grad_clip = parts, len(lr), grad_clip[:, None]
        learner = parts.learner
        self.hyper = Hyperparameters(lr[:, None], learner.config.adam_eps, 0.0)
        starts = [
            build_learner(dataclasses.replace(parts.config, seed=k), parts.env, CPU) for k in range(len(lr))
        ]
        self.values = torch.stack([start.flat.values for start in starts])
        self.target = torch.stack([start.target_flat.values for start in starts])
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.steps, self.drawn = torch.zeros(()), list[Batch]()

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        return None

    def act(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        per_agent = obs.view(self.agents, -1, *obs.shape[1:])
        q = vmap(self.call)(self.values, per_agent)
        return choose_epsilon_greedy(q.flatten(0, 1), mask, eps, luck)

    def call(self, values: Tensor, obs: Tensor) -> Tensor:
        learner = self.parts.learner
        output: Tensor = functional_call(learner.online, learner.flat.split(values), (obs,))
        return learner.head.q(output)

    def record(self, action: Tensor, step: Step, outcomes: Tensor) -> None:
        self.parts.collector.record(action, step, outcomes)

    def sample(self, count: int) -> list[Batch]:
        """Each agent's batch comes from its own boards: [K, B, …]."""
        ring, size = self.parts.ring, self.parts.config.update_size
        boards = ring.num_envs // self.agents
        batches = []
        for _ in range(count):
            row = torch.randint(
                int(ring.filled), (self.agents, size), generator=self.parts.generators["replay"]
            )
            board = torch.randint(boards, (self.agents, size), generator=self.parts.generators["replay"])
            board += torch.arange(self.agents)[:, None] * boards
            index = ((int(ring.head) - 1 - row) % ring.rows * ring.num_envs + board).flatten()
            flat = gather_transitions(ring, index, 1, 0.9)
            columns = (None if x is None else x.view(self.agents, size, *x.shape[1:]) for x in flat)
            weight = torch.ones(self.agents, size)
            batches.append(Batch(Transition(*columns), weight, index.view(self.agents, size)))
        self.drawn += batches
        return batches

    def update(self, batches: list[Batch]) -> None:
        learner = self.parts.learner
        for batch in batches:
            fields = [x for x in batch.transition if x is not None]
            gradient, (loss, q) = vmap(self.gradient)(self.values, self.target, fields, batch.weight)
            if self.parts.exchange is not None:
                self.parts.exchange(gradient)
            gradient, norm = clip_by_norm(gradient, self.grad_clip)
            move_by_adam(self.values, self.first, self.second, self.steps, gradient, self.hyper)
            self.target.lerp_(self.values, learner.config.target_tau)
            learner.sums.add_(torch.stack((loss.mean(), q.mean(), norm.mean())))

    def gradient(self, values: Tensor, target: Tensor, fields: list[Tensor], weight: Tensor) -> Any:
        learner = self.parts.learner
        batch = Batch(Transition(*fields), weight, weight)

        def loss_of(flat: Tensor) -> tuple[Tensor, TDLoss]:
            nets = (
                lambda obs: functional_call(learner.online, learner.flat.split(flat), (obs,)),
                lambda obs: functional_call(learner.target, learner.target_flat.split(target), (obs,)),
            )
            result = td_loss(*nets, batch, learner.head, learner.bootstrap, None)
            return result.loss, result

        gradient, (_, result) = grad_and_value(loss_of, has_aux=True)(values)
        return gradient, (result.loss, result.q)


def test_a_population_runs_through_the_same_engine() -> None:
    lr, clip = torch.tensor([1e-3, 3e-4, 1e-2]), torch.tensor([10.0, 0.05, 1.0])
    config = small(envs=3 * 8, learn__target_every=0, learn__batch_size=16)
    _, parts = make(config)
    population = Population(parts, lr, clip)
    starts = population.values.clone()
    engine = Engine(config, parts, population)
    parts.collector.start(3)
    for _ in range(20):
        engine.collect()
    engine.learn(5)
    assert parts.learner.updates == 5
    assert len(population.drawn) == 5
    for agent in range(3):
        expected = learn_alone(
            config, parts, agent, starts[agent], float(lr[agent]), float(clip[agent]), population
        )
        torch.testing.assert_close(population.values[agent], expected, rtol=1e-4, atol=1e-6)
        assert not torch.equal(population.values[agent], starts[agent])


def learn_alone(
    config: Config, parts: Parts, agent: int, start: Tensor, lr: float, clip: float, population: Population
) -> Tensor:
    """The same batches by a plain learner with the agent's own settings."""
    learn = dataclasses.replace(config.learn, lr=lr, grad_clip=clip)
    learner = build_learner(dataclasses.replace(config, learn=learn, seed=agent), parts.env, CPU)
    assert torch.equal(learner.flat.values, start)
    for batch in population.drawn:
        columns = (None if x is None else x[agent] for x in batch.transition)
        learner.update(Batch(Transition(*columns), batch.weight[agent], batch.index[agent]))
    return learner.flat.values
