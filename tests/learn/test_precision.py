"""bfloat16 inside the networks, float32 around them; learning finds the same values, a little less exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_training import ENVS, GAMMA, mean_q, trained
from torch import nn
from toy_envs import Chain

from flashdqn.compute.precision import allow_tf32, with_precision
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.networks import build_network
from flashdqn.networks.implicit import Fractions
from flashdqn.networks.noisy import NoisyLinear

CPU = torch.device("cpu")
NETWORKS = {
    "mlp": ((11,), {}),
    "layer norm": ((11,), {"layer_norm": True}),
    "dueling": ((11,), {"dueling": True}),
    "noisy": ((11,), {"noisy": True, "dueling": True}),
    "cnn": ((3, 4, 4), {"torso": "cnn", "channels": (8,)}),
    "resnet": ((3, 4, 4), {"torso": "resnet", "channels": (8,), "layer_norm": True, "dueling": True}),
    "iqn": ((11,), {}),
}


def watch_layers(network: nn.Module) -> dict[str, torch.dtype]:
    """What each fully connected layer and convolution answers in, filled in by the next pass."""
    seen: dict[str, torch.dtype] = {}
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d | NoisyLinear):
            module.register_forward_hook(
                lambda module, _, output, name=name: seen.__setitem__(name, output.dtype)
            )
    return seen


@pytest.mark.parametrize("name", NETWORKS)
def test_hidden_layers_compute_in_bfloat16_and_the_last_in_float32(name: str) -> None:
    shape, options = NETWORKS[name]
    config = NetworkConfig(hidden=(32, 32), **options)  # type: ignore[arg-type]
    fractions = Fractions(4, 4, 4) if name == "iqn" else None
    generator = torch.Generator().manual_seed(0)
    network = build_network(config, ObsSpec(shape, torch.float32), 3, generator, fractions=fractions)
    network.eval()  # nothing random
    obs = torch.randn(16, *shape, generator=generator)
    exact = network(obs)
    seen = watch_layers(network)
    rounded = with_precision(network, "bf16", CPU)(obs)
    assert rounded.dtype == torch.float32
    last = {layer for layer in seen if seen[layer] == torch.float32}
    outputs = {layer for layer, module in network.named_modules() if layer in seen and ends(module)}
    assert last == outputs
    assert last < seen.keys()
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.02)
    assert with_precision(network, "fp32", CPU) is network


def ends(module: nn.Module) -> bool:
    """Whether a layer answers the head: with numbers for three actions, or for the value."""
    width = module.outputs if isinstance(module, NoisyLinear) else getattr(module, "out_features", 0)
    return width in (1, 3)


def test_gradients_and_parameters_stay_float32() -> None:
    network = build_network(
        NetworkConfig(hidden=(32,)), ObsSpec((4,), torch.float32), 2, torch.Generator().manual_seed(0)
    )
    with_precision(network, "bf16", CPU)(torch.ones(8, 4)).sum().backward()  # type: ignore[no-untyped-call]
    for parameter in network.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32


@pytest.mark.parametrize("algo", ["double", "c51"])
def test_learning_in_bfloat16_finds_the_same_values(tmp_path: Path, algo: str) -> None:
    env = Chain(ENVS, num_states=4, time_limit=7)
    parts = trained(env, tmp_path, algo, eps=0.6, runtime__precision="bf16")
    assert parts.learner.precision == "bf16"
    q = mean_q(parts, 4)[:-1]
    star = env.q_star(GAMMA)[:-1]
    torch.testing.assert_close(q, star, rtol=0, atol=0.1)
    assert q.argmax(1).tolist() == star.argmax(1).tolist()


@pytest.mark.parametrize("before", [(True, False), (False, True)])
def test_tensor_cores_restores_what_was_set(before: tuple[bool, bool]) -> None:
    """The flags are there without a GPU."""

    def flags() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    kept = flags()
    try:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
        with allow_tf32(CPU):
            assert flags() == before
        with allow_tf32(torch.device("cuda")):
            assert flags() == (True, True)
        assert flags() == before
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept
