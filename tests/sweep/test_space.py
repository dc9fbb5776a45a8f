"""The space of a sweep: what a file may say, and the sentence for what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import tiny_config
from flashdqn.config.presets import base_config
from flashdqn.core.errors import ConfigError
from flashdqn.sweep.space import (
    ChoiceList,
    NumberRange,
    check_combinations,
    decode_option,
    encode_option,
    make_space,
    read_space,
)
from flashdqn.sweep.study import decode_values, encode_values, make_distribution

BASE = base_config("snake-flood")
ROOT = Path(__file__).parents[2]


def test_the_example_is_read() -> None:
    space = read_space(ROOT / "docs/examples/space.toml", BASE)
    assert space.names[:2] == ("train_ratio", "learn.lr")
    by_name = {one.name: one for one in space.dimensions}
    assert by_name["learn.lr"] == NumberRange("learn.lr", 1e-4, 3e-3, whole=False, log=True)
    assert by_name["replay.n_step"] == NumberRange("replay.n_step", 1, 5, whole=True)
    assert by_name["network.hidden"].holds([64, 64])
    values = space.find_base_values(BASE)
    assert values is not None
    assert values["learn.lr"] == BASE.learn.lr


def test_names_may_be_nested_dotted_short_or_with_hyphens() -> None:
    lr = {"low": 1e-4, "high": 1e-3}
    ways: list[dict[str, Any]] = [{"learn": {"lr": lr}}, {"learn.lr": lr}, {"lr": lr}]
    assert len({make_space(way, BASE) for way in ways}) == 1
    assert make_space({"replay": {"n-step": [1, 3]}}, BASE).names == ("replay.n_step",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "nothing to try"),
        ({"learn": {"lrr": [1, 2]}}, "'learn.lrr'; did you mean 'lr'?"),
        ({"gama": {"low": 0, "high": 1}}, "'gama'"),
        ({"lerning": {"lr": [1e-3, 1e-4]}}, "Unknown setting 'lerning'"),
        ({"learning_rate": [1e-3, 1e-4]}, "did you mean 'lr'"),
        ({"n_step": [1, 3]}, "did you mean 'replay.n_step'?"),
        ({"learn": {"lr": {"low": 1e-4}}}, "no 'high'"),
        ({"learn": {"lr": {"low": 1e-3, "high": 1e-4}}}, "low below high"),
        ({"learn": {"lr": {"low": -1.0, "high": 1e-4}}}, "learn.lr: low must be above 0"),
        ({"learn": {"lr": {"low": "a", "high": 1e-4}}}, "learn.lr: low must be a number"),
        ({"learn": {"gamma": {"low": 0, "high": 0.9, "log": True}}}, "low above 0"),
        ({"learn": {"gamma": {"low": 0.5, "high": 1.5}}}, "learn.gamma: high must lie in 0 … 1"),
        ({"learn": {"gamma": {"low": 0.5, "high": 0.9, "logg": True}}}, "did you mean 'log'?"),
        ({"learn": {"gamma": {"low": 0.5, "high": 0.9, "log": 1}}}, "true or false"),
        ({"learn": {"gamma": {"low": 0.5, "high": 0.9, "step": 7}}}, "learn.gamma.step"),
        ({"replay": {"n_step": {"low": 1.5, "high": 3}}}, "replay.n_step: low must be a whole number"),
        ({"learn": {"lr": 1e-3}}, "must be a range"),
        ({"learn": {"lr": [1e-3]}}, "two choices or more"),
        ({"learn": {"lr": [1e-3, 1e-3]}}, "twice"),
        ({"learn": {"lr": [1e-3, 1e-4]}, "lr": [1e-3, 1e-4]}, "given twice"),
        ({"learn": {"bootstrap": {"low": 1, "high": 2}}}, "not a number"),
        ({"learn": {"bootstrap": ["double", "dubble"]}}, "never works with dubble"),
        ({"network": {"hidden": [[64], "wide"]}}, "network.hidden"),
        ({"steps": [1000, 2000]}, "cannot be tried"),
        ({"seed": [1, 2]}, "cannot be tried"),
        ({"eval": {"episodes": [10, 20]}}, "cannot be tried"),
        ({"learn": [1, 2]}, "a group of settings"),
        ({"algo": ["dqn", "rainbo"]}, "did you mean 'rainbow'?"),
        ({"replay": {"capacity": {"low": 1, "high": 2}}}, "No combination"),
    ],
)
def test_a_mistake_is_one_sentence(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_space(data, BASE)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("learn = {", "not valid TOML"), (None, "Cannot read"), ("[learn]\nlrr = [1, 2]", "lrr")],
)
def test_a_bad_file_is_named(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=r"space\.toml") as error:
        read_space(file, BASE)
    assert words in str(error.value)


def test_combinations_that_settings_refuse_are_counted() -> None:
    space = make_space({"learn": {"bootstrap": ["double", "munchausen"]}, "replay": {"n_step": [1, 3]}}, BASE)
    assert 0.1 < check_combinations(space, BASE) < 0.5  # munchausen with 3 steps


def test_an_algorithm_is_chosen_like_a_setting() -> None:
    space = make_space({"algo": ["dqn", "rainbow"], "lr": [1e-3, 1e-4]}, BASE)
    config = space.apply(BASE, {"algo": "rainbow", "learn.lr": 1e-4})
    assert (config.learn.head, config.learn.lr) == ("categorical", 1e-4)
    assert space.find_base_values(BASE) is None


def test_a_schedule_may_be_a_share_of_the_steps() -> None:
    base = tiny_config(steps=1000)
    space = make_space({"explore": {"over": {"low": 0.1, "high": 0.5}}}, base)
    assert space.apply(base, {"explore.over": 0.25}).explore.over == 250


plain = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=5)


@given(st.lists(plain | st.lists(st.integers(1, 64), max_size=3), min_size=2, max_size=6, unique_by=repr))
def test_every_option_survives_optuna(options: list[Any]) -> None:
    space_like = ChoiceList("network.hidden", tuple(options))
    texts = [encode_option(option) for option in options]
    assert [decode_option(text) for text in texts] == options
    if len(set(texts)) == len(texts):
        assert list(make_distribution(space_like).choices) == texts


TWO = make_space({"lr": {"low": 1e-5, "high": 1e-2}, "batch_size": [64, 128]}, BASE)


@given(st.floats(1e-5, 1e-2), st.sampled_from([64, 128]))
def test_values_survive_optuna(lr: float, size: int) -> None:
    space = TWO
    values = {"learn.lr": lr, "learn.batch_size": size}
    assert decode_values(space, encode_values(space, values)) == values
