"""Observations in parts: rows of bytes, their decoder, and a network for each part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import space_envs
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

import flashdqn
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsPart, get_decoder, get_parts
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.packing import PackedRows
from flashdqn.envs.gymnasium.spaces import Encoder, find_part
from flashdqn.networks import build_network
from flashdqn.networks.parts import PartNetworks
from flashdqn.networks.pixels import Nature
from flashdqn.networks.torsos import CNN, MLP

LEAVES = st.sampled_from(
    [
        spaces.Box(-3.0, 3.0, (4,)),
        spaces.Box(0, 255, (9, 8, 3), np.uint8),
        spaces.Box(0.0, 1.0, (2, 5, 6)),
        spaces.Box(0, 255, (8, 10), np.uint8),
        spaces.Box(0, 1, (3, 4, 4), bool),
        spaces.Discrete(3, start=-1),
        spaces.Discrete(500),
        spaces.MultiDiscrete([2, 300], start=[5, 0]),
        spaces.MultiBinary([2, 2]),
    ]
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: spaces.Dict({f"part {k}": part for k, part in enumerate(parts)})
        ),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=60)
@given(SPACES, st.integers(0, 1000))
def test_rows_of_bytes_decode_to_the_flat_numbers(space: spaces.Space[Any], seed: int) -> None:
    encoder = Encoder(space, num_actions=2)
    batched = batch_space(space, 3)
    batched.seed(seed)
    batch = batched.sample()
    out = encoder.empty(3)
    encoder.write(batch, out)
    if encoder.rows is None:
        return
    flat = []
    for part in encoder.parts:
        numbers = part.encode(find_part(batch, part.path)).reshape(3, -1)
        flat.append(numbers / np.float32(255) if part.dtype == np.uint8 else numbers.astype(np.float32))
    decoded = encoder.rows(torch.from_numpy(out))
    assert decoded.dtype == torch.float32
    assert decoded.shape == (3, *encoder.rows.shape)
    np.testing.assert_array_equal(decoded.numpy(), np.concatenate(flat, axis=1))
    assert encoder.layout[-1].end == encoder.rows.shape[0]


def test_bytes_stay_bytes_and_a_discrete_is_one_number() -> None:
    env = flashdqn.make_env("gym:space_envs:Camera", 2, kwargs={"extra": 1000})
    # the picture, one number for `half` and two for the pair, three floats and two bits
    assert env.obs_spec.nbytes == 8 * 8 * 3 + 4 * 3 + 4 * (3 + 2)
    assert [part.kind for part in get_parts(get_decoder(env))] == [
        "image", "one-hot", "vector", "vector", "one-hot",
    ]  # fmt: skip
    check_env(env, steps=20)


def test_frames_are_stacked_part_by_part() -> None:
    alone = flashdqn.make_env("gym:space_envs:Camera", 2)
    stacked = flashdqn.make_env("gym:space_envs:Camera", 2, stack=3)
    one, many = get_decoder(alone), get_decoder(stacked)
    assert isinstance(one, PackedRows)
    assert isinstance(many, PackedRows)
    assert [part.shape for part in many.parts] == [(9, 8, 8), (6,), (9,), (6,), (15,)]
    frames = [one(alone.reset(1))] * 3
    seen = stacked.reset(1)
    for _ in range(2):
        frames.append(one(alone.step(torch.tensor([0, 1])).obs))
        seen = stacked.step(torch.tensor([0, 1])).obs
    pieces = [torch.split(frame, [part.size for part in one.parts], 1) for frame in frames[-3:]]
    wanted = [torch.cat(same, 1) for same in zip(*pieces, strict=True)]
    assert torch.equal(many(seen), torch.cat(wanted, 1))


def test_each_part_has_its_own_network() -> None:
    env = flashdqn.make_env("gym:space_envs:Camera", 4)
    config = NetworkConfig(channels=(4,), hidden=(16,), part_width=8)
    generator = torch.Generator().manual_seed(0)
    network = build_network(config, env.obs_spec, 4, generator, decoder=get_decoder(env))
    assert isinstance(network.torso, PartNetworks)
    assert [type(reader) for reader in network.torso.readers] == [CNN, MLP, MLP, MLP, MLP]
    assert network(env.reset(0)).shape == (4, 4)
    large = flashdqn.make_env("gym:space_envs:Camera", 1, kwargs={"tall": 40})
    assert min(get_parts(get_decoder(large))[0].shape[1:]) < 36  # no screen yet: 40x8
    screen = ObsPart("screen", "image", (3, 40, 40))
    assert isinstance(PartNetworks((screen,), (4,), 8, (16,), False).readers[0], Nature)


def test_a_flat_network_is_still_possible() -> None:
    env = flashdqn.make_env("gym:space_envs:Camera", 4)
    generator = torch.Generator().manual_seed(0)
    config = NetworkConfig(torso="mlp", hidden=(16,))
    network = build_network(config, env.obs_spec, 4, generator, decoder=get_decoder(env))
    assert isinstance(network.torso, MLP)
    assert network(env.reset(0)).shape == (4, 4)


def test_parts_without_parts_are_refused() -> None:
    env = flashdqn.make_env("gym:CartPole-v1", 1)
    with pytest.raises(ConfigError, match="torso 'parts' is for Dict and Tuple"):
        build_network(NetworkConfig(torso="parts"), env.obs_spec, 2, torch.Generator())


def test_a_number_that_is_not_finite_is_found_inside_a_row() -> None:
    class Broken(space_envs.Camera):
        def look(self) -> Any:
            seen = super().look()
            seen["inner"]["noise"][1] = np.nan if self.time == 2 else 0.0
            return seen

    from gymnasium.vector import SyncVectorEnv

    from flashdqn.envs.gymnasium.env import GymVecEnv

    env = GymVecEnv(SyncVectorEnv([Broken]), "broken")
    env.step(torch.tensor([0]))
    with pytest.raises(EnvError, match=r"an observation that holds nan \(environment 0 of 1\)"):
        env.step(torch.tensor([0]))


@pytest.mark.parametrize("which", ["graph", "sequence"])
def test_spaces_without_a_size_are_refused_with_the_way_out(which: str) -> None:
    with pytest.raises(EnvError, match=r"have no fixed size.*wrap the environment so that it returns a Box"):
        flashdqn.make_env("gym:space_envs:Odd", 1, kwargs={"which": which})
