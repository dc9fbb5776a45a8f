"""Tables that something has damaged: reading raises nothing, leaves out what is wrong, and says so."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import flashdqn
from flashdqn import Run
from flashdqn.runs.health import find_problems
from flashdqn.runs.tables import (
    append_row,
    begins_as_described,
    describe_table,
    read_evaluations,
    read_metrics,
    read_table,
    read_table_content,
)
from flashdqn.show.curve import draw_curve
from flashdqn.show.report import write_report

HEADERS: dict[str, Callable[[bytes], bytes]] = {
    "no step": lambda header: header.replace(b"step,", b"stqp,", 1),
    "a name twice": lambda header: b"step," + header.split(b",", 2)[0] + b"," + header.split(b",", 2)[2],
    "zeros": lambda header: b"\0" * len(header) + b"\n",
    "not UTF-8": lambda header: b"\xff\xfe" + header,
    "a quote": lambda header: b'"' + header,
    "nothing": lambda _: b"",
    "an empty line": lambda _: b"\n",
    "a million columns": lambda _: b"a," * 1_000_000 + b"b\n",
    "a huge name": lambda header: b"a" * 200_000 + b"," + header,
}
CELLS = [
    "１２", "1_000", "-5", "1e5", "9" * 400, "", "nan", "0x10", " ", "\0", '"', "٣", "1.0", "+7", "\ufffd",
]  # fmt: skip


@pytest.mark.parametrize("name", ["metrics.csv", "evaluations.csv"])
@pytest.mark.parametrize("damage", HEADERS)
def test_a_damaged_header_is_said_and_the_run_goes_on(
    finished_run: Run, tmp_path: Path, name: str, damage: str
) -> None:
    (tmp_path / "columns.json").write_bytes((finished_run.path / "columns.json").read_bytes())
    header, *rows = (finished_run.path / name).read_bytes().splitlines(keepends=True)
    table = tmp_path / name
    table.write_bytes(HEADERS[damage](header) + b"".join(rows))
    whole = read_table(finished_run.path / name)
    content = read_table_content(table)
    assert content.problem
    assert [row for row in content.rows if row not in whole] == []
    append_row(table, whole[-1] | {"step": "999999"})
    assert read_table(table)[-1]["step"] == "999999"
    assert read_table_content(table).problem == ""
    assert (tmp_path / name.replace(".csv", ".damaged.csv")).is_file()


def test_a_header_is_mended_by_the_record(run_copy: Path) -> None:
    table = run_copy / "metrics.csv"
    rows = read_table(table)
    table.write_bytes(table.read_bytes().replace(b"step,", b"sdep,", 1))
    assert read_table(table) == rows
    assert any(problem.startswith("metrics.csv has a damaged header") for problem in find_problems(run_copy))


def test_another_header_than_the_recorded_one_is_said(run_copy: Path) -> None:
    table = run_copy / "metrics.csv"
    table.write_bytes(table.read_bytes().replace(b",loss,", b",lass,", 1))
    assert any("other columns than columns.json records" in problem for problem in find_problems(run_copy))


@pytest.mark.parametrize("name", ["metrics.csv", "evaluations.csv"])
def test_rows_that_were_cut_or_added_after_the_end_are_said(run_copy: Path, name: str) -> None:
    table = run_copy / name
    whole = table.read_bytes()
    assert find_problems(run_copy) == []
    last = whole.splitlines(keepends=True)[-1]
    for changed in (whole + last, whole.removesuffix(last), b""):
        table.write_bytes(changed)
        (problem,) = find_problems(run_copy)
        assert problem.startswith(f"{name} was changed after")


def test_tables_are_not_blamed_for_a_damaged_checkpoint(run_copy: Path) -> None:
    *_, older, newest = sorted(run_copy.glob("checkpoints/[0-9]*"))
    (newest / "manifest.json").write_bytes((older / "manifest.json").read_bytes())
    assert [str(newest) in problem for problem in find_problems(run_copy)] == [True]
    (run_copy / "metrics.csv").write_bytes(b"")  # an older checkpoint knows it, too
    assert any(problem.startswith("metrics.csv was changed") for problem in find_problems(run_copy))


@pytest.mark.parametrize("cell", CELLS, ids=ascii)
def test_a_step_is_plain_digits(finished_run: Run, tmp_path: Path, cell: str) -> None:
    header, first, *rows = (finished_run.path / "metrics.csv").read_text().splitlines(keepends=True)
    bad = cell + first[first.index(",") :]
    (tmp_path / "metrics.csv").write_text(header + bad + "".join(rows), encoding="utf-8", newline="")
    content = read_table_content(tmp_path / "metrics.csv")
    assert content.rows == read_table(finished_run.path / "metrics.csv")[1:]
    assert content.problem == "has 1 row that cannot be read: left out"
    assert len(read_metrics(tmp_path)) == len(rows)


def test_a_last_row_that_was_cut_short_is_no_damage(finished_run: Run, tmp_path: Path) -> None:
    data = (finished_run.path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").write_bytes(data[:-7])
    content = read_table_content(tmp_path / "metrics.csv")
    assert (len(content.rows), content.problem) == (
        len(read_table(finished_run.path / "metrics.csv")) - 1,
        "",
    )


def test_lines_that_end_in_cr_alone(finished_run: Run, tmp_path: Path) -> None:
    data = (finished_run.path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").write_bytes(data.replace(b"\r\n", b"\r"))
    assert read_table_content(tmp_path / "metrics.csv").problem == "has a damaged header"


@pytest.mark.parametrize("number", ["1e999", "-1e308", "1e308", "1e-320", "-0.0", "inf", "nan", ""])
def test_any_numbers_have_a_report(run_copy: Path, number: str) -> None:
    for name in ("metrics.csv", "evaluations.csv"):
        header, *rows = (run_copy / name).read_text().splitlines()
        spoiled = [",".join([row.split(",")[0], *([number] * row.count(","))]) for row in rows[::2]]
        steps = [f"{10**18},{row.partition(',')[2]}" for row in rows[1::2]]
        (run_copy / name).write_text("\n".join([header, *spoiled, *steps, ""]))
    write_report(run_copy)
    draw_curve(run_copy)


def test_random_damage_never_raises(finished_run: Run, tmp_path: Path) -> None:
    chance = random.Random(7)
    for name in ("columns.json", "metrics.csv", "evaluations.csv"):
        (tmp_path / name).write_bytes((finished_run.path / name).read_bytes())
    for name in ("metrics.csv", "evaluations.csv"):
        original = (tmp_path / name).read_bytes()
        described = describe_table(tmp_path / name)
        for _ in range(150):
            data = bytearray(original)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(data))
                data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
            (tmp_path / name).write_bytes(data)
            read_metrics(tmp_path)
            read_evaluations(tmp_path)
            assert begins_as_described(tmp_path / name, described) == data.startswith(original)


@pytest.mark.parametrize("damage", ["no step", "zeros", "a million columns"])
def test_a_run_with_damaged_tables_resumes(run_copy: Path, damage: str) -> None:
    for name in ("metrics.csv", "evaluations.csv"):
        header, *rows = (run_copy / name).read_bytes().splitlines(keepends=True)
        (run_copy / name).write_bytes(HEADERS[damage](header) + b"".join(rows))
    write_report(run_copy)
    assert flashdqn.train(resume=run_copy, steps=5600, progress=False).finished
    assert find_problems(run_copy) == []
    assert len(list(run_copy.glob("*.damaged.csv"))) == 2
