"""Whole plays of an environment, repeated in the ways that the contract says must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, count_actions, get_branches, make_branches
from flashdqn.envs.check.step import (
    StepResult,
    check_state,
    check_values,
    contract_error,
    find_difference,
    reset_checked,
    same_bits,
    step_checked,
)


@dataclass(frozen=True)
class PlayRecord:
    """One play: `answers[0]` is the result of the reset, and `answers[t]` of `actions[t - 1]`."""

    seed: int
    actions: list[Tensor]
    answers: list[StepResult]


def play_random_actions(env: VecEnv, steps: int, seed: int) -> PlayRecord:
    """Play random legal actions, and check every answer."""
    generator = torch.Generator().manual_seed(seed)
    record = PlayRecord(seed, [], [reset_checked(env, seed)])
    for number in range(1, steps + 1):
        before = record.answers[-1]
        action = draw_legal_actions(env, before.mask, generator)
        answer = step_checked(env, action, number)
        check_values(env, answer, before, number)
        record.actions.append(action)
        record.answers.append(answer)
    return record


def draw_legal_actions(env: VecEnv, mask: Tensor | None, generator: torch.Generator) -> Tensor:
    """One action per environment, uniform over the legal ones; over all actions if a terminated row has none. With
    branches, one choice in each of them."""
    sizes = get_branches(env) or (env.num_actions,)
    legal = torch.ones(env.num_envs, env.num_actions, dtype=torch.bool) if mask is None else mask.cpu()
    choices = []
    for part in torch.split(legal, list(sizes), 1):
        weight = part | ~part.any(dim=1, keepdim=True)
        choices.append(torch.multinomial(weight.float(), 1, generator=generator).to(env.device))
    branches = make_branches(env)
    return choices[0].squeeze(1) if branches is None else branches.to_action(torch.cat(choices, 1))


def replay_actions(
    env: VecEnv, record: PlayRecord, actions: list[Tensor], begin: int, end: int
) -> str | None:
    """Play from `answers[begin]` to `answers[end]`; say where an answer differs from the recorded one.

    The values are not checked again: an answer that equals the recorded one is as correct as it was.
    """
    for number in range(begin + 1, end + 1):
        answer = step_checked(env, actions[number - 1], number)
        difference = find_difference(record.answers[number], answer)
        if difference is not None:
            return f"{difference} in step {number}"
    return None


def check_repeats(env: VecEnv, record: PlayRecord) -> None:
    """The same seed and the same actions give the same answers, bit by bit."""
    advice = "Seed every random generator in reset, do not use any other, and reset all state."
    difference = find_difference(record.answers[0], reset_checked(env, record.seed))
    if difference is not None:
        rule = f"reset({record.seed}) must give the same start every time, also after steps in between"
        raise contract_error(env, rule, difference, advice)
    difference = replay_actions(env, record, record.actions, 0, len(record.actions))
    if difference is not None:
        rule = f"reset({record.seed}) and the same actions must give the same game bit by bit"
        raise contract_error(env, rule, difference, advice)


def check_action_ignored(env: VecEnv, record: PlayRecord) -> None:
    """Other actions where an episode starts again, all else equal, must change nothing."""
    actions = [
        torch.where(before.ended, (action + 1) % count_actions(env), action)
        for before, action in zip(record.answers[:-1], record.actions, strict=True)
    ]
    reset_checked(env, record.seed)
    difference = replay_actions(env, record, actions, 0, len(actions))
    if difference is not None:
        raise contract_error(
            env,
            "the step after an end must ignore its action",
            f"with another action {difference}",
            "Start the new episode in that step, not in the one before, and without looking at the action.",
        )


class Saved(NamedTuple):
    """A state saved during the play, and a copy of it."""

    after: int  # number of steps before it was saved
    state: dict[str, Tensor]  # what the environment gave
    copy: dict[str, Tensor]  # its values at that time


def check_saved_states(env: VecEnv, record: PlayRecord) -> None:
    """From a saved state the play must continue as before."""
    saved = save_states_midway(env, record)
    for point in saved:
        check_unchanged(env, point, "state_dict must return copies")
    for point in saved:
        check_continuation(env, record, point)
        check_unchanged(env, point, "load_state_dict must copy what it is given")


def save_states_midway(env: VecEnv, record: PlayRecord) -> list[Saved]:
    """Repeat the play, and save states, which must not change it."""
    last = len(record.actions)
    cuts = choose_save_points(record)
    saved = []
    reset_checked(env, record.seed)
    difference = replay_actions(env, record, record.actions, 0, cuts[0])
    for cut, next_cut in zip(cuts, [*cuts[1:], last], strict=True):
        state = read_checked_state(env)
        saved.append(Saved(cut, state, {key: value.clone() for key, value in state.items()}))
        difference = difference or replay_actions(env, record, record.actions, cut, next_cut)
    if difference is not None:
        advice = "It must not draw, advance or reset anything."
        raise contract_error(env, "state_dict must only read", f"after a call of it {difference}", advice)
    return saved


def choose_save_points(record: PlayRecord) -> list[int]:
    """Where to save: in the middle, and where a new episode is due, which a state easily forgets."""
    last = len(record.actions)
    middle = last // 2
    ends = [number for number in range(1, last) if record.answers[number].ended.any()]
    nearest = sorted(ends, key=lambda number: abs(number - middle))[:1]
    return sorted({middle, *nearest})


def read_checked_state(env: VecEnv) -> dict[str, Tensor]:
    """The state, checked to be a flat dict of tensors."""
    state = env.state_dict()
    check_state(env, state)
    return state


def check_unchanged(env: VecEnv, saved: Saved, rule: str) -> None:
    """A saved state must not change while the environment continues."""
    for key, value in saved.copy.items():
        if not same_bits(saved.state.get(key), value):
            raise contract_error(
                env, rule, f"stepping on changed {key!r} in the saved state", "Use `.clone()` there."
            )


def check_continuation(env: VecEnv, record: PlayRecord, saved: Saved) -> None:
    """Load a state after other steps, and continue from it."""
    reset_checked(env, record.seed + 1)  # another game, so a gap in the state is not filled by chance
    env.load_state_dict(saved.state)
    advice = "Save all that changes: clocks, flags, generators, rows that are due to start again."
    if not same_bits(env.mask, record.answers[saved.after].mask):
        raise contract_error(
            env, "load_state_dict must bring back `env.mask`", "it differs from the saved one", advice
        )
    difference = replay_actions(env, record, record.actions, saved.after, len(record.actions))
    if difference is not None:
        raise contract_error(
            env,
            "after load_state_dict the game must go on bit by bit as it did after state_dict",
            f"from a state taken after step {saved.after}, {difference}",
            advice,
        )


def check_new_start(env: VecEnv, record: PlayRecord) -> None:
    """Where games cannot be saved: loading must start the same new episodes every time, with any action."""
    reset_checked(env, record.seed)
    replay_actions(env, record, record.actions, 0, len(record.actions) // 2)
    state = read_checked_state(env)
    starts = []
    for offset in (0, 1):
        reset_checked(env, record.seed + 1 + offset)
        env.load_state_dict(state)
        before = record.answers[0]._replace(
            terminated=torch.ones_like(record.answers[0].terminated), mask=env.mask
        )
        start = step_checked(env, (record.actions[0] + offset) % count_actions(env), 1)
        check_values(env, start, before, 1)
        starts.append(start)
    difference = find_difference(*starts)
    if difference is not None:
        raise contract_error(
            env,
            "the step after load_state_dict must start new episodes that follow from the state alone",
            difference,
            "Derive their seed from the state, and ignore the action.",
        )
