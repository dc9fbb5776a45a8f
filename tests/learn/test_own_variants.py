"""Variants of a user's on every axis: trained, resumed, loaded; what breaks a contract is one sentence. And the
registry that holds the built-in ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from conftest import tiny_config, tiny_flags
from flashdqn import ConfigError, Run
from flashdqn.cli.main import dispatch_command
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.config import LearnConfig, ReplayConfig, axes
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.types import Batch, Transition
from flashdqn.envs import build_env
from flashdqn.learn import build
from flashdqn.learn.algorithms import ALGORITHMS, apply_algorithm
from flashdqn.learn.bootstraps import Munchausen, double_target, greedy_target
from flashdqn.learn.heads import ScalarHead
from flashdqn.learn.learner import build_learner
from flashdqn.learn.registry import Registry
from flashdqn.learn.user_variants import UserOptimizer, UserSampler
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.backends.catalog import explain_misfit
from flashdqn.training.backends.compiled import WholeStep

CPU = torch.device("cpu")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _findable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.syspath_prepend(EXAMPLES)


OWN: dict[str, dict[str, Any]] = {
    "bootstrap": {"learn__bootstrap": "own_variant:Mellowmax", "learn__bootstrap_kwargs": {"omega": 20.0}},
    "head": {"learn__head": "own_variants:Squashed", "learn__head_kwargs": {"power": 0.4}},
    "sampler": {
        "replay__sampler": "own_variants:Recent",
        "replay__sampler_kwargs": {"rows": 10},
        "replay__n_step": 2,
    },
    "optimizer": {
        "learn__optimizer": "own_variants:Lion",
        "learn__optimizer_kwargs": {"beta1": 0.8},
        "learn__lr": 1e-4,
        "learn__lr_end": 1e-5,
        "learn__lr_over": 2000,
    },
}
OWN["all four"] = {key: value for one in OWN.values() for key, value in one.items()}


@pytest.mark.parametrize("axis", OWN)
def test_trained_resumed_and_loaded(axis: str, tiny_run: Callable[..., Run]) -> None:
    whole = tiny_run(**OWN[axis], steps=2000)
    part = tiny_run(**OWN[axis], steps=1000)
    resumed = flashdqn.train(resume=part.path, steps=2000, progress=False, trust=True)
    # Stop and resume equals never having stopped.
    assert resumed.summary["weights"] == whole.summary["weights"]
    saved = json.loads((whole.path / "config.json").read_text())["config"]
    for key, value in OWN[axis].items():
        group, name = key.split("__")
        assert saved[group][name] == value
    agent = flashdqn.load(whole.path, "cpu", trust=True)
    assert agent.evaluate(whole.config.eval.episodes).mean_score == whole.score
    plain = tiny_run(steps=2000)
    assert plain.summary["weights"] != whole.summary["weights"]  # it did something


def test_every_command_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {key.replace("__", "."): value for key, value in OWN["all four"].items()}
    flags = [
        word
        for key, value in named.items()
        for word in (
            f"--{key.replace('_', '-')}",
            json.dumps(value) if isinstance(value, dict) else str(value),
        )
    ]
    small = tiny_flags(steps=1000, out=str(tmp_path / "runs"))
    assert dispatch_command(["train", "snake", *small, *flags]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert "recorded-game" in (run / "report.html").read_text(encoding="utf-8")
    export = ["--to", "torchscript", "--observations", "50", "--episodes", "2"]
    for words in (
        ["eval", str(run), "--episodes", "4", "--json"],
        ["watch", str(run), "--png", "moment.png"],
        ["report", str(run)],
        ["export", str(run), *export],
        ["train", "--resume", str(run), "--steps", "1500"],
        ["profile", "--config", str(run / "config.json"), "--only", "phases", "--steps", "2000"],
    ):
        assert dispatch_command([*words, "--trust"]) == 0, words
    out = capsys.readouterr().out
    assert "No game is recorded" not in out
    assert (run / "policy.pt").exists()
    assert "recorded-game" in (run / "report.html").read_text(encoding="utf-8")


def test_the_example_is_short_and_right() -> None:
    import own_variant

    assert len((EXAMPLES / "own_variant.py").read_text(encoding="utf-8").splitlines()) < 60
    q = torch.tensor([[0.0, 1.0, 5.0], [2.0, -1.0, 3.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    for omega in (0.5, 3.0):
        by_hand = [torch.tensor([0.0, 1.0]), q[1]]
        wanted = torch.stack([(omega * row).exp().mean().log() / omega for row in by_hand])
        assert torch.allclose(own_variant.mellowmax(q, mask, omega), wanted, atol=1e-6)
    reward, discount = torch.tensor([1.0, 2.0]), torch.tensor([0.9, 0.0])
    obs, action = torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)
    transition = Transition(obs, action, reward, discount, obs, mask, mask)
    goal = own_variant.Mellowmax(omega=3.0)(lambda _: -q, lambda _: q, transition, ScalarHead(1.0))
    assert torch.allclose(goal, reward + discount * own_variant.mellowmax(q, mask, 3.0))


def test_flags_reach_it() -> None:
    words = [
        "snake",
        "--learn.bootstrap",
        "m:B",
        "--learn.bootstrap-kwargs",
        '{"omega": 5}',
        "--learn.head",
        "m:H",
    ]
    words += [
        "--replay.sampler",
        "m:S",
        "--learn.optimizer",
        "m:O",
        "--learn.optimizer-kwargs",
        '{"beta": 0.5}',
    ]
    base, _, rest = resolve_base_config(words)
    config = parse_training(base, rest)
    learn, replay = config.learn, config.replay
    assert (learn.bootstrap, learn.head, learn.optimizer, replay.sampler) == ("m:B", "m:H", "m:O", "m:S")
    assert (learn.bootstrap_kwargs, learn.optimizer_kwargs) == ({"omega": 5}, {"beta": 0.5})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learn__head": "nowhere_at_all:H"}, "There is no module 'nowhere_at_all' to take the head"),
        ({"learn__head": "own_variants:Missing"}, "has no 'Missing'"),
        (
            {"learn__head": "own_variants:Lazy"},
            "The head 'own_variants:Lazy' has no q, select, expect, mean, target",
        ),
        ({"learn__head": "own_variants:Wide"}, "cannot be made .* missing 1 required positional argument"),
        ({"learn__head_kwargs": {"how": "raises"}}, "cannot be made .* ValueError: no luck"),
        ({"learn__head_kwargs": {"how": "a text"}}, "must say how many numbers .* '1'"),
        ({"learn__head_kwargs": {"how": "none"}}, "must say how many numbers .* 0"),
        ({"learn__head_kwargs": {"how": "fractions"}}, "must have fractions None"),
        ({"learn__head_kwargs": {"how": "one q"}}, r"must give q of shape \[2, 3\] .* gave \[2, 1\]"),
        (
            {"learn__head_kwargs": {"how": "one priority"}},
            r"must give priorities of shape \[2\] .* gave \[\]",
        ),
        (
            {"learn__head_kwargs": {"how": "compare raises"}},
            "cannot learn from two transitions: ValueError: no luck",
        ),
        ({"learn__bootstrap": "own_variants:not_callable"}, "something that is called as .* gave a int"),
        ({"learn__bootstrap": "own_variants:wrong_shape"}, "cannot learn from two transitions"),
        (
            {"learn__bootstrap": "own_variants:OneStep", "replay__n_step": 3},
            "needs replay.n_step 1, and it is 3",
        ),
        (
            {"learn__optimizer": "own_variants:Lazy"},
            "The optimizer 'own_variants:Lazy' has no step, state_dict",
        ),
        (
            {"learn__optimizer": "own_variants:Lion", "learn__optimizer_kwargs": {"b": 1}},
            "cannot be made .*'b'",
        ),
        ({"replay__sampler": "own_variants:Lazy"}, "The sampler 'own_variants:Lazy' has no batches"),
    ],
)
def test_what_breaks_a_contract_is_one_sentence(changes: dict[str, Any], message: str) -> None:
    if "learn__head_kwargs" in changes:
        changes = {"learn__head": "own_variants:Wide", **changes}
    config = tiny_config(**changes)
    with pytest.raises(ConfigError, match=message):
        assemble_parts(config, build_env(config.env, config.envs, CPU))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learn.head": "catgorical"}, "learn.head must be one of scalar, .*did you mean 'categorical'"),
        ({"learn.bootstrap": "doubel"}, "or module:Name for your own, .*did you mean 'double'"),
        (
            {"learn.optimizer": "sgd"},
            r"learn.optimizer must be one of adam, adamw, radam, .* and is 'sgd'\.$",
        ),
        (
            {"replay.sampler": "unifrom"},
            "replay.sampler must be one of auto, uniform, .*did you mean 'uniform'",
        ),
        ({"learn.head_kwargs": {"a": 1}}, "learn.head_kwargs are for your own variant, .* 'scalar'"),
        ({"learn.head": "a:B", "learn.head_kwargs": {"a": {1}}}, "learn.head_kwargs must be plain data"),
        ({"replay.sampler": "prioritized"}, "needs replay.priority above 0"),
        (
            {"replay.sampler": "uniform", "replay.priority": 0.5},
            "replay.priority 0.5 is for prioritized replay",
        ),
        ({"replay.sampler": "a:B", "replay.priority": 0.5}, "replay.sampler is 'a:B'"),
        ({"replay.sampler": "rollout"}, "needs learn.method pqn"),
        (
            {"learn.optimizer": "a:B", "learn.weight_decay": 0.1},
            "learn.weight_decay needs --learn.optimizer adamw",
        ),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply_settings(base_config("snake"), changes)


def test_a_wrong_word_on_the_command_line() -> None:
    base, _, rest = resolve_base_config(["snake", "--learn.bootstrap", "munchhausen"])
    with pytest.raises(ConfigError, match="did you mean 'munchausen'"):
        parse_training(base, rest)


def test_pqn_takes_a_head_of_one_number_and_nothing_else() -> None:
    pqn = apply_algorithm(base_config("snake"), "pqn")
    env = build_env(pqn.env, 2, CPU)
    fits = apply_settings(pqn, {"learn.head": "own_variants:Squashed"})
    assert type(build_learner(fits, env, CPU).head).__name__ == "Squashed"
    wrong = {"learn.bootstrap": "m:B"}, {"replay.sampler": "m:S"}, {"learn.head": "quantile"}
    for change in wrong:
        with pytest.raises(ConfigError, match=r"learn\.method pqn needs"):
            apply_settings(pqn, change)
    import own_variants

    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(own_variants.Squashed, "single_number")
        with pytest.raises(ConfigError, match="needs a head of one number"):
            build_learner(fits, env, CPU)


def test_what_a_bootstrap_says_of_itself_is_heard() -> None:
    """The target network of IQN draws fractions to choose an action, unless the online network does that."""
    chooses = {}
    for name in ("greedy", "double", "own_variants:ByOnline", "own_variant:Mellowmax"):
        config = tiny_config(learn__head="iqn", learn__bootstrap=name)
        learner = build_learner(config, build_env(config.env, 2, CPU), CPU)
        chooses[name] = learner.target.output.choose
    assert chooses["greedy"] == chooses["own_variant:Mellowmax"]
    assert chooses["double"] == chooses["own_variants:ByOnline"]
    assert chooses["greedy"] != chooses["double"]


def test_hand_written_updates_refuse_what_they_do_not_know() -> None:
    for axis, changes in OWN.items():
        config = tiny_config(**changes)
        parts = assemble_parts(config, build_env(config.env, config.envs, CPU))
        assert explain_misfit(ExecutionPlan("native"), parts) is not None, axis
        compiled = explain_misfit(ExecutionPlan("compile"), parts)
        assert compiled is None or "compile" in compiled, axis


def test_an_optimizer_in_one_function_does_the_same() -> None:
    """`WholeStep` is what a compiler is given: the weights are those of autograd, but for rounding."""
    config = tiny_config(**OWN["optimizer"])
    env = build_env(config.env, 4, CPU)
    eager, whole = (build_learner(config, env, CPU) for _ in range(2))
    assert isinstance(eager.adam, UserOptimizer)
    step = WholeStep(whole)
    generator = torch.Generator().manual_seed(3)
    shape = env.obs_spec.shape
    for _ in range(5):
        obs, following = (torch.rand(8, *shape, generator=generator) for _ in range(2))
        action, number = torch.randint(3, (8,), generator=generator), torch.rand(8, generator=generator)
        batch = Batch(Transition(obs, action, number, number, following), torch.ones(8), action)
        eager.update(batch)
        step.apply(*step.gradient(batch))
        whole.counted(1)
    assert torch.allclose(eager.flat.values, whole.flat.values, atol=1e-6)
    assert int(eager.adam.steps) == 5
    fresh = build_learner(config, env, CPU)
    fresh.load_state_dict(eager.weights(), eager.state_dict(), 5)
    assert torch.equal(fresh.adam.own.mean, eager.adam.own.mean)  # type: ignore[attr-defined]


def test_a_sampler_hears_only_what_it_has_methods_for() -> None:
    config = tiny_config(**OWN["sampler"])
    parts = assemble_parts(config, build_env(config.env, config.envs, CPU))
    sampler = parts.sampler
    assert isinstance(sampler, UserSampler)
    parts.collector.start(0)
    for _ in range(6):
        parts.collector.collect()
        sampler.rows_added()
    sampler.drawing(3)
    sampler.set_beta(0.5)
    batches = sampler.batches(3, 8)
    sampler.update(batches[0].index, torch.ones(8))
    assert [len(batch.index) for batch in batches] == [8, 8, 8]
    assert int(sampler.state_dict()["drawn"]) == 3
    assert len(sampler.sample(5).index) == 5


# ---- the registry


REGISTRIES = {
    "head": (build.HEADS, LearnConfig()),
    "bootstrap": (build.BOOTSTRAPS, LearnConfig()),
    "optimizer": (build.OPTIMIZERS, LearnConfig()),
    "sampler": (build.SAMPLERS, ReplayConfig()),
}


@pytest.mark.parametrize("axis", REGISTRIES)
def test_every_entry_has_a_line_and_settings_of_its_own(axis: str) -> None:
    registry, group = REGISTRIES[axis]
    for name, entry in registry.entries.items():
        assert entry.about
        small = registry.axis.read(name, group)
        assert type(small) is entry.config
        for field in dataclasses.fields(small):
            assert getattr(small, field.name) == getattr(group, field.name)
    assert registry.axis.read("m:Own", group) is None


def test_a_registry_without_a_maker_is_refused() -> None:
    with pytest.raises(ValueError, match=r"learn\.head has the choices .* and makers for"):
        Registry(axes.HEADS, {"scalar": lambda own: None}, lambda name, kwargs: None)


def test_names_make_what_they_say() -> None:
    made = {name: build.build_bootstrap(LearnConfig(bootstrap=name)) for name in axes.BOOTSTRAPS.choices}
    assert made["greedy"] is greedy_target
    assert made["double"] is double_target
    assert made["munchausen"] == Munchausen(0.9, 0.03, -1.0)
    samplers = {"auto": "uniform", "uniform": "uniform"}
    for name, wanted in samplers.items():
        assert tiny_config(replay__sampler=name).sampler == wanted
    assert tiny_config(replay__priority=0.5).sampler == "prioritized"
    assert tiny_config(replay__priority=0.5, replay__sampler="prioritized").sampler == "prioritized"
    assert apply_algorithm(base_config("snake"), "pqn").sampler == "rollout"


def test_help_lists_every_algorithm_and_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch_command(["train", "snake", "--help-all"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert ", ".join(ALGORITHMS) in shown
    for axis in (axes.HEADS, axes.BOOTSTRAPS, axes.OPTIMIZERS, axes.SAMPLERS):
        assert axis.metavar in shown
