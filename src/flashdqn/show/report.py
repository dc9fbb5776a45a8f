"""report.html: a run on one page, with nothing to load from elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

from flashdqn.show import charts
from flashdqn.show.curve import draw_curve
from flashdqn.show.numbers import count, duration, rate
from flashdqn.show.page import escape, make_page, pairs, section, table, value_text
from flashdqn.show.recording import embedded, record
from flashdqn.show.report_charts import cost_charts, learning_charts, outcome_charts, phase_bar
from flashdqn.show.report_files import RunFiles, flat, number, read_run
from flashdqn.show.report_settings import settings_section
from flashdqn.show.terminal import outcome_text
from flashdqn.show.web.page import part, player_script

STYLE = """
.brand { color: var(--soft); margin: 0; } h1 { margin: .1rem 0 .2rem; }
.soft { color: var(--soft); margin: .1rem 0 .9rem; } header .soft { margin: .1rem 0; } td { white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: .5rem .8rem; }
.tile span { display: block; color: var(--soft); font-size: .82rem; }
.tile b { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
body { max-width: 66rem; } h2 { margin-top: 2.4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
details { margin: .6rem 0; } table + .charts { margin-top: 1.6rem; }
"""


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write report.html into a run folder, or to another file, from what lies in the folder."""
    path = out or run / "report.html"
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_text(report_page(read_run(run)), encoding="utf-8")
    temporary.replace(path)
    return path


def report_page(run: RunFiles) -> str:
    """The page itself."""
    game, playable = game_section(run)
    body = [
        head(run),
        section("Learning", learning(run)),
        game,
        _titled("What came of the games", outcome_charts(run)),
        _titled("Where the time went", phase_bar(run) + cost_charts(run)),
        _titled("Evaluations", evaluations(run)),
        section("Configuration", settings_section(run.settings)),
        section("Hardware and versions", pairs(run.hardware)),
        section("Summary", pairs(flat(run.summary))) if run.summary else "",
    ]
    style = charts.STYLE + STYLE + (part("player.css") if playable else "")
    script = charts.SCRIPT + (player_script() if playable else "")
    return make_page(f"{run.name}: flashdqn", body, style, script)


def learning(run: RunFiles) -> str:
    """The curves, under a word on how to read them."""
    drawn = learning_charts(run)
    note = '<p class="soft">Over transitions. Point at a chart to read its values.</p>'
    return note + drawn if drawn else "<p>No report was written yet.</p>"


def head(run: RunFiles) -> str:
    """What it was, and what came of it."""
    preset, device = run.settings.get("preset", "a run"), run.hardware.get("device", "")
    finished = run.summary.get("finished")
    ended = "not finished yet" if finished is None else ("finished" if finished else "stopped early")
    words = f"{preset}, {ended}" + (f"; {device}" if device else "")
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for name, value, unit in figures(run)
    )
    return (
        f'<header><p class="brand">flashdqn report</p><h1>{escape(run.name)}</h1>'
        f'<p class="soft">{escape(words)}</p></header><div class="tiles">{tiles}</div>'
    )


def figures(run: RunFiles) -> list[tuple[str, str, str]]:
    """The run in a few numbers: name, value, and what it is counted in."""
    summary, games, series = run.summary, run.games, run.series
    found = []
    if math.isfinite(score := number(games.get("mean_score"))):
        half = 1.96 * number(games.get("score_error"))
        spread = f"± {half:.2g} (95%), {games.get('episodes', '–')} games" if math.isfinite(half) else ""
        found.append(("score of the best", value_text(score), spread))
    steps, seconds = (
        number(summary.get("steps", series.last("step"))),
        number(summary.get("seconds", series.last("seconds"))),
    )
    found.append(
        (
            "transitions",
            count(steps),
            f"{count(number(summary.get('episodes', series.last('episodes'))))} episodes",
        )
    )
    updates = number(summary.get("updates", series.last("updates")))
    ratio = number(summary.get("train_ratio", series.last("ratio")))
    found.append(("gradient steps", count(updates), f"{rate(ratio)} per transition"))
    warm = number(summary.get("warm_up_seconds"))
    warmed = f"after {duration(warm)} of warm-up" if math.isfinite(warm) else "of training"
    found.append(("time", duration(seconds), warmed))
    speeds = sorted(value for value in series.get("steps_per_second") if math.isfinite(value))
    if speeds:
        found.append(("throughput", rate(speeds[len(speeds) // 2]), "transitions/s, median window"))
    if series.has("memory_mb"):
        largest = max(value for value in series.get("memory_mb") if math.isfinite(value))
        found.append(("memory", f"{largest:,.0f} MB", "at its largest"))
    return found


def game_section(run: RunFiles) -> tuple[str, bool]:
    """A recorded game of the best checkpoint, or why there is none; and whether there is something to play."""
    if run.settings.get("log.game") is False:
        return "", False
    try:
        game = record(run.path)
    except Exception as error:  # whatever an environment may raise: a report is worth having without a game
        reason = f"{type(error).__name__}: {error}"
        return section("A game", f"<p>No game could be recorded: {escape(reason)}</p>"), False
    about, turns = game["about"], game["turns"]
    step = about["players"][0]["step"]
    words = f"{about['title']}, checkpoint at {step:,} steps, seed {about['seed']}, without exploration"
    stride = turns[1]["step"] - turns[0]["step"] if len(turns) > 1 else 1
    words += f"; one step in {stride} is shown" if stride > 1 else ""
    words += "" if turns[-1]["ending"] else "; the recording stops before the end"
    return section(
        "A game of the best checkpoint", f'<p class="soft">{escape(words)}.</p>{embedded(game)}'
    ), True


def evaluations(run: RunFiles) -> str:
    """One row for each, and how the final games ended."""
    parts = ""
    if run.evaluations:
        rows = ([value_text(_value(value)) for value in row.values()] for row in run.evaluations)
        parts = table(list(run.evaluations[0]), rows)
    outcomes = run.games.get("outcomes")
    ends = [outcome_text(k, float(v)) for k, v in outcomes.items() if v] if isinstance(outcomes, dict) else []
    if ends:
        parts += f"<p>The best checkpoint on fresh games: {escape(', '.join(ends))}.</p>"
    return parts


def _titled(title: str, body: str) -> str:
    return section(title, body) if body else ""


def _value(text: str) -> float | int | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


#: What is drawn of every run when it ends.
RUN_PAGES = {"learning curve": draw_curve, "report": write_report}
