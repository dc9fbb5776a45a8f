"""What a worker must know, as it travels to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashdqn.config import Config
from flashdqn.envs.task import EnvConfig
from flashdqn.replay.pieces import EnvStream

#: Pieces of an environment that may be on their way before the learner has acknowledged one.
CREDITS = 2
#: A piece has at most so many cells, and is sent after so many seconds, whichever comes first.
PIECE_CELLS, PIECE_SECONDS = 16, 0.1
#: Cells that may wait for each column of the ring, at most: beyond that workers wait.
MOST_WAITING = 32


@dataclass(frozen=True)
class WorkerSpec:
    """The same for all workers of a training."""

    config: Config
    one: EnvConfig  # the settings of an environment in a worker
    seed: int
    cells: int  # of a piece, at most

    def make_seed(self, stream: EnvStream, purpose: int) -> int:
        """A seed of 63 bits: no two lives of an environment play the same games."""
        words = np.random.SeedSequence([self.seed % 2**64, *stream, purpose]).generate_state(1, np.uint64)
        return int(words[0] >> 1)


def plan_window(max_lag: int, ratio: float, num_envs: int) -> int:
    """How many cells may wait for each column, so that waiting takes at most half of the permitted lag."""
    earned = max(ratio * num_envs, 1e-9)  # gradient steps per row
    return int(min(MOST_WAITING, max(2.0, max_lag / (2 * earned))))
