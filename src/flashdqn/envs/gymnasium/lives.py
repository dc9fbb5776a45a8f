"""A lost life as the end of an episode, while the game goes on (Mnih et al. 2015).

The step that loses a life terminates; the step after it, which by our rule ignores its action, does nothing for one
turn of the same game and answers with the first observation of the next life. Should the game be over just then, a
new one starts there. The last life ends with the game itself.
"""

from __future__ import annotations

import numpy as np

from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium import autoreset
from flashdqn.envs.gymnasium.spaces import Array
from flashdqn.envs.gymnasium.vector import Vector, VectorStep


class LifeLoss:
    """Steps a vector of games, life by life. It reads `info["lives"]`."""

    def __init__(self, vector: Vector) -> None:
        if vector.lives is None:
            raise EnvError(f"{vector.name} gives no info['lives'], which --env.atari.life-loss goes by.")
        self.vector = vector
        self._between = np.zeros(vector.num_envs, dtype=np.bool_)

    def reset(self) -> None:
        """All games were started anew."""
        self._between[:] = False

    def step(self, action: Array, starting: Array) -> VectorStep:
        """One step by our rule; `starting` are the rows whose episode ended in the last one."""
        vector, between = self.vector, self._between
        before = vector.lives
        answer = autoreset.step_with_autoreset(
            vector, np.where(between, vector.legal(), action), starting & ~between
        )
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
