"""A Gymnasium vector environment as plain arrays: encoded observations, actions from 0, legal actions.

It resets as that environment does; `autoreset.py` translates this to our rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from flashdqn.core.blame import Failure, call_user_code
from flashdqn.core.errors import EnvError, EnvFailureError
from flashdqn.envs.gymnasium.actions import make_action_coder
from flashdqn.envs.gymnasium.calls import Calls
from flashdqn.envs.gymnasium.checked import check_mask_form, find_mismatch
from flashdqn.envs.gymnasium.config import Channels
from flashdqn.envs.gymnasium.spaces import MASK_KEY, Array, Encoder, join_mask

#: The largest number of the network's precision.
LARGEST = float(np.finfo(np.float32).max)


class VectorStep(NamedTuple):
    """The result of a step. The arrays belong to the caller."""

    obs: Array  # [N, *obs]
    reward: Array  # [N] float64
    terminated: Array  # [N] bool
    truncated: Array  # [N] bool, never together with `terminated`
    mask: Array | None  # [N, A] bool
    info: dict[str, Any]  # as Gymnasium gave it


class Vector:
    """An environment as arrays. `obs` and `mask` are those of its copies' current states."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        name: str,
        channels: Channels = "auto",
        timeout: float = 60.0,
        action_bins: int = 0,
        *,
        scale: bool = False,
    ) -> None:
        self.env, self.name, self.num_envs = env, name, env.num_envs
        self.calls = Calls(env, name, timeout)
        self.actions = make_action_coder(env.single_action_space, name, action_bins)
        self.num_actions = self.actions.num_actions
        self.encoder = Encoder(env.single_observation_space, self.num_actions, channels, scale=scale)
        self.mode = _autoreset_mode(env, name)
        self.masked: bool | None = None  # known after the first answer
        self.lives: Array | None = None  # [N], where the environment counts them
        self._zeros: Array = np.zeros(0, dtype=np.float32)
        self.obs: Array
        self.mask: Array | None
        self.reset(0)

    def reset(self, seed: int, first: int = 0) -> None:
        """Start all episodes again; every row has its own seed, drawn from `seed`; they are those of the rows from
        number `first` on."""
        seeds = np.random.SeedSequence(seed % 2**64).generate_state(first + self.num_envs)[first:].tolist()
        each = isinstance(self.env, SyncVectorEnv | AsyncVectorEnv) or hasattr(self.env, "takes_seeds")
        # Seeds of ale_py must stay below 2³¹, the last one's too.
        if type(self.env).__module__.startswith("ale_py"):
            seeds[0] %= 2**30
        answer: Any = self.calls.reset(seed=seeds if each else seeds[0])
        call_user_code(lambda: self._read_reset(*answer), self._complain_of_answer)

    def _read_reset(self, batch: Any, info: dict[str, Any]) -> None:
        self.lives = np.array(info["lives"]) if "lives" in info else None
        if self.masked is None:
            self.masked = self.encoder.mask_in_obs or MASK_KEY in info
        self.obs = self._encode(batch, self.num_envs)
        self.mask = self._mask(batch, info, np.ones(self.num_envs, dtype=np.bool_))

    def step(self, action: Array) -> VectorStep:
        """Take one step in every copy."""
        answer: Any = self.calls.step(self.actions.decode(action))
        return call_user_code(lambda: self._read_step(*answer), self._complain_of_answer)

    def _read_step(
        self, batch: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> VectorStep:
        terminated = np.array(terminated, dtype=np.bool_)
        truncated = np.asarray(truncated, dtype=np.bool_) & ~terminated
        if np.shape(reward) != (self.num_envs,) or truncated.shape != (self.num_envs,):
            raise EnvFailureError(
                f"{self.name} must give a reward and flags for each of its {self.num_envs} environments, and gave "
                f"shapes {list(np.shape(reward))}, {list(np.shape(terminated))} and {list(np.shape(truncated))}."
            )
        if self.lives is not None:
            self.lives = np.array(info["lives"])
        acting = np.ones_like(terminated) if self.mode == AutoresetMode.SAME_STEP else ~terminated
        self.obs, self.mask = self._encode(batch, self.num_envs), self._mask(batch, info, acting)
        mask = None if self.mask is None else self.mask.copy()
        reward = np.array(reward, dtype=np.float64)
        if not np.abs(reward).max() <= LARGEST:
            raise self._complain_of_number("a reward", reward)
        return VectorStep(self.obs.copy(), reward, terminated, truncated, mask, info)

    def restart(self, rows: Array) -> None:
        """Start a new episode in some rows, and leave the others alone."""
        answer: Any = self.calls.reset(options={"reset_mask": rows.copy()})
        call_user_code(lambda: self._read_restart(rows, *answer), self._complain_of_answer)

    def _read_restart(self, rows: Array, batch: Any, info: dict[str, Any]) -> None:
        obs, mask = self._encode(batch, self.num_envs), self._mask(batch, info, rows)
        if not np.array_equal(obs[~rows], self.obs[~rows], equal_nan=obs.dtype.kind == "f"):
            raise EnvFailureError(
                f"{self.name} resets by the rule {self.mode.value}, which can only be followed if "
                "reset(options={'reset_mask': …}) leaves the other rows alone, and here it does not."
            )
        self.obs = obs
        if mask is not None and self.mask is not None:
            self.mask[rows] = mask[rows]
        if self.lives is not None:
            self.lives[rows] = np.asarray(info["lives"])[rows]

    def final(self, answer: VectorStep, rows: Array) -> tuple[Array, Array | None]:
        """The true last observations and masks of some rows, which the same-step rule puts into its info."""
        info = answer.info
        if "final_obs" not in info:
            raise EnvFailureError(
                f"{self.name} resets in the step in which an episode ends, but gives no infos['final_obs']: "
                "the last observation of a truncated episode is needed to learn from it."
            )
        space, which = self.env.single_observation_space, np.flatnonzero(rows)
        last = [info["final_obs"][i] for i in which]
        batch = concatenate(space, last, create_empty_array(space, len(which)))  # type: ignore[arg-type]
        obs = self._encode(batch, len(which))
        if not self.masked:
            return obs, None
        if self.encoder.mask_in_obs:
            return obs, self.encoder.mask(batch)
        mask = self._mask(batch, info.get("final_info", {}), rows & answer.truncated)
        return obs, None if mask is None else mask[rows]

    def legal(self) -> Array:
        """The first legal action of every row."""
        none = np.zeros(self.num_envs, dtype=np.int64)
        return none if self.mask is None else self.actions.first_legal(self.mask)

    def _encode(self, batch: Any, count: int) -> Array:
        out = self.encoder.empty(count)
        try:
            self.encoder.write(batch, out)
        except (TypeError, ValueError):
            wrong = find_mismatch(batch_space(self.env.single_observation_space, count), batch)
            if not wrong:
                raise
            raise EnvFailureError(f"{self.name}: a batch of observations {wrong}.") from None
        floats = self.encoder.floats(out)
        if floats is not None:
            flat = floats.reshape(-1)
            if flat.size != self._zeros.size:
                self._zeros = np.zeros(flat.size, dtype=np.float32)
            if flat.dot(self._zeros) != 0:  # NaN and infinity times 0 are NaN
                raise self._complain_of_number("an observation", floats)
        return out

    def _complain_of_answer(self, failure: Failure) -> EnvFailureError:
        """The error for an answer that is not what a vector environment returns."""
        return EnvFailureError(
            f"{self.name} gave an answer that does not fit its spaces: {failure.reason}. Compare what reset and "
            "step return with observation_space, and with what Gymnasium says about them."
        )

    def _complain_of_number(self, what: str, array: Array) -> EnvFailureError:
        """The error for a number that no network can learn from; `array` is [N, …]."""
        wrong = ~(np.abs(array) <= LARGEST)
        row = int(np.flatnonzero(wrong.reshape(len(array), -1).any(axis=1))[0])
        return EnvFailureError(
            f"{self.name} gave {what} that holds {array[wrong][0]:g} (environment {row} of {self.num_envs}): every "
            "number must be finite. Look for a division by zero, an overflow or a logarithm there."
        )

    def _mask(self, batch: Any, info: dict[str, Any], acting: Array) -> Array | None:
        """Legal actions, [N, A]; the rows that will act must have them."""
        mask = self.encoder.mask(batch) if self.encoder.mask_in_obs else self._info_mask(info, acting)
        if mask is not None and not (legal := self.actions.has_legal(mask))[acting].all():
            row = int(np.flatnonzero(acting & ~legal)[0])
            raise EnvFailureError(
                f"{self.name} gave an {MASK_KEY} without a legal action for environment {row}: an episode that "
                "cannot go on must be terminated."
            )
        return mask

    def _info_mask(self, info: dict[str, Any], acting: Array) -> Array | None:
        given = info.get(MASK_KEY)
        there = np.asarray(info.get(f"_{MASK_KEY}", given is not None and acting))
        if (there & acting).any() and not self.masked:
            raise EnvFailureError(
                f"{self.name} gives info['{MASK_KEY}'] in steps: it must do so in reset too."
            )
        if not self.masked:
            return None
        if (acting & ~there).any():
            row = int(np.flatnonzero(acting & ~there)[0])
            raise EnvFailureError(
                f"{self.name} gave info['{MASK_KEY}'] before, and not for environment {row} now: it must come with "
                "every observation."
            )
        mask = np.ones((self.num_envs, self.num_actions), dtype=np.bool_)
        for i in np.flatnonzero(there):
            row_mask = given[i]  # type: ignore[index]
            if self.actions.branches:
                row_mask = np.reshape(join_mask(row_mask), -1)
            check_mask_form(self.name, row_mask, self.num_actions)
            mask[i] = np.asarray(row_mask) != 0
        return mask


def _autoreset_mode(env: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    if isinstance(mode, AutoresetMode):
        return mode
    raise EnvError(
        f"{name} does not say how it resets: its metadata['autoreset_mode'] must be a "
        f"gymnasium.vector.AutoresetMode, and is {mode!r}."
    )
