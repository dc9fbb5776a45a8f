"""How episodes end and start again: Gymnasium's three autoreset rules, translated to our rule, *next step*.

    rule        at the end of an episode                     what we do
    NEXT_STEP   last observation; the next step resets       nothing
    SAME_STEP   first observation of the new episode; the    return the last observation; let the next step
                last one lies in infos["final_obs"]          pass, then reset that row
    DISABLED    last observation; the caller must reset      reset that row, let the next step pass, reset again

A vector environment steps all its rows together. So a row that must pause for its reset takes a hidden step with
the first legal action, and is reset afterwards: the row returns a true first observation.

A lost life may end an episode too, while the game goes on (Mnih et al. 2015). The step that loses a life
terminates. The step after it ignores its action by our rule: it takes a no-op in the same game and returns the
first observation of the next life. If the game ends in that step, a new one starts there. The last life ends with
the game itself.
"""

from __future__ import annotations

import numpy as np
from gymnasium.vector import AutoresetMode

from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium.spaces import Array
from flashdqn.envs.gymnasium.vector import Vector, VectorStep


def step_with_autoreset(vector: Vector, action: Array, starting: Array) -> VectorStep:
    """Take one step by our rule; `starting` are the rows whose episode ended in the last step."""
    if vector.mode == AutoresetMode.NEXT_STEP:
        return vector.step(action)
    waiting = bool(starting.any())
    if waiting and vector.mode == AutoresetMode.DISABLED:
        vector.restart(starting)
    answer = vector.step(np.where(starting, vector.legal(), action))
    if vector.mode == AutoresetMode.SAME_STEP:
        _write_final_rows(vector, answer, (answer.terminated | answer.truncated) & ~starting)
    if waiting:
        vector.restart(starting)
        _write_first_rows(vector, answer, starting)
    return answer


def _write_final_rows(vector: Vector, answer: VectorStep, ended: Array) -> None:
    if not ended.any():
        return
    obs, mask = vector.final(answer, ended)
    answer.obs[ended] = obs
    if answer.mask is not None and mask is not None:
        answer.mask[ended] = mask


def _write_first_rows(vector: Vector, answer: VectorStep, starting: Array) -> None:
    answer.obs[starting] = vector.obs[starting]
    if answer.mask is not None and vector.mask is not None:
        answer.mask[starting] = vector.mask[starting]
    answer.reward[starting] = 0
    answer.terminated[starting] = False
    answer.truncated[starting] = False


class LifeLoss:
    """Steps a vector of games, life by life. It reads `info["lives"]`."""

    def __init__(self, vector: Vector) -> None:
        if vector.lives is None:
            raise EnvError(f"{vector.name} gives no info['lives'], which --env.atari.life-loss needs.")
        self.vector = vector
        self._between = np.zeros(vector.num_envs, dtype=np.bool_)

    def reset(self) -> None:
        """Note that all games were started again."""
        self._between[:] = False

    def step(self, action: Array, starting: Array) -> VectorStep:
        """Take one step by our rule; `starting` are the rows whose episode ended in the last step."""
        vector, between = self.vector, self._between
        before = vector.lives
        answer = step_with_autoreset(vector, np.where(between, vector.legal(), action), starting & ~between)
        over = answer.terminated | answer.truncated
        answer.reward[between], answer.terminated[between], answer.truncated[between] = 0, False, False
        if (dead := between & over).any():
            vector.restart(dead)
            answer.obs[dead] = vector.obs[dead]
        assert before is not None
        assert vector.lives is not None
        self._between = (vector.lives < before) & ~over & ~starting
        np.logical_or(answer.terminated, self._between, out=answer.terminated)
        return answer
