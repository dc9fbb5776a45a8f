"""The player's server: what it serves, what it refuses, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import start
from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.core.errors import ConfigError
from flashdqn.envs.stage import open_stage
from flashdqn.show.play import play_turns
from flashdqn.show.players import UNTRAINED, Players
from flashdqn.show.web import games as games_module
from flashdqn.show.web.games import Games
from flashdqn.show.web.server import MOST_SEED, PlayerServer, open_server


@contextlib.contextmanager
def serving(run: Path) -> Iterator[PlayerServer]:
    server = open_server(Games(Players(run, "cpu"), seed=5), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        server.games.close()


@pytest.fixture(scope="module")
def server(finished_run: Run) -> Iterator[PlayerServer]:
    with serving(finished_run.path) as running:
        yield running


def ask(
    server: PlayerServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def data(server: PlayerServer, path: str) -> Any:
    status, _, body = ask(server, path)
    assert status == 200, body
    return json.loads(body)


def test_the_page_needs_nothing_from_elsewhere(server: PlayerServer) -> None:
    status, headers, body = ask(server, "/")
    page = body.decode()
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"(src|href)=|@import|url\(|https?://", page)
    assert "sha256-" in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert "python" not in headers["server"].lower()


def test_a_page_learns_all_about_the_run(server: PlayerServer, finished_run: Run) -> None:
    about = data(server, "/api/run")
    assert about["run"] == finished_run.path.name
    assert about["actions"] == ["straight", "right", "left"]
    assert about["players"][0]["name"] == UNTRAINED
    assert about["first"] in [player["name"] for player in about["players"]]
    assert about["seed"] == 5


def test_moves_are_those_of_the_game(server: PlayerServer, finished_run: Run) -> None:
    players = Players(finished_run.path, "cpu")
    turns = list(play_turns(players.agent(players.first), open_stage(players.config.env), 11))
    found: list[Any] = []
    while True:
        part = data(server, f"/api/game?player={players.first}&seed=11&from={len(found)}&count=7")
        assert part["from"] == len(found)
        assert 0 < len(part["turns"]) <= 7
        found += part["turns"]
        if part["over"]:
            break
    assert found == json.loads(json.dumps([turn.to_json() for turn in turns]))
    beyond = data(server, f"/api/game?player={players.first}&seed=11&from={len(found)}&count=7")
    assert beyond == {"from": len(found), "over": True, "turns": []}


def test_checkpoints_and_seeds_make_different_games(server: PlayerServer) -> None:
    names = [player["name"] for player in data(server, "/api/run")["players"]]
    games = {
        (name, seed): json.dumps(data(server, f"/api/game?player={name}&seed={seed}&count=20")["turns"])
        for name in (names[0], names[-1])
        for seed in (1, 2)
    }
    assert len(set(games.values())) == 4


def test_many_pages_do_not_disturb_each_other(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads another game in small pieces, at once, with fewer games kept than there are pages."""
    monkeypatch.setattr(games_module, "KEPT", 2)
    with serving(finished_run.path) as server:
        names = [player["name"] for player in data(server, "/api/run")["players"]]
        wanted = [(names[k % len(names)], k // len(names)) for k in range(8)]

        def read(name: str, seed: int, count: int) -> list[Any]:
            found: list[Any] = []
            while len(found) < 40:
                part = data(server, f"/api/game?player={name}&seed={seed}&from={len(found)}&count={count}")
                found += part["turns"]
                if part["over"]:
                    break
            return found[:40]

        alone = [read(name, seed, 40) for name, seed in wanted]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda one: read(*one, 5), wanted))
        assert together == alone
        assert len(server.games._games) <= 2


@pytest.mark.parametrize(
    "path",
    [
        "/..", "/../config.json", "/api/../../config.json", "/%2e%2e/config.json", "/..%2fconfig.json",
        "/config.json",
        "/checkpoints/best.json", "//etc/passwd", "/etc/passwd", "/api/run/..", "/api//run", "/./", "/api/run%00",
        "/%2fetc%2fpasswd", "\\..\\config.json", "/player.js", "/favicon.ico", "/API/RUN", "/index.html", "/link",
        "http://127.0.0.1/etc/passwd", "file:///etc/passwd", "/api", "/api/", "*",
    ],
)  # fmt: skip
def test_nothing_else_is_served(server: PlayerServer, finished_run: Run, path: str) -> None:
    link = finished_run.path / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    try:
        status, _, body = ask(server, path)
    finally:
        link.unlink()
    assert status in (400, 404, 421)
    assert b"root:" not in body
    assert b"train_ratio" not in body


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("player=../../etc&seed=1", "no checkpoint"),
        ("player=%2fetc%2fpasswd&seed=1", "no checkpoint"),
        ("seed=1", "no checkpoint"),
        ("player=untrained&seed=-1", "'seed' must be a whole number"),
        ("player=untrained&seed=1e3", "'seed' must be a whole number"),
        (f"player=untrained&seed={MOST_SEED + 1}", "'seed' must be a whole number"),
        ("player=untrained&seed=%D9%A1", "'seed' must be a whole number"),
        ("player=untrained&seed=1&from=x", "'from' must be a whole number"),
        ("player=untrained&seed=1&count=99999999", "'count' must be a whole number"),
    ],
)
def test_a_wrong_question_has_one_sentence_for_an_answer(
    server: PlayerServer, query: str, words: str
) -> None:
    status, _, body = ask(server, f"/api/game?{query}")
    assert status == 400
    assert words in json.loads(body)["error"]


def test_a_game_that_breaks_is_said_and_can_be_asked_for_again(
    finished_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(finished_run.path) as server:

        def broken(self: Any, action: Any) -> Any:
            raise RuntimeError("the board fell down")

        with monkeypatch.context() as patch:
            patch.setattr("flashdqn.envs.snake.env.Snake.step", broken)
            for _ in range(2):
                status, _, body = ask(server, "/api/game?player=untrained&seed=1&count=9")
                assert (status, json.loads(body)) == (500, {"error": "RuntimeError: the board fell down"})
        assert len(data(server, "/api/game?player=untrained&seed=1&count=9")["turns"]) > 1


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "", "localhost"])
def test_other_names_for_this_machine_are_refused(server: PlayerServer, host: str) -> None:
    for path in ("/", "/api/run", "/api/game?player=untrained&seed=1"):
        status, _, body = ask(server, path, headers={"Host": host})
        assert status == 421
        assert b"straight" not in body


def test_its_own_names_are_not(server: PlayerServer) -> None:
    for host in (f"127.0.0.1:{server.port}", f"LocalHost:{server.port}"):
        assert ask(server, "/api/run", headers={"Host": host})[0] == 200


def test_pages_from_elsewhere_may_not_ask(server: PlayerServer) -> None:
    own = {"Host": f"127.0.0.1:{server.port}"}
    assert ask(server, "/api/run", headers=own | {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask(server, "/api/run", headers=own | {"Sec-Fetch-Site": "same-site"})[0] == 403
    status, headers, _ = ask(server, "/api/run", headers=own | {"Sec-Fetch-Site": "same-origin"})
    assert status == 200
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_only_reading_is_possible(server: PlayerServer) -> None:
    assert ask(server, "/", "HEAD")[2] == b""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert ask(server, "/api/run", method)[0] == 501


def exchange(server: PlayerServer, data: bytes, wait: float = 10.0) -> bytes:
    """Send bytes as they are, and read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        connection.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
        return answer


@pytest.mark.parametrize(
    "line",
    [
        "GET / HTTP/9.9", "GET / HTTP/2.0", "GET / HTTP/1.9", "GET / HTTP/1.10", "GET / HTTP/01.1",
        "GET / HTTP/0.9",
        "GET / HTTP/1.1 HTTP/1.1", "GET /", "GET", "get / HTTP/1.1", "GET  / HTTP/1.1", "GET / http/1.1",
        "GET / HTTP/1", "GET / HTTP/1.1.1", "GET / HTTP/x.y", "GET / FTP/1.1", " GET / HTTP/1.1", "\x00 / HTTP/1.1",
        "GET /\xff HTTP/1.1", f"GET /{'a' * 3000} HTTP/1.1", f"GET /{'a' * 70_000} HTTP/1.1",
    ],
    ids=lambda line: ascii(line[:20]),
)  # fmt: skip
def test_only_http_1_is_spoken(server: PlayerServer, line: str) -> None:
    host = f"Host: 127.0.0.1:{server.port}\r\n\r\n"
    answer = exchange(server, f"{line}\r\n{host}".encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"flashdqn watch" not in answer
    assert b"default-src 'none'" in answer
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: 127.0.0.1:PORT\r\nHost: evil.example", b"421"),
        ("Host: 127.0.0.1:PORT\r\nOrigin: http://evil.example", b"403"),
        ("Host: 127.0.0.1:PORT\r\nOrigin: null", b"403"),
        ("Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\nConnection: close", b"200"),
        ("Host: 127.0.0.1:PORT\r\nContent-Length: 5", b"400"),
        ("Host: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked", b"400"),
        ("Host: 127.0.0.1:PORT\r\n" + "\r\n".join(f"X{k}: y" for k in range(200)), b"431"),
        (f"Host: 127.0.0.1:PORT\r\nX: {'y' * 70_000}", b"431"),
        ("Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\nOrigin: http://evil.example", b"400"),
        ("Host: 127.0.0.1:PORT\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", b"400"),
        ("Host: 127.0.0.1:PORT\r\nContent-Length: 0\r\nContent-Length: 9", b"400"),
        ("Host: 127.0.0.1:PORT\r\nTransfer-Encoding : chunked", b"400"),
        ("Host: 127.0.0.1:PORT\r\nX\0: y", b"400"),
        ("Host: 127.0.0.1:PORT\r\nExpect: 100-continue", b"417"),
    ],
    ids=[
        "two hosts",
        "origin",
        "no origin",
        "own origin",
        "body",
        "chunks",
        "many headers",
        "long header",
        "two origins",
        "two sites",
        "two lengths",
        "a space",
        "a zero",
        "expect",
    ],
)
def test_odd_headers(server: PlayerServer, headers: str, status: bytes) -> None:
    text = f"GET /api/run HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n".replace(
        "PORT", str(server.port)
    )
    answer = exchange(server, text.encode())
    assert answer.split(b" ")[1] == status
    assert (b'"players"' in answer) == (status == b"200")


def test_half_an_address_is_not_found(server: PlayerServer) -> None:
    text = f"GET http://[/ HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
    assert exchange(server, text.encode()).split(b" ")[1] == b"404"


def test_many_parameters(server: PlayerServer) -> None:
    status, _, body = ask(server, "/api/game?" + "&".join(f"a{k}=1" for k in range(100)))
    assert (status, json.loads(body)) == (400, {"error": "There are too many parameters."})


def test_a_request_that_drips_is_dropped(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the request never ends."""
    monkeypatch.setattr("flashdqn.show.web.server.PATIENCE", 0.3)
    ended = threading.Event()
    with (
        serving(finished_run.path) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
    ):

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not ended.wait(0.02):
                    connection.sendall(b"X")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(100) == b""
        finally:
            ended.set()
            thread.join()


def test_too_many_connections_are_closed_and_others_go_on(
    finished_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashdqn.show.web.server.MOST_CONNECTIONS", 3)
    with serving(finished_run.path) as server, contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            for _ in range(8)
        ]
        with contextlib.suppress(ConnectionError):
            assert opened[-1].recv(100) == b""
        opened[0].sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert opened[0].recv(15) == b"HTTP/1.1 200 OK"


def test_it_listens_on_this_machine_alone(server: PlayerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_a_taken_port_is_one_sentence(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    games = Games(Players(finished_run.path, "cpu"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} is taken"):
            open_server(games, port)
        monkeypatch.setattr("flashdqn.show.web.server.DEFAULT_PORT", port)
        with open_server(games, None) as next_one:
            assert port < next_one.port < port + 20


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_at_once_and_frees_the_port(finished_run: Run, name: signal.Signals) -> None:
    process = start("watch", str(finished_run.path), "--web", "--port", "0")
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found is not None
        port = int(found[1])
        # a page that keeps its connection open must not hold the server up
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            process.send_signal(name)
            out, errors = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert "Stopped." in out
    assert errors == ""
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_taken_port_on_the_command_line(finished_run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ConfigError, match="is taken by another program"):
            cli.dispatch_command(["watch", str(finished_run.path), "--web", "--port", port])
