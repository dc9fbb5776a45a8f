"""The list of experiments: each changes one setting, and says correctly what it does to learning."""

from __future__ import annotations

from typing import Any

import pytest
from profile_tiny import tiny

from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config import Config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.profile.experiments import (
    AGAIN,
    BASELINE,
    Experiment,
    asked_ratio,
    combine_experiments,
    describe_updates,
    format_flag,
    list_experiments,
    relative_ratio,
    select_experiments,
)


def flatten(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def differences(one: Config, other: Config) -> dict[str, Any]:
    first, second = flatten(to_dict(one)), flatten(to_dict(other))
    return {key: second[key] for key in first if first[key] != second[key]}


def named(several: list[Experiment]) -> dict[str, Experiment]:
    return {one.name: one for one in several}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("cuda", [False, True])
def test_each_differs_from_the_baseline_in_exactly_one_setting(preset: str, cuda: bool) -> None:
    config = base_config(preset)
    found = list_experiments(config, cuda, cores=8)
    assert len(named(found)) == len(found) > 5
    for one in found:
        assert len(one.settings) == 1
        assert differences(config, one.of(config)) == one.settings
    assert BASELINE.of(config) == AGAIN.of(config) == config


@pytest.mark.parametrize("preset", ["snake-flood", "cartpole"])
def test_the_flags_lead_to_the_same_configuration(preset: str) -> None:
    config = base_config(preset)
    for one in list_experiments(config, False, cores=8):
        base, _, rest = resolve_base_config([preset, *one.flags.split()])
        assert parse_training(base, rest) == one.of(config), one.name


def test_the_ratios_beside_them_are_right() -> None:
    config = base_config("snake-flood")  # 256 boards, 1/32
    ratios = {one.name: relative_ratio(one.of(config), config) for one in list_experiments(config, False, 2)}
    assert ratios.pop("no-training") == 0.0
    assert ratios.pop("ratio-half") == 0.5
    assert ratios.pop("ratio-double") == 2.0
    assert ratios.pop("iteration") == 0.125  # one update where there were eight
    assert set(ratios.values()) == {1.0}


def test_what_they_do_to_learning() -> None:
    found = named(list_experiments(base_config("snake-flood"), False, 2))
    roles = {one.name: one.role for one in found.values()}
    assert roles["no-training"] == "bound"
    assert found["no-training"].learning == "learns nothing"
    assert found["ratio-half"].learning == "learns from half as many updates"
    assert found["ratio-double"].learning == "learns from twice as many updates"
    assert found["iteration"].learning == "learns from an eighth of the updates"
    assert found["no-flood"].learning == "other features: another task"
    trades = {name for name, role in roles.items() if role == "trade"}
    assert trades == {"ratio-half", "iteration", "no-flood", "batch-half"}
    assert {name for name, role in roles.items() if role == "more"} == {"ratio-double", "batch-double"}
    assert roles["boards-1024"] == roles["threads-2"] == roles["mode-eager"] == roles["no-logging"] == "same"
    assert describe_updates(0.3) == "learns from 0.3 times as many updates"


def test_what_equals_the_baseline_is_no_experiment() -> None:
    names = named(
        list_experiments(tiny(envs=64, train_ratio=1 / 64, runtime__mode="native"), False, 4, (4, 4))
    )
    assert not {"boards-64", "iteration", "mode-native", "threads-4", "no-tensorboard"} & set(names)
    assert {"boards-32", "threads-1", "mode-eager", "no-logging"} <= set(names)
    half = named(list_experiments(tiny(envs=16, train_ratio=0.125), False, 1, (1, 1)))
    assert "ratio-half" in half
    assert "iteration" not in half  # the same ratio under another name
    assert not [name for name in half if name.startswith("threads")]


def test_modes_and_threads_belong_to_a_device() -> None:
    cpu, cuda = (named(list_experiments(tiny(), on_cuda, 4)) for on_cuda in (False, True))
    assert "mode-graph" not in cpu
    assert "threads-4" in cpu
    assert "mode-graph" in cuda
    assert not [name for name in cuda if name.startswith("threads")]


def test_without_training_there_is_no_ratio_to_change() -> None:
    found = list_experiments(tiny(train_ratio=0.0), False, 2)
    assert not {one.group for one in found} & {"ratio", "batch"}
    assert all(relative_ratio(one.of(tiny(train_ratio=0.0)), tiny(train_ratio=0.0)) == 1 for one in found)


def test_only_floods_can_be_taken_away() -> None:
    assert "no-flood" in named(list_experiments(tiny(env__features="enhanced"), False, 2))
    assert "no-flood" not in named(list_experiments(tiny("snake"), False, 2))
    assert "no-flood" not in named(list_experiments(base_config("cartpole"), False, 2))


def test_gymnasium_gets_no_thousand_environments() -> None:
    config = base_config("cartpole")  # 16
    boards = [one.settings["envs"] for one in list_experiments(config, False, 2) if one.group == "boards"]
    assert boards == [32, 64]
    processes = apply_settings(config, {"env.vectorization": "async"})
    assert not [one for one in list_experiments(processes, False, 2) if one.group == "boards"]


def test_pqn_has_a_ratio_that_follows_from_its_boards() -> None:
    config = apply_algorithm(base_config("snake"), "pqn")
    found = named(list_experiments(config, False, 2))
    assert not {one.group for one in found.values()} & {"ratio", "batch"}
    assert asked_ratio(config) == 2 * 32 / (32 * 256)
    more = found["boards-1024"]
    assert more.role == "trade"
    assert relative_ratio(more.of(config), config) == 0.25
    assert more.learning.startswith("learns from a quarter of the updates")
    assert found["boards-32"].role == "more"


def test_only_and_skip_take_names_and_groups() -> None:
    known = list_experiments(base_config("snake-flood"), False, 2)
    assert select_experiments(known, [], []) == known
    assert [one.name for one in select_experiments(known, ["boards"], [])] == [
        "boards-32",
        "boards-64",
        "boards-1024",
    ]
    assert [one.name for one in select_experiments(known, ["boards", "no-flood"], ["boards-64"])] == [
        "boards-32",
        "boards-1024",
        "no-flood",
    ]
    assert {one.group for one in select_experiments(known, [], ["modes", "logging"])} & {
        "modes",
        "logging",
    } == set()
    assert select_experiments(known, ["phases"], []) == []
    with pytest.raises(ConfigError, match=r"no experiment 'board'.*did you mean 'boards'"):
        select_experiments(known, ["board"], [])
    with pytest.raises(ConfigError, match="ratio-haf"):
        select_experiments(known, [], ["ratio-haf"])


def test_several_at_once() -> None:
    found = named(list_experiments(base_config("snake-flood"), False, 2))
    both = combine_experiments([found["boards-1024"], found["no-logging"]])
    assert both.settings == {"envs": 1024, **found["no-logging"].settings}
    assert both.quiet
    assert both.flags.startswith("--envs 1024 --log.every ")


def test_flags_as_they_are_written() -> None:
    assert format_flag("train_ratio", 1 / 64) == "--train-ratio 0.015625"
    assert format_flag("log.tensorboard", False) == "--log.no-tensorboard"
    assert format_flag("learn.batch_size", 128) == "--learn.batch-size 128"
