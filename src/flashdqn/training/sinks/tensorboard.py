"""TensorBoard: events in the run folder."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from flashdqn.training.sinks import About


class TensorBoard:
    """Writes event files, which `tensorboard --logdir runs` shows."""

    def __init__(self, about: About) -> None:
        # purge_step hides what a run killed after this checkpoint had already written. The suffix makes the file's
        # name one that nobody can have put there before.
        suffix = f".{secrets.token_hex(8)}"
        self.events: Any = SummaryWriter(str(about.path), purge_step=about.step + 1, filename_suffix=suffix)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to the curve of each name."""
        for name, value in values.items():
            self.events.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write the events to disk."""
        self.events.flush()

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Close the files; the summary is already in summary.json."""
        self.events.close()
