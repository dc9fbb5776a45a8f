"""Every kind of observation space as one tensor, and what lies where in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gym_envs import Showing
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from flashdqn.core.errors import EnvError
from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.envs.gymnasium.spaces import Encoder

FLOAT, BYTE = torch.float32, torch.uint8


def one_hot(index: int, size: int) -> list[float]:
    return np.eye(size)[index].tolist()


def bytes_box(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


#: space, shape and dtype of the tensor, and the tensor of one sample by another way
CASES: dict[str, tuple[spaces.Space[Any], tuple[int, ...], torch.dtype, Any]] = {
    "float64 box": (spaces.Box(-1, 1, (3,), np.float64), (3,), FLOAT, lambda x: x),
    "a single number": (spaces.Box(-1, 1, (), np.float32), (1,), FLOAT, lambda x: [x]),
    "matrix": (spaces.Box(-1, 1, (2, 3)), (2, 3), FLOAT, lambda x: x),
    "unbounded box": (spaces.Box(-np.inf, np.inf, (2,)), (2,), FLOAT, lambda x: x),
    "int box": (spaces.Box(-5, 5, (4,), np.int64), (4,), FLOAT, lambda x: x),
    "byte memory": (bytes_box(8), (8,), BYTE, lambda x: x),
    "bytes that are 0 or 1": (spaces.Box(0, 1, (8,), np.uint8), (8,), FLOAT, lambda x: x),
    "bool box": (spaces.Box(0, 1, (3,), bool), (3,), FLOAT, lambda x: x),
    "image, channels last": (bytes_box(6, 5, 3), (3, 6, 5), BYTE, lambda x: x.transpose(2, 0, 1)),
    "image, channels first": (bytes_box(3, 6, 5), (3, 6, 5), BYTE, lambda x: x),
    "image of equal sides": (bytes_box(4, 4, 4), (4, 4, 4), BYTE, lambda x: x.transpose(2, 0, 1)),
    "float image": (spaces.Box(0, 1, (6, 5, 2)), (2, 6, 5), FLOAT, lambda x: x.transpose(2, 0, 1)),
    "bool planes": (
        spaces.Box(0, 1, (5, 5, 2), bool),
        (2, 5, 5),
        BYTE,
        lambda x: x.transpose(2, 0, 1).astype(np.uint8) * 255,
    ),
    "discrete": (spaces.Discrete(4), (4,), FLOAT, lambda x: one_hot(x, 4)),
    "discrete from -2": (spaces.Discrete(3, start=-2), (3,), FLOAT, lambda x: one_hot(x + 2, 3)),
    "binary": (spaces.MultiBinary(5), (5,), FLOAT, lambda x: x),
    "binary matrix": (spaces.MultiBinary([2, 3]), (2, 3), FLOAT, lambda x: x),
    "multidiscrete": (
        spaces.MultiDiscrete([2, 4]),
        (6,),
        FLOAT,
        lambda x: one_hot(x[0], 2) + one_hot(x[1], 4),
    ),
    "multidiscrete from 1": (
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        (5,),
        FLOAT,
        lambda x: one_hot(x[0] - 1, 2) + one_hot(x[1] + 1, 3),
    ),
    "tuple": (
        spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,)))),
        (5,),
        FLOAT,
        lambda x: one_hot(x[0], 3) + x[1].tolist(),
    ),
    "dict in dict, with bytes": (
        spaces.Dict({"b": bytes_box(2, 2, 1), "a": spaces.Dict({"x": spaces.MultiBinary(2)})}),
        (12,),  # two floats and four bytes
        BYTE,
        lambda x: x["a"]["x"].tolist() + (x["b"].transpose(2, 0, 1).reshape(-1) / np.float32(255)).tolist(),
    ),
    "dict of one image": (
        spaces.Dict({"view": bytes_box(6, 5, 3)}),
        (3, 6, 5),
        BYTE,
        lambda x: x["view"].transpose(2, 0, 1),
    ),
}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("case", CASES)
def test_every_space(case: str, mode: AutoresetMode) -> None:
    space, shape, dtype, expected = CASES[case]
    inner = Showing(space)
    env = GymVecEnv(SyncVectorEnv([lambda: inner], autoreset_mode=mode), "showing")
    assert (env.obs_spec.shape, env.obs_spec.dtype) == (shape, dtype)

    def same(obs: torch.Tensor, shown: Any) -> None:
        obs = obs if env.decoder is None else env.decoder(obs)
        wanted = np.asarray(expected(shown), dtype=obs.numpy().dtype)
        np.testing.assert_array_equal(obs[0].numpy(), wanted)

    same(env.reset(0), inner.shown[-1])
    for number in range(1, 8):
        step = env.step(torch.tensor([number % 2]))
        last = number in (3, 7)  # the episode's end: then the same-step rule has shown a new one already
        same(step.obs, inner.shown[-2 if last and mode == AutoresetMode.SAME_STEP else -1])
        assert bool(step.terminated) == last


@pytest.mark.parametrize("case", ["dict in dict, with bytes", "image, channels last", "discrete from -2"])
def test_the_contract_is_kept(case: str) -> None:
    check_env(GymVecEnv(SyncVectorEnv([lambda: Showing(CASES[case][0])] * 2)), steps=20)


def test_the_layout_says_what_lies_where() -> None:
    space = spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Tuple((spaces.MultiBinary(2), bytes_box(4)))})
    layout = Encoder(space, num_actions=2).layout
    found = [(place.path, place.kind, place.begin, place.end) for place in layout]
    assert found == [
        (("a", 0), "binary", 0, 2),
        (("a", 1), "bytes", 2, 6),
        (("b",), "one-hot of 3", 6, 9),
    ]


@pytest.mark.parametrize(
    ("channels", "shape"), [("first", (6, 5, 3)), ("last", (3, 6, 5)), ("auto", (3, 6, 5))]
)
def test_the_place_of_the_channels_can_be_said(channels: Any, shape: tuple[int, ...]) -> None:
    assert Encoder(bytes_box(6, 5, 3), 2, channels).spec.shape == shape


def test_a_mask_in_the_observation_is_no_observation() -> None:
    mask = spaces.MultiBinary(2)
    env = GymVecEnv(
        SyncVectorEnv(
            [lambda: Showing(spaces.Dict({"observation": spaces.Box(0, 1, (3,)), "action_mask": mask}))]
        )
    )
    assert env.obs_spec.shape == (3,)
    assert env.mask is not None
    inner = env.vector.env.envs[0]  # type: ignore[attr-defined]
    for _ in range(5):
        shown = env.step(torch.tensor([0]))
        assert shown.mask is not None
        assert shown.mask[0].tolist() == (inner.shown[-1]["action_mask"] != 0).tolist()
        np.testing.assert_array_equal(shown.obs[0].numpy(), inner.shown[-1]["observation"])
    other = spaces.Dict({"observation": spaces.Box(0, 1, (3,)), "action_mask": spaces.MultiBinary(7)})
    assert Encoder(other, num_actions=2).spec.shape == (10,)  # of another size, it is something else


@pytest.mark.parametrize(
    "space",
    [spaces.Text(5), spaces.Sequence(spaces.Discrete(2)), spaces.Dict({"a": spaces.Text(3)})],
    ids=["text", "sequence", "text in a dict"],
)
def test_spaces_without_a_fixed_size_are_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(EnvError, match="have no fixed size"):
        Encoder(space, num_actions=2)


def test_empty_spaces_are_refused() -> None:
    with pytest.raises(EnvError, match="nothing to learn from"):
        Encoder(spaces.Dict({}), num_actions=2)
    with pytest.raises(EnvError, match="is empty"):
        Encoder(spaces.Box(0, 1, (0,)), num_actions=2)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(2**31),
        spaces.MultiDiscrete([2**62] * 4),
        spaces.Dict({"a": spaces.Discrete(2**31), "b": spaces.Box(-1, 1, (3,))}),
    ],
)
def test_an_observation_that_no_memory_holds_is_refused(space: Any) -> None:
    with pytest.raises(EnvError, match="numbers is too large"):
        Encoder(space, 2)
