"""The server: the page and its two questions, on 127.0.0.1 alone. It serves no files at all.

A page of somebody else's, open in the same browser, must not look at what is served here: a name of its own that
points to this machine (DNS rebinding) is refused by the Host header, and nothing may be read across origins.
"""

from __future__ import annotations

import errno
import json
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.show.web.games import Games
from flashdqn.show.web.page import content_security_policy, make_player_page

HOST = "127.0.0.1"
DEFAULT_PORT = 8321
TRIES = 20
#: Gymnasium and torch take seeds of 32 bits and more; a page's are small.
MOST_SEED = 2**53 - 1


class RefusedError(Exception):
    """A request that cannot be answered, with its status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class PlayerServer(ThreadingHTTPServer):
    """A thread per request; none of them keeps the process from ending."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, games: Games, port: int) -> None:
        self.games = games
        super().__init__((HOST, port), Handler)
        self.page = make_player_page(games.players.folder.path.resolve().name).encode()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """For the address bar."""
        return f"http://{HOST}:{self.port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A page that was closed while it loaded is no error; anything else is said as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError | socket.timeout):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of three addresses."""

    server: PlayerServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer, or say why not."""
        try:
            self._check()
            self._answer(HTTPStatus.OK, *self._content())
        except RefusedError as refused:
            self._say(refused.status, refused.reason)
        except FlashDQNError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except ConnectionError:
            raise
        except Exception as error:  # whatever an environment may raise: the page says it
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

    do_HEAD = do_GET  # noqa: N815

    def version_string(self) -> str:
        """No more than needed."""
        return "flashdqn"

    def log_message(self, format: str, *arguments: object) -> None:
        """Silent: the terminal belongs to the person at it."""

    def _check(self) -> None:
        """Only who asks for this machine by its own name, and from a page of ours."""
        allowed = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        if self.headers.get("Host", "").lower() not in allowed:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"Ask for {self.server.address} by this name.")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "Only this server's own page may ask.")

    def _content(self) -> tuple[str, bytes]:
        address = urlsplit(self.path)
        if address.scheme or address.netloc:
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is nothing here.")
        if address.path == "/":
            return "text/html; charset=utf-8", self.server.page
        if address.path == "/api/run":
            return "application/json", json.dumps(self.server.games.about()).encode()
        if address.path == "/api/game":
            return "application/json", self._moves(address.query).encode()
        raise RefusedError(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _moves(self, query: str) -> str:
        asked = parse_qs(query)
        name = asked.get("player", [""])[0]
        seed = _read_query_number(asked, "seed", MOST_SEED)
        start, count = _read_query_number(asked, "from", 10**6), _read_query_number(asked, "count", 10**6)
        return self.server.games.moves(name, seed, start, count)

    def _say(self, status: HTTPStatus, reason: str) -> None:
        self._answer(status, "application/json", json.dumps({"error": reason}).encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", content_security_policy())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _read_query_number(asked: dict[str, list[str]], name: str, most: int) -> int:
    text = asked.get(name, ["0"])[0]
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= most):
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"'{name}' must be a whole number from 0 to {most}.")
    return int(text)


def open_server(games: Games, port: int | None) -> PlayerServer:
    """Listen on a port; without one on the usual, or on the next that is free."""
    first = DEFAULT_PORT if port is None else port
    for attempt in range(TRIES):
        try:
            return PlayerServer(games, first + attempt)
        except PermissionError:
            raise ConfigError(
                f"Port {first} is not for everybody: choose one above 1023 by --port."
            ) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if port is not None:
                raise ConfigError(
                    f"Port {port} is taken by another program: choose another by --port, or leave it out to get a "
                    "free one."
                ) from None
    raise ConfigError(f"The ports {first} to {first + TRIES - 1} are all taken: choose another by --port.")
