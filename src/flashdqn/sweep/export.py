"""A trial as a settings file, which `flashdqn train --config` takes: only what differs from the preset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings, flatten_keys, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file, write_output
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.sweep.folder import SweepPlan
from flashdqn.sweep.results import TrialResult

#: What a sweep sets for its own sake, and a training does not need.
LEFT_OUT = ("preset", "out", "seed", "device", "runtime.threads")
LEFT_OUT_GROUPS = ("log.", "eval.")


def find_trial(results: list[TrialResult], number: int) -> TrialResult:
    """A trial by its number."""
    found = next((one for one in results if one.number == number), None)
    if found is None:
        known = [str(one.number) for one in results]
        raise ConfigError(f"There is no trial {number}{suggest_nearest(str(number), known[-20:])}")
    return found


def list_trial_settings(plan: SweepPlan, trial: TrialResult) -> dict[str, Any]:
    """The preset's name, and all settings in which a training with this trial's values differs from it."""
    config = plan.space.apply(plan.base, trial.values)
    mine, usual = (
        flatten_keys(json.loads(json.dumps(to_dict(one)))) for one in (config, base_config(config.preset))
    )
    changed = {
        name: value
        for name, value in mine.items()
        if name not in LEFT_OUT
        and not name.startswith(LEFT_OUT_GROUPS)
        and (name not in usual or usual[name] != value)
        and value is not None
    }
    return {"preset": config.preset, **changed}


def write_trial(plan: SweepPlan, trial: TrialResult, out: Path) -> dict[str, Any]:
    """Write the settings as TOML or JSON, by the file's name; returns them."""
    if out.suffix not in (".toml", ".json"):
        raise ConfigError(f"--out must end in .toml or .json, and is '{out}'.")
    check_writable_file(out)
    settings = list_trial_settings(plan, trial)
    apply_settings(base_config(settings["preset"]), {k: v for k, v in settings.items() if k != "preset"})
    text = json.dumps(settings, indent=2) + "\n" if out.suffix == ".json" else format_toml(settings, trial)
    write_output(out, text)
    return settings


def format_toml(settings: Mapping[str, Any], trial: TrialResult) -> str:
    """Settings as TOML, by group."""
    lines = [f"# Trial {trial.number} of a sweep: score {trial.score:.4g} in a single run.", ""]
    groups: dict[str, list[str]] = {}
    for name, value in settings.items():
        group, _, key = name.rpartition(".")
        groups.setdefault(group, []).append(f"{key} = {format_toml_value(value)}")
    for group, entries in sorted(groups.items()):
        lines += ([f"[{group}]"] if group else []) + entries + [""]
    return "\n".join(lines).rstrip() + "\n"


def format_toml_value(value: Any) -> str:
    """A value as TOML writes it; JSON's texts, numbers and lists are TOML's, too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {format_toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_toml_value, value)) + "]"
    return json.dumps(value)
