"""Python on a page, in colours: a small reader of tokens that never fails, whatever it is given."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from flashdqn.show.page import escape

_TOKEN = re.compile(
    r"(?P<c>#[^\n]*)"
    r"|(?P<s>[rbfuRBFU]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"))"
    r"|(?P<n>\b\d[\w.]*)"
    r"|(?P<w>[^\W\d]\w*)",
    re.DOTALL,
)


def highlight_as_html(source: str) -> str:
    """HTML for some Python: comments, strings, numbers and keywords."""
    parts, end = [], 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "w":
            kind = "k" if keyword.iskeyword(token[0]) else None
        if kind:
            parts.append(escape(source[end : token.start()]))
            parts.append(f'<span class="{kind}">{escape(token[0])}</span>')
            end = token.end()
    return "".join(parts) + escape(source[end:])


def render_code_block(source: str) -> str:
    """A few lines to copy."""
    return f"<pre><code>{highlight_as_html(source.strip(chr(10)))}</code></pre>"


def render_listing(lines: Iterable[tuple[int, str]], hot: int) -> str:
    """Numbered lines, with one of them marked."""
    rows = "".join(
        f'<span class="row{" hot" if number == hot else ""}"><span class="number">{number}</span>'
        f"{highlight_as_html(text.rstrip())}</span>"
        for number, text in lines
    )
    return f"<pre><code>{rows}</code></pre>"
