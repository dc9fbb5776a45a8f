"""Noise on the weights: its statistics, its structure, when it changes, and when it is off. Dueling beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.envs import build_env
from flashdqn.networks import build_network, make_target, mean_mode
from flashdqn.networks.implicit import Fractions, ImplicitQuantiles
from flashdqn.networks.noisy import Noise, NoisyLinear, signed_root
from flashdqn.networks.outputs import Dueling
from flashdqn.networks.roles import make_policy, set_fraction_generator
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.evaluate import evaluate

CPU = torch.device("cpu")
VECTOR = ObsSpec((5,), torch.float32)
PLANES = ObsSpec((2, 4, 4), torch.uint8)


def make_layer(inputs: int, outputs: int, sigma: float = 0.5, seed: int = 0) -> tuple[NoisyLinear, Noise]:
    g = torch.Generator().manual_seed(seed)
    layer = NoisyLinear(inputs, outputs, sigma)
    layer.initialize(g)
    return layer, Noise([layer], g)


def noisy_layers(network: nn.Module) -> list[NoisyLinear]:
    return [module for module in network.modules() if isinstance(module, NoisyLinear)]


def test_initial_means_fill_their_bounds_and_sigmas_are_constant() -> None:
    """μ from U(−1/√p, 1/√p), σ = σ₀/√p, for weights and biases alike (section 3.2 of the paper)."""
    layer, _ = make_layer(64, 400, sigma=0.4)
    bound = 1 / math.sqrt(64)
    for mean in (layer.weight_mean.detach(), layer.bias_mean.detach()):
        assert float(mean.abs().max()) <= bound
        assert float(mean.std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert torch.equal(layer.weight_sigma, torch.full((400, 64), 0.4 * bound))
    assert torch.equal(layer.bias_sigma, torch.full((400,), 0.4 * bound))


def test_the_root_keeps_the_sign() -> None:
    assert signed_root(torch.tensor([-9.0, 0.0, 4.0])).tolist() == [-3.0, 0.0, 2.0]


def test_the_noise_of_the_weights_is_one_outer_product() -> None:
    """Factorised: rank 1 after division by σ, and the bias shares the noise of the outputs."""
    layer, noise = make_layer(6, 4)
    noise.resample()
    with torch.no_grad():
        layer.weight_sigma.uniform_(0.5, 2.0, generator=noise.generator)
        eye = layer(torch.eye(6)) - layer(torch.zeros(1, 6))  # [inputs, outputs]: the weights as used
        factor = ((eye.T - layer.weight_mean) / layer.weight_sigma).double()
        bias = (layer(torch.zeros(1, 6))[0] - layer.bias_mean) / layer.bias_sigma
    assert torch.linalg.svdvals(factor)[1] < 1e-5 < torch.linalg.svdvals(factor)[0]
    torch.testing.assert_close(factor.float(), torch.outer(bias, layer.noise_in), atol=1e-4, rtol=1e-4)


def test_the_variance_is_as_predicted() -> None:
    """E f(ε)² = E|ε| = √(2/π). So Var y = σ_w² (2/π) Σ x² + σ_b² √(2/π), and the mean is μx + b."""
    layer, noise = make_layer(8, 3)
    x = torch.linspace(-1, 2, 8)[None]
    with torch.no_grad():
        layer.bias_sigma.fill_(0.7)
        samples = []
        for _ in range(20_000):
            noise.resample()
            samples.append(layer(x)[0])
        y = torch.stack(samples)
        sigma = float(layer.weight_sigma[0, 0])
        expected = sigma**2 * (2 / math.pi) * float((x**2).sum()) + 0.7**2 * math.sqrt(2 / math.pi)
        assert y.var(0).tolist() == pytest.approx([expected] * 3, rel=0.06)
        torch.testing.assert_close(y.mean(0), layer.eval()(x)[0], atol=0.02, rtol=0)


def test_the_mean_mode_is_the_plain_layer() -> None:
    layer, noise = make_layer(5, 3)
    noise.resample()
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    plain = nn.functional.linear(x, layer.weight_mean, layer.bias_mean)
    assert not torch.allclose(layer(x), plain)
    with mean_mode(layer):
        assert torch.equal(layer(x), plain)
    assert layer.training
    assert not torch.allclose(layer(x), plain)


@pytest.mark.parametrize(("spec", "torso"), [(VECTOR, "mlp"), (PLANES, "cnn")])
@pytest.mark.parametrize("dueling", [False, True])
def test_all_fully_connected_layers_are_noisy_and_no_other(spec: ObsSpec, torso: Any, dueling: bool) -> None:
    config = NetworkConfig(
        torso=torso, hidden=(8, 6), channels=(3,), noisy=True, dueling=dueling, noisy_sigma=0.3
    )
    network = build_network(config, spec, 4, torch.Generator().manual_seed(0))
    assert not [module for module in network.modules() if isinstance(module, nn.Linear)]
    assert len(noisy_layers(network)) == (5 if dueling else 3)
    assert {layer.sigma for layer in noisy_layers(network)} == {0.3}


def test_the_embedding_of_fractions_is_not_noisy() -> None:
    network = build_network(
        NetworkConfig(hidden=(8, 6), noisy=True), VECTOR, 4, torch.Generator(), 1, Fractions(2, 2, 2)
    )
    assert [type(module) for module in network.modules() if isinstance(module, nn.Linear)] == [nn.Linear]


# ---- dueling


def naive_dueling(value: list[float], advantage: list[list[float]]) -> list[list[float]]:
    """V_i + A_ai − mean_b A_bi, by loops."""
    actions = len(advantage)
    rows = []
    for a in range(actions):
        row = []
        for i in range(len(value)):
            mean = sum(advantage[b][i] for b in range(actions)) / actions
            row.append(value[i] + advantage[a][i] - mean)
        rows.append(row)
    return rows


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))
def test_dueling_equals_the_loops(actions: int, size: int, seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = Dueling(3, (4,), actions, size, False, nn.Linear)
    x = torch.randn(1, 3, generator=torch.Generator().manual_seed(seed))
    value, advantage = layer.value(x)[0].tolist(), layer.advantage(x).view(actions, size).tolist()
    expected = torch.tensor(naive_dueling(value, advantage))
    torch.testing.assert_close(layer(x).view(actions, size), expected)
    # its mean over the actions is the value, number by number
    torch.testing.assert_close(layer(x).view(actions, size).mean(0), layer.value(x)[0])


def test_the_last_hidden_layer_belongs_to_the_streams() -> None:
    config = NetworkConfig(hidden=(8, 6), channels=(3,), dueling=True)
    deep = build_network(config, VECTOR, 4, torch.Generator())
    shallow = build_network(replace(config, hidden=(8,)), VECTOR, 4, torch.Generator())
    planes = build_network(replace(config, hidden=(8,)), PLANES, 4, torch.Generator())
    assert [network.torso.features for network in (deep, shallow, planes)] == [8, 8, 3 * 4 * 4]

    def widths(stream: nn.Module) -> list[int]:
        return [module.out_features for module in stream.modules() if isinstance(module, nn.Linear)]

    outputs = [network.output for network in (deep, shallow, planes)]
    assert all(isinstance(output, Dueling) for output in outputs)
    assert [widths(output.value) for output in outputs] == [[6, 1], [1], [8, 1]]  # type: ignore[arg-type]
    assert [widths(output.advantage) for output in outputs] == [[6, 4], [4], [8, 4]]  # type: ignore[arg-type]


# ---- implicit quantiles


def make_implicit(dueling: bool = False) -> nn.Module:
    config = NetworkConfig(hidden=(8, 6), dueling=dueling, cosines=5)
    return build_network(config, VECTOR, 3, torch.Generator().manual_seed(0), 1, Fractions(4, 6, 10))


def test_implicit_quantiles_by_loops() -> None:
    """φ_j(τ) = ReLU(Σ_i cos(π i τ) w_ij + b_j); the output is f(ψ ⊙ φ(τ))."""
    network = make_implicit()
    layer = network.output
    assert isinstance(layer, ImplicitQuantiles)
    obs = torch.randn(2, 5, generator=torch.Generator().manual_seed(1))
    tau = torch.tensor([[0.0, 0.3], [0.9, 1.0]])
    psi = network.features(obs)
    quantiles = layer.quantiles(psi, tau)
    for b in range(2):
        for n in range(2):
            cosines = torch.tensor([math.cos(math.pi * i * float(tau[b, n])) for i in range(5)])
            phi = torch.relu(layer.embedding.weight @ cosines + layer.embedding.bias)
            torch.testing.assert_close(quantiles[b, n], layer.f(psi[b] * phi), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
def test_each_role_draws_its_own_number_of_fractions(dueling: bool) -> None:
    online = make_implicit(dueling)
    target, judge = make_target(online), make_target(online, chooses=False)
    set_fraction_generator(torch.Generator().manual_seed(2), online, target, judge)
    obs = torch.zeros(7, 5)
    first, again, chosen, judged = online(obs).detach(), online(obs), target(obs), judge(obs)
    assert first.shape == (7, 1 + 4, 3 + 1)
    assert chosen.shape == judged.shape == (7, 1 + 6, 3 + 1)
    assert make_policy(online)(obs).shape == (7, 1, 3 + 1)
    tau = first[:, 1:, -1]
    assert float(tau.min()) >= 0
    assert float(tau.max()) <= 1
    assert tau.unique().numel() == tau.numel()  # every sample has fractions of its own
    assert not torch.equal(tau, again[:, 1:, -1])  # and every call
    for output in (first, judged):
        torch.testing.assert_close(output[:, 0, :-1], output[:, 1:, :-1].mean(1))  # nothing else to choose by
    assert not torch.allclose(chosen[:, 0, :-1], chosen[:, 1:, :-1].mean(1))  # K fractions of its own


def test_in_evaluation_mode_the_fractions_are_midpoints_and_nothing_is_drawn() -> None:
    network = make_implicit()
    g = torch.Generator().manual_seed(2)
    set_fraction_generator(g, network)
    before, obs = g.get_state(), torch.ones(3, 5)
    with mean_mode(network):
        output = network(obs)
        midpoints = ((torch.arange(10) + 0.5) / 10).expand(3, -1)
        expected = network.output.quantiles(network.features(obs), midpoints).mean(1)
    torch.testing.assert_close(output[:, 0, :-1], expected)
    assert torch.equal(g.get_state(), before)


# ---- in training


def noise_of(parts: Parts) -> list[Tensor]:
    layers = noisy_layers(parts.learner.online) + noisy_layers(parts.learner.target)
    return [buffer.clone() for layer in layers for buffer in (layer.noise_in, layer.noise_out)]


def make_parts(**changes: Any) -> Parts:
    config = tiny_config(network__noisy=True, network__hidden=[8, 8], **changes)
    parts = assemble_parts(config, build_env(config.env, config.envs, CPU))
    parts.collector.start(seed=0)
    for _ in range(20):
        parts.collector.collect()
    return parts


def test_noise_is_drawn_once_per_update_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    resample = Noise.resample
    monkeypatch.setattr(Noise, "resample", lambda self: (draws.append(1), resample(self))[1])
    parts = make_parts()
    assert len(draws) == 1  # the noise that collecting starts with
    seen = [noise_of(parts)]
    for count, batch in enumerate(parts.sampler.batches(3, 32), start=1):
        parts.learner.update(batch)
        assert len(draws) == 1 + count
        seen.append(noise_of(parts))
        parts.collector.collect()
        with torch.no_grad():
            parts.learner.online(parts.collector.obs)
        assert all(torch.equal(a, b) for a, b in zip(noise_of(parts), seen[-1], strict=True))
    buffers = torch.stack([torch.cat(noise) for noise in seen])
    assert buffers.unique().numel() == buffers.numel()  # online, target, layers, updates: all independent


def test_the_target_keeps_its_own_noise_when_it_is_copied() -> None:
    parts = make_parts(learn__target_every=1)
    for batch in parts.sampler.batches(2, 32):
        parts.learner.update(batch)
    for online, target in zip(
        noisy_layers(parts.learner.online), noisy_layers(parts.learner.target), strict=True
    ):
        assert torch.equal(online.weight_mean, target.weight_mean)
        assert torch.equal(online.weight_sigma, target.weight_sigma)
        assert not torch.equal(online.noise_in, target.noise_in)


def test_collecting_is_noisy_and_evaluating_is_not() -> None:
    parts = make_parts(explore__start=0.0, explore__end=0.0, network__noisy_sigma=5.0)
    learner, games = parts.learner, build_env(tiny_config().env, 8, CPU)
    with torch.no_grad():
        q = learner.head.q(learner.policy(parts.collector.obs))
        result = evaluate(games, learner.online, learner.head, seed=1)
        assert learner.online.training
        assert learner.noise is not None
        learner.noise.resample()
        assert not torch.equal(learner.head.q(learner.policy(parts.collector.obs)), q)
        assert evaluate(games, learner.online, learner.head, seed=1) == result


@pytest.mark.parametrize("change", [{"network__noisy": True}, {"learn__head": "iqn"}], ids=["noisy", "iqn"])
def test_a_loaded_agent_is_deterministic(tiny_run: Callable[..., Run], change: dict[str, Any]) -> None:
    run = tiny_run(steps=600, **change)
    agent = flashdqn.load(run.path, "cpu")
    obs = torch.randn(4, *agent.obs_spec.shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(agent.q(obs), agent.q(obs))
    assert agent.evaluate(5) == agent.evaluate(5)
    assert agent.evaluate(run.config.eval.episodes).to_dict() == run.summary["evaluation"]
    for layer in noisy_layers(agent.network):
        layer.noise_in.fill_(1e6)
    assert torch.isfinite(agent.q(obs)).all()
    assert float(agent.q(obs).abs().max()) < 1e4
