"""What a stranger's folder may try besides naming code: modules and settings beside the run, servers to send
figures to, arguments that are files, and texts that control the terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from conftest import forge_settings, tiny_config
from flashdqn import Config, ConfigError
from flashdqn.cli import main as cli
from flashdqn.config.settings import apply_settings, list_named_code, list_receivers, resume_flag, trust_flag
from flashdqn.core.errors import FlashDQNError, UntrustedError
from flashdqn.core.safe_path import find_started_module, protect_children
from flashdqn.core.text import clean_line, clean_text
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.show.terminal import SteadyConsole

# ---- modules and settings that lie beside a run

#: Packages that the commands import, some of them only now and then; and modules of the standard library.
SHADOWS = (
    *(
        "numpy",
        "torch",
        "numba",
        "gymnasium",
        "minatar",
        "ale_py",
        "matplotlib",
        "yaml",
        "wandb",
        "safetensors",
    ),
    *("re", "json", "typing", "tempfile", "multiprocessing", "evil"),
)

#: As the installed command does it; then it says which modules come from nowhere that is known.
PROGRAM = """
import sys
from flashdqn.cli.main import main
try:
    main()
finally:
    import os, sysconfig, flashdqn
    known = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"),
             sys.base_prefix, os.path.dirname(flashdqn.__file__), os.environ["FLASHDQN_CACHE"], __file__]
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    odd = [file for file in files if file and os.path.isabs(file) and not file.startswith(tuple(known))]
    print("\\nFROM ELSEWHERE", odd)
"""


@pytest.fixture
def strange_folder(tmp_path: Path, run_copy: Path) -> Path:
    """A folder in which everything waits to be imported or read; the user stands in it."""
    folder = tmp_path / "strange"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'IMPORTED')!r}, 'a').write({name!r})\n")
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {folder / 'kernels'}\n")
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://evil\n")
    run_copy.rename(folder / "run")
    return folder


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["eval", "run", "--json", "--episodes", "1", "--device", "cpu"], False),
        (["report", "run"], True),
    ],
)
def test_nothing_beside_the_run_is_imported_or_obeyed(
    words: list[str], module: bool, strange_folder: Path, tmp_path: Path
) -> None:
    """By the command `flashdqn`, and by `python -m flashdqn`."""
    program = tmp_path / "bin" / "flashdqn"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    environment = os.environ | {
        "PYTHONPATH": str(Path(flashdqn.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "FLASHDQN_CACHE": os.environ.get("FLASHDQN_CACHE")
        or str(Path("~/.cache/flashdqn/kernels").expanduser()),
    }
    start = ["-m", "flashdqn"] if module else [str(program)]
    done = subprocess.run(
        [sys.executable, *start, *words], cwd=strange_folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not (strange_folder / "IMPORTED").exists()
    assert not (strange_folder / "kernels").exists(), "Numba has taken its settings from the folder"
    if not module:
        assert "FROM ELSEWHERE []" in done.stdout


def test_processes_look_beside_them_only_for_the_users_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    protect_children()
    assert os.environ["PYTHONSAFEPATH"]
    NO_PERMISSION.allow_working_folder()
    assert os.environ["PYTHONSAFEPATH"]
    Permission(everything=True).allow_working_folder()
    assert "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # the user's own wish
    protect_children()
    Permission(everything=True).allow_working_folder()
    assert os.environ["PYTHONSAFEPATH"] == "1"


# ---- servers that a file names

Spoil = Callable[[dict[str, Any]], Path]


@pytest.fixture
def spoil(run_copy: Path) -> Spoil:
    """A run of a stranger's: some settings of its configuration are changed."""

    def change(settings: dict[str, Any]) -> Path:
        def forge(record: dict[str, Any]) -> None:
            for group, values in settings.items():
                old = {} if "task" in values else record["config"][group]
                record["config"][group] = old | values

        forge_settings(run_copy, forge)
        return run_copy

    return change


SENDING: dict[str, dict[str, Any]] = {
    "Weights & Biases": {"wandb": True, "wandb_project": "theirs"},
    "a server": {"mlflow": True, "mlflow_uri": "https://example.org"},
    "a folder of the user's": {"mlflow": True, "mlflow_uri": "/home/me"},
    "a database": {"mlflow": True, "mlflow_uri": "postgresql://example.org/x"},
}


@pytest.mark.parametrize("what", SENDING)
def test_a_file_cannot_choose_who_gets_the_figures(what: str, spoil: Spoil) -> None:
    run = spoil({"log": SENDING[what]})
    for words in (
        ["train", "--resume", str(run), "--steps", "6000"],
        ["train", "--config", str(run / "config.json"), "--steps", "300"],
        ["train", "snake", "--config", str(run / "config.json"), "--steps", "300"],
        ["profile", "--config", str(run / "config.json"), "--only", "phases"],
    ):
        with pytest.raises(UntrustedError, match="asks to send the training's figures to"):
            cli.dispatch_command(words)
    with pytest.raises(UntrustedError, match="asks to send"):
        flashdqn.train(resume=run, steps=6000, progress=False)
    flashdqn.load(run, "cpu")  # which sends nothing


@pytest.mark.parametrize(
    "words", [["--trust"], ["--log.wandb"], ["--log.no-wandb"], ["--log.wandb-mode", "offline"]]
)
def test_the_user_can(words: list[str], spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    run = spoil({"log": SENDING["Weights & Biases"]})
    started: list[object] = []
    monkeypatch.setattr(
        "flashdqn.training.session.start_run", lambda config, *more: started.append(config) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        cli.dispatch_command(["train", "--config", str(run / "config.json"), "--steps", "300", *words])
    assert len(started) == 1


def test_what_to_type_next_has_what_it_needs() -> None:
    config = tiny_config(log__wandb=True)
    assert list(list_receivers(config)) == ["log.wandb"]
    assert (trust_flag(config), resume_flag(config)) == ("", " --trust")
    assert not list_receivers(tiny_config(log__wandb=True, log__wandb_mode="offline"))
    assert not list_receivers(tiny_config(log__mlflow=True)), "the address is the user's own"
    Permission(settings=frozenset({"log.wandb"})).require_sending(list_receivers(config), Path("a"))
    with pytest.raises(UntrustedError, match=r"add --log\.wandb here"):
        NO_PERMISSION.require_sending(list_receivers(config), Path("a"))


# ---- arguments of registered environments


@pytest.mark.parametrize(
    "kwargs",
    [
        {"xml_file": "ant.xml"},
        {"rom": "/tmp/rom"},
        {"wrapper": "evil.module.Wrapper"},
        {"more": {"deep": ["~/model"]}},
        {"path": "..\\evil"},
        {"evil:Name": 1},
    ],
    ids=str,
)
def test_arguments_that_are_files_or_modules_need_trust(kwargs: dict[str, Any], spoil: Spoil) -> None:
    run = spoil({"env": {"task": "gym", "id": "CartPole-v1", "kwargs": kwargs}})
    with pytest.raises(UntrustedError, match="asks to import"):
        flashdqn.load(run, "cpu")


def test_other_arguments_do_not() -> None:
    kwargs = {"map_name": "8x8", "desc": ["SF", "FG"], "scale": "0.5", "rate": "1.5e-3", "mode": "rgb_array"}
    env = {"task": "gym", "id": "FrozenLake-v1", "kwargs": kwargs}
    assert list_named_code(apply_settings(Config(), {"env": env})) == ()
    named = env | {"id": "my_module:make", "kwargs": {"file": "a.csv"}}
    assert list_named_code(apply_settings(Config(), {"env": named})) == ("my_module:make",)


# ---- texts that control the terminal

EVIL_TEXTS = (
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J",
    "a\rb",
    "\x9b31m",
    "a\u202eb",
    "line\nflashdqn: all is well",
    "\x00",
)


@pytest.mark.parametrize("text", EVIL_TEXTS, ids=ascii)
def test_a_text_in_the_settings_cannot_control_the_terminal(text: str, spoil: Spoil) -> None:
    for group, values in (
        ("log", {"wandb_project": text}),
        ("network", {"branches": [text]}),
        ("demos", {"source": text}),
        ("env", {"task": text}),
        ("env", {text: 1}),
    ):
        run = spoil({group: values})
        with pytest.raises(FlashDQNError) as refused:
            flashdqn.load(run, "cpu")
        assert text not in clean_line(str(refused.value))


@pytest.mark.parametrize("text", EVIL_TEXTS, ids=ascii)
def test_an_error_is_one_clean_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.print_error(ConfigError(f"It is {text}."), 2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert clean_text(said) == said


@pytest.mark.parametrize("terminal", [False, True])
def test_a_console_prints_clean_texts(terminal: bool) -> None:
    from rich.table import Table

    table = Table("name", *EVIL_TEXTS)
    table.add_row("[link=https://example.org]x", *EVIL_TEXTS)
    out = io.StringIO()
    console = SteadyConsole(file=out, force_terminal=terminal, color_system=None, width=200)
    for text in EVIL_TEXTS:
        console.print(text, markup=False)
    console.print(table)
    assert "\x1b]52" not in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()
    assert not {"\x00", "\r", "\x07", "\u202e", "\x9b"} & set(out.getvalue())


def test_ordinary_texts_stay_as_they_are() -> None:
    for text in ("ε ± µs · 数据 é 👩‍💻", "two\nlines\tand a tab", "a\u00a0b"):
        assert clean_text(text) == text
    assert clean_line("a\n b\x1b[2J\udc80") == "a b\ufffd[2J\ufffd"
    assert len(clean_line("x" * 10**6)) < 5000


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", "flashdqn"],
        ["python", "-mflashdqn", "eval"],
        ["python", "-um", "flashdqn"],
        ["python", "-Wignore", "-X", "utf8", "-Bsmflashdqn"],
        ["python", "--check-hash-based-pycs", "never", "-m", "flashdqn", "-m"],
    ],
)
def test_python_starts_us_in_many_ways(words: list[str]) -> None:
    assert find_started_module(words) == "flashdqn"


@pytest.mark.parametrize(
    "words", [["python", "-c", "-mflashdqn"], ["python", "x.py", "-m", "flashdqn"], ["python"]]
)
def test_python_starts_something_else(words: list[str]) -> None:
    assert find_started_module(words) is None


@pytest.mark.parametrize("planted", ["--trust", "--trust=evil:Game"])
def test_a_folder_cannot_be_a_flag(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`flashdqn report *` in a stranger's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / planted).mkdir()
    assert cli.answer_command(["report", planted, "run"]) == 2
    assert "nothing was imported" in capsys.readouterr().err


def test_a_report_is_written_without_settings_that_make_sense(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge_settings(run_copy, lambda record: record["config"].update(unheard_of=1))
    assert cli.answer_command(["report", str(run_copy)]) == 0
    said = capsys.readouterr().out
    assert "config.json cannot be used: Unknown setting" in said
    assert "Report  " in said
