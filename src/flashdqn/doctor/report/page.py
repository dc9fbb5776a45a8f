"""A report as one self-contained page: to read, to keep, to send."""

from __future__ import annotations

from pathlib import Path

from flashdqn.core.files import write_output
from flashdqn.doctor.report import page_cards
from flashdqn.doctor.report.contents import Report
from flashdqn.doctor.report.page_charts import draw_phase_bar, draw_time_charts
from flashdqn.doctor.report.trials import render_trials
from flashdqn.doctor.report.words import format_command
from flashdqn.show import charts
from flashdqn.show.page import make_page, make_section

STYLE = """
.brand { color: var(--soft); margin: 0; }
h1, .card h3 { font-family: ui-monospace, Consolas, Menlo, monospace; }
h1 { margin: .1rem 0 .3rem; }
header p { margin: .1rem 0; }
.soft, .about { color: var(--soft); }
.time { white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(9rem, 22%), 1fr)); gap: .6rem;
  margin: 1.2rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: .5rem .8rem; }
.tile span { display: block; color: var(--soft); font-size: .82rem; }
.tile b { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.verdict { background: var(--card); padding: .7rem 1rem; border-left: 4px solid var(--accent); }
.verdict b { display: block; font-size: 1.1rem; }

.card { background: var(--card); border-radius: 8px; padding: .8rem 1rem; margin: .9rem 0;
  overflow-wrap: anywhere; }
.card header { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; }
.card h3 { margin: 0; font-size: 1rem; }
.card p { margin: .35rem 0; }
.card ul { margin: .4rem 0; padding-left: 1.2rem; }
.gain { margin-left: auto; font-weight: 600; color: var(--accent); }
.gain.from-less { color: var(--warm); }
.gain.no-time { color: var(--soft); }
.less { border-left: 3px solid var(--warm); padding-left: .7rem; color: var(--warm); font-weight: 600; }

pre { font: .82rem/1.5 ui-monospace, Consolas, Menlo, monospace; background: var(--card); border-radius: 6px;
  padding: .6rem .8rem; margin: .6rem 0; overflow-x: auto; tab-size: 4; overflow-wrap: normal; }
.card pre { background: var(--ground); }
.trace { border-left: 4px solid var(--warm); }
code { font-family: ui-monospace, Consolas, Menlo, monospace; }
.c { color: var(--soft); font-style: italic; }
.k { color: #8a3fb0; }
.s { color: #2d7a4b; }
.n { color: #b0541f; }
@media (prefers-color-scheme: dark) { .k { color: #c99cf0; } .s { color: #8fcf9f; } .n { color: #f0a878; } }
.row { display: block; min-width: max-content; padding: 0 .3rem; }
.number { display: inline-block; width: 3.2em; text-align: right; margin-right: 1em; color: var(--soft);
  user-select: none; }
.hot { background: color-mix(in srgb, var(--warm) 22%, transparent); border-radius: 3px; }

.line { border-top: 1px solid var(--line); padding: .35rem 0; overflow-wrap: anywhere; }
.line summary { margin-left: 1.1rem; list-style-position: outside; }
.share { display: inline-block; min-width: 2.6em; font-weight: 600; font-variant-numeric: tabular-nums; }
.one { display: block; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; color: var(--soft);
  font-size: .85rem; }
details[open] > summary .one { display: none; }
.spark { letter-spacing: -.5px; color: var(--accent); white-space: nowrap; }
@media (max-width: 40rem) { .about { display: none; } }
"""


def write_doctor_page(report: Report, path: Path) -> Path:
    """Write the page to a file."""
    write_output(path, render_doctor_page(report))
    return path


def render_doctor_page(report: Report) -> str:
    """The page itself."""
    body = [
        page_cards.render_head(report),
        make_section("Where the time goes", draw_phase_bar(report)),
        page_cards.render_findings(report),
        render_trials(report.trials),
        page_cards.render_health(report),
        page_cards.render_workers(report),
        make_section("Over time", draw_time_charts(report)),
        page_cards.render_hot_lines(report),
        page_cards.render_counted_lines("Values taken out of tensors, and tensors moved", report.copies),
        page_cards.render_counted_lines("Operations of torch", report.operations),
        page_cards.render_growth(report),
        page_cards.render_notes(report),
    ]
    style = charts.STYLE + STYLE
    return make_page(f"{format_command(report)}: flashdqn doctor", body, style, charts.SCRIPT)
