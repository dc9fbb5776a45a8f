"""Weights & Biases: online, or offline for `wandb sync` (--log.wandb-mode offline, or WANDB_MODE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wandb

from flashdqn.core.files import make_refusal
from flashdqn.training.sinks import About, flatten_settings


class WeightsAndBiases:
    """One W&B run for each run folder; a resumed training continues in it."""

    def __init__(self, about: About) -> None:
        mode, here = about.log.wandb_mode, about.path / "wandb"
        if here.is_symlink():
            raise make_refusal(here, "is a link, and links in a run folder are not followed")
        # The terminal is ours: W&B must not capture our output, nor print its own lines.
        settings = wandb.Settings(console="off", silent=True)
        self.run: Any = wandb.init(
            project=about.log.wandb_project,
            name=about.path.name,
            id=about.known,
            resume="allow",
            dir=str(about.path),
            config=about.config,
            mode=None if mode == "auto" else mode,
            settings=settings,
        )
        about.remember("wandb", self.run.id)
        self.where = f"offline, in {here} (wandb sync uploads it)" if self.run.offline else str(self.run.url)
        # Our own step is the axis: W&B's must never go back, and a training resumed from an earlier checkpoint
        # does.
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Log one row."""
        self.run.log({**values, "step": step})

    def flush(self) -> None:
        """Do nothing: W&B saves its data by itself."""

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Write the summary and end the run."""
        if summary is not None:
            self.run.summary.update(
                {f"summary/{name}": value for name, value in flatten_settings(summary).items()}
            )
        self.run.finish(exit_code=0 if summary is not None else 1)
