"""The player's page in one file: nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources

from flashdqn.show.page import escape, make_page


@functools.cache
def read_web_file(name: str) -> str:
    """The text of a file in this folder."""
    return resources.files("flashdqn.show.web").joinpath(name).read_text(encoding="utf-8")


def player_script() -> str:
    """All JavaScript of a page with a player."""
    return "".join(read_web_file(name) for name in ("draw.js", "source.js", "player.js"))


def make_player_page(run: str) -> str:
    """The player's page for a run."""
    head = (
        f'<header><p class="brand">flashdqn watch</p><h1>{escape(run)}</h1><p class="about-run"></p></header>'
        "<noscript><p>The games are drawn by JavaScript, which is switched off here.</p></noscript>"
    )
    style = read_web_file("player.css") + read_web_file("page_style.css")
    return make_page(
        f"{run}: flashdqn watch",
        [f"<main>{head}", read_web_file("player.html"), "</main>"],
        style,
        player_script(),
    )


@functools.cache
def content_security_policy() -> str:
    """The browser may run this one script and ask this server, and nothing else."""
    script = base64.b64encode(hashlib.sha256(player_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
