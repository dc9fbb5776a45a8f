"""The report on the terminal: 80 columns, no colors, and no control codes from the script."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from report_examples import NASTY, REPORTS, empty, example, failed, findings, healthy, lines, nasty
from rich.cells import cell_len
from rich.console import Console

from flashdqn.doctor.report.contents import PhaseShare, Report
from flashdqn.doctor.report.terminal import show_report
from flashdqn.doctor.watch.kinds import Phase


def shown(report: Report, width: int = 80, encoding: str = "utf-8", terminal: bool = False) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, newline="\n") as file:
        colors = "standard" if terminal else "auto"
        show_report(report, Console(file=file, width=width, force_terminal=terminal, color_system=colors))
        file.flush()
        return raw.getvalue().decode(encoding)


def flat(text: str) -> str:
    """The text as one line."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [80, 120])
def test_it_fits(name: str, width: int) -> None:
    report = replace(REPORTS[name](), error="")  # a traceback is never wrapped
    text = shown(report, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert "nan" not in text.replace("\N{REPLACEMENT CHARACTER}", "").lower().split()


def test_the_head_has_rates_and_length_side_by_side() -> None:
    text = shown(example())
    assert "scripts/train_dqn.py --envs 8 --name 'two words'" in text
    assert "Watched for 60.4 s, then it was stopped: its time was up." in text
    head = [flat(line) for line in text.splitlines()]
    assert "transitions 12,800 212/s updates 51,200 848/s" in head
    assert "episodes 41 0.679/s mean length 254 steps" in head
    assert "train ratio 4 updates/transition batch 64 per update" in head
    assert "Limited by copying data: 43% of the time goes into 25,600 copies" in flat(text)


def test_the_phases_are_bars() -> None:
    rows = [line.split() for line in shown(example()).splitlines()]
    longest = next(row for row in rows if row[:2] == ["data", "movement"])
    shortest = next(row for row in rows if row[:1] == ["logging"])
    assert longest[2:5] == ["25.9", "s", "43%"]
    assert shortest[3] == "<1%"
    assert len(longest[5]) > len(shortest[4]) > 0


def test_findings_say_where_how_much_and_what_to_do() -> None:
    text = shown(example())
    assert text.index("per-row-copies") < text.index("many-updates") < text.index("longer-episodes")
    first = text[text.index(" 1  per-row-copies") : text.index(" 2  many-updates")]
    assert "1.7x faster\n" in first
    assert "scripts/train_dqn.py:352, 43% of the time\n" in first
    assert "    • Each waits for the device: 0.4 ms on average.\n" in first
    assert "What to do: Copy the whole batch once" in first
    assert (
        "        for i in range(num_envs):\n            buffer.push(states_host[i], actions_host[i])\n"
        in first
    )
    assert "learning from less" not in first


def test_learning_from_less_is_not_sold_as_speed() -> None:
    text = shown(example())
    second = text[text.index(" 2  many-updates") : text.index(" 3  longer-episodes")]
    assert "1.5x faster, learning from less" in second
    assert "! This is learning from less, not speed" in second
    assert "certainty 90%" in second
    third = text[text.index(" 3  longer-episodes") :]
    assert "not about speed" in third
    assert "the script as a whole" in third


def test_hot_lines_have_their_source() -> None:
    text = shown(example())
    assert "27%  scripts/train_dqn.py:352  collect  (data movement)\n" in text
    assert "          states[i].cpu().numpy(), actions[i].item(),\n" in text
    many = shown(example(lines=lines("a.py") * 4))
    assert "and 10 more" in many


def test_the_beginning_stands_beside_the_rest() -> None:
    rows = [flat(line) for line in shown(example()).splitlines()]
    assert "first 6.0 s the rest" in rows
    assert next(row for row in rows if row.startswith("transitions/s ")).endswith("118 217")
    assert next(row for row in rows if row.startswith("memory ")).endswith("810 MiB 1.95 GiB")
    assert next(row for row in rows if row.startswith("losses")) == "losses (list) scripts/train_dqn.py:31"
    assert any(row.endswith("10 to 50,160 items") for row in rows)


def test_the_doctor_says_what_it_cost() -> None:
    assert "slowed the script by about 3% (sampling mode, 5,874 samples)" in flat(shown(example()))
    assert "deep mode" in flat(shown(example(deep=True)))


def test_nothing_found_is_said_calmly() -> None:
    text = flat(shown(healthy()))
    assert "Findings: none No problem found" in text
    assert "Limited by computing the network" in text
    assert "What to do" not in text
    assert "No training was seen" in flat(shown(empty()))
    by_hand = replace(empty(), phases=(PhaseShare(Phase.BACKWARD, 20.0, 1.0),), trained=20.0)
    assert "Findings: none No problem found" in flat(shown(by_hand)), (
        "weights may be changed without an optimizer"
    )


def test_a_failed_script_speaks_first() -> None:
    report = failed()
    text = shown(report)
    assert text.startswith(report.error)
    assert "until it failed" in text
    assert "per-row-copies" in text


def test_nothing_from_the_script_is_obeyed() -> None:
    for terminal in (False, True):
        text = shown(nasty(), terminal=terminal)
        assert "\x1b[31m <b>" not in text
        assert "\0" not in text
    harmless = NASTY.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert f"    {harmless}\n" in shown(nasty(), width=100)
    assert "    • " + harmless in shown(nasty(), width=100)


def test_colors_where_there_are_some() -> None:
    assert "\x1b[1" in shown(example(), terminal=True)


def test_a_terminal_without_unicode_gets_what_it_can_show() -> None:
    text = shown(example(findings=findings("名前.py")), encoding="ascii")
    assert "data movement" in text
    assert "#####" in text
    assert "??.py:352" in text
