"""A torso of the user's: built, trained, resumed, evaluated and exported; what breaks the contract is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import flashdqn
from conftest import TINY
from flashdqn import ConfigError, Run
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config import NetworkConfig
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import ObsSpec
from flashdqn.core.user_code import Permission
from flashdqn.export.flow import Wanted, export_policy
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.networks import QNetwork, build_network
from flashdqn.networks.implicit import Fractions

VECTOR = ObsSpec((5,), torch.float32)
HERE, EXAMPLES = Path(__file__).parent, Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _findable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.syspath_prepend(EXAMPLES)


def built(seed: int = 0, **settings: Any) -> QNetwork:
    config = NetworkConfig(**{"torso": "own_torsos:Good"} | settings)
    return build_network(config, VECTOR, 3, torch.Generator().manual_seed(seed))


def test_it_begins_as_it_begins_itself_and_by_the_seed() -> None:
    global_before = torch.get_rng_state()
    one, same, other = built(1), built(1), built(2)
    assert torch.equal(global_before, torch.get_rng_state())
    weight = one.torso.layer.weight
    assert torch.equal(weight.abs(), torch.full_like(weight, 0.1))  # its own, not our initialization
    for (name, a), (_, b) in zip(one.state_dict().items(), same.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert not torch.equal(weight, other.torso.layer.weight)
    assert not torch.equal(one.output.weight, other.output.weight)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("fractions", [None, Fractions(4, 4, 4)])
def test_outputs_compose_with_it(dueling: bool, noisy: bool, fractions: Fractions | None) -> None:
    config = NetworkConfig(
        torso="own_torsos:Good", kwargs={"width": 12}, dueling=dueling, noisy=noisy, hidden=(7,)
    )
    network = build_network(config, VECTOR, 3, torch.Generator().manual_seed(0), 1, fractions).eval()
    shape = (4, 3) if fractions is None else (4, 1, 4)
    assert network(torch.rand(4, 5)).shape == shape
    sizes = {tuple(p.shape) for p in network.output.parameters()}
    has_stream = dueling or fractions is not None
    assert ((7, 12) in sizes) == has_stream
    assert ((3, 12) in sizes) != has_stream


@pytest.mark.parametrize(
    ("torso", "how", "message"),
    [
        ("nowhere_at_all:Torso", None, "There is no module 'nowhere_at_all' to take the torso"),
        ("own_torsos:Missing", None, "The module own_torsos has no 'Missing'"),
        ("own_torsos:no_module", None, "must be a torch.nn.Module, and is a int"),
        ("own_torsos:Bad", None, "cannot be made .* missing 1 required positional argument: 'how'"),
        ("own_torsos:Bad", "raises", "cannot be made for observations of shape .* ValueError: no luck"),
        ("own_torsos:Bad", "no features", r"must say how many features it gives, as self.features: None"),
        ("own_torsos:Bad", "a text", "self.features: '8'"),
        ("own_torsos:Bad", "wrong width", r"must turn .* float32 \[2, 9\], and gave torch.float32 \[2, 8\]"),
        ("own_torsos:Bad", "three axes", r"and gave torch.float32 \[2, 1, 8\]"),
        ("own_torsos:Bad", "a tuple", "and gave tuple"),
        ("own_torsos:Bad", "forward raises", "cannot read a batch .* no luck"),
        ("own_torsos:Bad", "batch norm", "holds a BatchNorm1d, .* use nn.LayerNorm"),
        ("own_torsos:Bad", "dropout", "holds a Dropout"),
        ("own_torsos:Bad", "double", "must be float32"),
    ],
)
def test_what_breaks_the_contract_is_one_sentence(torso: str, how: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(torso=torso, kwargs={} if how is None else {"how": how})


def test_settings_are_checked() -> None:
    with pytest.raises(
        ConfigError, match=r"must be one of auto, mlp.*module:Class.*'cn'; did you mean 'cnn'"
    ):
        NetworkConfig(torso="cn")
    with pytest.raises(ConfigError, match=r"are for your own torso, and network\.torso is 'mlp'"):
        NetworkConfig(torso="mlp", kwargs={"width": 3})
    with pytest.raises(ConfigError, match="plain data"):
        NetworkConfig(torso="a:B", kwargs={"width": {3}})


def test_flags_long_and_short() -> None:
    for flag in ("--network.torso", "--network"):
        base, _, rest = resolve_base_config(["snake", flag, "m:T", "--network.kwargs", '{"width": 64}'])
        network = parse_training(base, rest).network
        assert (network.torso, network.kwargs) == ("m:T", {"width": 64})
    base, _, rest = resolve_base_config(["snake", "--network", "m:T", "--network.kwargs", "width=64"])
    with pytest.raises(ConfigError, match="Arguments are written like"):
        parse_training(base, rest)


def test_from_training_to_the_file(tiny_run: Callable[..., Run], tmp_path: Path) -> None:
    whole = tiny_run(
        network__torso="own_network:Gated", network__kwargs={"width": 24, "depth": 1}, network__dueling=True
    )
    part = tiny_run(
        network__torso="own_network:Gated",
        network__kwargs={"width": 24, "depth": 1},
        network__dueling=True,
        steps=2000,
    )
    resumed = flashdqn.train(resume=part.path, steps=4000, progress=False, trust=True)
    # Stop and resume equals never having stopped.
    assert resumed.summary["weights"] == whole.summary["weights"]
    agent = flashdqn.load(whole.path, "cpu", trust=True)
    assert type(agent.network.torso).__name__ == "Gated"
    assert agent.evaluate(whole.config.eval.episodes).mean_score == whole.score
    out = tmp_path / "own.pt"
    permission = Permission(frozenset({"own_network:Gated"}))
    wanted = Wanted(whole.path, "torchscript", out=out, observations=300, episodes=4, permission=permission)
    done = export_policy(wanted)
    assert done.rows[1].agreement.actions > 0.99
    sys.modules.pop("own_network")
    sys.path.remove(str(EXAMPLES))
    with pytest.raises(ConfigError, match=r"There is no module 'own_network'.*folder where it is"):
        flashdqn.load(whole.path, "cpu", trust=True)
    sys.path.insert(0, str(EXAMPLES))


@pytest.mark.parametrize("algo", ["rainbow", "iqn", "pqn"])
def test_bytes_and_other_algorithms(algo: str, tmp_path: Path) -> None:
    tiny = TINY | {"steps": 600, "learn.starts": 100, "out": str(tmp_path), "env.size": 5}
    tiny |= {"env.features": "grid", "network.torso": "own_network:Rays", "network.kwargs": {"width": 16}}
    config = apply_algorithm(apply_settings(base_config("snake"), tiny), algo)
    run = flashdqn.train(config, progress=False)
    assert run.finished
    assert flashdqn.load(run.path, "cpu", trust=True).q(torch.zeros(2, 3, 5, 5, dtype=torch.uint8)).shape == (
        2,
        3,
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_it_learns_on_cuda(mode: str, tmp_path: Path) -> None:
    tiny = TINY | {"steps": 3000, "out": str(tmp_path), "device": "cuda", "runtime.mode": mode}
    tiny |= {"network.torso": "own_network:Gated", "network.kwargs": {"width": 32}}
    run = flashdqn.train(apply_settings(base_config("snake"), tiny), progress=False)
    assert run.finished
    assert run.summary["mode"].startswith(mode)
