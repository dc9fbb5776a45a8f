"""A report as one page that needs nothing from elsewhere: to look at, to keep, to send to somebody."""

from __future__ import annotations

from pathlib import Path

from flashdqn.doctor import html_cards
from flashdqn.doctor.html_charts import draw_phase_bar, draw_time_charts
from flashdqn.doctor.html_style import STYLE
from flashdqn.doctor.report import Report
from flashdqn.doctor.report_words import format_command
from flashdqn.show import charts
from flashdqn.show.page import make_page, make_section


def write_doctor_page(report: Report, path: Path) -> Path:
    """Write the page to a file."""
    path.write_text(render_doctor_page(report), encoding="utf-8")
    return path


def render_doctor_page(report: Report) -> str:
    """The page itself."""
    body = [
        html_cards.render_head(report),
        make_section("Where the time goes", draw_phase_bar(report)),
        html_cards.render_findings(report),
        make_section("Over time", draw_time_charts(report)),
        html_cards.render_hot_lines(report),
        html_cards.render_counted_lines("Values taken out of tensors, and tensors moved", report.copies),
        html_cards.render_counted_lines("Operations of torch", report.operations),
        html_cards.render_growth(report),
        html_cards.render_notes(report),
    ]
    style = charts.STYLE + STYLE
    return make_page(f"{format_command(report)}: flashdqn doctor", body, style, charts.SCRIPT)
