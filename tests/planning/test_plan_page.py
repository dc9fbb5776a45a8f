"""plan.html, plan.png and plan.json: what they say, and that nothing of a stranger's runs in them."""

from __future__ import annotations

import dataclasses
import html.parser
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from plan_report_data import area_report, small_report

from flashdqn.core.errors import ConfigError
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.estimates import estimate_loss, share_saved
from flashdqn.planning.frame import GridFrame
from flashdqn.planning.plan import Judgement
from flashdqn.planning.report import PlanReport
from flashdqn.planning.write.files import check_folder, note_missing_packages, write_plan_files
from flashdqn.planning.write.numbers import make_plan_numbers
from flashdqn.planning.write.page import make_plan_page
from flashdqn.planning.write.page_places import describe_system
from flashdqn.planning.write.paint import paint_breaks, paint_chance, shrink_blocks
from flashdqn.planning.write.scale_bar import choose_scale_bar
from flashdqn.planning.write.words import (
    describe_headline,
    describe_rivals,
    describe_smothered,
    describe_standing,
    list_limits,
)
from flashdqn.show.numbers import format_rate


class PageText(html.parser.HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_what_the_fires_say() -> None:
    report = small_report()
    text = PageText(make_plan_page(report)).text
    for losses in (report.judgement.before, *(after[-1] for after in report.judgement.after.values())):
        assert format_rate(estimate_loss(losses).mean) in text
    assert "houses" in text
    assert "A note with <tags>." in text
    assert "flashdqn fuelbreaks plan <ridge> --budget 24" in text
    letters = [attributes for tag, attributes in PageText(make_plan_page(report)).tags if tag == "rect"]
    assert sum(attributes.get("class") == "pin gap" for attributes in letters) == len(report.gaps) == 3
    for words in ("dry@90", "70%", "extreme@225/60", "no spotting", "EPSG:32610", "Downstream Protection"):
        assert words in text
    assert "plain meters" not in text
    assert "plain meters" in PageText(make_plan_page(area_report())).text


def test_nothing_is_loaded_and_names_are_only_text() -> None:
    page = make_plan_page(small_report())
    tags = PageText(page).tags
    names = [tag for tag, _ in tags]
    assert "b" in names  # those of the tiles
    assert "<b>ridge</b>" not in page
    assert "<ridge>" not in page
    for _, attributes in tags:
        for key in ("src", "href", "action"):
            assert (attributes.get(key) or "data:").startswith(
                "data:image/png;base64,"
            ) or key not in attributes
    assert names.count("script") == 1
    assert names.count("image") == 3
    assert "http" not in page.replace("http-equiv", "")


def test_every_hostile_text_is_escaped() -> None:
    report = small_report()
    bad = '"><script>alert(1)</script>'
    land = dataclasses.replace(report.problem.landscape, name=bad)
    scenario = dataclasses.replace(report.problem.scenarios[0], name=bad)
    problem = dataclasses.replace(report.problem, landscape=land, scenarios=(scenario,), value_unit=bad)
    plans = {name: dataclasses.replace(plan, note=bad) for name, plan in report.plans.items()}
    hostile = dataclasses.replace(
        report, problem=problem, command=bad, notes=(bad,), plans=plans, versions={bad: bad}
    )
    page = make_plan_page(hostile)
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") > 8
    json.loads(json.dumps(make_plan_numbers(hostile), allow_nan=False))


@pytest.mark.parametrize(
    ("crs", "words"),
    [
        ("", ""),
        ("EPSG:32610", ", in EPSG:32610"),
        ('PROJCS["NAD83 / Conus Albers",GEOGCS["NAD83",DATUM["x"]]]', ", in NAD83 / Conus Albers"),
        ("+proj=aea " * 9, ", in the landscape's own system"),
    ],
)
def test_coordinate_systems_by_name(crs: str, words: str) -> None:
    assert describe_system(GridFrame(crs, (30.0, 0.0, 0.0, 0.0, -30.0, 0.0), (4, 4))) == words


def test_the_numbers_are_all_there() -> None:
    report = small_report()
    found = json.loads(json.dumps(make_plan_numbers(report), allow_nan=False))
    assert found["plan"]["cells"] == report.written_plan.order.tolist()
    assert found["before"]["value"]["mean"] == pytest.approx(estimate_loss(report.judgement.before).mean)
    assert found["policies"]["dpv"]["more_than_chosen"]["mean"] == 0
    assert found["policies"]["random"]["saved_share"][-1] == pytest.approx(
        share_saved(report.judgement, "random")
    )
    assert len(found["policies"]["random"]["after"]) == len(found["budgets"])
    assert found["landscape"]["crs"] == "EPSG:32610"
    assert sum(len(one["cells"]) for one in found["plan"]["breaks"]) == len(report.written_plan.order)
    assert make_plan_numbers(area_report())["landscape"]["crs"] is None
    assert make_plan_numbers(area_report())["before"]["value"] is None


def replace_losses(report: PlanReport, change: dict[str, float]) -> PlanReport:
    """The same report with other losses of some policies, without chance."""
    judgement = report.judgement

    def spoil(losses: Any, factor: float) -> Any:
        return dataclasses.replace(losses, area=judgement.before.area * factor, value=None)

    after = {
        name: tuple(spoil(losses, change.get(name, 0.5)) for losses in all_losses)
        for name, all_losses in judgement.after.items()
    }
    before = dataclasses.replace(judgement.before, value=None)
    judged = Judgement(judgement.budgets, before, after, judgement.placed, judgement.fires)
    return dataclasses.replace(report, judgement=judged)


def test_the_page_admits_that_another_policy_is_better() -> None:
    report = area_report()
    assert "DPV is better than every other" in describe_rivals(replace_losses(report, {"dpv": 0.2}))
    assert "random is better than DPV" in describe_rivals(replace_losses(report, {"random": 0.2}))
    assert "cannot be told apart" in describe_rivals(replace_losses(report, {}))
    only = {"dpv": report.judgement.after["dpv"]}
    alone = dataclasses.replace(report, judgement=dataclasses.replace(report.judgement, after=only))
    assert describe_rivals(alone) == ""
    assert "50% less" in describe_headline(replace_losses(report, {}))
    assert "20% more" in describe_headline(replace_losses(report, {"dpv": 1.2}))


def test_the_page_says_how_the_agent_does() -> None:
    report = area_report()
    judgement = report.judgement
    placed = judgement.placed | {"agent": judgement.placed["random"]}
    after = judgement.after | {"agent": judgement.after["random"]}
    judged = dataclasses.replace(judgement, after=after, placed=placed)
    plans = report.plans | {"agent": report.plans["random"]}
    report = dataclasses.replace(report, judgement=judged, plans=plans)
    worse, better = ({"agent": agent, "random": 0.1, "dpv": 0.3} for agent in (0.9, 0.2))
    said = " ".join(describe_standing(replace_losses(report, worse)))
    assert "random is better than DPV" in said
    assert "The agent does worse here than DPV: +" in said
    page = PageText(make_plan_page(replace_losses(report, worse))).text
    assert "The agent does worse here than DPV: +" in page
    assert "The agent does better here than DPV: −" in describe_standing(replace_losses(report, better))[1]
    assert len(describe_standing(replace_losses(report, {"agent": 0.1}))) == 1, "the agent is the rival"


def test_fires_that_start_in_breaks_are_counted() -> None:
    """A plan may lie on the ignitions of a map, and looks perfect by them."""
    report = area_report()
    assert "40 of the 40 fires" in " ".join(list_limits(replace_losses(report, {"dpv": 0.0})))
    assert not describe_smothered(replace_losses(report, {"dpv": 0.0})), "no map of ignitions"
    stakes = Stakes(ignition=np.ones((20, 20), dtype=np.float32))
    mapped = dataclasses.replace(report, problem=dataclasses.replace(report.problem, stakes=stakes))
    assert "40 of the 40 fires start in a break" in describe_smothered(replace_losses(mapped, {"dpv": 0.0}))
    assert not describe_smothered(replace_losses(mapped, {"dpv": 0.5}))


def test_all_files_are_written(tmp_path: Path) -> None:
    told: list[float] = []
    paths = write_plan_files(small_report(), tmp_path, lambda share, words: told.append(share))
    names = {
        "breaks.tif", "burn_probability_before.tif", "burn_probability_after.tif", "plan.gpkg", "plan.png",
        "plan.json", "plan.html",
    }  # fmt: skip
    assert {path.name for path in paths} == names == {path.name for path in tmp_path.iterdir()}
    assert told == sorted(told)
    with Image.open(tmp_path / "plan.png") as image:
        assert image.width > 1200
        assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 100


def test_without_the_packages_a_note_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "pyogrio" else real(name, *more)
    )
    paths = write_plan_files(note_missing_packages(area_report()), tmp_path)
    assert {path.name for path in paths} == {"plan.png", "plan.json", "plan.html"}
    assert "pyogrio is not installed: pip install &#x27;flashdqn[landscapes]&#x27;" in (
        tmp_path / "plan.html"
    ).read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper", Path("bad\0name")):
        with pytest.raises(ConfigError, match="cannot be written to"):
            check_folder(path)
    check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_maps_keep_every_break_when_they_are_made_smaller() -> None:
    land = area_report().problem.landscape
    order = np.array([0, 21, 399], dtype=np.int64)
    plain = paint_breaks(land, np.zeros(0, dtype=np.int64), 4)
    assert (paint_breaks(land, order, 4) != plain).any(axis=2).sum() == 2  # 0 and 21 share a square
    chance = np.zeros(land.shape)
    chance[0, 0] = 1.0
    painted = paint_chance(chance, land, 1.0)
    assert painted.shape == (20, 20, 3)
    assert painted[0, 0].sum() > painted[10, 10].sum()
    ragged = shrink_blocks(np.arange(35).reshape(5, 7), 3, np.max)
    assert ragged.tolist() == [[16, 19, 20], [30, 33, 34]]


@pytest.mark.parametrize(("columns", "words"), [(50, "500 m"), (20, "100 m"), (2000, "10 km"), (1, "5 m")])
def test_scale_bars_are_round(columns: int, words: str) -> None:
    cells, found = choose_scale_bar(columns, 30.0)
    assert found == words
    assert 0.15 < cells / columns < 0.5
