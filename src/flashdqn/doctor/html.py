"""A report as one page that needs nothing from elsewhere: to look at, to keep, to send to somebody."""

from __future__ import annotations

from pathlib import Path

from flashdqn.doctor import html_cards
from flashdqn.doctor.html_charts import phase_bar, time_charts
from flashdqn.doctor.html_style import STYLE
from flashdqn.doctor.report import Report
from flashdqn.doctor.report_words import command
from flashdqn.show import charts
from flashdqn.show.page import make_page, section


def write_page(report: Report, path: Path) -> Path:
    """Write the page to a file."""
    path.write_text(page(report), encoding="utf-8")
    return path


def page(report: Report) -> str:
    """The page itself."""
    body = [
        html_cards.head(report),
        section("Where the time goes", phase_bar(report)),
        html_cards.findings(report),
        section("Over time", time_charts(report)),
        html_cards.hottest(report),
        html_cards.counted("Values taken out of tensors, and tensors moved", report.copies),
        html_cards.counted("Operations of torch", report.operations),
        html_cards.growth(report),
        html_cards.notes(report),
    ]
    style = charts.STYLE + STYLE
    return make_page(f"{command(report)}: flashdqn doctor", body, style, charts.SCRIPT)
