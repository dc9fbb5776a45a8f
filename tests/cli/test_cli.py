"""The command line: what it understands, what it says, and how it refuses."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import flashdqn
from conftest import start, tiny_config, tiny_flags
from flashdqn import Config, Run
from flashdqn.cli import main as cli
from flashdqn.cli.arguments import flag_names
from flashdqn.cli.train import parse_training, resolve_base_config
from flashdqn.config.presets import PRESETS, base_config
from flashdqn.config.settings import to_dict
from flashdqn.core import signals
from flashdqn.core.errors import ConfigError
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table
from flashdqn.show.terminal import show_summary
from flashdqn.training.loop import Loop
from flashdqn.training.progress import LiveDisplay, Plain, choose_progress
from flashdqn.training.session import start_run

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Called:
    """Run `flashdqn …` in this process: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flashdqn", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        code = stop.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def resolve(*words: str) -> Config:
    """The configuration that a command line comes to, without training."""
    base, _, rest = resolve_base_config(list(words))
    return parse_training(base, rest)


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_one_sentence(code: int, out: str, err: str) -> None:
    assert code == 2
    # a busy machine may take so long that more than one line says what it does
    assert all(line.startswith(("Warming up: ", "Compiling ")) for line in out.splitlines())
    assert err.startswith("flashdqn: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert len(err) < 450


# ---- bad input

BAD_FLAGS = {
    "an unknown preset": (["snak"], "Unknown preset 'snak'; did you mean 'snake'?"),
    "a preset like nothing": (["chess"], "known are: snake, snake-flood, snake-grid"),
    "an unknown flag": (["snake", "--env.sise", "8"], "'--env.sise'; did you mean '--env.size'?"),
    "a flag with =": (["snake", "--replay.nstep=3"], "'--replay.nstep'; did you mean '--replay.n-step'?"),
    "a flag like nothing": (["snake", "--qqq", "8"], "'--qqq'; `flashdqn train --help-all` lists them all"),
    "two presets": (["snake", "snake-grid"], "one word too many"),
    "a ratio below 0": (
        ["snake", "--train-ratio", "-0.5"],
        "train_ratio must be at least 0, and is -0.5",
    ),
    "a ratio that is none": (["snake", "--train-ratio", "fats"], "debug, fast, balanced, better, quality"),
    "an endless ratio": (["snake", "--train-ratio", "inf"], "train_ratio"),
    "no environments": (["snake", "--envs", "0"], "envs must be at least 1, and is 0"),
    "fewer than none": (["snake", "--envs=-3"], "envs must be at least 1, and is -3"),
    "words for numbers": (
        ["snake", "--envs", "many"],
        "--envs takes a whole number such as 64, 100k or 1e6",
    ),
    "words for steps": (
        ["snake", "--steps", "many"],
        "--steps takes a whole number such as 64, 100k or 1e6",
    ),
    "no value": (["snake", "--envs"], "--envs needs a value: a whole number such as 64"),
    "a choice that is none": (
        ["snake", "--env.features", "all"],
        "'basic', 'flood', 'selective', 'enhanced'",
    ),
    "a board too small": (["snake", "--env.size", "3"], "env.size must lie in 4 … 32, and is 3"),
    "a snake too long": (
        ["snake", "--env.size", "5", "--env.start-length", "9"],
        "does not fit a board of side 5",
    ),
    "no steps": (["snake", "--steps", "0"], "steps must be at least 1, and is 0"),
    "a time that is none": (["snake", "--max-time", "3 weeks"], "90s, 1.5m or 2h"),
    "a ring beyond all memory": (["snake", "--replay.capacity", "1000000000000"], "use --replay.capacity"),
    "a ring too small": (["snake", "--replay.capacity", "100"], "must be at least 256"),
    "a CNN for a vector": (["snake", "--network.torso", "cnn"], "cnn"),
    "a missing file": (["snake", "--config", "/no/such/file.json"], "/no/such/file.json"),
    "a file and no name": (["snake", "--config"], "--config needs a value"),
}


@pytest.mark.parametrize("case", BAD_FLAGS)
def test_bad_flags(case: str, call: Called, tmp_path: Path) -> None:
    words, message = BAD_FLAGS[case]
    out = tmp_path / "out"
    code, stdout, stderr = call("train", *words[:1], "--out", out, *words[1:])
    assert_one_sentence(code, stdout, stderr)
    assert message in stderr
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_cuda(call: Called, tmp_path: Path, finished_run: Run) -> None:
    answer = call("train", "snake", "--device", "cuda", "--out", tmp_path / "out")
    assert_one_sentence(*answer)
    assert "use --device cpu or auto" in answer[2]
    assert not (tmp_path / "out").exists()
    assert_one_sentence(*call("eval", finished_run.path, "--device", "cuda"))


@pytest.mark.parametrize("kind", ["a file", "below a file", "forbidden"])
def test_an_output_folder_that_cannot_be_written(kind: str, call: Called, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    out = {"a file": file, "below a file": file / "runs", "forbidden": Path("/proc/flashdqn/runs")}[kind]
    answer = call("train", "snake", *tiny_flags(out=out))
    assert_one_sentence(*answer)
    assert f"{out} cannot be written" in answer[2]
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "Unknown command 'trian'; did you mean 'train'?"),
        (["dance"], "known are: train, sweep, eval, "),
        (["presets", "snake"], "takes no arguments"),
        (["envs", "--all"], "Unknown environment '--all'; known are: snake"),
        (["train", "my_env.py"], "`flashdqn train my_env:NAME`"),
        (["train", "settings.json"], "`flashdqn train --config settings.json`"),
        (["cache", "show", "now"], "'now' is one word too many: it takes one action"),
        (["play"], "did you mean 'flashdqn watch'?"),
        (["resume"], "did you mean 'flashdqn train --resume RUN'?"),
        (["--verison"], "did you mean '--version'?"),
        (["-x"], "known are: --help, --version."),
        (["snake-flood"], "did you mean 'flashdqn train snake-flood'?"),
        (["CartPole-v1"], "did you mean 'flashdqn train CartPole-v1'?"),
        (["report"], "There is no run in 'runs' yet"),
        (["train", "--preset", "snake"], "what to train on is the first word"),
        (["train", "--env", "CartPole-v1"], "`flashdqn train CartPole-v1`"),
        (["profile", "--env-id", "CartPole-v1"], "`flashdqn profile CartPole-v1`"),
        (["train", "-v"], "Unknown flag '-v'; `flashdqn train --help-all` lists them all."),
        (["train", "--eps", "0.1"], "did you mean '--explore.end'?"),
        (["train", "--net_arch", "64"], "did you mean '--hidden'?"),
        (["watch", "x", "--gif", "a.mp4"], "--gif writes a file that ends in .gif, not .mp4"),
        (["eval"], "RUN"),
        (["eval", "nowhere"], "nowhere does not exist"),
        (["eval", "."], ". is not a run folder: it has no config.json"),
        (["eval", "x", "--episods", "3"], "did you mean '--episodes'?"),
        (["eval", "x", "y"], "one word too many"),
        (["eval", "x", "--episodes", "few"], "--episodes takes a whole number"),
        (["eval", "x", "--episodes", "0"], "--episodes must be at least 1"),
        (["train", "--resume"], "--resume needs a value"),
        (["train", "--resume", "nowhere"], "nowhere does not exist"),
        (["train", "--resume", "."], ". is not a run folder"),
        (["train", "snake", "--resume", "."], "leave out the preset"),
    ],
)
def test_bad_commands(words: list[str], message: str, call: Called, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        answer = call(*words)
    assert_one_sentence(*answer)
    assert message in answer[2]
    assert not list(tmp_path.iterdir())


BAD_FILES = {
    "a key unknown": ("c.json", '{"replay": {"n_stp": 3}}', "'replay.n_stp'; did you mean 'n_step'?"),
    "a dotted key unknown": ("c.json", '{"learn.gama": 3}', "'learn.gama'; did you mean 'gamma'?"),
    "a key like nothing": ("c.toml", "zzz = 1", "'zzz'; known are: "),
    "a wrong type": ("c.json", '{"envs": "many"}', "'envs' must be a whole number, and is 'many'"),
    "a fraction": ("c.toml", "replay.n_step = 1.5", "'replay.n_step' must be a whole number, and is 1.5"),
    "truth for a number": ("c.json", '{"envs": true}', "'envs' must be a whole number, and is True"),
    "a number for truth": ("c.toml", "log.tensorboard = 1", "'log.tensorboard' must be true or false"),
    "a text for a list": (
        "c.toml",
        'network.hidden = "64"',
        "'network.hidden' must be a list of whole numbers",
    ),
    "a wrong choice": (
        "c.toml",
        'env.features = "al"',
        "'env.features' must be one of basic, flood, selective",
    ),
    "a wrong optimizer": ("c.json", '{"learn": {"optimizer": "sgd"}}', "must be one of adam, adamw"),
    "a value for a group": ("c.json", '{"env": 3}', "'env' is a group of settings"),
    "a null": ("c.json", '{"replay": {"n_step": null}}', "'replay.n_step' must be a whole number"),
    "a value out of range": ("c.json", '{"learn": {"gamma": 2}}', "learn.gamma must lie in 0 … 1"),
    "a bad ratio": ("c.json", '{"train_ratio": "fats"}', "debug, fast, balanced"),
    "a bad preset": ("c.json", '{"preset": "snak"}', "did you mean 'snake'?"),
    "a preset of no kind": ("c.json", '{"preset": 3}', "Unknown preset '3'"),
    "no JSON": ("c.json", "{", "not valid JSON"),
    "no TOML": ("c.toml", "= 3", "not valid TOML"),
    "no text": ("c.json", b"\xff\xfe\x00", "is not a text in UTF-8"),
    "a list": ("c.json", "[1]", "must hold settings by name"),
    "one thing twice": ("c.json", '{"env": 3, "env.size": 8}', "'env'"),
    "one thing twice, the other way": ("c.json", '{"env.size": 8, "env": 3}', "'env'"),
    "deeper than there is": ("c.json", '{"envs.x": 3}', "'envs'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(case: str, call: Called, tmp_path: Path) -> None:
    name, text, message = BAD_FILES[case]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    answer = call("train", "--config", tmp_path / name, "--out", tmp_path / "out")
    assert_one_sentence(*answer)
    assert message in answer[2]
    assert not (tmp_path / "out").exists()


# ---- settings


def test_a_file_dotted_or_nested_json_or_toml(tmp_path: Path) -> None:
    texts = {
        "a.json": '{"preset": "snake-grid", "steps": 700, "env": {"size": 8}, "replay": {"n_step": 2}}',
        "b.json": '{"preset": "snake-grid", "steps": 700, "env.size": 8, "replay.n-step": 2}',
        "c.toml": 'preset = "snake-grid"\nsteps = 700\nenv.size = 8\n[replay]\nn_step = 2\n',
        "d.toml": '"env.size" = 8\n"replay.n_step" = 2\nsteps = 700\npreset = "snake-grid"\n',
    }
    found = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found.append(resolve("--config", str(tmp_path / name)))
    assert all(config == found[0] for config in found)
    assert (found[0].preset, found[0].env.size, found[0].env.features) == ("snake-grid", 8, "grid")
    assert (found[0].replay.n_step, found[0].steps) == (2, 700)


def test_preset_then_file_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"preset": "snake-flood", "envs": 32, "seed": 5, "env.size": 8}')
    config = resolve("snake-grid", "--config", str(file), "--seed", "6")
    assert (config.preset, config.env.features) == ("snake-grid", "grid")
    assert (config.envs, config.env.size, config.seed) == (32, 8, 6)
    assert resolve(f"--config={file}").preset == "snake-flood"
    assert resolve().preset == "snake-flood"


def test_a_runs_config_makes_the_same_run(finished_run: Run) -> None:
    config = resolve("--config", str(finished_run.path / "config.json"))
    assert config == finished_run.config
    other = resolve("--config", str(finished_run.path / "config.json"), "--seed", "9", "--max-time", "5s")
    assert (other.seed, other.max_time, other.steps) == (9, 5.0, None)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_its_own_file(name: str, tmp_path: Path) -> None:
    assert resolve(name) == base_config(name)
    (tmp_path / "c.json").write_text(json.dumps(to_dict(base_config(name))))
    assert resolve("--config", str(tmp_path / "c.json")) == base_config(name)


def test_ratios_by_name_and_by_another_spelling(tmp_path: Path) -> None:
    names = {"debug": 0.004, "fast": 0.03125, "balanced": 0.0625, "better": 0.125, "quality": 0.25}
    for name, ratio in names.items():
        assert resolve("snake", "--train-ratio", name).train_ratio == ratio
        assert resolve("snake", f"--train-steps-ratio={name}").train_ratio == ratio
        (tmp_path / "c.toml").write_text(f'train_steps_ratio = "{name}"')
        assert resolve("--config", str(tmp_path / "c.toml")).train_ratio == ratio
    assert resolve("snake", "--train-steps-ratio", "0.5").train_ratio == 0.5
    assert resolve("snake", "--train-ratio", "0").train_ratio == 0.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("0.5s", 0.5), ("1e2s", 100)]
)
def test_times(text: str, seconds: float, tmp_path: Path) -> None:
    assert resolve("snake", "--max-time", text).max_time == seconds
    (tmp_path / "c.json").write_text(json.dumps({"max_time": text}))
    assert resolve("--config", str(tmp_path / "c.json")).max_time == seconds


def test_a_new_budget_replaces_the_old_one(tmp_path: Path) -> None:
    def budget(*words: str) -> tuple[Any, ...]:
        config = resolve(*words)
        return config.steps, config.episodes, config.max_time

    preset = base_config("snake").steps
    assert budget("snake") == (preset, None, None)
    assert budget("snake", "--steps", "7") == (7, None, None)
    assert budget("snake", "--episodes", "7") == (None, 7, None)
    assert budget("snake", "--max-time", "7s") == (None, None, 7.0)
    assert budget("snake", "--max-time=7s", "--steps", "9") == (9, None, 7.0)
    assert budget("snake", "--max-time", "7s", "--steps", str(preset)) == (preset, None, 7.0)
    (tmp_path / "c.json").write_text('{"max_time": "1m"}')
    assert budget("snake", "--config", str(tmp_path / "c.json")) == (None, None, 60.0)
    assert budget("snake", "--config", str(tmp_path / "c.json"), "--episodes", "5") == (None, 5, None)


def test_flags_of_every_kind() -> None:
    config = resolve(
        *[
            "snake",
            "--env.size",
            "12",
            "--replay.n-step",
            "3",
            "--network.hidden",
            "64",
            "32",
            "--env.hunger=1.5",
        ],
        *[
            "--learn.lr-end",
            "1e-5",
            "--log.no-tensorboard",
            "--network.layer-norm",
            "--explore.schedule",
            "spread",
        ],
        *["--env.death-reward", "-3", "--device", "cpu", "--out", "elsewhere"],
    )
    assert (config.env.size, config.env.hunger, config.env.death_reward) == (12, 1.5, -3.0)
    assert (config.replay.n_step, config.network.hidden, config.learn.lr_end) == (3, (64, 32), 1e-5)
    assert (config.log.tensorboard, config.network.layer_norm) == (False, True)
    assert (config.explore.schedule, config.device, config.out) == ("spread", "cpu", "elsewhere")


# ---- help and lists


def test_help_names_every_setting(call: Called) -> None:
    code, out, err = call("train", "--help-all")
    assert (code, err) == (0, "")
    shown = out.replace("[no-]", "")
    for name in flag_names(Config()):
        if name != "preset":
            assert re.search(rf"--{re.escape(name)}\b", shown), name
    for word in ("--config", "--resume", "--train-steps-ratio", "balanced", "1.5m"):
        assert word in out


def test_help_version_and_lists(call: Called) -> None:
    for words in ([], ["--help"], ["help"], ["-h"]):
        code, out, err = call(*words)
        assert (code, err) == (0, "")
        assert all(word in out for word in ("train", "eval", "presets", "envs"))
    assert call("--version") == (0, f"flashdqn {flashdqn.__version__}\n", "")
    code, out, err = call("presets")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("snake", "snake-flood", "snake-grid"))
    code, out, err = call("envs")
    assert (code, err) == (0, "")
    assert "snake" in out
    assert "--env.start-length 3" in out
    code, out, err = call("eval", "--help")
    assert code == 0
    assert "--json" in out


# ---- eval


def test_eval_says_json_and_nothing_else(call: Called, finished_run: Run) -> None:
    code, out, err = call("eval", finished_run.path, "--episodes", "30", "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert {"episodes", "mean_score", "mean_return", "mean_length"} <= result.keys()
    assert result["episodes"] == 30
    assert result["mean_length"] > 0
    assert call("eval", finished_run.path, "--episodes", "30", "--json")[1] == out
    assert call("eval", finished_run.path, "--episodes", "30", "--json", "--seed", "3")[1] != out
    whole = json.loads(call("eval", finished_run.path, "--episodes", "4", "--json")[1])
    assert whole == finished_run.summary["evaluation"]


def test_eval_for_people_and_of_one_checkpoint(call: Called, finished_run: Run) -> None:
    point = checkpoint.list_checkpoints(finished_run.path / "checkpoints")[0]
    code, out, err = call("eval", point, "--episodes", "10")
    assert (code, err) == (0, "")
    assert re.search(r"score \d+\.\d+ ± \d+\.\d+ over 10 games", out)
    assert "mean length" in out


def test_eval_of_a_damaged_checkpoint(call: Called, run_copy: Path) -> None:
    for path in (run_copy / "checkpoints").glob("*/weights.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    answer = call("eval", run_copy)
    assert_one_sentence(*answer)
    assert "is damaged" in answer[2]


# ---- resume


@pytest.mark.parametrize("spoil", ["cut", "flipped", "manifest"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_offered(
    spoil: str, call: Called, run_copy: Path, finished_run: Run
) -> None:
    older, newest = checkpoint.list_checkpoints(run_copy / "checkpoints", with_state=True)
    path = newest / (checkpoint.MANIFEST if spoil == "manifest" else checkpoint.STATE)
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    path.write_bytes(flipped if spoil == "flipped" else data[:middle])
    before = files_in(run_copy)
    answer = call("train", "--resume", run_copy)
    assert_one_sentence(*answer)
    assert f"{newest} is damaged" in answer[2]
    offer = shlex.split(answer[2].partition("flashdqn train ")[2])
    assert offer == ["--resume", str(older)]
    assert files_in(run_copy) == before
    code, out, _ = call("train", *offer)
    assert code == 0
    assert finished_run.summary["weights"] in out  # the damaged part was done again, to the same end
    assert "Score over 4 evaluation games" in out


def test_when_every_checkpoint_is_damaged(call: Called, run_copy: Path) -> None:
    for path in (run_copy / "checkpoints").glob("*/state.safetensors"):
        path.write_bytes(b"")
    answer = call("train", "--resume", run_copy, "--steps", "9000")
    assert_one_sentence(*answer)
    assert "There is no other before it" in answer[2]


def test_resume_refuses_other_settings_and_finished_runs(call: Called, run_copy: Path) -> None:
    before = files_in(run_copy)
    for words, message in (
        (["--envs", "8"], "not envs"),
        (["--steps", "9000", "--learn.lr", "0.1", "--env.size", "8"], "not env.size, learn.lr"),
        ([], "give a larger --steps, --episodes or --max-time"),
        (["--steps", "100"], "has used its budget"),
        (["--config", "x.json"], "leave out the preset, --algo and --config"),
        (["--stps", "9000"], "did you mean '--steps'?"),
    ):
        answer = call("train", "--resume", run_copy, *words)
        assert_one_sentence(*answer)
        assert message in answer[2]
    assert files_in(run_copy) == before


def test_resume_with_a_larger_budget(call: Called, run_copy: Path) -> None:
    code, out, _ = call("train", "--resume", run_copy, "--steps", "5600")
    assert code == 0
    assert re.search(r"^5,6\d\d steps", out, re.MULTILINE)
    assert flashdqn.load(run_copy).config.steps == 5600


def test_a_folder_without_checkpoints(call: Called, run_copy: Path) -> None:
    for path in (run_copy / "checkpoints").iterdir():
        path.rename(run_copy / f"away-{path.name}")
    for words in (["train", "--resume", run_copy], ["eval", run_copy]):
        answer = call(*words)
        assert_one_sentence(*answer)
        assert "holds no checkpoint" in answer[2]


# ---- divergence


def test_a_loss_that_is_not_finite_stops_the_run(call: Called, tmp_path: Path) -> None:
    flags = tiny_flags(
        out=tmp_path / "out",
        env__food_reward=3e38,
        learn__huber=0,
        learn__starts=600,
        log__checkpoint_every=250,
    )
    code, _, err = call("train", "snake", *flags)
    assert code == 1
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert re.search(r"loss of gradient step \d+ is not finite", err)
    assert re.search(r"at step \d+", err)
    for statistic in ("loss", "largest |obs|", "least reward", "largest reward", "mean discount"):
        assert statistic in err
    (run,) = (tmp_path / "out").iterdir()
    points = checkpoint.list_checkpoints(run / "checkpoints")
    named = f"the last good checkpoint is {points[-1]}" if points else "there is no checkpoint before it"
    assert named in err


def test_the_last_good_checkpoint_is_named(
    call: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterate = Loop.iterate

    def poisoned(self: Loop) -> None:
        if self.parts.counts.transitions > 2300:
            self.parts.ring.reward.fill_(float("nan"))
        iterate(self)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "iterate", poisoned)
        code, _, err = call("train", "snake", *tiny_flags(out=tmp_path / "out"))
    assert code == 1
    (run,) = (tmp_path / "out").iterdir()
    last = checkpoint.list_checkpoints(run / "checkpoints")[-1]
    assert f"the last good checkpoint is {last}" in err
    assert "snake gave numbers that are NaN or infinite" in err
    assert 2000 <= int(last.name) < 2100
    assert call("eval", run, "--json", "--episodes", "3")[0] == 0
    assert call("train", "--resume", run)[0] == 0


# ---- Ctrl-C


def test_ctrl_c_saves_and_says_how_to_go_on(call: Called, tmp_path: Path) -> None:
    process = start("train", "snake", *tiny_flags(out=tmp_path / "out", steps=1_000_000_000))
    while not list((tmp_path / "out").glob("*/metrics.csv")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert err == ""
    (run,) = (tmp_path / "out").iterdir()
    assert "everything is saved" in out
    (line,) = (line for line in out.splitlines() if "flashdqn train --resume" in line)
    assert shlex.split(line)[1:] == ["train", "--resume", str(run)]
    (stopped,) = re.findall(r"Stopped at ([\d,]+) steps", out)
    steps = int(stopped.replace(",", ""))
    assert int(checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1].name) == steps
    code, out, _ = call(*shlex.split(line)[1:], "--steps", steps + 600)
    assert code == 0
    never = flashdqn.train(tiny_config(out=str(tmp_path / "never"), steps=steps + 600), progress=False)
    assert never.summary["weights"] in out


def test_two_of_them_stop_at_once(call: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iterate, reached = Loop.iterate, []

    def interrupted(self: Loop) -> None:
        if self.parts.counts.transitions > 2300:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append(True)
        iterate(self)

    with monkeypatch.context() as patch:
        patch.setattr(signals, "CTRL_C_ECHO", 0.0)
        patch.setattr(Loop, "iterate", interrupted)
        code, _, err = call("train", "snake", *tiny_flags(out=tmp_path / "out"))
    assert (code, err, reached) == (130, "Stopped.\n", [])
    (run,) = (tmp_path / "out").iterdir()
    assert call("train", "--resume", run)[0] == 0


# ---- what is shown

FIGURES = ("steps", "episodes", "steps/s", "score", "ε", "loss", "ratio", "left")
PHASES = ("act", "step", "append", "sample", "update", "other")


def test_plain_lines_without_a_terminal(call: Called, tmp_path: Path) -> None:
    code, out, err = call("train", "snake", *tiny_flags(out=tmp_path / "out", runtime__warmup=True))
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "Warming up" in out
    line = next(line for line in out.splitlines() if "steps/s" in line)
    for word in FIGURES:
        assert re.search(rf"(^|\s){word}(\s|$)", line), word
    for phase in PHASES:
        assert re.search(rf"{phase} \d+%", line), phase
    assert "evaluation: score" in out
    (run,) = (tmp_path / "out").iterdir()
    for word in (
        "Score over 4 evaluation games",
        "Weights",
        "curve.png",
        "report.html",
        "What next:",
        str(run),
    ):
        assert word in out
    following = [line.strip() for line in out.partition("What next:")[2].splitlines() if line.strip()]
    assert len(following) == 3  # no TensorBoard: nothing was written for it
    summary = json.loads((run / "summary.json").read_text())
    assert summary["weights"] in out


def test_an_output_without_greek_letters_will_do(
    call: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", narrow)
        code, _, err = call("train", "snake", *tiny_flags(out=tmp_path / "out", steps=1000))
    assert (code, err) == (0, "")
    narrow.seek(0)
    assert "What next:" in narrow.read()


def test_the_next_commands_work(call: Called, run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary, config = json.loads((run_copy / "summary.json").read_text()), tiny_config()
    show_summary(
        Console(soft_wrap=True),
        Run(run_copy, replace(config, log=replace(config.log, tensorboard=True)), True, summary),
    )
    following = [
        shlex.split(line) for line in capsys.readouterr().out.partition("What next:")[2].splitlines()
    ]
    watch, evaluate, resume, board = (words for words in following if words)
    assert watch[-1] == "--web"
    assert call(*watch[1:-1])[0] == 0
    assert call(*evaluate[1:-1], "10")[0] == 0
    assert call(*resume[1:-1], "5400")[0] == 0
    assert Path(board[0]).name == "tensorboard"
    assert all(shutil.which(words[0]) for words in (evaluate, resume, board))


def test_the_live_display_shows_everything(tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None, legacy_windows=False)
    display = choose_progress(console)
    assert isinstance(display, LiveDisplay)
    start_run(tiny_config(out=str(tmp_path)), display)
    text = screen.getvalue()
    last = text[text.rindex("snake on cpu") :]
    for word in (*FIGURES, "length", "time in", "evaluation", "100%", "16 boards"):
        assert word in last, word
    for phase in PHASES:
        assert re.search(rf"{phase} \d+%", last), phase
    assert "evaluation evaluation" not in last
    rows = read_table(next(tmp_path.glob("*/metrics.csv")))
    assert f"{int(rows[-1]['step']):,}" in last
    assert isinstance(choose_progress(Console(file=io.StringIO())), Plain)


def test_the_live_display_has_nothing_to_say_at_first() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    display = LiveDisplay(console)
    display.begin("title", 0.5)
    display.tick(0.0, 0, 0, 0.0)
    display.end()
    with console.capture() as capture:
        console.print(display.panel())
    assert "not yet" in capture.get()


def test_a_real_terminal_gets_the_live_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    shown: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            shown.append(data)

    reader = threading.Thread(target=drain)
    reader.start()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        code = cli.dispatch_command(["train", "snake", *tiny_flags(out=tmp_path / "out")])
    reader.join()
    os.close(master)
    text = b"".join(shown).decode()
    assert code == 0
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    for word in (*FIGURES, *PHASES, "Score over 4 evaluation games"):
        assert word in plain, word
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor comes back


def test_one_common_key_does_not_claim_a_file(tmp_path: Path) -> None:
    """`gamma` is everybody's key: it must not start a fuel-break training."""
    file = tmp_path / "settings.json"
    file.write_text('{"gamma": 0.95}')
    with pytest.raises(ConfigError, match=r"Unknown setting 'gamma'; did you mean 'learn.gamma'\?"):
        resolve_base_config(["--config", str(file)])
    file.write_text('{"learn": {"gamma": 0.95}}')
    base, _, _ = resolve_base_config(["--config", str(file)])
    assert (base.preset, base.learn.gamma) == ("snake-flood", 0.95)
