"""Tests an environment against the contract of `VecEnv`: run `check_env` on your own before training.

It plays random legal actions, then plays them again in three ways: unchanged, with other actions where the contract
says that they are ignored, and from states saved on the way. All must agree bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from flashdqn.core.branching import check_branches
from flashdqn.core.contract import (
    ObsSpec,
    VecEnv,
    count_actions,
    get_branches,
    get_cause_names,
    is_resumable,
)
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.check.episode import (
    PlayRecord,
    check_action_ignored,
    check_new_start,
    check_repeats,
    check_saved_states,
    play_random_actions,
)


@dataclass(frozen=True)
class CheckReport:
    """What `check_env` saw of an environment that follows the contract."""

    steps: int  # steps of each environment
    terminated: int  # episodes that ended by their own rules
    truncated: int  # episodes that were cut off
    notes: tuple[str, ...]  # rules that could not be tried, and why


def check_env(env: VecEnv, *, steps: int = 200, seed: int = 0) -> CheckReport:
    """Raise `EnvError` for the first rule of the contract that `env` breaks; otherwise report what was seen.

    The environment is left somewhere in a game: reset it before you use it.
    """
    if steps < 1:
        raise ConfigError(f"check_env: `steps` must be at least 1, but it is {steps}. 200 is a good choice.")
    _check_attributes(env)
    record = play_random_actions(env, steps, seed)
    check_repeats(env, record)
    check_action_ignored(env, record)
    if is_resumable(env):
        check_saved_states(env, record)
    else:
        check_new_start(env, record)
    return _make_report(env, record)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_name, value)) and len(set(value)) == len(value)


def _is_obs_spec(value: object) -> bool:
    if not isinstance(value, ObsSpec) or not isinstance(value.dtype, torch.dtype):
        return False
    return isinstance(value.shape, tuple) and all(map(_is_count, value.shape))


_ATTRIBUTES: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("name", _is_name, "a string that is not empty"),
    ("num_envs", _is_count, "an int of at least 1"),
    ("num_actions", _is_count, "an int of at least 1"),
    ("obs_spec", _is_obs_spec, "an ObsSpec with a tuple of positive ints and a torch.dtype"),
    ("device", lambda value: isinstance(value, torch.device), "a torch.device"),
    ("outcome_names", _are_names, "a tuple of strings, none empty and none twice"),
    ("reset", callable, "a method"),
    ("step", callable, "a method"),
    ("state_dict", callable, "a method"),
    ("load_state_dict", callable, "a method"),
)


def _check_attributes(env: VecEnv) -> None:
    name = getattr(env, "name", None)
    name = name if _is_name(name) else type(env).__name__
    for attribute, is_right, expected in _ATTRIBUTES:
        rule = f"{name}: `{attribute}` must be {expected}"
        if not hasattr(env, attribute):
            raise EnvError(f"{rule}, but it is missing. Add it to the class.")
        value = getattr(env, attribute)
        if not is_right(value):
            raise EnvError(f"{rule}, but it is {value!r}. Set it before the environment is used.")
    get_cause_names(env)
    branches = get_branches(env)
    if branches and (not all(map(_is_count, branches)) or sum(branches) != env.num_actions):
        raise EnvError(
            f"{name}: `branches` must be ints of at least 1 whose sum is `num_actions`, {env.num_actions}, but it "
            f"is {branches!r}. Give the number of choices in each part of an action."
        )
    check_branches(env.name, branches)


def _make_report(env: VecEnv, record: PlayRecord) -> CheckReport:
    notes = []
    if not any(bool(answer.ended.any()) for answer in record.answers[:-1]):
        notes.append("Autoreset was not tried, because no step followed an end: give more `steps`.")
    elif count_actions(env) == 1:
        notes.append("With a single action, check_env cannot see whether the step after an end ignores it.")
    if not is_resumable(env):
        notes.append("It cannot save its games (`resumable` is False): a resumed run starts new episodes.")
    return CheckReport(
        steps=len(record.actions),
        terminated=sum(int(answer.terminated.sum()) for answer in record.answers),
        truncated=sum(int(answer.truncated.sum()) for answer in record.answers),
        notes=tuple(notes),
    )
