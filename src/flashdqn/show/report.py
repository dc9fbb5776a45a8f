"""report.html: a run on one page, with nothing to load from elsewhere."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashdqn.train.run import read_table

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #223; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ padding: .2rem .9rem .2rem 0; text-align: left; }}
td {{ font-variant-numeric: tabular-nums; }} th {{ font-weight: 500; color: #667; }}
</style></head><body>
<h1>{title}</h1>
{sections}
</body></html>
"""


def write_report(run: Path) -> Path:
    """Write report.html into a run folder from the files that lie there."""
    summary = _read(run / "summary.json")
    config = _read(run / "config.json")
    sections = [_section("Summary", _table(_flat(summary)))]
    if (run / "curve.png").exists():
        data = base64.b64encode((run / "curve.png").read_bytes()).decode()
        picture = f'<img alt="learning curve" src="data:image/png;base64,{data}">'
        sections.append(_section("Learning curve", picture))
    evaluations = read_table(run / "evaluations.csv")
    if evaluations:
        sections.append(_section("Evaluations", _rows(evaluations)))
    sections.append(_section("Hardware and versions", _table(_flat(config.get("hardware", {})))))
    sections.append(_section("Configuration", _table(_flat(config.get("config", {})))))
    path = run / "report.html"
    path.write_text(_PAGE.format(title=html.escape(run.name), sections="\n".join(sections)), encoding="utf-8")
    return path


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _section(title: str, body: str) -> str:
    return f"<h2>{title}</h2>\n{body}"


def _table(data: Mapping[str, Any]) -> str:
    rows = (f"<tr><th>{html.escape(k)}</th><td>{html.escape(_text(v))}</td></tr>" for k, v in data.items())
    return f"<table>{''.join(rows)}</table>"


def _rows(rows: list[dict[str, str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_text(_number(v)))}</td>" for v in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _number(text: str) -> float | int | str:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
