"""report.html of a sweep: what is claimed, what was tried, and which settings mattered; it loads nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.show import charts as show_charts
from flashdqn.show.intervals import format_score_interval
from flashdqn.show.numbers import format_duration, format_rate
from flashdqn.show.page import escape, make_name_value_table, make_page, make_section, make_stacked_table
from flashdqn.show.report import STYLE
from flashdqn.sweep import charts
from flashdqn.sweep.confirm import Claim, read_claim
from flashdqn.sweep.display import count_states, format_values
from flashdqn.sweep.folder import REPORT_FILE, SweepFolder, SweepPlan
from flashdqn.sweep.results import (
    DONE,
    FAILED,
    LOST,
    TrialResult,
    choose_winner,
    list_results,
    measure_importance,
)
from flashdqn.sweep.search import USED
from flashdqn.sweep.space import format_option
from flashdqn.sweep.study import read_study


def write_sweep_report(folder: Path, plan: SweepPlan, out: Path | None = None) -> Path:
    """Write the page of a sweep, however far it is."""
    path = out or folder / REPORT_FILE
    write_output(path, make_sweep_page(folder, plan))
    return path


def make_sweep_page(folder: Path, plan: SweepPlan) -> str:
    """The page as HTML."""
    study, space = read_study(folder), plan.space
    results = list_results(study, space)
    winner = choose_winner(results)
    confirmed = SweepFolder(folder).read_confirmations()
    claim = read_claim(confirmed) if winner and confirmed.get("trial") == winner.number else None
    drawn = charts.draw_front(results) + charts.draw_history(results)
    drawn += charts.draw_importance(measure_importance(study, space))
    note = '<p class="soft">Of single runs, chosen because they were good: only the figures above are claimed.</p>'
    body = [
        make_header(folder.name, plan, results, winner, claim, float(study.user_attrs.get(USED, math.nan))),
        make_section("What is claimed", make_claim(claim, winner, plan)),
        make_section(
            "The search", f'{note}<div class="charts">{drawn}</div>' if drawn else "<p>Nothing yet.</p>"
        ),
        charts.draw_parallel_coordinates(results, space),
        make_section("Trials", make_trial_table(results, space.names)),
        make_failures(results),
        make_section(
            "The space", make_name_value_table({one.name: one.describe() for one in space.dimensions})
        ),
        make_section("The sweep", make_name_value_table(describe_plan(plan))),
    ]
    style = show_charts.STYLE + STYLE + charts.STYLE
    return make_page(f"{folder.name}: flashdqn", body, style, show_charts.SCRIPT)


def make_header(
    name: str,
    plan: SweepPlan,
    results: Sequence[TrialResult],
    winner: TrialResult | None,
    claim: Claim | None,
    used: float,
) -> str:
    """The sweep's name and its key figures."""
    counts = count_states(results)
    ends = ", ".join(f"{counts[state]} {state}" for state in counts)
    tiles = [("trials", str(sum(counts.values())), ends)]
    if winner is not None:
        tiles.append(("best single run", format_rate(winner.score), f"trial {winner.number}"))
    if claim is not None:
        tiles.append(
            ("winner, fresh seeds", format_score_interval(*claim.winner_mean), f"{len(claim.winner)} runs")
        )
        tiles.append(
            ("preset, fresh seeds", format_score_interval(*claim.preset_mean), f"{len(claim.preset)} runs")
        )
    if math.isfinite(used):
        tiles.append(("time", format_duration(used), f"{plan.jobs} at a time"))
    drawn = "".join(
        f'<div class="tile"><span>{escape(title)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for title, value, unit in tiles
    )
    return (
        f'<header><p class="brand">flashdqn sweep</p><h1>{escape(name)}</h1>'
        f'<p class="soft">{escape(plan.base.preset)}, {escape(describe_trial_budget(plan))} a trial</p></header>'
        f'<div class="tiles">{drawn}</div>'
    )


def make_claim(claim: Claim | None, winner: TrialResult | None, plan: SweepPlan) -> str:
    """The winner and the preset on fresh seeds, in a sentence and a table."""
    return "".join(f"<p>{escape(line)}</p>" for line in describe_claim(claim, winner, plan))


def describe_claim(claim: Claim | None, winner: TrialResult | None, plan: SweepPlan) -> list[str]:
    """What may be said about the winner, for the page and for the terminal."""
    if winner is None:
        return ["No trial has ended with a score: nothing is claimed."]
    if winner.label:
        return ["No trial was better than the preset: nothing is claimed."]
    if claim is None:
        return [
            f"Trial {winner.number} scored {format_rate(winner.score)} in a single run, which is not confirmed."
        ]
    gain, half = claim.gain
    return [
        f"On {len(claim.winner)} fresh seeds, {describe_trial_budget(plan)} each: trial {winner.number} scores "
        f"{format_score_interval(*claim.winner_mean)}, the preset {format_score_interval(*claim.preset_mean)} "
        "(means with 95% intervals over seeds).",
        f"The difference is {format_score_interval(gain, half)}: {claim.verdict}.",
        f"Trial {winner.number}: {format_values(winner.values)}.",
    ]


def make_trial_table(results: Sequence[TrialResult], names: Sequence[str]) -> str:
    """Every trial with its values, the best first."""
    shown = sorted(
        results, key=lambda one: (one.state != DONE, -one.score if math.isfinite(one.score) else math.inf)
    )
    rows = [
        (
            f"{one.number}{' (preset)' if one.label else ''}",
            one.state,
            format_score_interval(one.score, 1.96 * one.score_error),
            format_duration(one.best_seconds),
            format_duration(one.seconds),
            *(format_option(one.values.get(name, "–")) for name in names),
        )
        for one in shown
    ]
    head = ("trial", "end", "score (95%, games)", "best after", "trained for", *names)
    return make_stacked_table(head, rows) if rows else "<p>None has begun.</p>"


def make_failures(results: Sequence[TrialResult]) -> str:
    """The trials that failed, by name and reason."""
    failed = [one for one in results if one.state == FAILED and one.reason != LOST]
    if not failed:
        return ""
    items = "".join(f"<li>Trial {one.number}: {escape(one.reason)}</li>" for one in failed)
    return make_section("Trials that failed", f"<ul>{items}</ul>")


def describe_plan(plan: SweepPlan) -> dict[str, object]:
    """How the sweep was run."""
    return {
        "preset": plan.base.preset,
        "budget of a trial": describe_trial_budget(plan),
        "budget of the sweep": "–" if plan.budget is None else format_duration(plan.budget),
        "trials": plan.trials,
        "at a time": plan.jobs,
        "sampler": plan.sampler,
        "pruner": plan.pruner,
        "objective": plan.objective,
        "launcher": plan.launcher,
        "seed of the trials": plan.base.seed,
    }


def describe_trial_budget(plan: SweepPlan) -> str:
    """The budget of one trial, in words."""
    base = plan.base
    parts = [format_duration(base.max_time)] if base.max_time is not None else []
    parts += [f"{base.steps:,} steps"] if base.steps is not None else []
    parts += [f"{base.episodes:,} episodes"] if base.episodes is not None else []
    return " or ".join(parts) or "no limit"
