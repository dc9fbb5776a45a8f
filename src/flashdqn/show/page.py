"""An HTML page that loads nothing from elsewhere: light and dark, for screens and phones."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --card: #f5f7f9; --ink: #223; --soft: #5d6778; --line: #d9dee5;
  --accent: #1f6f8b; --warm: #c8553d; }
@media (prefers-color-scheme: dark) { :root { --ground: #12181f; --card: #1b232c; --ink: #dfe5ec; --soft: #98a4b3;
  --line: #323d4a; --accent: #6fb7c9; --warm: #e5806a; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--ground); }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; }
td { font-variant-numeric: tabular-nums; } th { font-weight: 500; color: var(--soft); }
"""


def escape(text: str) -> str:
    """Escape text for tags and attributes; characters that a file cannot hold become question marks."""
    shown = "".join(c if c >= " " or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return html.escape(shown.encode("utf-8", "replace").decode("utf-8"))


def make_page(title: str, body: Iterable[str], style: str = "", script: str = "") -> str:
    """The whole file. The body is HTML; `script` is always our own code, never text from a run."""
    code = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + f"\n{code}</body></html>\n"
    )


def make_section(title: str, body: str) -> str:
    """A heading and the text under it."""
    return f"<h2>{escape(title)}</h2>\n{body}"


def make_name_value_table(data: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = (f"<tr><th>{escape(k)}</th><td>{escape(format_value(v))}</td></tr>" for k, v in data.items())
    return f"<table>{''.join(rows)}</table>"


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts under a head."""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{body}</table>"


def format_value(value: Any) -> str:
    """Any value as text for people."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
