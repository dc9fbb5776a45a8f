"""Habits that cost time or learning: settings of a GPU, pauses, replays, ranks; and what a look stands for."""

from __future__ import annotations

import dis
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from record_maker import Maker, stand_in

from flashdqn.doctor.findings import gpu_settings, pauses, ranks, replay
from flashdqn.doctor.findings.rules import CERTAIN
from flashdqn.doctor.watch import holdings
from flashdqn.doctor.watch.device_profile import explain_gaps
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.segments import find_lines, is_at_start, read_instructions

TEXT = """frames = np.zeros(9)
noise = torch.randn(9).to(device)
optimizer.zero_grad(set_to_none=False)
def evaluate():
    play()
evaluate()
loss.backward()
"""


def make(tmp_path: Path, shares: dict[int, float], **raw: Any) -> Maker:
    """Ten seconds of training with these shares by line."""
    script = tmp_path / "train.py"
    script.write_text(TEXT, encoding="utf-8")
    maker = Maker(script, **raw)
    maker.site("env step", 5, 1000)
    samples = {maker.stack(maker.own(line, "<module>")): share for line, share in shares.items()}
    learn = maker.stack(maker.own(7, "<module>"), stand_in(Phase.BACKWARD))
    maker.train(
        samples | {learn: 1 - sum(shares.values())},
        vector_steps=100,
        transitions=100,
        updates=100,
        episodes=3,
    )
    return maker


def sure(rule: Any, maker: Maker) -> list[str]:
    return [found.name for found in rule(maker.evidence()) if found.certainty >= CERTAIN]


BUSY = {"device": "cuda", "utilization": 0.95}


def test_precision_of_a_busy_gpu(tmp_path: Path) -> None:
    settings = {"capability": 9, "dtypes": ["float32"], "tf32": False, "network": "Net"}
    assert sure(gpu_settings.detect_precision, make(tmp_path, {}, settings=settings, **BUSY)) == [
        "tf32-off",
        "half-unused",
    ]
    fast = settings | {"tf32": True}
    assert sure(gpu_settings.detect_precision, make(tmp_path, {}, settings=fast, **BUSY)) == ["half-unused"]
    for change in ({"capability": 7}, {"capability": 0}, {"dtypes": ["bfloat16", "float32"]}):
        assert not sure(gpu_settings.detect_precision, make(tmp_path, {}, settings=settings | change, **BUSY))
    assert not sure(gpu_settings.detect_precision, make(tmp_path, {}, settings=settings, utilization=0.2))


@pytest.mark.parametrize(
    ("width", "names"), [((100, 130), ["unaligned-products"]), ((128, 64), []), ((4, 130), [])]
)
def test_odd_sizes(tmp_path: Path, width: tuple[int, int], names: list[str]) -> None:
    maker = make(tmp_path, {}, settings={"capability": 9, "widths": [list(width)]}, **BUSY)
    assert sure(gpu_settings.detect_unaligned_products, maker) == names


def test_tensors_that_are_moved(tmp_path: Path) -> None:
    maker = make(tmp_path, {2: 0.4}, **BUSY)
    maker.site("to", 2, 1000, 4.0, on_device=1000)
    assert sure(gpu_settings.detect_made_on_cpu, maker) == ["made-on-cpu"]
    loader = {
        "file": maker.script, "line": 1, "workers": 2, "batch": 64, "pinned": False, "persistent": True,
        "dataset": "Data", "length": 9, "epochs": 1, "starting": 0.0,
    }  # fmt: skip
    maker.raw["loaders"] = [loader]
    assert sure(gpu_settings.detect_pageable_copies, maker) == ["pageable-copies"]
    maker.raw["loaders"] = [loader | {"pinned": True}]
    assert not sure(gpu_settings.detect_pageable_copies, maker)


def test_memory_and_data_parallel(tmp_path: Path) -> None:
    maker = make(tmp_path, {}, settings={"reserved": 9 * 2**30, "allocated": 2 * 2**30})
    assert sure(gpu_settings.detect_memory_overhang, maker) == ["device-memory"]
    maker.raw["settings"]["reserved"] = 3 * 2**30
    assert not sure(gpu_settings.detect_memory_overhang, maker)
    assert not sure(gpu_settings.detect_data_parallel, maker)
    maker.forward(7, 100, 1.0, network="DataParallel")
    assert sure(gpu_settings.detect_data_parallel, maker) == ["data-parallel"]


def test_pauses(tmp_path: Path) -> None:
    maker = make(tmp_path, {3: 0.2})
    assert sure(pauses.detect_zeroed_gradients, maker) == ["zero-grad-memset"]
    inside = maker.stack(maker.own(6, "<module>"), maker.own(5, "evaluate"))
    assert not sure(pauses.detect_evaluation, maker)
    maker.train({inside: 1.0}, 10, vector_steps=100, updates=100)
    (found,) = pauses.detect_evaluation(maker.evidence())
    assert (found.line, found.share) == (6, pytest.approx(0.5))


def test_garbage(tmp_path: Path) -> None:
    maker = make(tmp_path, {}, settings={"collections": 40, "collecting": 2.0})
    (found,) = pauses.detect_garbage(maker.evidence())
    assert (found.name, found.share) == ("step-jitter", pytest.approx(0.2))
    maker.raw["settings"]["collecting"] = 0.1
    assert not list(pauses.detect_garbage(maker.evidence()))


def test_a_rare_slow_second(tmp_path: Path) -> None:
    maker = make(tmp_path, {}, settings={})
    usual, rare = maker.stack(maker.own(7, "<module>")), maker.stack(maker.own(1, "<module>"))
    for number in range(24):
        slow = number % 8 == 7
        maker.train({rare if slow else usual: 1.0}, 1, transitions=10 if slow else 100, vector_steps=100)
    (found,) = pauses.detect_garbage(maker.evidence())
    assert (found.name, found.line) == ("step-jitter", 1)


def test_a_slow_start(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py", training_began=40.0)
    maker.train({maker.stack(maker.own(3)): 1.0}, 40)
    maker.train({maker.stack(maker.own(4)): 1.0}, 10, updates=3)
    (found,) = pauses.detect_slow_start(maker.evidence())
    assert (found.name, found.line) == ("slow-start", 3)
    maker.raw["training_began"] = 5.0
    assert not list(pauses.detect_slow_start(maker.evidence()))


FRAMES = {"name": "frames", "dtype": "float32", "shape": [10_000, 4, 84, 84], "copies": 1}


def test_replays_of_frames(tmp_path: Path) -> None:
    maker = make(tmp_path, {}, holdings=[FRAMES])
    (found,) = replay.detect_float_frames(maker.evidence())
    assert (found.name, found.line) == ("float-replay", 1)
    (found,) = replay.detect_repeated_frames(maker.evidence())
    assert found.title == "Every frame is kept 4 times in `frames`"
    for change in (
        {"dtype": "uint8", "shape": [10_000, 84, 84]},
        {"shape": [200, 4, 8, 8]},
        {"shape": [10_000, 4]},
    ):
        maker.raw["holdings"] = [FRAMES | change]
        assert not list(replay.detect_float_frames(maker.evidence()))
        assert not list(replay.detect_repeated_frames(maker.evidence()))


def test_a_tree_in_python(tmp_path: Path) -> None:
    maker = make(tmp_path, {})
    maker.train({maker.stack(maker.own(5, "SumTree._propagate")): 1.0}, 10, updates=10, vector_steps=10)
    assert sure(replay.detect_python_tree, maker) == ["python-sumtree"]
    assert not sure(replay.detect_python_tree, make(tmp_path, {}))


@pytest.mark.parametrize(
    ("width", "bursts", "names"),
    [
        (
            8,
            {"number": 1001, "transitions": 8000, "vector_steps": 1000, "updates": 1000},
            ["ratio-depends-on-envs"],
        ),
        (1, {"number": 1001, "transitions": 1000, "vector_steps": 1000, "updates": 1000}, []),
        (
            8,
            {"number": 1001, "transitions": 32000, "vector_steps": 4000, "updates": 1000},
            [],
        ),  # every fourth step
        (8, {"number": 5, "transitions": 4096, "vector_steps": 512, "updates": 64}, []),  # rollouts
    ],
)
def test_a_ratio_that_depends_on_the_environments(
    tmp_path: Path, width: int, bursts: dict[str, int], names: list[str]
) -> None:
    maker = make(tmp_path, {}, widths={str(width): 1000}, bursts=bursts)
    assert sure(replay.detect_ratio_by_envs, maker) == names


def test_a_vector_that_resets_itself(tmp_path: Path) -> None:
    maker = make(tmp_path, {}, autoreset="NextStep")
    assert sure(replay.detect_autoreset, maker) == ["vector-autoreset-wrong"]
    assert not sure(replay.detect_autoreset, make(tmp_path, {}, autoreset="SameStep"))
    Path(maker.script).write_text(TEXT + "x = infos['final_obs']\n", encoding="utf-8")
    other = Maker(Path(maker.script).rename(tmp_path / "other.py"), autoreset="NextStep")
    other.site("env step", 5, 1000)
    other.train({other.stack(other.own(5)): 1.0}, episodes=3, vector_steps=10)
    assert not sure(replay.detect_autoreset, other)


def test_steps_after_an_end(tmp_path: Path) -> None:
    assert sure(replay.detect_steps_after_end, make(tmp_path, {}, late_steps=200)) == ["steps-after-end"]
    assert not sure(replay.detect_steps_after_end, make(tmp_path, {}, late_steps=20))


def test_one_slow_rank(tmp_path: Path) -> None:
    maker = make(tmp_path, {2: 0.1}, process={"rank": "0"})
    for rank, share in (("1", 0.1), ("2", 0.6)):
        child = make(tmp_path, {2: share}, process={"rank": rank, "how": "spawn", "pid": int(rank)})
        maker.raw.setdefault("children", []).append(
            child.raw | {"frames": child.frames, "stacks": child.stacks}
        )
    (found,) = ranks.detect_stragglers(maker.evidence())
    assert found.title.startswith("Rank 2 takes 6.0 times as long")
    assert not list(ranks.detect_stragglers(make(tmp_path, {}).evidence()))


def test_what_a_gpu_waited_for(tmp_path: Path) -> None:
    seen = {"seconds": 2.0, "operations": 9, "computing": 0.2, "copies": 0.1, "launches": 1.2, "host": 0.5}
    (found,) = ranks.detect_gpu_gaps(make(tmp_path, {}, device_time=seen).evidence())
    assert "waits for the next launch" in found.title
    assert not list(
        ranks.detect_gpu_gaps(make(tmp_path, {}, device_time=seen | {"computing": 1.9}).evidence())
    )


spans = st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.booleans()).map(lambda t: (t[0], t[0] + t[1], t[2]))


@given(st.lists(spans, max_size=20))
def test_gaps_add_up(intervals: list[tuple[float, float, bool]]) -> None:
    found = explain_gaps(intervals, 2.0)
    assert found.computing + found.copies + found.launches + found.host == pytest.approx(2.0)
    assert min(found.computing, found.copies, found.launches, found.host) >= 0.0


def test_gaps_are_sorted_by_their_length() -> None:
    found = explain_gaps([(0.0, 1e-5, False), (3e-5, 4e-5, False), (1e-2, 1.1e-2, True)], 1.1e-2)
    assert found.computing == pytest.approx(2e-5)
    assert found.launches == pytest.approx(2e-5)
    assert found.copies == pytest.approx(1e-3)
    assert found.host == pytest.approx(1e-2 - 4e-5)


def test_holdings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "holdings", {})
    assert holdings.is_large_array(np.zeros((1000, 300)))
    assert not holdings.is_large_array(np.zeros(10))
    assert not holdings.is_large_array(torch.zeros(600, 600, requires_grad=True))
    holdings.note_array("replay.frames", torch.zeros(600, 600, dtype=torch.uint8))
    holdings.note_elements(
        "memory", [(np.zeros((4, 84, 84), np.float32), 1, 0.5, np.zeros((4, 84, 84), np.float32))] * 120
    )
    holdings.note_elements("short", [np.zeros(3)] * 5)
    found = holdings.holdings
    assert set(found) == {"replay.frames", "memory"}
    assert (found["replay.frames"].dtype, found["replay.frames"].shape) == ("uint8", (600, 600))
    assert (found["memory"].dtype, found["memory"].shape, found["memory"].copies) == (
        "float32",
        (120, 4, 84, 84),
        2,
    )


def straight(a: Any, b: Any, numbers: list[int]) -> Any:
    c = a @ b
    d = c + 1.0
    found = 3 in numbers
    numbers.append(4)
    e = d.sum()
    return e, found


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are handled almost everywhere")
def test_a_look_stands_for_what_came_before() -> None:
    code, first = straight.__code__, straight.__code__.co_firstlineno
    calls = [part for part in dis.get_instructions(code) if part.opname.startswith("CALL")]
    line = calls[-1].positions.lineno if calls[-1].positions else 0
    assert line == first + 5
    assert find_lines(code, calls[-1].offset, first + 5) == (
        first + 1,
        first + 5,
    )  # append does not look for signals
    resume = next(part.offset for part in dis.get_instructions(code) if part.opname == "RESUME")
    assert is_at_start(code, resume)
    assert not is_at_start(code, calls[-1].offset)
    assert [offset for offset, _, _ in read_instructions(code)] == [
        p.offset for p in dis.get_instructions(code)
    ]
