"""One answer of an environment, checked by itself and against the one before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, get_branches
from flashdqn.core.errors import EnvError
from flashdqn.core.types import Step


class StepResult(NamedTuple):
    """The result of a reset or a step, as copies: the environment may overwrite its own tensors."""

    obs: Tensor  # [N, *obs]
    reward: Tensor  # [N]
    terminated: Tensor  # [N]
    truncated: Tensor  # [N]
    mask: Tensor | None  # [N, A]
    outcomes: Tensor  # [N, K], zero where no episode ended

    @property
    def ended(self) -> Tensor:
        """Rows whose episode is over."""
        return self.terminated | self.truncated


def contract_error(env: VecEnv, rule: str, came: str, advice: str) -> EnvError:
    """The error for a broken rule: what was expected, what was found, what to do."""
    return EnvError(f"{env.name}: {rule}, but {came}. {advice}")


def reset_checked(env: VecEnv, seed: int) -> StepResult:
    """Reset, check the result, and copy it as a step that starts an episode: reward 0 and no flags."""
    obs = env.reset(seed)
    check_tensor(env, "what reset returns", obs, env.obs_spec.shape, env.obs_spec.dtype)
    check_finite(env, "the observation of reset", obs)
    for attribute in ("mask", "outcomes"):
        if not hasattr(env, attribute):
            raise contract_error(
                env, f"`{attribute}` must be there after reset", "it is missing", "Add the property."
            )
    never = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    check_mask(env, "`env.mask` after reset", env.mask, alive=~never)
    return copy_step(Step(obs, never.float(), never, never, env.mask), ended_outcomes(env, never))


def step_checked(env: VecEnv, action: Tensor, number: int) -> StepResult:
    """Step, check the form of the result, and copy it. `number` counts from 1, for the messages."""
    given = action.clone()
    try:
        step = env.step(given)
    except Exception as error:
        raise contract_error(
            env,
            "step must take every legal action, and any action in a row whose episode has just ended",
            f"step {number} raised {type(error).__name__}: {error}",
            "Look at the error above for where.",
        ) from error
    if not same_bits(given, action):
        raise contract_error(
            env,
            "step must leave the caller's action tensor alone",
            f"step {number} changed it",
            "Work on `action.clone()`.",
        )
    check_form(env, step)
    return copy_step(step, ended_outcomes(env, step.terminated | step.truncated))


def check_form(env: VecEnv, step: object) -> None:
    """A `Step` of tensors with the right shapes, dtypes and device."""
    if not isinstance(step, Step):
        raise contract_error(
            env,
            "step must return a flashdqn.core.types.Step",
            f"it returned a {type(step).__name__}",
            "Return Step(obs, reward, terminated, truncated, mask).",
        )
    check_tensor(env, "`obs` of a step", step.obs, env.obs_spec.shape, env.obs_spec.dtype)
    check_tensor(env, "`reward` of a step", step.reward, (), torch.float32)
    check_tensor(env, "`terminated` of a step", step.terminated, (), torch.bool)
    check_tensor(env, "`truncated` of a step", step.truncated, (), torch.bool)
    if step.mask is not None:
        check_tensor(env, "`mask` of a step", step.mask, (env.num_actions,), torch.bool)


def check_values(env: VecEnv, step: StepResult, before: StepResult, number: int) -> None:
    """Check numbers, flags, masks and new episodes against the answer before."""
    check_finite(env, f"`obs` of step {number}", step.obs)
    check_finite(env, f"`reward` of step {number}", step.reward)
    check_flags(env, step, number)
    check_masks(env, step, before, number)
    check_fresh_rows(env, step, before, number)
    check_stack(env, step, before, number)


def check_flags(env: VecEnv, step: StepResult, number: int) -> None:
    """An episode ends in one way only."""
    both = step.terminated & step.truncated
    if both.any():
        raise contract_error(
            env,
            "an episode must end by `terminated` or by `truncated`, never by both",
            f"environment {first_true_row(both)} set both in step {number}",
            "Set `terminated` alone where the rules of the task end it.",
        )


def check_masks(env: VecEnv, step: StepResult, before: StepResult, number: int) -> None:
    """Masks are always or never there, equal `env.mask`, and leave a legal action."""
    if (step.mask is None) != (before.mask is None):
        raise contract_error(
            env,
            "`mask` must be None always or never",
            f"this changed in step {number}",
            "Return an all-True mask where every action is legal.",
        )
    # A truncated episode bootstraps over the legal actions of its last observation: it too needs one.
    check_mask(env, f"`mask` of step {number}", step.mask, alive=~step.terminated)
    check_mask(env, f"`env.mask` after step {number}", env.mask, alive=~step.terminated)
    if not same_bits(env.mask, step.mask):
        raise contract_error(
            env,
            "`env.mask` must equal the mask of the last step",
            f"after step {number} it does not",
            "Return the same tensor in both places.",
        )


def check_fresh_rows(env: VecEnv, step: StepResult, before: StepResult, number: int) -> None:
    """The step after an end starts an episode: its reward is 0, and it does not end."""
    earned = before.ended & (step.reward != 0)
    if earned.any():
        row = first_true_row(earned)
        raise contract_error(
            env,
            "the step after an end starts a new episode and must have reward 0",
            f"environment {row} got {step.reward[row].item():g} in step {number}",
            "Set the reward of rows that start again to 0.",
        )
    for flag, value in (("terminated", step.terminated), ("truncated", step.truncated)):
        again = before.ended & value
        if again.any():
            raise contract_error(
                env,
                f"the step after an end starts a new episode and must not be `{flag}`",
                f"environment {first_true_row(again)} is in step {number}",
                "Clear the flags and the clock of rows that start again.",
            )


def check_stack(env: VecEnv, step: StepResult, before: StepResult, number: int) -> None:
    """In stacked observations, all but the newest frame were seen before; an episode starts with one frame."""
    spec = env.obs_spec
    if spec.stack == 1:
        return
    frame = spec.frame.shape[0]
    expected = torch.cat((before.obs[:, frame:], step.obs[:, -frame:]), 1)
    first = step.obs[:, -frame:].repeat(1, spec.stack, *[1] * (step.obs.dim() - 2))
    expected[before.ended] = first[before.ended]
    if (wrong := expected != step.obs).any():
        raise contract_error(
            env,
            f"an observation must be the last {spec.stack} frames of its episode, the first one repeated",
            f"that of environment {first_true_row(wrong)} in step {number} is not",
            "Let flashdqn.envs.frame_stack.FrameStack stack them, or say `stack=1` in the ObsSpec.",
        )


def check_tensor(env: VecEnv, what: str, value: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """A tensor has one row per environment, this `shape` and `dtype`, and lies on the environment's device."""
    shape = (env.num_envs, *shape)
    rule = f"{what} must be a {dtype} tensor of shape {list(shape)} on {env.device}"
    if not isinstance(value, Tensor):
        raise contract_error(env, rule, f"it is a {type(value).__name__}", "Return a tensor.")
    if value.dtype != dtype:
        raise contract_error(env, rule, f"its dtype is {value.dtype}", f"Convert it with `.to({dtype})`.")
    if value.shape != shape:
        raise contract_error(
            env, rule, f"its shape is {list(value.shape)}", "Give it one row per environment."
        )
    if value.layout != torch.strided:
        raise contract_error(env, rule, f"its layout is {value.layout}", "Return a dense tensor.")
    index = env.device.index
    if value.device.type != env.device.type or index not in (None, value.device.index):
        raise contract_error(env, rule, f"it is on {value.device}", "Create it on `env.device`.")


def check_finite(env: VecEnv, what: str, value: Tensor) -> None:
    """A tensor has no NaN and no infinity."""
    wrong = ~value.isfinite()
    if wrong.any():
        came = f"it holds {value[wrong][0].item()} in environment {first_true_row(wrong)}"
        raise contract_error(
            env, f"{what} must be finite", came, "Look for a division by zero or an overflow."
        )


def check_mask(env: VecEnv, what: str, mask: Tensor | None, alive: Tensor) -> None:
    """Every row that continues has at least one legal action: with branches, a legal choice in each."""
    if mask is None:
        return
    check_tensor(env, what, mask, (env.num_actions,), torch.bool)
    parts = torch.split(mask, list(get_branches(env) or (env.num_actions,)), 1)
    possible = torch.stack([part.any(dim=1) for part in parts]).all(dim=0)
    stuck = alive & ~possible
    if stuck.any():
        raise contract_error(
            env,
            f"{what} must leave at least one legal action unless the episode terminated",
            f"environment {first_true_row(stuck)} has none",
            "Terminate an episode in which nothing can be done.",
        )


def check_state(env: VecEnv, state: object) -> None:
    """A state is a flat dict of tensors."""
    rule = "state_dict must return a flat dict of str to Tensor"
    if not isinstance(state, dict):
        raise contract_error(env, rule, f"it returned a {type(state).__name__}", "Return a plain dict.")
    for key, value in state.items():
        if not isinstance(key, str):
            raise contract_error(env, rule, f"{key!r} is a {type(key).__name__}", "Use strings as keys.")
        if not isinstance(value, Tensor):
            advice = "Wrap numbers in torch.tensor, and lift nested entries to the top."
            raise contract_error(env, rule, f"{key!r} holds a {type(value).__name__}", advice)


def ended_outcomes(env: VecEnv, ended: Tensor) -> Tensor:
    """The outcomes of the episodes that ended; the other rows mean nothing and become 0."""
    outcomes = env.outcomes
    check_tensor(env, "`env.outcomes`", outcomes, (len(env.outcome_names),), torch.float32)
    outcomes = outcomes.where(ended[:, None], 0.0)
    check_finite(env, "`env.outcomes` of an ended episode", outcomes)
    return outcomes


def copy_step(step: Step, outcomes: Tensor) -> StepResult:
    """Copies, because the environment may overwrite its own."""
    obs, reward, terminated, truncated = (tensor.detach().clone() for tensor in step[:4])
    mask = None if step.mask is None else step.mask.clone()
    return StepResult(obs, reward, terminated, truncated, mask, outcomes.clone())


def view_as_bytes(tensor: Tensor) -> Tensor:
    """A tensor as bytes, in which −0 differs from 0 and NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same_bits(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether two tensors are equal bit by bit; NaN equals NaN."""
    if first is None or second is None:
        return first is second
    same_kind = first.dtype == second.dtype and first.shape == second.shape and first.device == second.device
    return same_kind and torch.equal(view_as_bytes(first), view_as_bytes(second))


def find_difference(first: StepResult, second: StepResult) -> str | None:
    """Name the first part that differs, and where. Both were checked: only values and None can differ."""
    for field, one, other in zip(StepResult._fields, first, second, strict=True):
        if same_bits(one, other):
            continue
        if one is None or other is None:
            return f"`{field}` is None in one of two plays"
        wrong = (view_as_bytes(one) != view_as_bytes(other)).reshape(len(one), -1)
        return f"`{field}` differs in environment {first_true_row(wrong)}"
    return None


def first_true_row(wrong: Tensor) -> int:
    """The first environment with a True in its row."""
    return int(wrong.reshape(len(wrong), -1).any(dim=1).nonzero()[0, 0])
