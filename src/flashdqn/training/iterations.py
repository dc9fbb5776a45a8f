"""Several iterations in one launch, where the device decides what is due in each.

The host launches many at once only while nothing of its own can be due in between: a report, an evaluation, a
checkpoint, the end of the budget. Near such a limit it launches them one by one, and waits for the exact counts. So
all of that happens in the same iteration, and with the same weights, as if every iteration were launched alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flashdqn.training.assemble import Parts
from flashdqn.training.budget import Limits

#: Iterations in one launch: enough that the host's work for a launch is small beside the device's.
SEVERAL = 16


class Iterations:
    """Launches iterations of one training; `launches` runs them by their number, 1 among these."""

    def __init__(self, parts: Parts, launches: Mapping[int, Callable[[], None]]) -> None:
        self.parts, self.launches = parts, dict(launches)
        self.largest = max(launches)

    def launch(self, limits: Limits) -> int:
        """Launch iterations: many, if they come to no limit, else one, or none if a limit is reached already;
        returns their number."""
        counts, envs = self.parts.counts, self.parts.config.envs
        room = limits.count_safe_iterations(counts, envs)
        if room < 1 and counts.unseen:
            counts.settle()
            self.tell_learner()
            if limits.are_reached(counts):
                return 0
            room = limits.count_safe_iterations(counts, envs)
        count = self.largest if room >= self.largest else 1
        self.launches[count]()
        self.parts.sampler.rows_added()
        counts.publish(count)
        self.tell_learner()
        return count

    def tell_learner(self) -> None:
        """The host's number of updates follows the one that has arrived from the device."""
        self.parts.learner.note_updates(self.parts.counts.updates)

    def tell_device(self) -> None:
        """The device's number follows the host's: after updates that the host has asked for."""
        self.parts.counts.note_updates(self.parts.learner.updates)
