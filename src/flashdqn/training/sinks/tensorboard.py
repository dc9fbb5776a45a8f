"""TensorBoard: events in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from flashdqn.training.sinks import About


class TensorBoard:
    """`tensorboard --logdir runs` shows them."""

    def __init__(self, about: About) -> None:
        # purge_step hides what a run killed after this checkpoint had already written
        self.events: Any = SummaryWriter(str(about.path), purge_step=about.step + 1)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """One curve for each name."""
        for name, value in values.items():
            self.events.add_scalar(name, value, step)

    def flush(self) -> None:
        """To the disk."""
        self.events.flush()

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Curves only: the summary lies beside them as summary.json."""
        self.events.close()
