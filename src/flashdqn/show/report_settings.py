"""Settings for a report: what differs from the preset first, then all of them."""

from __future__ import annotations

from typing import Any

from flashdqn.config.settings import to_dict
from flashdqn.core.errors import FlashDQNError
from flashdqn.presets import base_config
from flashdqn.show.page import escape, format_value, make_name_value_table, make_table
from flashdqn.show.report_files import flatten_keys

#: What a run decides or is told by its surroundings: no choice about learning.
INCIDENTAL = ("preset", "out", "seed", "device", "runtime.mode", "runtime.threads")


def is_incidental_setting(name: str) -> bool:
    """Whether a setting says nothing about what is learned: where it ran, and what it logged."""
    return name in INCIDENTAL or name.startswith("log.")


def find_preset_changes(settings: dict[str, Any]) -> list[tuple[str, Any, Any]] | None:
    """Setting, its value, and the preset's; None where the preset is not known any more."""
    name = avoid_import(str(settings.get("preset", "")), settings.get("env.task"))
    try:
        preset = flatten_keys(tuples_to_lists(to_dict(base_config(name))))
    except FlashDQNError:
        return None
    differing = []
    for name, value in settings.items():
        if name in ("preset", "out"):
            continue
        if name not in preset or preset[name] != value:
            differing.append((name, value, preset.get(name)))
    return differing


def avoid_import(preset: str, task: object) -> str:
    """A preset's name that `base_config` understands without an import: for `my_game:Coins` it would look into the
    module to see which kind of game that is, and a report must not import what a run names."""
    plain = preset.removeprefix("own:").removeprefix("gym:")
    return f"{'own' if task == 'own' else 'gym'}:{plain}" if ":" in plain else preset


def make_settings_section(settings: dict[str, Any]) -> str:
    """Both tables."""
    preset = format_value(settings.get("preset", "–"))
    changed = find_preset_changes(settings)
    if changed is None:
        first = f"<p>The preset {escape(preset)} is not known here.</p>"
    elif not changed:
        first = f"<p>All as in the preset {escape(preset)}.</p>"
    else:
        rows = [(name, format_value(value), format_value(old)) for name, value, old in changed]
        first = f"<p>What differs from the preset {escape(preset)}:</p>" + make_table(
            ("setting", "here", "preset"), rows
        )
    every = (
        f"<details><summary>All {len(settings)} settings</summary>{make_name_value_table(settings)}</details>"
    )
    return first + (every if settings else "")


def tuples_to_lists(data: Any) -> Any:
    """As JSON would have it: tuples become lists."""
    if isinstance(data, dict):
        return {key: tuples_to_lists(value) for key, value in data.items()}
    return [tuples_to_lists(item) for item in data] if isinstance(data, list | tuple) else data
