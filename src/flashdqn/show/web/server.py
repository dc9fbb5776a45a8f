"""The server: the page and its two requests, only on 127.0.0.1. It does not serve files.

Other pages in the same browser must not read what is served here: the Host header must name this machine, which
prevents DNS rebinding, and nothing may be read across origins. Other programs on this machine must not block it: a
request must arrive in time, and connections are counted.
"""

from __future__ import annotations

import errno
import io
import json
import re
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from flashdqn.core.errors import ConfigError, FlashDQNError
from flashdqn.show.web.games import Games
from flashdqn.show.web.page import content_security_policy, make_player_page

HOST = "127.0.0.1"
DEFAULT_PORT = 8321
TRIES = 20
#: The largest seed that JavaScript holds exactly.
MOST_SEED = 2**53 - 1
#: Connections at a time; a browser has six for each page.
MOST_CONNECTIONS = 64
#: Seconds in which a whole request must arrive, and in which a part of the answer must be taken.
PATIENCE = 30.0
#: The longest first line of a request.
MOST_LINE = 2000

#: Headers that decide whether a request is answered: at most one of each, besides Host.
SINGLE = ("origin", "sec-fetch-site", "content-length")

_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_REQUEST = re.compile(r"[A-Z]+ [!-~]+ HTTP/1\.[01]")


class RefusedError(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class PlayerServer(ThreadingHTTPServer):
    """One thread per request; the process can end while they run."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, games: Games, port: int) -> None:
        self.games = games
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((HOST, port), Handler)
        self.page = make_player_page(games.players.folder.path.resolve().name).encode()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The URL of the page."""
        return f"http://{HOST}:{self.port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; a connection too many is closed at once."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Count the connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore pages that were closed while loading; report other errors as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError | socket.timeout):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class TimelyReader(io.RawIOBase):
    """Reads from a connection until a deadline for the whole request, however slowly it drips."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = time.monotonic() + PATIENCE

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(PATIENCE)


class Handler(BaseHTTPRequestHandler):
    """Handles GET and HEAD for three addresses."""

    server: PlayerServer
    raw_requestline: bytes
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # so that even a refusal of the first line has headers
    timeout = PATIENCE

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self._reader = TimelyReader(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Give every request its own time."""
        self._reader.deadline = time.monotonic() + PATIENCE
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Accept only the form that browsers use: HTTP/1.0 or 1.1, and nothing after the headers."""
        line = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        if not _REQUEST.fullmatch(line) or len(line) > MOST_LINE:
            self.close_connection, self.command, self.requestline = True, "", line
            self.request_version = self.default_request_version
            self._say(HTTPStatus.BAD_REQUEST, "This is not a request in HTTP/1.1.")
            return False
        if not super().parse_request():
            self.close_connection = True
            return False
        if refusal := self._explain_odd_headers():
            self.close_connection = True
            self._say(HTTPStatus.BAD_REQUEST, refusal)
            return False
        return True

    def _explain_odd_headers(self) -> str | None:
        """Why headers are refused that no browser sends; others might read them in another way than we do."""
        names = [name.lower() for name in self.headers]
        if self.headers.defects or not all(_NAME.fullmatch(name) for name in names):
            return "A header is not written as in HTTP/1.1."
        if any(names.count(name) > 1 for name in SINGLE):
            return "A header is given twice."
        if self.headers.get("Content-Length", "0") != "0" or "transfer-encoding" in names:
            return "A request has nothing after its headers."
        return None

    def handle_expect_100(self) -> bool:
        """Nothing is awaited after the headers."""
        self.send_error(HTTPStatus.EXPECTATION_FAILED)
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the library refuses, such as other methods, as we refuse other things."""
        self.close_connection = True
        self._say(HTTPStatus(code), HTTPStatus(code).phrase)

    def do_GET(self) -> None:
        """Answer the request, or send the reason why not."""
        try:
            self._check()
            self._answer(HTTPStatus.OK, *self._content())
        except RefusedError as refused:
            self._say(refused.status, refused.reason)
        except FlashDQNError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except ConnectionError:
            raise
        except Exception as error:  # an environment may raise anything: the page shows it
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

    do_HEAD = do_GET  # noqa: N815

    def version_string(self) -> str:
        """Name the server without versions."""
        return "flashdqn"

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: requests are of no interest in the terminal."""

    def _check(self) -> None:
        """Refuse requests with another host name, or from another site's page."""
        allowed = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in allowed:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"Ask for {self.server.address} by this name.")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "Only this server's own page may ask.")
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower().removeprefix("http://") not in allowed:
            raise RefusedError(HTTPStatus.FORBIDDEN, "Only this server's own page may ask.")

    def _content(self) -> tuple[str, bytes]:
        try:
            address = urlsplit(self.path)
        except ValueError:  # half of an IPv6 address
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is nothing here.") from None
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
        try:
            asked = parse_qs(query, max_num_fields=20)
        except ValueError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "There are too many parameters.") from None
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
        self.send_header("Connection", "close" if self.close_connection else "keep-alive")
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
    """Listen on `port`; if it is None, on the default port or the next free one."""
    first = DEFAULT_PORT if port is None else port
    for attempt in range(TRIES):
        try:
            return PlayerServer(games, first + attempt)
        except PermissionError:
            raise ConfigError(
                f"Port {first} needs special rights: choose one above 1023 with --port."
            ) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if port is not None:
                raise ConfigError(
                    f"Port {port} is taken by another program: choose another with --port, or leave it out to get "
                    "a free one."
                ) from None
    raise ConfigError(f"The ports {first} to {first + TRIES - 1} are all taken: choose another with --port.")
