"""Schedules follow the budget; absolute numbers, old runs and presets at their own budget stay as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flashdqn
from conftest import TINY, tiny_config
from flashdqn import Config, Run
from flashdqn.cli.profile import parse_profile
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.errors import ConfigError
from flashdqn.runs.folder import RunFolder
from flashdqn.training.schedules import exploration_rate


def resolve(*words: str) -> Config:
    base, _, rest = resolve_base_config(list(words))
    return parse_training(base, rest)


def list_overs(config: Config) -> tuple[int, int, int]:
    return config.explore.over, config.learn.lr_over, config.replay.beta_over


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_at_its_own_budget_is_what_it_was(name: str) -> None:
    preset = base_config(name)
    assert resolve(name) == preset
    assert resolve(name, "--steps", str(preset.steps)) == preset
    assert list_overs(resolve(name, "--max-time", "60s")) == list_overs(preset)
    assert list_overs(resolve(name, "--episodes", "100")) == list_overs(preset)


def test_another_budget_scales_what_is_not_given() -> None:
    short = resolve("snake", "--steps", "5000")
    assert list_overs(short) == (4000, 20_000, 20_000)
    assert exploration_rate(short.explore, 5000) == pytest.approx(short.explore.end)
    assert short.learn.starts == 500
    assert list_overs(resolve("snake", "--steps", "2.5M")) == (2_000_000, 10_000_000, 10_000_000)
    given = resolve("snake", "--steps", "5000", "--explore.over", "3000", "--learn.starts", "1000")
    assert (given.explore.over, given.learn.starts) == (3000, 1000)
    assert parse_profile(["snake", "--steps", "5000"]).training.explore.over == 4000


@pytest.mark.parametrize(("written", "over"), [("50%", 2500), ("0.5", 2500), ("120%", 6000), ("100 %", 5000)])
def test_shares_of_the_budget(written: str, over: int) -> None:
    assert resolve("snake", "--steps", "5k", "--explore.over", written).explore.over == over
    assert resolve("snake", f"--explore.over={written}", "--steps", "5k").explore.over == over
    config = apply_settings(Config(), {"steps": 5000, "explore.over": written, "learn": {"lr-over": 0.25}})
    assert list_overs(config)[:2] == (over, 1250)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-time", "9s", "--explore.over", "50%"], "give --steps, too"),
        (["--explore.over", "0%"], "share of 1 % … 1000 %"),
        (["--explore.over", "half"], "--explore.over takes a whole number"),
        (["--explore.over", "1.5"], "--explore.over takes a whole number"),
    ],
)
def test_shares_that_cannot_be(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as found:
        resolve("snake", *words)
    assert message in str(found.value)


def test_files_say_what_they_say(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"preset": "snake", "steps": 10_000}))
    assert resolve("--config", str(file)).explore.over == 8000
    assert resolve("--config", str(file), "--steps", "20k").explore.over == 16_000
    file.write_text(json.dumps({"preset": "snake", "explore": {"over": 700}}))
    assert resolve("--config", str(file), "--steps", "5000").explore.over == 700
    file.write_text(json.dumps({"grid_size": 20, "epsilon_decay_steps": 900}))
    assert resolve("--config", str(file), "--steps", "5000").explore.over == 900
    file.write_text(json.dumps(to_dict(tiny_config())))
    assert resolve("--config", str(file)) == tiny_config()


def test_a_resumed_run_keeps_its_schedules(finished_run: Run) -> None:
    words = ["--resume", str(finished_run.path)]
    before = RunFolder.open(finished_run.path).config()
    after = resolve(*words, "--steps", "50k")
    assert list_overs(after) == list_overs(before)
    assert after.steps == 50_000


def test_keywords_follow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr("flashdqn.api.start_run", lambda config, *_: seen.append(config))
    monkeypatch.setattr("flashdqn.api.Run.from_end", lambda end: end)
    flashdqn.train("snake", steps=5000, progress=False)
    flashdqn.train("snake", progress=False, **{"steps": 5000, "explore.over": 70})
    flashdqn.train(base_config("snake"), steps=5000, progress=False)
    assert [config.explore.over for config in seen] == [4000, 70, 1_000_000]
    assert TINY["explore.over"] == tiny_config().explore.over


@pytest.mark.parametrize("text", ["1e999999999%", "1e-999999999", "1E-9_9_9_9_9_9", "9" * 50 + "%", "1e400%"])
def test_a_share_of_many_digits_is_refused_at_once(text: str) -> None:
    """As a fraction it would have a billion digits."""
    with pytest.raises(ConfigError, match=r"explore\.over"):
        apply_settings(Config(), {"explore": {"over": text}, "steps": 1000})
