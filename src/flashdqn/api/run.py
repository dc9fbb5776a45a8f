"""A run in Python: its figures, its agent, and how it goes on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from flashdqn.agent.agent import Agent, load_agent
from flashdqn.api.notebook import make_inline_page
from flashdqn.config.given_env import EnvLike, find_env_change, permit_given_env
from flashdqn.config.settings import list_named_code, list_receivers
from flashdqn.core.errors import ConfigError
from flashdqn.core.text import clean_line, clean_name
from flashdqn.core.user_code import Permission
from flashdqn.runs.arrays import Arrays, make_frame, read_arrays
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.records import SUMMARY_FILE
from flashdqn.runs.tables import EVALUATIONS_FILE, METRICS_FILE
from flashdqn.show.curve import make_curve_figure
from flashdqn.training.summary import SessionEnd

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class Run(SessionEnd):
    """A run folder and how its training ended: what `flashdqn.train` returns, or `Run.open("runs/…")`.

    A notebook shows its report. Where a path is expected, a run will do: `flashdqn.load(run)`.
    """

    @classmethod
    def from_end(cls, end: SessionEnd) -> Run:
        """The run that a session has left."""
        return cls(**{field.name: getattr(end, field.name) for field in dataclasses.fields(end)})

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, trust: bool = False, env: EnvLike | None = None) -> Run:
        """An earlier run: `flashdqn.Run.open("runs/snake-20261116-120000").figure()`.

        `trust` and `env` are as in `flashdqn.load`.
        """
        folder = RunFolder.open(Path(path))
        permission = permit_given_env(Permission(everything=trust), env)
        config = folder.config(permission, find_env_change(env))
        summary = folder.read_json(SUMMARY_FILE)
        return cls(folder.path, config, bool(summary.get("finished", False)), summary)

    @overload
    def metrics(self) -> Arrays: ...
    @overload
    def metrics(self, *, as_frame: Literal[False]) -> Arrays: ...
    @overload
    def metrics(self, *, as_frame: bool) -> Any: ...
    def metrics(self, *, as_frame: bool = False) -> Any:
        """The columns of metrics.csv by name, as NumPy arrays: `run.metrics()["loss"]`. With `as_frame` they are a
        DataFrame.

        A row is a window of training. `step` counts transitions, `score` is the mean while exploring.
        """
        return self._read(METRICS_FILE, as_frame)

    @overload
    def evaluations(self) -> Arrays: ...
    @overload
    def evaluations(self, *, as_frame: Literal[False]) -> Arrays: ...
    @overload
    def evaluations(self, *, as_frame: bool) -> Any: ...
    def evaluations(self, *, as_frame: bool = False) -> Any:
        """The columns of evaluations.csv, as `metrics` gives them: `run.evaluations()["mean_score"].max()`."""
        return self._read(EVALUATIONS_FILE, as_frame)

    def figure(self) -> Any:
        """The learning curve as a figure of matplotlib: `run.figure().savefig("curve.pdf")`."""
        figure = make_curve_figure(self.path)
        if figure is None:
            raise ConfigError(f"{self.path} has no report yet, so there is nothing to draw.")
        return figure

    def agent(self, device: str = "auto") -> Agent:
        """The agent of the best checkpoint: `run.agent().act(obs)`. Code that the run names was named before, by
        whoever trained or opened it."""
        folder = RunFolder.open(self.path)
        return load_agent(folder.path, device, self._permission(), self.config.env)

    def resume(self, **settings: Any) -> Run:
        """Train on, with a larger budget: `run.resume(steps=2_000_000)`. Takes what `flashdqn.train` takes with
        `resume`: budgets, callbacks, `progress`."""
        from flashdqn.api import resume_training

        return resume_training(self.path, self._permission(), **{"env": self.config.env} | settings)

    def _permission(self) -> Permission:
        sends = frozenset(list_receivers(self.config))
        return Permission(frozenset(list_named_code(self.config)), settings=sends)

    def _read(self, name: str, as_frame: bool) -> Any:
        arrays = read_arrays(self.path / name)
        return make_frame(arrays) if as_frame else arrays

    def __repr__(self) -> str:
        ended = "finished" if self.finished else str(self.summary.get("stopped", "not finished"))
        steps = self.summary.get("steps", 0)
        shown = f"{steps:,}" if type(steps) is int and 0 <= steps < 2**63 else "unknown"
        text = f"<Run {self.path}: {clean_line(ended, 200)}, {shown} steps, score {self.score:.4g}>"
        return clean_name(text)  # the run may be a stranger's

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        return make_inline_page(self.path)
