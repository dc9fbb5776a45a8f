"""plan.html and score.html: a plan on one page that loads nothing from elsewhere."""

from __future__ import annotations

from flashdqn.planning.estimates import (
    estimate_difference,
    estimate_loss,
    estimate_mean,
    format_interval,
    format_signed,
    share_saved,
)
from flashdqn.planning.plan import Losses
from flashdqn.planning.report import POLICY_WAYS, PlanReport, name_policy
from flashdqn.planning.write.curve import draw_budget_curve, sort_policies
from flashdqn.planning.write.page_maps import draw_page_maps
from flashdqn.planning.write.page_places import make_gap_section, make_valuable_section
from flashdqn.planning.write.words import describe_headline, describe_standing, list_limits
from flashdqn.show import charts
from flashdqn.show.numbers import format_duration, format_rate
from flashdqn.show.page import (
    escape,
    make_name_value_table,
    make_page,
    make_section,
    make_stacked_table,
)

STYLE = """
body { max-width: 66rem; } h1 { margin: .1rem 0 .2rem; }
h2 { margin-top: 2.4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.brand, .soft { color: var(--soft); margin: .1rem 0; } .headline { font-size: 1.15rem; margin: .8rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: .5rem .8rem; overflow-wrap: anywhere; }
.tile span { display: block; color: var(--soft); font-size: .82rem; }
.tile b { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.note { border-left: 3px solid var(--warm); padding-left: .6rem; margin: .4rem 0; }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.wide { max-width: 34rem; } .band { fill-opacity: .16; }
.map { border: 1px solid var(--line); overflow: hidden; } .map image { image-rendering: pixelated; }
.map .bar { stroke: #fff; stroke-width: 3; } .map .halo { stroke: #222; stroke-width: 6; }
.map .arrow { fill: #fff; stroke: #222; } svg .onmap { fill: #fff; stroke: #222; stroke-width: 3;
  paint-order: stroke; font-weight: 600; }
.pin { fill: #fff; stroke: #222; stroke-width: 1.5; } .pin.gap { fill: #ffe7a3; }
svg .pinned { fill: #222; font-weight: 700; font-size: 10px; }
.scale { display: flex; gap: .6rem; align-items: center; margin: .4rem 0; font-size: .82rem; color: var(--soft); }
.scale i { flex: 1; height: .7rem; border-radius: 3px; }
.ways { color: var(--soft); font-size: .85rem; } code { overflow-wrap: anywhere; white-space: pre-wrap; }
@media print {
  :root { --ground: #fff; --card: #f5f7f9; --ink: #223; --soft: #5d6778; --line: #d9dee5; }
  @page { size: A4; margin: 14mm; }
  body { max-width: none; margin: 0; padding: 0; font-size: 10pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, tr, .tile, .note { break-inside: avoid; } h2 { break-after: avoid; }
  .charts { grid-template-columns: repeat(3, 1fr); gap: .6rem; } details.values { display: none; }
  table { overflow: visible; background: none; font-size: 8.5pt; } td, th { padding-right: .6rem; }
  .stacked td:first-child { min-width: 0; white-space: nowrap; }
}
"""


def make_plan_page(report: PlanReport) -> str:
    """The page as HTML; every text in it is escaped."""
    kind = "score" if report.is_given else "plan"
    valuable, gaps = make_valuable_section(report), make_gap_section(report)
    body = [
        make_plan_header(report, kind),
        draw_page_maps(report),
        make_section("Beside other ways to place breaks", make_policy_section(report)),
        _make_curve_section(report),
        make_section("The most valuable breaks", valuable) if valuable else "",
        make_section("Where a gap costs most", gaps) if gaps else "",
        make_section("Weather of the fires", make_scenario_section(report)),
        make_section("What the figures assume", make_list(list_limits(report))),
        make_section("How this page was made", make_origin_section(report)),
    ]
    title = f"{report.problem.landscape.name}: fuel-break {kind}"
    return make_page(title, body, charts.STYLE + STYLE, charts.SCRIPT)


def make_plan_header(report: PlanReport, kind: str) -> str:
    """The landscape's name, the plan in two sentences, its notes and key figures."""
    landscape = report.problem.landscape
    rows, columns = landscape.shape
    about = (
        f"{rows:,} x {columns:,} cells of {landscape.cell_size:g} m; {landscape.burnable.mean():.0%} can burn"
    )
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(unit)}</span></div>'
        for name, value, unit in list_plan_figures(report)
    )
    return (
        f'<header><p class="brand">flashdqn fuelbreaks {kind}</p><h1>{escape(landscape.name)}</h1>'
        f'<p class="soft">{escape(about)}</p><p class="headline">{escape(describe_headline(report))}</p>'
        f'{notes}</header><div class="tiles">{tiles}</div>'
    )


def list_plan_figures(report: PlanReport) -> list[tuple[str, str, str]]:
    """The plan in a few numbers: name, value, and unit."""
    before, after = estimate_loss(report.judgement.before), estimate_loss(report.after)
    spent = "cells" if report.problem.cost is None else "units of cost"
    found = [
        ("without breaks", format_rate(before.mean), f"{report.loss_name}, ± {format_rate(before.half)}"),
        ("with the breaks", format_rate(after.mean), f"{report.loss_name}, ± {format_rate(after.half)}"),
        (
            "saved",
            f"{share_saved(report.judgement, report.chosen):.0%}",
            f"{format_signed(estimate_difference(report.judgement.before, report.after))} {report.unit} a fire",
        ),
        ("budget", report.budget.text, report.budget.meaning),
        ("spent", f"{report.cost:,.6g}", f"{spent}, {format_rate(report.hectares)} ha"),
        ("breaks", f"{len(report.groups):,}", "separate pieces of ground"),
    ]
    if report.judgement.before.value is not None:
        areas = (estimate_mean(one.area).mean for one in (report.judgement.before, report.after))
        found.insert(3, ("area burned", " → ".join(map(format_rate, areas)), "ha a fire, before and after"))
    return found


def make_policy_section(report: PlanReport) -> str:
    """All policies at the full budget, on the same fires."""
    has_value = report.judgement.before.value is not None
    head = ["policy", "cells", f"{report.loss_name} (95 %)", *(["ha burned"] if has_value else [])]
    head += ["saved", f"more than with {name_policy(report.chosen)}", "planned in"]
    rows = [_make_policy_row(report, name, has_value) for name in sort_policies(report)]
    rows.append(_make_row(report, "no breaks", 0, report.judgement.before, 0.0, "–", has_value))
    note = (
        f"At the full budget, on the same {report.judgement.fires:,} fires, which no policy knew. Differences are "
        "paired by fire."
    )
    said = "".join(f"<p>{escape(words)}</p>" for words in describe_standing(report))
    table = make_stacked_table(head, rows, long_names=True)
    ways = make_list(list_ways(report))
    return f'{said}<p class="soft">{escape(note)}</p>{table}<div class="ways">{ways}</div>'


def list_ways(report: PlanReport) -> list[str]:
    """What each policy does, and what it had to leave out here."""
    lines = []
    for name in sort_policies(report):
        words = [POLICY_WAYS.get(name, ""), report.plans[name].note]
        if any(words):
            lines.append(f"{name_policy(name)}: {'; '.join(filter(None, words))}.")
    return lines


def _make_policy_row(report: PlanReport, name: str, has_value: bool) -> list[str]:
    judgement, seconds = report.judgement, report.plans[name].seconds
    took = "–" if seconds <= 0 else "< 0.01 s" if seconds < 0.01 else format_duration(seconds)
    share = share_saved(judgement, name)
    words = name_policy(name)
    return _make_row(
        report, words, judgement.placed[name][-1], judgement.after[name][-1], share, took, has_value
    )


def _make_row(
    report: PlanReport, name: str, cells: int, losses: Losses, saved: float, took: str, has_value: bool
) -> list[str]:
    more = "–" if losses is report.after else format_signed(estimate_difference(losses, report.after))
    area = [format_rate(float(losses.area.mean()))] if has_value else []
    return [name, f"{cells:,}", format_interval(estimate_loss(losses)), *area, f"{saved:.0%}", more, took]


def _make_curve_section(report: PlanReport) -> str:
    if len(report.judgement.budgets) < 2:
        return ""
    note = (
        "The first breaks of a plan are its plan for a smaller budget. The band is the 95 % interval of "
        f"{name_policy(report.chosen)}. Point at the chart to read its values."
    )
    curve = f'<p class="soft">{escape(note)}</p><div class="wide">{draw_budget_curve(report)}</div>'
    return make_section("What more budget buys", curve)


def make_scenario_section(report: PlanReport) -> str:
    """The weather of the fires, and its shares."""
    head = ("weather", "share", "wind", "from", "dead fuel 1 h, 10 h, 100 h", "herbs, shrubs", "canopy")
    rows = []
    for scenario in report.problem.scenarios:
        weather = scenario.weather
        dead = ", ".join(f"{part:.0%}" for part in (weather.dead_1h, weather.dead_10h, weather.dead_100h))
        live = f"{weather.live_herbaceous:.0%}, {weather.live_woody:.0%}"
        wind = (f"{weather.wind_speed:g} km/h", f"{weather.wind_from:g}°")
        rows.append((scenario.name, f"{scenario.weight:.0%}", *wind, dead, live, f"{weather.foliar:.0%}"))
    return make_stacked_table(head, rows)


def make_origin_section(report: PlanReport) -> str:
    """The command, the seed and the versions."""
    facts = {
        "seed": report.seed,
        "fires that judge": report.judgement.fires,
        "minutes of a fire": report.problem.duration,
    }
    return f"<p><code>{escape(report.command)}</code></p>" + make_name_value_table(facts | report.versions)


def make_list(lines: list[str]) -> str:
    """Sentences as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
