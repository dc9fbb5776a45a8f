"""Stand-ins for wandb and mlflow with the few calls that we use, as strict as the real ones about their arguments.

`test_sinks.py` runs with the real packages, too, where they are installed.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass
class FakeRun:
    """A run of W&B's."""

    id: str
    project: str
    name: str
    config: dict[str, Any]
    offline: bool
    sessions: int = 1
    url: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str | None] = field(default_factory=dict)
    exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, data: dict[str, Any]) -> None:
        assert self.exit_code is None, "log() after finish()"
        assert all(isinstance(value, int | float) for value in data.values())
        self.rows.append(dict(data))

    def finish(self, exit_code: int | None = None) -> None:
        self.exit_code = exit_code


class FakeWandb(types.ModuleType):
    """The package."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: dict[str, FakeRun] = {}

    class Settings:
        def __init__(self, *, console: str, silent: bool) -> None:
            assert console == "off"
            assert silent

    def init(
        self,
        *,
        project: str,
        name: str,
        id: str | None,
        resume: str,
        dir: str,
        config: dict[str, Any],
        mode: str | None,
        settings: Any,
    ) -> FakeRun:
        assert resume == "allow"
        assert mode in (None, "online", "offline")
        if id in self.runs:
            run = self.runs[id]
            run.sessions += 1
            run.exit_code = None
            return run
        run = FakeRun(f"id{len(self.runs)}", project, name, config, mode == "offline")
        self.runs[run.id] = run
        return run


class Metric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int


class Param(NamedTuple):
    key: str
    value: str


class RunTag(NamedTuple):
    key: str
    value: str


@dataclass
class Tracked:
    """A run of MLflow's."""

    name: str
    status: str = "RUNNING"
    metrics: list[Metric] = field(default_factory=list)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


class FakeMlflow:
    """The packages mlflow, mlflow.entities and mlflow.tracking."""

    def __init__(self) -> None:
        self.runs: dict[str, Tracked] = {}
        self.experiments: dict[str, str] = {}
        store = self

        class MlflowClient:
            def __init__(self, tracking_uri: str | None) -> None:
                self.tracking_uri = tracking_uri

            def get_experiment_by_name(self, name: str) -> Any:
                known = store.experiments.get(name)
                return None if known is None else types.SimpleNamespace(experiment_id=known)

            def create_experiment(self, name: str) -> str:
                assert name not in store.experiments
                return store.experiments.setdefault(name, str(len(store.experiments)))

            def create_run(self, experiment_id: str, run_name: str) -> Any:
                assert experiment_id in store.experiments.values()
                run = f"run{len(store.runs)}"
                store.runs[run] = Tracked(run_name)
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run))

            def update_run(self, run_id: str, status: str) -> None:
                store.runs[run_id].status = status

            def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
                assert len(metrics) <= 1000
                assert len(params) <= 100
                run = store.runs[run_id]
                run.metrics += metrics
                run.params |= {param.key: param.value for param in params}
                run.tags |= {tag.key: tag.value for tag in tags}

            def set_terminated(self, run_id: str, status: str) -> None:
                store.runs[run_id].status = status

        self.package = types.ModuleType("mlflow")
        self.entities = types.ModuleType("mlflow.entities")
        self.tracking = types.ModuleType("mlflow.tracking")
        vars(self.entities).update(Metric=Metric, Param=Param, RunTag=RunTag)
        vars(self.tracking).update(MlflowClient=MlflowClient)

    def modules(self) -> dict[str, types.ModuleType]:
        return {
            "mlflow": self.package,
            "mlflow.entities": self.entities,
            "mlflow.tracking": self.tracking,
        }
