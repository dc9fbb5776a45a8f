"""Gymnasium's three autoreset rules, translated to ours, which is its *next step*.

    rule        at the end of an episode                     what we do
    NEXT_STEP   last observation; the next step resets       nothing
    SAME_STEP   first observation of the new episode; the    answer the last observation; let the next step
                last one lies in infos["final_obs"]          pass, then reset that row
    DISABLED    last observation; the caller must reset      reset that row, let the next step pass, reset again

A vector environment steps all its rows together, so where one must pause for its reset row, it takes a step that
nobody sees, with the first legal action, and is reset afterwards: the row answers with a true first observation.
"""

from __future__ import annotations

import numpy as np
from gymnasium.vector import AutoresetMode

from flashdqn.envs.gymnasium.spaces import Array
from flashdqn.envs.gymnasium.vector import Vector, VectorStep


def step_with_autoreset(vector: Vector, action: Array, starting: Array) -> VectorStep:
    """One step by our rule; `starting` are the rows whose episode ended in the last one."""
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
