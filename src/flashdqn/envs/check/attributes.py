"""What an environment says about itself: its name, sizes, specification and methods."""

from __future__ import annotations

from collections.abc import Callable

import torch

from flashdqn.core.branching import check_branches
from flashdqn.core.contract import ObsSpec, VecEnv, get_branches, get_cause_names
from flashdqn.core.errors import EnvError


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


def _is_decoder(value: object) -> bool:
    shape = getattr(value, "shape", None)
    sized = isinstance(shape, tuple) and all(map(_is_count, shape))
    legal = getattr(value, "legal", "missing")
    return value is None or (sized and callable(value) and (legal is None or callable(legal)))


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


def check_attributes(env: VecEnv) -> None:
    """What an environment says about itself is there and has the right type."""
    name = getattr(env, "name", None)
    name = name if _is_name(name) else type(env).__name__
    for attribute, is_right, expected in _ATTRIBUTES:
        rule = f"{name}: `{attribute}` must be {expected}"
        if not hasattr(env, attribute):
            raise EnvError(f"{rule}, but it is missing. Add it to the class.")
        value = getattr(env, attribute)
        if not is_right(value):
            raise EnvError(f"{rule}, but it is {value!r}. Set it before the environment is used.")
    if not _is_decoder(decoder := getattr(env, "decoder", None)):
        raise EnvError(
            f"{name}: `decoder` must be None, or a function with a tuple of positive ints as `shape` and a method "
            f"`legal` or None, but it is {decoder!r}. Leave it out if the network reads observations as they are."
        )
    get_cause_names(env)
    branches = get_branches(env)
    if branches and (not all(map(_is_count, branches)) or sum(branches) != env.num_actions):
        raise EnvError(
            f"{name}: `branches` must be ints of at least 1 whose sum is `num_actions`, {env.num_actions}, but it "
            f"is {branches!r}. Give the number of choices in each part of an action."
        )
    check_branches(env.name, branches)
