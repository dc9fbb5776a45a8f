"""MLflow: a tracking server, a database or a folder (--log.mlflow-uri, or MLFLOW_TRACKING_URI)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from flashdqn.training.sinks import About, flatten_settings

#: The most that a server takes in one call, and in one text.
METRICS, PARAMS, TEXT = 1000, 100, 500


class MLflow:
    """One MLflow run for each run folder; a resumed training continues in it. No global state is touched."""

    def __init__(self, about: About) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it logs every table that it creates
        self.client: Any = MlflowClient(tracking_address(about.log.mlflow_uri))
        if about.known is None:
            self.run = self._begin(about)
        else:
            self.run = about.known
            self.client.update_run(self.run, status="RUNNING")
        self.where = f"{self.client.tracking_uri}, run {self.run}"

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Log one point for each name."""
        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        for i in range(0, len(metrics), METRICS):
            self.client.log_batch(self.run, metrics=metrics[i : i + METRICS])

    def flush(self) -> None:
        """Do nothing: every call is written when it returns."""

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """Write the summary, numbers as metrics and texts as tags, and end the run."""
        if summary is not None:
            named = {f"summary/{name}": value for name, value in flatten_settings(summary).items()}
            numbers = {name: value for name, value in named.items() if isinstance(value, int | float)}
            self.scalars(numbers, int(summary["steps"]))
            texts = [RunTag(name, str(value)[:TEXT]) for name, value in named.items() if name not in numbers]
            self.client.log_batch(self.run, tags=texts)
        stopped = summary is not None and not summary.get("finished", True)
        self.client.set_terminated(
            self.run, "FAILED" if summary is None else "KILLED" if stopped else "FINISHED"
        )

    def _begin(self, about: About) -> str:
        name = about.log.mlflow_experiment
        found = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if found is None else found.experiment_id
        run = str(self.client.create_run(experiment, run_name=about.path.name).info.run_id)
        about.remember("mlflow", run)
        params = [Param(key, str(value)[:TEXT]) for key, value in about.config.items()]
        for i in range(0, len(params), PARAMS):
            self.client.log_batch(run, params=params[i : i + PARAMS])
        return run


def tracking_address(uri: str) -> str | None:
    """MLflow's address: a URI as it is; for a folder, a database in it, because MLflow drops plain folders."""
    if not uri:
        return None
    if "://" in uri or uri == "databricks" or uri.startswith("databricks:"):
        return uri
    folder = Path(uri).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}"
