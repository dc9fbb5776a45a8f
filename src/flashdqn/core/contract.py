"""The contract of a vectorized environment: batched tensors in and out, on one device.

One autoreset rule, Gymnasium's *next step*: the step in which an episode ends returns its true last
observation; the following step ignores its action, starts a new episode and returns its first observation,
with reward 0 and neither flag set. So every observation is computed once and can be stored once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from flashdqn.core.blame import call_user_code, env_error
from flashdqn.core.branching import ActionBranches
from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.core.types import Step


@dataclass(frozen=True)
class ObsSpec:
    """Shape and dtype of one observation, without the batch axis.

    With `stack` k > 1 an observation is the last k frames of its episode, joined along the first axis, the newest
    last. Where the episode has fewer frames, the first one is repeated in front. So the newest frames determine
    all observations, and the replay stores only those.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    stack: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of one observation."""
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize

    @property
    def frame(self) -> ObsSpec:
        """The spec of one frame of the stack; the observation's own spec where nothing is stacked."""
        return ObsSpec((self.shape[0] // self.stack, *self.shape[1:]), self.dtype) if self.stack > 1 else self


@runtime_checkable
class VecEnv(Protocol):
    """`num_envs` copies of one task, stepped together. `flashdqn.envs.check_env` checks this contract.

    An environment whose outcomes say how an episode ended names those as `cause_names`.
    An environment whose actions have several parts gives the number of choices in each as `branches`: (3, 2). Its
    `num_actions` is their sum, which masks have as their width, and an action is the number of a combination
    (`core/branching.py`).
    An environment whose games cannot be saved sets `resumable = False`. Its `state_dict` holds what it needs for a
    deterministic new start, and after `load_state_dict` the next step ignores its action and starts a new episode
    in every row, as after an end.
    An environment that has `first_board` (0) seeds its rows as those with the numbers from there on: several ranks
    then play the boards that one would play (`number_boards`).
    An environment whose steps take different amounts of time sets `timed = True`, and each `Step` says how much as
    `elapsed`. What follows a step counts γ^elapsed (semi-Markov decisions): several actions at the same moment have
    elapsed 0, and are not discounted against each other.
    """

    name: str
    num_envs: int
    num_actions: int
    obs_spec: ObsSpec
    device: torch.device
    #: names of the numbers that summarize an episode, "score" first where the task has one
    outcome_names: tuple[str, ...]

    @property
    def mask(self) -> Tensor | None:
        """Legal actions in the current observations, [N, A] bool; None where every action is legal."""

    @property
    def outcomes(self) -> Tensor:
        """[N, len(outcome_names)] float32; a row is valid only if its episode ended in the last step."""

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every environment; the same seed gives the same episodes. Returns obs [N, …]."""

    def step(self, action: Tensor) -> Step:
        """Take one action, [N] int64, in every environment."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to continue from here, as copies."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state_dict` was taken."""


class Decoder(Protocol):
    """What an environment may have as `decoder`, if it stores its observations in its own form.

    Most of what the network sees may be known beforehand: a landscape, for example. Then an observation only says
    which one it is, the ring stays small, and the first step of the network looks up the rest. Copying a decoder
    must return the same object.
    """

    #: shape of what the network reads, without the batch axis
    shape: tuple[int, ...]

    def __call__(self, obs: Tensor) -> Tensor:
        """Turn stored observations, [B, …], into what the network reads: [B, *shape] float32."""

    def check(self, obs: Tensor) -> None:
        """Refuse saved observations, [B, …], that no game has: a CheckpointError. They are used as indices."""

    @property
    def legal(self) -> Callable[[Tensor], Tensor] | None:
        """Computes the mask of observations, [B, A] bool, so that the ring does not store it. None: it does not
        follow from the observations."""


class ObsPart(NamedTuple):
    """One part of a Dict or Tuple observation, among the numbers that a decoder returns."""

    name: str  # "camera", "arm.position"
    kind: Literal["image", "vector", "one-hot"]
    shape: tuple[int, ...]  # [C, H, W] of an image, else [n]

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


def get_parts(decoder: Decoder | None) -> tuple[ObsPart, ...]:
    """The parts of what a decoder returns, one after the other; empty if it is not made of parts."""
    return tuple(getattr(decoder, "parts", ()))


def get_decoder(env: VecEnv) -> Decoder | None:
    """What turns stored observations into network inputs; None: the network reads them as they are."""
    return getattr(env, "decoder", None)


def stores_masks(env: VecEnv) -> bool:
    """Whether a ring must store the masks: there are masks, and they do not follow from the observations."""
    decoder = get_decoder(env)
    return env.mask is not None and (decoder is None or decoder.legal is None)


def get_branches(env: VecEnv) -> tuple[int, ...]:
    """The number of choices in each branch of an action; empty where an action is a single choice."""
    return tuple(getattr(env, "branches", ()))


def make_branches(env: VecEnv) -> ActionBranches | None:
    """The branches of an environment's actions, on its device; None where an action is a single choice."""
    sizes = get_branches(env)
    return ActionBranches(sizes, env.device) if sizes else None


def count_actions(env: VecEnv) -> int:
    """How many action numbers there are: with branches, all combinations."""
    sizes = get_branches(env)
    return math.prod(sizes) if sizes else env.num_actions


def get_cause_names(env: VecEnv) -> tuple[str, ...]:
    """Those outcomes that say how an episode ended: one of them is 1, the others 0. None unless the environment
    names them as `cause_names`."""
    names: tuple[str, ...] = tuple(getattr(env, "cause_names", ()))
    if strange := [name for name in names if name not in env.outcome_names or name == "score"]:
        raise EnvError(
            f"{env.name}: `cause_names` has {', '.join(map(repr, strange))}, but a cause is one of `outcome_names` "
            "other than the score. Remove it, or add it there."
        )
    return names


def get_action_buffer(env: VecEnv) -> Tensor | None:
    """Where `step` reads its actions, [N] int64, if the environment says so as `action_buffer`: actions that lie
    there already are not copied."""
    buffer: Tensor | None = getattr(env, "action_buffer", None)
    return buffer


def list_layers(env: VecEnv) -> list[VecEnv]:
    """An environment and those that it wraps, the outermost first."""
    layers: list[VecEnv] = []
    inner: VecEnv | None = env
    while inner is not None and all(inner is not layer for layer in layers):
        layers.append(inner)
        inner = getattr(inner, "__dict__", {}).get("env")
    return layers


def number_boards(env: VecEnv, first: int) -> bool:
    """Let the environment's boards be those from number `first` on; False if it does not number its boards."""
    found = False
    for layer in list_layers(env):
        if hasattr(type(layer), "first_board"):
            layer.first_board = first  # type: ignore[attr-defined]
            found = True
    return found


def is_resumable(env: VecEnv) -> bool:
    """Whether `load_state_dict` restores the games themselves: yes, unless the environment says otherwise."""
    return bool(getattr(env, "resumable", True))


def is_timed(env: VecEnv) -> bool:
    """Whether every step says how much time it took."""
    return bool(getattr(env, "timed", False))


def is_capturable(env: VecEnv) -> bool:
    """Whether a CUDA graph can hold its steps: all on the device, in fixed buffers, nothing read back."""
    return bool(getattr(env, "capturable", False))


def close_env(env: VecEnv) -> EnvError | None:
    """Stop what an environment runs besides itself, such as worker processes; most have none.

    What goes wrong in there is returned: it must not hide an error that came before.
    """

    def close() -> None:
        if callable(end := getattr(env, "close", None)):
            end()

    try:
        call_user_code(close, lambda failure: env_error(env.name, "close", failure))
    except EnvError as error:
        return error
    except FlashDQNError as error:  # a game may use flashdqn itself
        return EnvError(str(error))
    return None
