"""What changes during a training."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library
from watching import line_of, write_script

from flashdqn.doctor.findings.growth import (
    detect_graph_leaks,
    detect_growing_containers,
    detect_longer_episodes,
    detect_memory_growth,
    detect_slow_down,
)
from flashdqn.doctor.findings.rules import diagnose

MB = 2**20

SOURCE = """
    def main():
        while True:
            obs = env.step(0)  # step
            self.losses.append(loss)  # append
            total = total + loss  # total
            count += 1  # count
            seen.add(obs)  # add
            mean = sum(returns) / len(returns)  # sum
            print(f"{games / seconds:.1f} games/s")  # games
            print(f"{games / seconds:.1f} games/s, {fps} fps")  # both
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    maker = Maker(script)
    maker.stack(maker.own(line_of(script, "# step")), library("numpy/core.py"))
    return maker


STEADY = {"vector_steps": 100.0, "transitions": 100.0, "updates": 10.0}


@pytest.mark.parametrize(
    ("name", "kind", "mark", "title"),
    [
        ("agent.losses", "list", "# append", "The list `agent.losses`"),
        ("total", "graph", "# total", "The sum `total`"),
        ("count", "graph", "# count", "The sum `count`"),
        ("unheard_of", "list", None, "The list `unheard_of`"),
    ],
)
def test_graphs_that_are_kept(
    maker: Maker, script: Path, name: str, kind: str, mark: str | None, title: str
) -> None:
    maker.container(name, range(100, 1100, 100), type=kind, is_graph=kind == "graph", holds_graph=True)
    maker.train({0: 1.0}, **STEADY)
    maker.raw["windows"][-1]["memory"] = 300 * MB
    (found,) = detect_graph_leaks(maker.evidence())
    assert (found.name, found.line) == ("graph-leak", line_of(script, mark) if mark else 0)
    assert found.title.startswith(title)
    assert (found.share, found.speedup) == (0.0, 1.0)
    assert "from 100 to 1,000" in found.evidence[0]
    assert "+300 MB" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["graph-leak"]


def test_two_names_of_one_list_are_one_leak(maker: Maker) -> None:
    for name in ("agent.losses", "self.losses"):
        maker.container(name, range(100, 1100, 100), holds_graph=True)
    maker.train({0: 1.0}, **STEADY)
    assert len(list(detect_graph_leaks(maker.evidence()))) == 1


@pytest.mark.parametrize(
    "sizes",
    [
        [100, 1000],  # seen too rarely
        [64, 100, 150],  # small
        [900, 950, 1000],  # hardly growing
        [100, 900, 200, 1000],  # emptied now and then
        [100, 1000, 1000, 1000],  # full
    ],
)
def test_what_does_not_grow(maker: Maker, sizes: list[int]) -> None:
    maker.container("losses", sizes, holds_graph=True)
    maker.container("rows", [25 * size for size in sizes])
    maker.train({0: 1.0}, **STEADY)
    maker.raw["windows"][-1]["memory"] = 300 * MB
    assert not list(detect_graph_leaks(maker.evidence()))
    assert not list(detect_growing_containers(maker.evidence()))


def slower(maker: Maker, script: Path, at_last: float = 0.6, **late: float) -> int:
    """Nine windows of equal steps: a line takes a tenth of the time at first, and more at the end."""
    line = maker.stack(maker.own(line_of(script, "# sum")))
    for share, counts in ((0.1, {}), (0.3, {}), (at_last, late)):
        maker.train({line: share, 0: 1.0 - share}, 3, **(STEADY | counts))
    return line


def test_a_list_that_is_gone_through_at_every_step(maker: Maker, script: Path) -> None:
    maker.container("returns", range(10_000, 20_000, 1000))
    slower(maker, script)
    (found,) = detect_growing_containers(maker.evidence())
    assert (found.name, found.line) == ("growing-buffer", line_of(script, "# sum"))
    assert found.share == pytest.approx(1 / 3)
    assert found.speedup == pytest.approx(1.5)
    assert "10,000 elements at first, 19,000 at the end" in found.evidence[0]
    assert "1,000 µs a step at first, 6,000 at the end" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["growing-buffer"]


def test_a_list_that_only_takes_memory(maker: Maker, script: Path) -> None:
    maker.container("seen", range(10_000, 20_000, 1000))
    maker.train({0: 1.0}, **STEADY)
    assert not list(detect_growing_containers(maker.evidence()))
    maker.raw["windows"][-1]["memory"] = 101 * MB
    (found,) = detect_growing_containers(maker.evidence())
    assert (found.line, found.speedup, found.certainty) == (line_of(script, "# add"), 1.0, 1.0)


def test_updates_that_begin_late_make_no_line_slower(maker: Maker, script: Path) -> None:
    maker.container("replay", range(10_000, 20_000, 1000))
    slower(maker, script, updates=100.0)
    assert not list(detect_growing_containers(maker.evidence()))


def test_a_line_that_grows_without_a_list(maker: Maker, script: Path) -> None:
    slower(maker, script)
    assert not list(detect_growing_containers(maker.evidence()))


def getting_slower(
    maker: Maker, script: Path, *, cpu: float = 1.0, late: float = 50.0, updates: float = 5.0
) -> None:
    line = maker.stack(maker.own(line_of(script, "# sum")))
    maker.train({0: 1.0}, 3, **STEADY)
    maker.train({0: 1.0}, 3, **STEADY)
    maker.train({0: 0.5, line: 0.5}, 3, vector_steps=late, transitions=late, updates=updates, cpu=cpu)


def test_steps_that_cost_more_and_more(maker: Maker, script: Path) -> None:
    getting_slower(maker, script)
    (found,) = detect_slow_down(maker.evidence())
    assert (found.name, found.line) == ("slow-down", line_of(script, "# sum"))
    assert found.title == "A transition costs 2.0 times what it cost at first"
    assert found.share == pytest.approx(1 - 750 / 900)  # 10 ms each would have been 7.5 of 9 seconds
    assert found.speedup == pytest.approx(1.2)
    assert "10,000 µs a transition in the first third, 20,000 µs" in found.evidence[0]


@pytest.mark.parametrize(
    "change",
    [
        {"late": 90.0},  # hardly slower
        {"cpu": 0.5},  # others used the machine
        {"cpu": 0.0},
    ],
)
def test_steps_that_cost_no_more(maker: Maker, script: Path, change: dict[str, float]) -> None:
    getting_slower(maker, script, **change)
    assert not list(detect_slow_down(maker.evidence()))


def test_more_updates_later_are_no_slow_down(maker: Maker, script: Path) -> None:
    getting_slower(maker, script, updates=50.0)
    assert all(found.certainty == 0.0 for found in detect_slow_down(maker.evidence()))


def test_what_grows_explains_a_slow_down(maker: Maker, script: Path) -> None:
    maker.container("returns", range(10_000, 20_000, 1000))
    getting_slower(maker, script)
    assert "slow-down" not in [f.name for f in diagnose(maker.evidence())]


def remember(maker: Maker, sizes: list[int], key: str = "memory") -> list[str]:
    maker.train({0: 1.0}, len(sizes), **STEADY)
    for window, size in zip(maker.raw["windows"], sizes, strict=True):
        window[key] = size * MB
    return [found.title for found in detect_memory_growth(maker.evidence())]


def test_memory_that_grows_all_along(maker: Maker) -> None:
    assert remember(maker, list(range(0, 300, 25))) == ["The process holds more and more memory"]
    (found,) = detect_memory_growth(maker.evidence())
    assert (found.name, found.line, found.speedup) == ("memory-growth", 0, 1.0)
    assert "100 MB after a third of the time, 275 MB at the end" in found.evidence[0]


def test_memory_of_the_gpu(maker: Maker) -> None:
    assert remember(maker, list(range(0, 300, 25)), "device_memory") == ["The GPU holds more and more memory"]


@pytest.mark.parametrize(
    "sizes",
    [
        [100] * 12,
        list(range(0, 60, 5)),  # little
        [0, 100, 200, 300, *[300] * 8],  # it is full
        [100, 200] * 6,  # up and down
        [0, 100, 200, 300],  # too short to tell
    ],
)
def test_memory_that_is_as_it_should_be(maker: Maker, sizes: list[int]) -> None:
    assert remember(maker, sizes) == []


def test_memory_with_a_reason_is_not_reported_twice(maker: Maker) -> None:
    maker.container("self.losses", range(100, 1100, 100), holds_graph=True)
    assert remember(maker, list(range(0, 300, 25))) == []


def play(maker: Maker, late_length: float = 50.0, late_steps: float = 1000.0) -> list[int]:
    for length, steps in ((10.0, 1000.0), (20.0, 1000.0), (late_length, late_steps)):
        counts = {
            "vector_steps": steps,
            "transitions": steps,
            "episodes": steps / length,
            "episode_steps": steps,
        }
        maker.train({0: 1.0}, 3, **counts)
    return [found.line for found in detect_longer_episodes(maker.evidence())]


def test_longer_episodes(maker: Maker, script: Path) -> None:
    maker.site("print", line_of(script, "# both"), 20)
    maker.site("print", line_of(script, "# games"), 20)
    assert play(maker) == [line_of(script, "# games")]
    (found,) = detect_longer_episodes(maker.evidence())
    assert (found.name, found.share, found.speedup) == ("longer-episodes", 0.0, 1.0)
    assert "100.0 in the first third, 20.0 in the last" in found.evidence[0]
    assert "10, then 50" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["longer-episodes"]


@pytest.mark.parametrize(
    ("mark", "length", "steps"),
    [
        ("# games", 12.0, 1000.0),  # hardly longer
        ("# games", 50.0, 700.0),  # and slower as well
        ("# games", 700.0, 1000.0),  # too few have ended
        ("# both", 50.0, 1000.0),  # cured: transitions are printed too
    ],
)
def test_episodes_that_mislead_nobody(
    maker: Maker, script: Path, mark: str, length: float, steps: float
) -> None:
    maker.site("print", line_of(script, mark), 20)
    assert play(maker, length, steps) == []


def test_too_short_to_tell(maker: Maker, script: Path) -> None:
    maker.container("returns", range(10_000, 20_000, 1000))
    maker.train({0: 1.0}, 5, **STEADY)
    evidence = maker.evidence()
    assert not [
        *detect_growing_containers(evidence),
        *detect_slow_down(evidence),
        *detect_memory_growth(evidence),
        *detect_longer_episodes(evidence),
    ]
