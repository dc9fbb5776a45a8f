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
table { border-collapse: collapse; display: block; max-width: 100%; overflow-x: auto; background:
  linear-gradient(90deg, transparent, var(--ground) 60%) right / 2.5rem 100% no-repeat local,
  linear-gradient(90deg, transparent, var(--line)) right / .9rem 100% no-repeat scroll; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; }
td { font-variant-numeric: tabular-nums; } th { font-weight: 500; color: var(--soft); }
tr > :first-child { position: sticky; left: 0; background: var(--ground); }
td:first-child { white-space: nowrap; }
.pairs td, .pairs th { white-space: normal; overflow-wrap: anywhere; } .pairs th { min-width: 8rem; }
.stacked td:first-child { white-space: normal; min-width: 12rem; }
@media screen and (max-width: 46rem) {
  .stacked, .stacked tbody, .stacked tr { display: block; } .stacked .head { display: none; }
  .stacked tr { border-top: 1px solid var(--line); padding: .5rem 0; }
  .stacked td { display: grid; grid-template-columns: minmax(7rem, 2fr) minmax(0, 3fr); gap: .6rem;
    padding: .1rem 0; white-space: normal; overflow-wrap: anywhere; }
  .stacked.long-names td { grid-template-columns: 3fr minmax(0, 1fr); }
  .stacked td::before { content: attr(data-name); color: var(--soft); }
  .stacked td:first-child { display: block; font-weight: 600; }
  .stacked td:first-child::before { content: none; }
}
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
    return f'<table class="pairs">{"".join(rows)}</table>'


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts under a head; where it is too wide it scrolls, and its first column stays."""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{body}</table>"


def make_stacked_table(head: Sequence[str], rows: Iterable[Sequence[str]], long_names: bool = False) -> str:
    """A table that becomes a list on a narrow screen: the first cell of a row, and under it names and values;
    with `long_names` the names have more room than the values."""
    body = ""
    for row in rows:
        cells = zip(head, row, strict=True)
        body += "<tr>" + "".join(f'<td data-name="{escape(n)}">{escape(cell)}</td>' for n, cell in cells)
        body += "</tr>"
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    kind = "stacked long-names" if long_names else "stacked"
    return f'<table class="{kind}"><tr class="head">{names}</tr>{body}</table>'


def format_value(value: Any) -> str:
    """Any value as text for people."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
