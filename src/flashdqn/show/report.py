"""report.html: a run on one page that loads nothing from elsewhere."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashdqn.config import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import flatten_keys, list_named_code, to_dict
from flashdqn.core.errors import FlashDQNError
from flashdqn.core.files import write_output
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.envs.tasks import TASKS
from flashdqn.runs.columns import (
    EPISODES,
    GAMES,
    GPU_PERCENT,
    MEAN_SCORE,
    MEMORY_MB,
    RATIO,
    SCORE_ERROR,
    SECONDS,
    STEP,
    STEPS_PER_SECOND,
    UPDATES,
)
from flashdqn.runs.rows import float_or_nan
from flashdqn.show import charts
from flashdqn.show.curve import draw_curve
from flashdqn.show.numbers import format_count, format_duration, format_percent, format_rate
from flashdqn.show.page import (
    escape,
    format_value,
    make_name_value_table,
    make_page,
    make_section,
    make_table,
)
from flashdqn.show.rank_waits import describe_ranks
from flashdqn.show.recording import embed_game, record
from flashdqn.show.report_charts import (
    draw_cost_charts,
    draw_learning_charts,
    draw_other_charts,
    draw_outcome_charts,
    draw_phase_summary,
)
from flashdqn.show.report_files import RunFiles, read_run
from flashdqn.show.terminal import MOST_SECONDS, format_outcome, list_time_parts
from flashdqn.show.web.page import player_script, read_web_file

STYLE = """
.brand { color: var(--soft); margin: 0; } h1 { margin: .1rem 0 .2rem; }
.soft { color: var(--soft); margin: .1rem 0 .9rem; } header .soft { margin: .1rem 0; } td { white-space: nowrap; }
.about { white-space: normal; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: .5rem .8rem; }
.tile span { display: block; color: var(--soft); font-size: .82rem; }
.problem { border-left: 3px solid var(--warm); padding-left: .6rem; margin: .4rem 0; }
.tile b { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
body { max-width: 66rem; } h2 { margin-top: 2.4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
details { margin: .6rem 0; } table + .charts { margin-top: 1.6rem; }
"""


def write_report(run: Path, out: Path | None = None, permission: Permission = NO_PERMISSION) -> Path:
    """Write report.html into a run folder, or to another file, from the files in the folder. Only the recorded game
    needs code that the run names; without permission it is left out."""
    path = out or run / "report.html"
    write_output(path, make_report_page(read_run(run), permission))
    return path


def make_report_page(run: RunFiles, permission: Permission = NO_PERMISSION, with_game: bool = True) -> str:
    """The page as HTML."""
    game, playable = make_game_section(run, permission) if with_game else ("", False)
    body = [
        make_report_header(run),
        make_section("Learning", make_learning_section(run)),
        game,
        _make_optional_section("What came of the games", draw_outcome_charts(run)),
        _make_optional_section("Other columns", draw_other_charts(run)),
        _make_optional_section(
            "Where the time went", make_time_table(run) + draw_phase_summary(run) + draw_cost_charts(run)
        ),
        _make_optional_section("Evaluations", make_evaluations_table(run)),
        make_section("Configuration", make_settings_section(run.settings)),
        make_section("Hardware and versions", make_name_value_table(run.hardware)),
        make_section("Summary", make_name_value_table(flatten_keys(run.summary))) if run.summary else "",
    ]
    style = charts.STYLE + STYLE + (read_web_file("player.css") if playable else "")
    script = charts.SCRIPT + (player_script() if playable else "")
    return make_page(f"{run.name}: flashdqn", body, style, script)


def make_learning_section(run: RunFiles) -> str:
    """The curves, under a note on how to read them."""
    drawn = draw_learning_charts(run)
    note = '<p class="soft">Over transitions. Point at a chart to read its values.</p>'
    missing = "<p>Nothing was logged yet: the first figures come after log.every transitions.</p>"
    return note + drawn if drawn else missing


def make_report_header(run: RunFiles) -> str:
    """The run's name, its state, and its key figures."""
    preset, device = run.settings.get("preset", "a run"), run.hardware.get("device", "")
    finished = run.summary.get("finished")
    ended = "not finished yet" if finished is None else ("finished" if finished else "stopped early")
    words = f"{preset}, {ended}" + (f"; {device}" if device else "")
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for name, value, unit in list_key_figures(run)
    )
    return (
        f'<header><p class="brand">flashdqn report</p><h1>{escape(run.name)}</h1>'
        f'<p class="soft">{escape(words)}</p>{make_problem_list(run.problems)}</header>'
        f'<div class="tiles">{tiles}</div>'
    )


def make_problem_list(problems: Sequence[str]) -> str:
    """What was changed or damaged in the folder: the page shows only the rest."""
    return "".join(f'<p class="problem">{escape(problem)}</p>' for problem in problems)


def list_key_figures(run: RunFiles) -> list[tuple[str, str, str]]:
    """The run in a few numbers: name, value, and unit."""
    summary, games, series = run.summary, run.games, run.series
    found = []
    if math.isfinite(score := float_or_nan(games.get(MEAN_SCORE.name))):
        half = 1.96 * float_or_nan(games.get(SCORE_ERROR.name))
        spread = f"± {half:.2g} (95%), {games.get(GAMES.name, '–')} games" if math.isfinite(half) else ""
        found.append(("score of the best", format_value(score), spread))
    elif (evaluated := run.evaluated())[1]:  # it is still in training
        at, last = evaluated[0][-1], evaluated[1][-1]
        found.append(
            ("last evaluation", format_value(last), f"mean score, at {format_count(at)} transitions")
        )
    steps, seconds = (
        float_or_nan(summary.get("steps", series.last(STEP))),
        float_or_nan(summary.get("seconds", series.last(SECONDS))),
    )
    episodes = float_or_nan(summary.get("episodes", series.last(EPISODES)))
    found.append(
        (
            "transitions",
            format_count(steps),
            f"{format_count(episodes)} episodes" if math.isfinite(episodes) else "",
        )
    )
    updates = float_or_nan(summary.get("updates", series.last(UPDATES)))
    ratio = float_or_nan(summary.get("train_ratio", series.last(RATIO)))
    done = f"{format_rate(ratio)} per transition" if math.isfinite(ratio) else ""
    found.append(("gradient steps", format_count(updates), done))
    reuse, batch = float_or_nan(summary.get("reuse")), float_or_nan(summary.get("batch"))
    if math.isfinite(reuse):
        found.append(("reuse", format_rate(reuse), f"samples per transition, batch {format_count(batch)}"))
    warm = float_or_nan(summary.get("warm_up_seconds"))
    warmed = f"after {format_duration(warm)} of warm-up" if math.isfinite(warm) else "of training"
    found.append(("time", format_duration(seconds), warmed))
    speeds = sorted(value for value in series.get(STEPS_PER_SECOND) if math.isfinite(value))
    if speeds:
        found.append(("throughput", format_rate(speeds[len(speeds) // 2]), "transitions/s, median window"))
    if math.isfinite(whole := float_or_nan(summary.get("wall_steps_per_second"))):
        found.append(("by wall clock", format_rate(whole), "transitions/s since the command began"))
    if series.has(MEMORY_MB):
        largest = max(value for value in series.get(MEMORY_MB) if math.isfinite(value))
        found.append(("memory", f"{largest:,.0f} MB", "at its largest"))
    if series.has(GPU_PERCENT):
        used = sorted(value for value in series.get(GPU_PERCENT) if math.isfinite(value))
        found.append(("GPU", f"{used[len(used) // 2]:.0f} %", "of the time busy, median window"))
    return found + list_collector_figures(summary)


def list_collector_figures(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The work of workers that collect by themselves; none if all environments took their steps together."""
    told = summary.get("collectors")
    if not isinstance(told, Mapping):
        return []
    lag, most = float_or_nan(told.get("mean_lag")), float_or_nan(told.get("most_lag"))
    replaced, dropped = (
        float_or_nan(told.get(name)) for name in ("replaced_workers", "discarded_transitions")
    )
    return [
        (
            "policy lag",
            format_rate(lag),
            f"gradient steps between acting and learning, at most {format_count(most)}",
        ),
        (
            "workers",
            format_count(float_or_nan(told.get("workers"))),
            f"{format_count(replaced)} were replaced",
        ),
        ("thrown away", format_count(dropped), "transitions, too old or of half episodes"),
    ]


def make_time_table(run: RunFiles) -> str:
    """All time since the command began, part by part; empty for runs that did not count it."""
    total = float_or_nan(run.summary.get("wall_seconds"))
    parts = list_time_parts(run.summary)
    if not parts or not 0 < total <= MOST_SECONDS:
        return ""
    rows = [(name, format_duration(seconds), format_percent(seconds / total)) for name, seconds in parts]
    note = f"{format_duration(total)} since the command began, before this page was drawn"
    if (skipped := float_or_nan(run.summary.get("skipped_evaluations"))) > 0:
        note += f"; {format_count(skipped)} evaluations were skipped to save time"
    waits = "".join(f'<p class="soft">{escape(line)}.</p>' for line in describe_ranks(run.summary))
    return f'<p class="soft">{escape(note)}.</p>' + make_table(("part", "time", "share"), rows) + waits


def make_game_section(run: RunFiles, permission: Permission) -> tuple[str, bool]:
    """A recorded game of the best checkpoint, or why there is none; and whether there is a game to play."""
    if run.settings.get("log.game") is False:
        return "", False
    try:
        game = record(run.path, permission=permission)
    except Exception as error:  # an environment may raise anything: a report is useful without a game
        reason = str(error) if isinstance(error, FlashDQNError) else f"{type(error).__name__}: {error}"
        return make_section("A game", f"<p>No game could be recorded: {escape(reason)}</p>"), False
    about, turns = game["about"], game["turns"]
    step = about["players"][0]["step"]
    words = f"{about['title']}, checkpoint at {step:,} steps, seed {about['seed']}, without exploration"
    stride = turns[1]["step"] - turns[0]["step"] if len(turns) > 1 else 1
    words += f"; one step in {stride} is shown" if stride > 1 else ""
    words += "" if turns[-1]["ending"] else "; the recording stops before the end"
    return make_section(
        "A game of the best checkpoint", f'<p class="soft">{escape(words)}.</p>{embed_game(game)}'
    ), True


def name_without_import(preset: str, task: str) -> str:
    """A preset's name that `base_config` understands without an import.

    For `my_game:Coins` it would import the module to find the kind of game, and a report must not import code that
    a run names. The run itself says which task it is.
    """
    prefix, colon, _ = preset.partition(":")
    return f"{task}:{preset}" if colon and prefix not in TASKS and task in TASKS else preset


def find_preset_changes(settings: dict[str, Any]) -> list[tuple[str, Any, Any]] | None:
    """Each changed setting, its value, and the preset's value; None if the preset is no longer known."""
    try:
        name = name_without_import(str(settings.get("preset", "")), str(settings.get("env.task", "")))
        preset = to_dict(base_config(name))
    except FlashDQNError:
        return None
    known = flatten_keys(json.loads(json.dumps(preset)))  # with lists for tuples, as in a file
    differing = []
    for name, value in settings.items():
        if name in ("preset", "out"):
            continue
        if name not in known or known[name] != value:
            differing.append((name, value, known.get(name)))
    return differing


def make_settings_section(settings: dict[str, Any]) -> str:
    """The settings that differ from the preset, then all settings."""
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


def make_evaluations_table(run: RunFiles) -> str:
    """One row for each evaluation, and how the final games ended."""
    parts = ""
    if run.evaluations:
        rows = ([format_value(_parse_cell(value)) for value in row.values()] for row in run.evaluations)
        parts = make_table(list(run.evaluations[0]), rows)
    outcomes = run.games.get("outcomes")
    ends = (
        [format_outcome(k, float(v)) for k, v in outcomes.items() if v] if isinstance(outcomes, dict) else []
    )
    if ends:
        parts += f"<p>The best checkpoint on fresh games: {escape(', '.join(ends))}.</p>"
    return parts


def _make_optional_section(title: str, body: str) -> str:
    return make_section(title, body) if body else ""


def _parse_cell(text: str) -> float | int | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


#: The pages that are written when a run ends.
RUN_PAGES: dict[str, Callable[[Path], object]] = {"learning curve": draw_curve, "report": write_report}


def make_run_pages(config: Config) -> dict[str, Callable[[Path], object]]:
    """The pages of a training with this configuration: its report may import the same code as the training."""
    names = frozenset(list_named_code(config))
    report = functools.partial(write_report, permission=Permission(names))
    return RUN_PAGES | ({"report": report} if names else {})
