"""The table in docs/reliability.md is the one of its result file."""

from __future__ import annotations

import importlib.util
import json
import sys

from doc_pages import ROOT

BENCHMARKS = ROOT / "benchmarks"


def test_the_table_is_the_measured_one() -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("faults", BENCHMARKS / "faults.py")
        assert spec is not None
        assert spec.loader is not None
        bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench)
    finally:
        sys.path.remove(str(BENCHMARKS))
    data = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    page = bench.PAGE.read_text(encoding="utf-8")
    assert page.count(bench.BEGIN) == page.count(bench.END) == 1
    shown = page.partition(bench.BEGIN)[2].partition(bench.END)[0].strip()
    assert shown == bench.make_table(data)
