"""`flashdqn plan`: what an agent did in one episode."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import flashdqn
from flashdqn import Run
from flashdqn.cli import main as cli

TINY = {
    "steps": 600, "envs": 4, "device": "cpu", "network.hidden": (8,), "replay.capacity": 2000,
    "learn.starts": 200, "learn.batch_size": 16, "eval.episodes": 2, "env.min_dcs": 2, "env.max_dcs": 2,
    "env.max_bundles": 1, "log.tensorboard": False, "log.game": False, "runtime.mode": "eager",
}  # fmt: skip


def test_a_plan_is_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = flashdqn.train("sfc", out=str(tmp_path / "runs"), **TINY)
    assert cli.answer_command(["plan", str(run.path), "--out", str(tmp_path / "plan"), "--seed", "3"]) == 0
    assert "score" in capsys.readouterr().out
    text = (tmp_path / "plan" / "plan.csv").read_text(encoding="utf-8")
    assert list(csv.DictReader(text.splitlines()))
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_tasks_without_plans_say_so(
    finished_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.answer_command(["plan", str(finished_run.path), "--out", str(tmp_path / "plan")]) == 2
    assert "There are no plans of snake" in capsys.readouterr().err
