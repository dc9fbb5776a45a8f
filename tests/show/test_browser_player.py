"""The web player in a real browser: every control changes what is drawn, and nothing leaves this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import flashdqn
from flashdqn import Run
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.show.players import Players
from flashdqn.show.web.games import Games
from flashdqn.show.web.server import PlayerServer, open_server


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], PlayerServer]]:
    """Start servers that end with the module."""
    running: list[tuple[PlayerServer, threading.Thread]] = []

    def start(run: Path) -> PlayerServer:
        server = open_server(Games(Players(run, "cpu"), seed=5), 0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()
        server.games.close()


@pytest.fixture(scope="module")
def address(serve: Callable[[Path], PlayerServer], finished_run: Run) -> str:
    return serve(finished_run.path).address


class Watched:
    """A page with a player, and all that it says and asks for."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.until("data.step !== undefined")

    def until(self, condition: str) -> None:
        """Wait until something holds; `data` is what the player says of itself."""
        self.page.wait_for_function(
            f"() => {{ const data = document.querySelector('.player').dataset; return {condition}; }}"
        )

    def data(self, name: str) -> str:
        return str(self.page.eval_on_selector(".player", f"player => player.dataset.{name}"))

    def picture(self) -> str:
        return str(self.page.eval_on_selector(".board", "board => board.toDataURL()"))

    def press(self, name: str) -> None:
        self.page.click(f"[data-do='{name}']")

    def slide(self, name: str, value: int) -> None:
        """Move a slider as a hand does."""
        self.page.eval_on_selector(
            name,
            """(slider, value) => { slider.value = value;
            for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind, { bubbles: true })); }""",
            value,
        )


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    found = Watched(browser, address)
    yield found
    found.context.close()
    own = urlsplit(address).netloc
    assert found.complaints == []
    assert {urlsplit(url).netloc for url in found.requests if not url.startswith("data:")} == {own}


def test_steps_change_what_is_drawn(watched: Watched) -> None:
    pictures = [watched.picture()]
    for step in (1, 2, 3):
        watched.press("forward")
        watched.until(f"data.step === '{step}'")
        pictures.append(watched.picture())
    assert len(set(pictures)) == 4
    watched.press("back")
    watched.until("data.step === '2'")
    assert watched.picture() == pictures[2]
    watched.press("restart")
    watched.until("data.step === '0'")
    assert watched.picture() == pictures[0]
    watched.slide(".place", 3)
    watched.until("data.step === '3'")
    assert watched.picture() == pictures[3]


def test_play_and_pause(watched: Watched) -> None:
    button = watched.page.locator("[data-do='play']")
    assert button.get_attribute("aria-label") == "Play"
    watched.press("play")
    watched.until("data.playing === 'true' && Number(data.step) > 2")
    assert button.get_attribute("aria-label") == "Pause"
    watched.press("play")
    watched.until("data.playing === 'false'")
    step = watched.data("step")
    # two more frames of the screen, and nothing has moved
    watched.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert watched.data("step") == step


def test_a_game_ends_and_begins_again(watched: Watched) -> None:
    watched.slide(".speed", 100)
    assert watched.data("speed") == "200"
    watched.press("play")
    watched.until("document.querySelector('.state').textContent.startsWith('The game is over: ')")
    watched.until("data.playing === 'false'")
    last = int(watched.data("step"))
    assert last > 0
    assert watched.page.locator(".q-values li").count() == 0
    watched.slide(".speed", 0)  # so that the next game is not over before anybody looks
    watched.press("play")
    watched.until(f"data.playing === 'true' && Number(data.step) < {last}")


def test_speed_is_said(watched: Watched) -> None:
    texts = []
    for value in (0, 50, 100):
        watched.slide(".speed", value)
        texts.append(watched.page.text_content(".speed-text"))
    assert texts == ["1.0 steps a second", "14 steps a second", "200 steps a second"]


def test_seeds_make_other_games(watched: Watched) -> None:
    watched.slide(".place", 2)
    first = watched.picture()
    assert watched.data("seed") == "5"
    watched.press("new-seed")
    watched.until("data.seed === '6'")
    assert watched.page.input_value(".seed") == "6"
    watched.slide(".place", 2)
    watched.until("data.step === '2'")
    assert watched.picture() != first
    watched.page.fill(".seed", "5")
    watched.page.press(".seed", "Enter")
    watched.until("data.seed === '5' && data.step === '0'")
    watched.slide(".place", 2)
    watched.until("data.step === '2'")
    assert watched.picture() == first
    watched.page.fill(".seed", "-3")
    watched.page.press(".seed", "Enter")
    watched.page.wait_for_selector(".state.wrong")
    assert "whole number" in str(watched.page.text_content(".state"))


def test_the_slider_goes_through_the_checkpoints(watched: Watched, finished_run: Run) -> None:
    players = Players(finished_run.path, "cpu").lineup()
    values = set()
    for k in (0, 1, len(players) - 1):
        watched.slide(".checkpoint", k)
        watched.until(f"data.player === '{players[k].name}' && data.step === '0'")
        text = str(watched.page.text_content(".checkpoint-text"))
        assert ("untrained" in text) == (k == 0)
        assert k == 0 or f"{players[k].step:,} steps" in text
        values.add(watched.page.text_content(".q-values"))
    assert len(values) == 3  # each thinks otherwise of the same position


def test_the_keyboard_does_it_all(watched: Watched) -> None:
    keys = watched.page.keyboard
    watched.page.focus(".board")
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    watched.until("data.step === '2'")
    keys.press("ArrowLeft")
    watched.until("data.step === '1'")
    before = float(watched.data("speed"))
    keys.press("ArrowUp")
    assert float(watched.data("speed")) > before
    keys.press("ArrowDown")
    assert float(watched.data("speed")) == before
    keys.press("Space")
    watched.until("data.playing === 'true'")
    keys.press("Space")
    watched.until("data.playing === 'false'")
    keys.press("Home")
    watched.until("data.step === '0'")
    keys.press("n")
    watched.until("data.seed === '6'")


def test_keys_in_a_field_belong_to_the_field(watched: Watched) -> None:
    watched.page.focus(".seed")
    watched.page.keyboard.press("ArrowUp")
    assert watched.page.input_value(".seed") == "6"
    assert watched.data("step") == "0"
    watched.page.focus(".speed")
    before = float(watched.data("speed"))
    for _ in range(5):
        watched.page.keyboard.press("ArrowRight")
    watched.until(f"Number(data.speed) > {before}")
    assert watched.data("step") == "0"


def test_every_control_has_a_name_and_can_be_reached(watched: Watched) -> None:
    unnamed = watched.page.evaluate(
        """() => [...document.querySelectorAll('button, input, canvas')].filter(one =>
        !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).map(one => one.id)"""
    )
    assert unnamed == []
    reached = set()
    for _ in range(12):
        watched.page.keyboard.press("Tab")
        reached.add(
            watched.page.evaluate(
                "() => document.activeElement.className || document.activeElement.dataset.do"
            )
        )
    assert {
        "board",
        "restart",
        "back",
        "primary",
        "forward",
        "place",
        "checkpoint",
        "speed",
        "seed",
        "new-seed",
    } <= reached
    assert watched.page.get_attribute(".state", "role") == "status"
    assert "step 0" in str(watched.page.get_attribute(".board", "aria-label"))


def test_values_stand_beside_the_board(watched: Watched) -> None:
    items = watched.page.locator(".q-values li")
    assert [items.nth(k).locator(".name").text_content() for k in range(3)] == ["straight", "right", "left"]
    values = [float(str(items.nth(k).locator(".value").text_content())) for k in range(3)]
    chosen = watched.page.locator(".q-values li[aria-current='true'] .name").text_content()
    assert ["straight", "right", "left"][values.index(max(values))] == chosen


def test_bars_begin_at_zero(watched: Watched) -> None:
    """Negative values to the left of one line, positive ones to its right; the axis never shrinks."""
    watched.page.evaluate(
        """() => { Player.prototype.growAxis = (grow => function (turns) { window.player = this;
        grow.call(this, turns); })(Player.prototype.growAxis); }"""
    )
    watched.press("new-seed")
    watched.until("data.seed === '6'")
    drawn = watched.page.evaluate(
        """() => { const player = window.player; Object.assign(player, { low: 0, high: 0 });
        const turn = { ...player.turns[0], q: [-11.9, 0, 4], mask: null };
        player.growAxis([turn]); player.showValues(turn);
        const axis = [player.low, player.high];
        player.growAxis([{ ...turn, q: [-1, 1, 2] }]);
        const box = one => one.getBoundingClientRect();
        return { same: player.low === axis[0] && player.high === axis[1], axis,
          zero: box(document.querySelector('.q-scale').children[1]),
          marks: [...document.querySelector('.q-scale').children].map(mark => mark.textContent),
          fills: [...document.querySelectorAll('.q-values .track')].map(track => {
            const fill = track.querySelector('.fill'), zero = parseFloat(getComputedStyle(track, '::after').left);
            return [box(fill).left - box(track).left - zero, box(fill).right - box(track).left - zero];
          }) }; }"""
    )
    assert drawn["axis"] == [-20, 5]
    assert drawn["same"]
    assert drawn["marks"] == ["-20", "0", "5"]
    (left, at_zero), (none, still_none), (from_zero, right) = drawn["fills"]
    assert left < -20
    assert at_zero == pytest.approx(0, abs=1.5)
    assert none == pytest.approx(still_none)
    assert from_zero == pytest.approx(0, abs=1.5)
    assert right > 10


def test_two_pages_do_not_disturb_each_other(browser: Any, address: str) -> None:
    one, two = Watched(browser, address), Watched(browser, address)
    two.slide(".checkpoint", 0)
    two.until("data.player === 'untrained'")
    two.press("new-seed")
    two.until("data.seed === '6'")
    one.press("forward")
    two.press("forward")
    one.until("data.step === '1'")
    two.until("data.step === '1'")
    assert (one.data("seed"), two.data("seed")) == ("5", "6")
    assert one.data("player") != two.data("player")
    assert one.complaints == two.complaints == []
    for page in (one, two):
        page.context.close()


def test_a_narrow_window_and_a_dark_one(browser: Any, address: str) -> None:
    light = Watched(browser, address)
    dark = Watched(browser, address, color_scheme="dark")
    assert light.picture() != dark.picture()
    light.page.set_viewport_size({"width": 360, "height": 740})
    light.page.wait_for_function("() => document.querySelector('.board').getBoundingClientRect().width < 340")
    assert light.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    dark.page.emulate_media(color_scheme="light")
    dark.page.wait_for_function(
        "() => getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'"
    )
    for page in (light, dark):
        page.context.close()


def test_a_server_that_is_gone_is_said(
    browser: Any, finished_run: Run, serve: Callable[[Path], PlayerServer]
) -> None:
    server = serve(finished_run.path)
    page = Watched(browser, server.address)
    page.context.set_offline(True)
    page.press("new-seed")
    page.page.wait_for_selector(".state.wrong")
    assert "does not answer" in str(page.page.text_content(".state"))
    page.context.close()


def test_gymnasium_in_the_browser(
    browser: Any, tmp_path: Path, serve: Callable[[Path], PlayerServer]
) -> None:
    settings = {
        "steps": 200,
        "device": "cpu",
        "out": str(tmp_path),
        "log.tensorboard": False,
        "eval.episodes": 2,
    }
    more = {"runtime.warmup": False, "learn.starts": 100, "replay.capacity": 1000, "network.hidden": [8]}
    config = apply_settings(base_config("gym:CartPole-v1"), settings | more)
    run = flashdqn.train(config, progress=False)
    page = Watched(browser, serve(run.path).address)
    first = page.picture()
    page.slide(".place", 6)
    page.until("data.step === '6'")
    assert page.picture() != first
    assert page.page.text_content(".about-run") == "CartPole-v1"
    assert page.complaints == []
    page.context.close()


def test_masks_and_many_actions(browser: Any, tmp_path: Path, serve: Callable[[Path], PlayerServer]) -> None:
    """Service chains: actions that are not legal are said to be so."""
    settings = {"steps": 64, "envs": 16, "device": "cpu", "out": str(tmp_path), "log.tensorboard": False}
    more = {
        "runtime.warmup": False,
        "learn.starts": 32,
        "replay.capacity": 200,
        "eval.episodes": 1,
        "runtime.mode": "eager",
    }
    small = {"env.max_bundles": 1, "env.max_dcs": 3, "network.hidden": [8], "env.max_steps": 4}
    small |= {"demos.source": "none"}
    run = flashdqn.train(apply_settings(base_config("sfc"), settings | more | small), progress=False)
    page = Watched(browser, serve(run.path).address)
    assert page.page.locator(".q-values li").count() == 13
    assert page.page.locator(".q-values li.illegal .value").first.text_content() == "not legal"
    assert page.complaints == []
    page.context.close()


def test_hundreds_of_actions_are_a_heat_map(
    browser: Any, tmp_path: Path, serve: Callable[[Path], PlayerServer]
) -> None:
    settings = {"steps": 32, "envs": 4, "device": "cpu", "out": str(tmp_path), "log.tensorboard": False}
    more = {"runtime.warmup": False, "learn.starts": 16, "replay.capacity": 200, "eval.episodes": 1}
    small = {"env.size": 8, "env.landscapes": 2, "env.held_out": 1, "env.fires": 2}
    quiet = {"demos.source": "none", "demos.episodes": 0, "demos.pretrain_steps": 0}
    narrow = {"network.channels": [4], "network.hidden": [8], "runtime.mode": "eager"}
    config = apply_settings(base_config("fuelbreaks-small"), settings | more | small | narrow | quiet)
    run = flashdqn.train(config, progress=False)
    page = Watched(browser, serve(run.path).address)
    assert page.page.locator(".q-values li").count() == 8
    with_values = page.picture()
    page.page.uncheck(".heat")
    page.page.wait_for_function(
        "before => document.querySelector('.board').toDataURL() !== before", arg=with_values
    )
    assert page.complaints == []
    page.context.close()
