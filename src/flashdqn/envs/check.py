"""Tests an environment against the contract of `VecEnv`: run `check_env` on one of your own before training.

It plays random legal actions, then plays them again in three ways: as they were, with other actions where the
contract says that they are ignored, and from states saved on the way. All must agree, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.envs.contract import ObsSpec, VecEnv, resumable
from flashdqn.errors import ConfigError, EnvError
from flashdqn.types import Step


@dataclass(frozen=True)
class CheckReport:
    """What `check_env` saw of an environment that keeps the contract."""

    steps: int  # steps of each environment
    terminated: int  # episodes that ended by their own rules
    truncated: int  # episodes that were cut off
    notes: tuple[str, ...]  # rules that could not be tried, and why


class _Answer(NamedTuple):
    """What came of a reset or a step, as copies: the environment may overwrite its own tensors."""

    obs: Tensor  # [N, *obs]
    reward: Tensor  # [N]
    terminated: Tensor  # [N]
    truncated: Tensor  # [N]
    mask: Tensor | None  # [N, A]
    outcomes: Tensor  # [N, K], zero where no episode ended

    @property
    def ended(self) -> Tensor:
        return self.terminated | self.truncated


@dataclass(frozen=True)
class _Record:
    """One play: `answers[0]` came of the reset, and `answers[t]` of `actions[t - 1]`."""

    seed: int
    actions: list[Tensor]
    answers: list[_Answer]


def check_env(env: VecEnv, *, steps: int = 200, seed: int = 0) -> CheckReport:
    """Raise `EnvError` for the first rule of the contract that `env` breaks; otherwise report what was seen.

    The environment is left somewhere in a game: reset it before you use it.
    """
    if steps < 1:
        raise ConfigError(f"check_env: `steps` must be at least 1, but it is {steps}. 200 is a good choice.")
    _check_attributes(env)
    record = _play(env, steps, seed)
    _check_repeats(env, record)
    _check_action_ignored(env, record)
    if resumable(env):
        _check_state(env, record)
    else:
        _check_new_start(env, record)
    return _report(env, record)


def _breach(env: VecEnv, rule: str, came: str, advice: str) -> EnvError:
    return EnvError(f"{env.name}: {rule}, but {came}. {advice}")


# ---- what the environment says of itself


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


# ---- a single answer


def _reset(env: VecEnv, seed: int) -> _Answer:
    """Reset, check what came, copy it: in the form of a step that starts an episode, reward 0 and no flag."""
    obs = env.reset(seed)
    _check_tensor(env, "what reset returns", obs, env.obs_spec.shape, env.obs_spec.dtype)
    _check_finite(env, "the observation of reset", obs)
    for attribute in ("mask", "outcomes"):
        if not hasattr(env, attribute):
            raise _breach(
                env, f"`{attribute}` must be there after reset", "it is missing", "Add the property."
            )
    never = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    _check_mask(env, "`env.mask` after reset", env.mask, alive=~never)
    return _copy(Step(obs, never.float(), never, never, env.mask), _ended_outcomes(env, never))


def _step(env: VecEnv, action: Tensor, number: int) -> _Answer:
    """Step, check the form of what came, copy it. `number` counts from 1, for the messages."""
    given = action.clone()
    try:
        step = env.step(given)
    except Exception as error:
        raise _breach(
            env,
            "step must take every legal action, and any action in a row whose episode has just ended",
            f"step {number} raised {type(error).__name__}: {error}",
            "Look at the error above for where.",
        ) from error
    if not _same(given, action):
        raise _breach(
            env,
            "step must leave the caller's action tensor alone",
            f"step {number} changed it",
            "Work on `action.clone()`.",
        )
    _check_form(env, step)
    return _copy(step, _ended_outcomes(env, step.terminated | step.truncated))


def _check_form(env: VecEnv, step: object) -> None:
    if not isinstance(step, Step):
        raise _breach(
            env,
            "step must return a flashdqn.types.Step",
            f"it returned a {type(step).__name__}",
            "Return Step(obs, reward, terminated, truncated, mask).",
        )
    _check_tensor(env, "`obs` of a step", step.obs, env.obs_spec.shape, env.obs_spec.dtype)
    _check_tensor(env, "`reward` of a step", step.reward, (), torch.float32)
    _check_tensor(env, "`terminated` of a step", step.terminated, (), torch.bool)
    _check_tensor(env, "`truncated` of a step", step.truncated, (), torch.bool)
    if step.mask is not None:
        _check_tensor(env, "`mask` of a step", step.mask, (env.num_actions,), torch.bool)


def _check_values(env: VecEnv, step: _Answer, before: _Answer, number: int) -> None:
    _check_finite(env, f"`obs` of step {number}", step.obs)
    _check_finite(env, f"`reward` of step {number}", step.reward)
    _check_flags(env, step, number)
    _check_masks(env, step, before, number)
    _check_fresh_rows(env, step, before, number)


def _check_flags(env: VecEnv, step: _Answer, number: int) -> None:
    both = step.terminated & step.truncated
    if both.any():
        raise _breach(
            env,
            "an episode must end by `terminated` or by `truncated`, never by both",
            f"environment {_first(both)} set both in step {number}",
            "Set `terminated` alone where the rules of the task end it.",
        )


def _check_masks(env: VecEnv, step: _Answer, before: _Answer, number: int) -> None:
    if (step.mask is None) != (before.mask is None):
        raise _breach(
            env,
            "`mask` must be None always or never",
            f"this changed in step {number}",
            "Return an all-True mask where every action is legal.",
        )
    # A truncated episode bootstraps over the legal actions of its last observation: it too needs one.
    _check_mask(env, f"`mask` of step {number}", step.mask, alive=~step.terminated)
    _check_mask(env, f"`env.mask` after step {number}", env.mask, alive=~step.terminated)
    if not _same(env.mask, step.mask):
        raise _breach(
            env,
            "`env.mask` must equal the mask of the last step",
            f"after step {number} it does not",
            "Return the same tensor in both places.",
        )


def _check_fresh_rows(env: VecEnv, step: _Answer, before: _Answer, number: int) -> None:
    """The step after an end starts an episode: it earns nothing and ends nothing."""
    earned = before.ended & (step.reward != 0)
    if earned.any():
        row = _first(earned)
        raise _breach(
            env,
            "the step after an end starts a new episode and must have reward 0",
            f"environment {row} got {step.reward[row].item():g} in step {number}",
            "Set the reward of rows that start anew to 0.",
        )
    for flag, value in (("terminated", step.terminated), ("truncated", step.truncated)):
        again = before.ended & value
        if again.any():
            raise _breach(
                env,
                f"the step after an end starts a new episode and must not be `{flag}`",
                f"environment {_first(again)} is in step {number}",
                "Clear the flags and the clock of rows that start anew.",
            )


def _check_tensor(env: VecEnv, what: str, value: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """One row of `shape` per environment, of `dtype`, on the environment's device."""
    shape = (env.num_envs, *shape)
    rule = f"{what} must be a {dtype} tensor of shape {list(shape)} on {env.device}"
    if not isinstance(value, Tensor):
        raise _breach(env, rule, f"it is a {type(value).__name__}", "Return a tensor.")
    if value.dtype != dtype:
        raise _breach(env, rule, f"its dtype is {value.dtype}", f"Convert it with `.to({dtype})`.")
    if value.shape != shape:
        raise _breach(env, rule, f"its shape is {list(value.shape)}", "Give it one row per environment.")
    index = env.device.index
    if value.device.type != env.device.type or index not in (None, value.device.index):
        raise _breach(env, rule, f"it is on {value.device}", "Create it on `env.device`.")


def _check_finite(env: VecEnv, what: str, value: Tensor) -> None:
    wrong = ~value.isfinite()
    if wrong.any():
        came = f"it holds {value[wrong][0].item()} in environment {_first(wrong)}"
        raise _breach(env, f"{what} must be finite", came, "Look for a division by zero or an overflow.")


def _check_mask(env: VecEnv, what: str, mask: Tensor | None, alive: Tensor) -> None:
    if mask is None:
        return
    _check_tensor(env, what, mask, (env.num_actions,), torch.bool)
    stuck = alive & ~mask.any(dim=1)
    if stuck.any():
        raise _breach(
            env,
            f"{what} must leave at least one legal action unless the episode terminated",
            f"environment {_first(stuck)} has none",
            "Terminate an episode in which nothing can be done.",
        )


def _ended_outcomes(env: VecEnv, ended: Tensor) -> Tensor:
    """The outcomes of the episodes that ended; the other rows mean nothing and become 0."""
    outcomes = env.outcomes
    _check_tensor(env, "`env.outcomes`", outcomes, (len(env.outcome_names),), torch.float32)
    outcomes = outcomes.where(ended[:, None], 0.0)
    _check_finite(env, "`env.outcomes` of an ended episode", outcomes)
    return outcomes


# ---- a whole play, and its repetitions


def _play(env: VecEnv, steps: int, seed: int) -> _Record:
    """Play random legal actions, with every answer checked."""
    generator = torch.Generator().manual_seed(seed)
    record = _Record(seed, [], [_reset(env, seed)])
    for number in range(1, steps + 1):
        before = record.answers[-1]
        action = _draw_legal(env, before.mask, generator)
        answer = _step(env, action, number)
        _check_values(env, answer, before, number)
        record.actions.append(action)
        record.answers.append(answer)
    return record


def _draw_legal(env: VecEnv, mask: Tensor | None, generator: torch.Generator) -> Tensor:
    """One action per environment, uniform over the legal ones; over all where a terminated row has none."""
    legal = torch.ones(env.num_envs, env.num_actions, dtype=torch.bool) if mask is None else mask.cpu()
    weight = legal | ~legal.any(dim=1, keepdim=True)
    return torch.multinomial(weight.float(), 1, generator=generator).squeeze(1).to(env.device)


def _follow(env: VecEnv, record: _Record, actions: list[Tensor], begin: int, end: int) -> str | None:
    """Go on from `answers[begin]` to `answers[end]`; say where an answer is not the recorded one.

    The values are not checked again: an answer that equals the recorded one is as right as that was.
    """
    for number in range(begin + 1, end + 1):
        answer = _step(env, actions[number - 1], number)
        difference = _difference(record.answers[number], answer)
        if difference is not None:
            return f"{difference} in step {number}"
    return None


def _check_repeats(env: VecEnv, record: _Record) -> None:
    advice = "Seed every random generator in reset, draw from no other, and reset all state."
    difference = _difference(record.answers[0], _reset(env, record.seed))
    if difference is not None:
        rule = f"reset({record.seed}) must give the same start every time, also after steps in between"
        raise _breach(env, rule, difference, advice)
    difference = _follow(env, record, record.actions, 0, len(record.actions))
    if difference is not None:
        rule = f"reset({record.seed}) and the same actions must give the same game bit by bit"
        raise _breach(env, rule, difference, advice)


def _check_action_ignored(env: VecEnv, record: _Record) -> None:
    """Other actions where an episode starts anew, all else equal, must change nothing."""
    actions = [
        torch.where(before.ended, (action + 1) % env.num_actions, action)
        for before, action in zip(record.answers[:-1], record.actions, strict=True)
    ]
    _reset(env, record.seed)
    difference = _follow(env, record, actions, 0, len(actions))
    if difference is not None:
        raise _breach(
            env,
            "the step after an end must ignore its action",
            f"with another action {difference}",
            "Start the new episode in that step, not in the one before, and without looking at the action.",
        )


# ---- saving, and going on from there


class _Saved(NamedTuple):
    after: int  # steps before it was taken
    state: dict[str, Tensor]  # what the environment gave
    copy: dict[str, Tensor]  # how that was at the time


def _check_state(env: VecEnv, record: _Record) -> None:
    saved = _save_on_the_way(env, record)
    for point in saved:
        _check_unchanged(env, point, "state_dict must return copies")
    for point in saved:
        _check_continuation(env, record, point)
        _check_unchanged(env, point, "load_state_dict must copy what it is given")


def _save_on_the_way(env: VecEnv, record: _Record) -> list[_Saved]:
    """Repeat the play, and take states without leaving a trace in it."""
    last = len(record.actions)
    cuts = _cuts(record)
    saved = []
    _reset(env, record.seed)
    difference = _follow(env, record, record.actions, 0, cuts[0])
    for cut, next_cut in zip(cuts, [*cuts[1:], last], strict=True):
        state = _take_state(env)
        saved.append(_Saved(cut, state, {key: value.clone() for key, value in state.items()}))
        difference = difference or _follow(env, record, record.actions, cut, next_cut)
    if difference is not None:
        advice = "Draw, advance and reset nothing in it."
        raise _breach(env, "state_dict must only read", f"after a call of it {difference}", advice)
    return saved


def _cuts(record: _Record) -> list[int]:
    """Where to save: in the middle, and where a new episode is due, which is easily forgotten in a state."""
    last = len(record.actions)
    middle = last // 2
    ends = [number for number in range(1, last) if record.answers[number].ended.any()]
    nearest = sorted(ends, key=lambda number: abs(number - middle))[:1]
    return sorted({middle, *nearest})


def _take_state(env: VecEnv) -> dict[str, Tensor]:
    rule = "state_dict must return a flat dict of str to Tensor"
    state: object = env.state_dict()
    if not isinstance(state, dict):
        raise _breach(env, rule, f"it returned a {type(state).__name__}", "Return a plain dict.")
    for key, value in state.items():
        if not isinstance(key, str):
            raise _breach(env, rule, f"{key!r} is a {type(key).__name__}", "Use strings as keys.")
        if not isinstance(value, Tensor):
            advice = "Wrap numbers in torch.tensor, and lift nested entries to the top."
            raise _breach(env, rule, f"{key!r} holds a {type(value).__name__}", advice)
    return state


def _check_unchanged(env: VecEnv, saved: _Saved, rule: str) -> None:
    for key, value in saved.copy.items():
        if not _same(saved.state.get(key), value):
            raise _breach(
                env, rule, f"stepping on changed {key!r} in the saved state", "Use `.clone()` there."
            )


def _check_continuation(env: VecEnv, record: _Record, saved: _Saved) -> None:
    _reset(env, record.seed + 1)  # go elsewhere, so that what the state lacks is not there by chance
    env.load_state_dict(saved.state)
    advice = "Save all that changes: clocks, flags, generators, rows that are due to start anew."
    if not _same(env.mask, record.answers[saved.after].mask):
        raise _breach(
            env, "load_state_dict must bring back `env.mask`", "it differs from the saved one", advice
        )
    difference = _follow(env, record, record.actions, saved.after, len(record.actions))
    if difference is not None:
        raise _breach(
            env,
            "after load_state_dict the game must go on bit by bit as it did after state_dict",
            f"from a state taken after step {saved.after}, {difference}",
            advice,
        )


def _check_new_start(env: VecEnv, record: _Record) -> None:
    """Where games cannot be saved: after loading, new episodes, the same ones every time, whatever the action."""
    _reset(env, record.seed)
    _follow(env, record, record.actions, 0, len(record.actions) // 2)
    state = _take_state(env)
    starts = []
    for offset in (0, 1):
        _reset(env, record.seed + 1 + offset)
        env.load_state_dict(state)
        before = record.answers[0]._replace(
            terminated=torch.ones_like(record.answers[0].terminated), mask=env.mask
        )
        start = _step(env, (record.actions[0] + offset) % env.num_actions, 1)
        _check_values(env, start, before, 1)
        starts.append(start)
    difference = _difference(*starts)
    if difference is not None:
        raise _breach(
            env,
            "the step after load_state_dict must start new episodes that follow from the state alone",
            difference,
            "Derive their seed from the state, and ignore the action.",
        )


# ---- comparing, and summing up


def _copy(step: Step, outcomes: Tensor) -> _Answer:
    obs, reward, terminated, truncated = (tensor.detach().clone() for tensor in step[:4])
    mask = None if step.mask is None else step.mask.clone()
    return _Answer(obs, reward, terminated, truncated, mask, outcomes.clone())


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _same(first: Tensor | None, second: Tensor | None) -> bool:
    """Equal bit by bit, so NaN equals NaN."""
    if first is None or second is None:
        return first is second
    alike = first.dtype == second.dtype and first.shape == second.shape and first.device == second.device
    return alike and torch.equal(_bits(first), _bits(second))


def _difference(first: _Answer, second: _Answer) -> str | None:
    """Name the first part that differs, and where. Both were checked: only values and None can differ."""
    for field, one, other in zip(_Answer._fields, first, second, strict=True):
        if _same(one, other):
            continue
        if one is None or other is None:
            return f"`{field}` is None in one of two plays"
        wrong = (_bits(one) != _bits(other)).reshape(len(one), -1)
        return f"`{field}` differs in environment {_first(wrong)}"
    return None


def _first(wrong: Tensor) -> int:
    """The first environment with a True in its row."""
    return int(wrong.reshape(len(wrong), -1).any(dim=1).nonzero()[0, 0])


def _report(env: VecEnv, record: _Record) -> CheckReport:
    notes = []
    if not any(bool(answer.ended.any()) for answer in record.answers[:-1]):
        notes.append("Autoreset was not tried, for no step followed an end: give more `steps`.")
    elif env.num_actions == 1:
        notes.append("With a single action one cannot see whether the step after an end ignores it.")
    if not resumable(env):
        notes.append("It cannot save its games (`resumable` is False): a resumed run starts new episodes.")
    return CheckReport(
        steps=len(record.actions),
        terminated=sum(int(answer.terminated.sum()) for answer in record.answers),
        truncated=sum(int(answer.truncated.sum()) for answer in record.answers),
        notes=tuple(notes),
    )
