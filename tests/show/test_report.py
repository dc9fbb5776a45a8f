"""report.html: everything on one page, whatever the run folder holds, and never in the way of a training."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import math
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flashdqn
from conftest import forge_settings, tiny_config
from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.config.settings import flatten_keys
from flashdqn.core.errors import ConfigError
from flashdqn.runs.columns import (
    LENGTH,
    STEP,
    STEPS_PER_SECOND,
    WINDOW_EPISODES,
    Columns,
    make_phase_column,
)
from flashdqn.runs.tables import read_table
from flashdqn.show import recording, report
from flashdqn.show.report import find_preset_changes, make_report_page, write_report
from flashdqn.show.report_charts import compute_phase_shares
from flashdqn.show.report_files import read_run
from flashdqn.show.report_series import Series, downsample_series, read_series
from flashdqn.training import session
from flashdqn.training.progress import Silent


class Page(HTMLParser):
    """The tags, the text and the scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self._script = (dict(attrs).get("id") or "code") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag == "script" else self._script

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.words.append(data)
        else:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_the_report_needs_nothing_from_elsewhere(finished_run: Run) -> None:
    text = (finished_run.path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|//cdn|@import|url\(", text)
    page = Page(text)
    assert not {"link", "iframe", "object", "img"} & set(page.tags)
    assert page.links == []
    assert set(page.scripts) == {"code", "recorded-game"}
    assert len(text) < 700_000


def test_the_report_has_the_score_and_every_setting(finished_run: Run) -> None:
    page = page_of(finished_run.path / "report.html")
    words = set(page.words)
    assert f"{finished_run.score:.4g}" in words
    assert finished_run.summary["weights"] in words
    data = json.loads((finished_run.path / "config.json").read_text(encoding="utf-8"))
    settings = flatten_keys(data["config"])
    assert len(settings) > 40
    assert set(settings) <= words
    assert set(data["hardware"]) <= words
    for row in read_table(finished_run.path / "evaluations.csv"):
        assert f"{int(row['step']):,}" in words
    for caption in ("Score", "Loss and values", "Episodes", "While exploring", "Time by phase",
                    "Throughput and memory", "Exploration and learning rate"):  # fmt: skip
        assert caption in words


def test_the_recorded_game_is_inside(finished_run: Run) -> None:
    data = page_of(finished_run.path / "report.html").scripts["recorded-game"]
    game = json.loads(gzip.decompress(base64.b64decode(data)))
    again = recording.record(finished_run.path)
    assert game == json.loads(json.dumps(again))
    assert game["turns"][-1]["ending"]
    assert game["about"]["one_game"] is True


def test_the_report_escapes_what_it_shows(run_copy: Path) -> None:
    nasty = "</script><script>alert('&')</script>"
    path = run_copy.parent / "<b>run</b> & more".replace("/", "∕")
    shutil.move(run_copy, path)

    def change(data: dict[str, Any]) -> None:
        data["config"]["out"] = nasty
        data["hardware"]["<i>"] = nasty

    forge_settings(path, change)
    page = page_of(write_report(path))
    assert page.tags.count("script") == 2
    assert not {"b", "i"} & (set(page.tags) - {"b"})
    assert nasty in page.words
    assert path.name in page.words


@pytest.mark.parametrize(
    "removed", ["summary.json", "evaluations.csv", "metrics.csv", "checkpoints", "config.json"]
)
def test_what_is_missing_is_left_out(run_copy: Path, removed: str) -> None:
    path = run_copy / removed
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    page = page_of(write_report(run_copy))
    assert "Configuration" in page.words
    assert ("recorded-game" in page.scripts) == (removed not in ("checkpoints", "config.json"))


def test_old_runs_without_some_columns_have_a_report(run_copy: Path) -> None:
    rows = read_table(run_copy / "metrics.csv")
    kept = ["step", "return", "loss"]
    with (run_copy / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    (run_copy / "evaluations.csv").write_text("step,mean_score\n500,1.5\n1000,nan\n")
    (run_copy / "summary.json").write_text("{broken")
    page = page_of(write_report(run_copy))
    assert "Score" in page.words
    assert "Time by phase" not in page.words
    assert "mean return of a game" in page.words


def test_a_long_run_has_a_small_report(run_copy: Path) -> None:
    rows = read_table(run_copy / "metrics.csv")
    with (run_copy / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for k in range(8_000):
            writer.writerow(rows[k % len(rows)] | {"step": str(500 * (k + 1)), "seconds": str(0.1 * (k + 1))})
    assert write_report(run_copy).stat().st_size < 700_000
    assert read_series(run_copy).get(STEP)[-1] == 500 * 8_000


def test_a_report_that_fails_is_a_note_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    class Listening(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    def fail(path: Path) -> Path:
        raise RuntimeError("no ink")

    run = session.start_run(tiny_config(out=str(tmp_path), steps=300), Listening(), {"report": fail})
    assert run.finished
    assert (run.path / "summary.json").exists()
    assert any("The report could not be written: RuntimeError: no ink" in note for note in notes)
    assert not (run.path / "report.html").exists()


def test_a_game_that_cannot_be_recorded_leaves_the_rest(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Path, **_: Any) -> dict[str, Any]:
        raise OSError("no <display>")

    monkeypatch.setattr(report, "record", fail)
    page = page_of(write_report(run_copy))
    assert "No game could be recorded: OSError: no <display>" in page.words
    assert set(page.scripts) == {"code"}


def test_no_game_is_played_where_none_is_wanted(
    tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "record", lambda run: pytest.fail("it was recorded"))
    run = tiny_run(steps=300, log__game=False)
    page = page_of(run.path / "report.html")
    assert set(page.scripts) == {"code"}
    assert "A game" not in page.words


def test_a_run_that_was_stopped_has_a_report(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(steps=50)
    assert "Score" in page_of(run.path / "report.html").words


def test_what_differs_from_the_preset(finished_run: Run) -> None:
    settings = read_run(finished_run.path).settings
    found = find_preset_changes(settings)
    assert found is not None
    differing = {name: (value, old) for name, value, old in found}
    assert differing["env.size"] == (6, 10)
    assert differing["network.hidden"] == ([16], [128, 128])
    assert "learn.gamma" not in differing
    assert find_preset_changes({"preset": "no such"}) is None
    assert find_preset_changes(flatten_keys(json.loads(json.dumps({"preset": "snake"})))) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.integers(1, 60), st.randoms())
def test_squeezed_series_keep_their_sums(length: int, most: int, random: Any) -> None:
    """Against the naive sums over all rows."""
    steps = [float(k) for k in _rising(length, random)]
    rates = [random.uniform(10, 1000) for _ in range(length)]
    episodes = [float(random.randint(0, 5)) for _ in range(length)]
    lengths = [random.uniform(1, 100) if n else math.nan for n in episodes]
    phases = [random.uniform(0, 9) for _ in range(length)]
    act = make_phase_column("act")
    columns = (STEP, STEPS_PER_SECOND, WINDOW_EPISODES, LENGTH, act)
    values = (steps, rates, episodes, lengths, phases)
    by_name = {column.name: numbers for column, numbers in zip(columns, values, strict=True)}
    whole = Series(by_name, Columns(columns), length)
    short = downsample_series(whole, most)
    assert short.length == min(length, most)
    assert short.last(STEP) == steps[-1]

    def taken(series: Series) -> tuple[float, float, float]:
        spans = [span.end - span.start for span in series.spans]
        seconds = sum(n / rate for n, rate in zip(spans, series.get(STEPS_PER_SECOND), strict=True))
        numbers = zip(series.get(WINDOW_EPISODES), series.get(LENGTH), strict=True)
        total = sum(n * one for n, one in numbers if n)
        return seconds, total, sum(n * us for n, us in zip(spans, series.get(act), strict=True))

    assert taken(short) == pytest.approx(taken(whole))


def _rising(length: int, random: Any) -> list[int]:
    steps, at = [], 0
    for _ in range(length):
        at += random.randint(1, 1000)
        steps.append(at)
    return steps


def test_phases_are_parts_of_a_whole(finished_run: Run) -> None:
    names, rows = compute_phase_shares(read_series(finished_run.path))
    assert names == ["act", "step", "append", "sample", "update", "rest"]
    for row in rows:
        assert sum(row) == pytest.approx(1.0)
        assert min(row) >= 0


def test_the_command_writes_where_it_is_told(
    run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run_copy / "report.html").read_text(encoding="utf-8")
    (run_copy / "report.html").unlink()
    assert cli.dispatch_command(["report", str(run_copy)]) == 0
    assert str(run_copy / "report.html") in capsys.readouterr().out.replace("\n", "")
    assert len((run_copy / "report.html").read_text(encoding="utf-8")) == pytest.approx(len(before), rel=0.02)
    out = tmp_path / "elsewhere.html"
    assert cli.dispatch_command(["report", str(run_copy), str(run_copy), "--out", str(out)]) == 0
    assert "Learning" in page_of(out).words
    with pytest.raises(ConfigError, match="There is no folder"):
        cli.dispatch_command(["report", str(run_copy), "--out", str(tmp_path / "no" / "x.html")])
    with pytest.raises(flashdqn.CheckpointError, match="does not exist"):
        cli.dispatch_command(["report", str(tmp_path / "nothing")])


def test_a_run_in_training_shows_what_it_has(run_copy: Path) -> None:
    """Before the end the last evaluation's score; before the first figures no empty units, and what to wait for."""
    (run_copy / "summary.json").unlink()
    page = make_report_page(read_run(run_copy))
    assert "not finished yet" in page
    assert "last evaluation" in page
    for file in ("metrics.csv", "evaluations.csv"):
        (run_copy / file).unlink()
    shutil.rmtree(run_copy / "checkpoints")
    page = make_report_page(read_run(run_copy))
    assert "Nothing was logged yet" in page
    assert "No game could be recorded: " in page
    assert "Error:" not in page.split("<script>")[0]
    assert "– episodes" not in page
    assert "– per transition" not in page


def test_a_folder_whose_name_has_two_lines(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = run_copy.rename(run_copy.with_name("a\nReport  all is well"))
    assert cli.answer_command(["report", str(odd)]) == 0
    assert not any(line.startswith("Report  all") for line in capsys.readouterr().out.splitlines())
