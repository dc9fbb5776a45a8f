"""The tables that programs write into pages are those of their result files."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import numpy as np
import pytest
from doc_pages import ROOT

BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"


def load_benchmark(name: str) -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return bench


def find_table(page: str, bench: Any) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text.count(bench.BEGIN) == text.count(bench.END) == 1
    return text.partition(bench.BEGIN)[2].partition(bench.END)[0].strip()


def test_faults() -> None:
    bench = load_benchmark("faults")
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert find_table("reliability.md", bench) == bench.make_table(data)


def test_train_ratios() -> None:
    bench = load_benchmark("ratios")
    runs, *speeds = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("ratios", "ratios-speed-2cores", "ratios-speed-h200")
    )
    table = bench.make_tables(runs["runs"], speeds, list(bench.PRESETS), list(bench.AT))
    assert find_table("ratios.md", bench) == table.strip()


def test_other_packages() -> None:
    bench = load_benchmark("packages")
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert find_table("environments.md", bench) == bench.make_table(data)


def test_cold_starts() -> None:
    bench = load_benchmark("cold_start")
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert find_table("performance.md", bench) == bench.make_table(data)


def test_patches_of_the_doctor() -> None:
    bench = load_benchmark("doctor_fix")
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert find_table("doctor-cures.md", bench) == bench.make_table(data)


@pytest.mark.parametrize("name", ["plan_at_once", "plan_large"])
def test_plans(name: str) -> None:
    bench = load_benchmark(name)
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert find_table("planning.md", bench) == bench.make_table(data)


LABELS = {
    "betweenness-once": "betweenness, once",
    "dpv-once": "DPV, once",
    "lookahead": "one-step lookahead",
    "fuelbreaks-0": "`fuelbreaks`, seed 0",
    "fuelbreaks-1": "`fuelbreaks`, seed 1",
    "fuelbreaks-scouts-0": "`fuelbreaks` with scouts, paid by area, seed 0",
    "fuelbreaks-scouts-1": "`fuelbreaks` with scouts, paid by area, seed 1",
    "planner-remaining-0": "`fuelbreaks-planner`, paid by what still burns, seed 0",
    "planner-remaining-1": "`fuelbreaks-planner`, paid by what still burns, seed 1",
    "dpv": "DPV, again after every break",
    "betweenness": "betweenness, again after every break",
    "domirank": "DomiRank",
    "agent-all-scouts": "the agent of the package, all scouts at once",
    "planner-shown": "`fuelbreaks-planner`, taught by betweenness",
    "agent": "the agent of the package",
}


def test_fuel_breaks_on_the_public_benchmark() -> None:
    sys.path.insert(0, str(BENCHMARKS / "fuelbreaks_open"))
    try:
        score = load_benchmark("fuelbreaks_open/score")
    finally:
        sys.path.remove(str(BENCHMARKS / "fuelbreaks_open"))
    data = json.loads((RESULTS / "fuelbreaks-open.json").read_text(encoding="utf-8"))
    burned = {name: np.array(rows) for name, rows in data["burned"].items()}
    page = (ROOT / "docs" / "fuelbreaks-benchmark.md").read_text(encoding="utf-8")
    assert {len(rows) for rows in burned.values()} == {128}
    for name, rows in burned.items():
        label = LABELS.get(name, name)
        assert f"\n| {label} | {score.interval(rows)} |" in page
        if name not in ("agent", "nothing"):
            assert f"\n| {label} | {score.interval(rows - burned['agent'])} |" in page


def test_one_agent_of_fuel_breaks_on_several_sizes() -> None:
    bench = load_benchmark("fuelbreaks_sizes")
    data = json.loads((RESULTS / "fuelbreaks-sizes.json").read_text(encoding="utf-8"))
    assert find_table("fuelbreaks.md", bench) == bench.make_table(data["burned"])


def test_demonstrations_of_fuel_breaks() -> None:
    bench = load_benchmark("fuelbreaks_demos")
    data = json.loads((RESULTS / "fuelbreaks-demos.json").read_text(encoding="utf-8"))
    assert find_table("fuelbreaks.md", bench) == bench.make_table(data["arms"])
