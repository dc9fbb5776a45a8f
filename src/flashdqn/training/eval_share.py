"""Evaluations keep to their share of the training time (`eval.max_share`), with the two at the end.

If the next evaluation would take more, it is skipped. The others keep all their games: so every point of the curve
is equally exact, and no checkpoint becomes the best by the luck of few games. On a GPU, fewer games would not even
be faster, because all are played at once and the longest one decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Evaluations may take this many seconds in all, however short the training is: it still has its curve.
ALWAYS = 2.0
#: The next evaluation is expected to take this many times as long as the last one: better agents play longer.
GROWTH = 1.5
#: One that was cut off would have taken at least this many times as long.
CUT_OFF_GROWTH = 2.0
#: Evaluations at the end: of the last weights, and of the best ones on new games.
AT_THE_END = 2
#: An evaluation with fewer games says too little.
FEWEST_GAMES = 10
#: Where hardly any game has ended within the share of an evaluation at the end, it may take this many times as
#: long: without a single game it would say nothing.
PATIENCE = 9.0
#: A larger number in a file is damage.
MOST = 1e10


@dataclass
class EvaluationShare:
    """Says whether an evaluation may begin, and how long it may take."""

    share: float
    spent: float = 0.0  # seconds of all evaluations while the training's clock ran
    needed: float = 0.0  # seconds that the next one must be allowed; 0: nobody knows
    skipped: int = 0

    @property
    def expected(self) -> float:
        """Seconds that an evaluation takes by what is known; 0 if nothing is."""
        return self.needed / GROWTH

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.share < 1.0

    def find_allowance(self, total: float) -> float:
        """Seconds that an evaluation may take now, after `total` seconds of training."""
        return max(0.0, max(ALWAYS, self.share * total) - self.spent) if self.is_limited else math.inf

    def may_begin(self, total: float) -> bool:
        """Whether the next evaluation will probably fit, and those at the end as well."""
        allowance = self.find_allowance(total)
        return allowance > 0 and self.needed + AT_THE_END * self.expected <= allowance

    def note_complete(self, seconds: float) -> None:
        """An evaluation took this long."""
        self.spent += seconds
        self.needed = GROWTH * seconds

    def note_skipped(self, seconds: float = 0.0) -> None:
        """An evaluation did not happen, or was cut off after some seconds."""
        self.spent += seconds
        self.skipped += 1
        self.needed = max(self.needed, CUT_OFF_GROWTH * seconds)

    def find_last_allowance(self, total: float) -> float:
        """Seconds for each of the evaluations at the end: what is left, but not too little."""
        left = max(ALWAYS, (self.share * total - self.spent) / AT_THE_END)
        return left if self.is_limited else math.inf

    def plan_games(self, games: int, usual: int, total: float) -> int:
        """How many of these games an evaluation at the end plays, where earlier ones had `usual` games."""
        expected = self.expected * games / max(1, usual)
        allowance = self.find_last_allowance(total)
        if expected <= allowance:
            return games
        return min(games, max(FEWEST_GAMES, math.floor(games * allowance / expected)))

    def to_json(self) -> dict[str, float]:
        """What a resumed run goes on from."""
        return {"spent": self.spent, "needed": self.needed, "skipped": self.skipped}

    def load(self, data: Any) -> None:
        """Go on from what a checkpoint says; nothing if it cannot be believed."""
        if not isinstance(data, Mapping):
            return
        spent, needed, skipped = (data.get(name, 0) for name in ("spent", "needed", "skipped"))
        if all(type(value) in (int, float) and 0 <= value < MOST for value in (spent, needed, skipped)):
            self.spent, self.needed, self.skipped = float(spent), float(needed), int(skipped)
