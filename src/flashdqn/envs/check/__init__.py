"""Tests an environment against the contract of `VecEnv`: run `check_env` on your own before training.

It plays random legal actions, then plays them again in three ways: unchanged, with other actions where the contract
says that they are ignored, and from states saved on the way. All must agree bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.core.contract import VecEnv, count_actions, is_resumable
from flashdqn.core.errors import ConfigError
from flashdqn.envs.check.attributes import check_attributes
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
    check_attributes(env)
    record = play_random_actions(env, steps, seed)
    check_repeats(env, record)
    check_action_ignored(env, record)
    if is_resumable(env):
        check_saved_states(env, record)
    else:
        check_new_start(env, record)
    return _make_report(env, record)


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
