"""Settings of evaluation, reports and execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from flashdqn.config.values import require


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training: games with ε = 0, from seeds of their own."""

    every: int = 500_000
    """Transitions between evaluations; 0: only at the end."""
    episodes: int = 100
    """Games in each."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"eval.every must not be negative, and is {self.every}.")
        require(self.episodes > 0, f"eval.episodes must be above 0, and is {self.episodes}.")


@dataclass(frozen=True)
class LogConfig:
    """Reports and checkpoints."""

    every: int = 0
    """Transitions between reports; 0: 25,000, or 100 vector steps if that is more."""
    checkpoint_every: int = 1_000_000
    """Transitions between checkpoints that can be resumed; 0: only at the end."""
    tensorboard: bool = True
    """Write TensorBoard events."""
    game: bool = True
    """Record a game of the best checkpoint for report.html, when the training is over."""
    wandb: bool = False
    """Log to Weights & Biases, too (pip install wandb)."""
    wandb_project: str = "flashdqn"
    """The project there."""
    wandb_mode: Literal["auto", "online", "offline"] = "auto"
    """offline: keep it in the run folder for `wandb sync`. auto: as WANDB_MODE says, else online."""
    mlflow: bool = False
    """Log to MLflow, too (pip install 'flashdqn[mlflow]')."""
    mlflow_uri: Annotated[str, tyro.conf.arg(metavar="URI|FOLDER")] = ""
    """Its tracking server, database or folder; empty: as MLFLOW_TRACKING_URI says, else MLflow's own default."""
    mlflow_experiment: str = "flashdqn"
    """The experiment there."""

    def __post_init__(self) -> None:
        require(self.every >= 0, f"log.every must not be negative, and is {self.every}.")
        require(
            self.checkpoint_every >= 0,
            f"log.checkpoint_every must not be negative, and is {self.checkpoint_every}.",
        )


@dataclass(frozen=True)
class RuntimeConfig:
    """How the work is executed; none of it changes what is learned, beyond rounding."""

    mode: Annotated[
        Literal["auto", "eager", "compile", "native", "graph", "written"],
        tyro.conf.arg(metavar="{auto,eager,compile,native,graph}"),
    ] = "auto"
    """How collection and updates run. eager: operation by operation; compile: by torch.compile; native: a plain
    MLP's update written by hand; graph: CUDA graphs, of hand-written or compiled updates where they work. auto
    picks by a short trial before the clock starts, and says what and why. What cannot work falls to the next."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Numbers that the networks compute with; losses, targets and weights are float32 in any case."""
    threads: int = 0
    """CPU threads for PyTorch and for the games; 0: one where work is too small to share, else as many as a
    trial shows to be best. Hand-written updates find out while they train, and compute the same with any number."""
    warmup: bool = True
    """Compile, allocate and touch everything before the clock starts."""

    def __post_init__(self) -> None:
        if self.mode == "written":  # what `native` was called until 0.1.0
            object.__setattr__(self, "mode", "native")
        require(self.threads >= 0, f"runtime.threads must not be negative, and is {self.threads}.")
